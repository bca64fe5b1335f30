"""Keeps a Spark session ready: opens it in the background, and opens another one when it is lost."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Generic, Protocol, TypeVar

from flink_autoscaler.core.errors import AutoscalerError

FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 300.0
"""Bounds of the time between two attempts to open a session, doubled from failure to failure."""

T = TypeVar("T")

REASON_LENGTH: Final = 400

_GRPC_DETAILS: Final = re.compile(r'^\s*details = "(.+)"$', re.MULTILINE)
"""What an error of gRPC is about, among lines of its own state."""


_MISSING: Final = re.compile(r"No module named '([\w.]+)'")

_MISSING_ADVICE: Final = (
    "the Python of Spark's executors lacks {}: install what requirements/spark.txt lists on the nodes, or ship an "
    "environment with --archives (docs/guide/deployment.md, Spark clusters); spark.pyspark.python in "
    "autoscaler.engine.spark-config names its interpreter (Spark Connect: PYSPARK_PYTHON of the server)"
)


class SparkLostError(AutoscalerError):
    """There is no usable Spark session."""


def reason_of(error: BaseException) -> str:
    """Return type and text of an error without stack traces. To be called while Spark lives: pyspark asks it."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line[:1].strip()]
    except Exception:  # pyspark's errors raise when their JVM is gone
        lines = []
    if missing := _MISSING.search(str(error) if lines else ""):
        return _MISSING_ADVICE.format(missing[1].partition(".")[0])
    details = _GRPC_DETAILS.search(str(error)) if lines else None
    text = details[1] if details else " ... ".join(dict.fromkeys([*lines[:2], *lines[-1:]]))
    name = "" if isinstance(error, AutoscalerError) else f"{type(error).__name__}: "
    return f"{name}{text}"[:REASON_LENGTH]


def bounded(seconds: float, call: Callable[[], T]) -> T:
    """Return what a call returns, or raise what it raises, within a time; it may hang on in a thread of its own.

    Raises:
        TimeoutError: It did not end in time.
    """
    future: Future[T] = Future()

    def attempt() -> None:
        try:
            future.set_result(call())
        except BaseException as exc:  # handed to the one who waits
            future.set_exception(exc)

    threading.Thread(target=attempt, name="spark-call", daemon=True).start()
    return future.result(seconds)


class Session(Protocol):
    """Session that is kept ready."""

    def close(self) -> None:
        """End the session and its processes, hung ones too, within bounded time. Never raises."""
        ...

    def kill(self) -> None:
        """End a session that is lost, without waiting for Spark to help. Never raises."""
        ...


S = TypeVar("S", bound=Session)


class SessionSupply(Generic[S]):
    """Hands out one session to many threads.

    Opening starts with the first request for a session, in a thread of its own. After a loss the next session is
    opened at once; when opening fails, or a session is lost before anything succeeded with it, there is a pause first.
    """

    def __init__(self, opener: Callable[[], S], *, clock: Callable[[], float] = time.monotonic) -> None:
        """Make a supply.

        Args:
            opener: Opens a session; may raise anything and may take long. One call at a time.
            clock: Seconds that never go back.
        """
        self._opener = opener
        self._clock = clock
        self._lock = threading.Lock()
        self._changing = threading.Lock()  # held while a session is closed or opened, which takes seconds
        self._opening: Future[S] | None = None
        self._failures = 0
        self._not_before = 0.0
        self._is_closed = False
        self._is_first = True
        self._problem = "Spark was lost before it did anything"

    def prepare(self) -> None:
        """Start opening a session when there is none and no pause to wait for."""
        with self._lock:
            self._open()

    @property
    def is_first_opening(self) -> bool:
        """True while the first session is being opened."""
        with self._lock:
            return self._is_first and self._opening is not None and not self._opening.done()

    @property
    def is_open(self) -> bool:
        """True when there is a session that nobody has found lost."""
        with self._lock:
            return self._current() is not None

    def get(self, timeout: float) -> S:
        """Return the session, waiting for one that is being opened.

        Raises:
            SparkLostError: There is none within the timeout (seconds), or none at all at the moment.
        """
        with self._lock:
            opening = self._open()
        if opening is None:
            raise SparkLostError(self._problem)
        try:
            return opening.result(timeout)
        except TimeoutError:
            raise SparkLostError(f"Spark was not ready within {timeout:.3g} s") from None
        except Exception as exc:  # whatever Spark raises when it does not start
            raise SparkLostError(_problem(exc)) from exc

    def praise(self) -> None:
        """Note that a session works, which ends the pauses."""
        with self._lock:
            self._failures = 0

    def discard(self, session: S) -> None:
        """Close a session that is lost and start opening the next one. A session that is not current is ignored."""
        with self._lock:
            if self._current() is not session:
                return
            self._opening = None
            if self._failures:
                self._pause()
            self._failures += 1
            self._start(self._close_old, session)
            self._open()

    def close(self) -> None:
        """Close the session, or the one being opened as soon as it is open. Called once."""
        with self._lock:
            self._is_closed = True
            opening, self._opening = self._opening, None
        if opening is not None:
            opening.add_done_callback(_close_opened)

    def _current(self) -> S | None:
        if self._opening is None or not self._opening.done() or self._opening.exception() is not None:
            return None
        return self._opening.result()

    def _open(self) -> Future[S] | None:
        if self._opening is None and not self._is_closed and self._clock() >= self._not_before:
            self._opening = Future()
            self._start(self._fill, self._opening)
        return self._opening

    def _start(self, work: Callable[[T], None], argument: T) -> None:
        threading.Thread(target=work, args=(argument,), name="spark-session", daemon=True).start()

    def _close_old(self, session: S) -> None:
        with self._changing:
            session.kill()

    def _fill(self, future: Future[S]) -> None:
        try:
            with self._changing:
                session = self._opener()
        except BaseException as exc:  # handed to those who wait
            with self._lock:
                self._pause()
                self._failures += 1
                self._problem = _problem(exc)
                if self._opening is future:
                    self._opening = None
            future.set_exception(exc)
        else:
            self._is_first = False
            future.set_result(session)

    def _pause(self) -> None:
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 16))
        self._not_before = self._clock() + pause


def _problem(error: BaseException) -> str:
    return f"Spark could not be started: {reason_of(error)}"


def _close_opened(opening: Future[S]) -> None:
    if opening.exception() is None:
        opening.result().close()
