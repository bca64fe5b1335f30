"""The backtests that were asked for: one runs at a time, and what came of the last ones is kept for a while."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import structlog

from flink_autoscaler.standalone.history.own_process import OwnProcess, OwnProcessError
from flink_autoscaler.standalone.observability.logs import masked
from flink_autoscaler.standalone.web.backtests.process import begin
from flink_autoscaler.standalone.web.backtests.values import BacktestFailed, BacktestFound, BacktestTask, Progress
from flink_autoscaler.standalone.web.errors import ConflictError, NotFoundError

log = structlog.get_logger(__name__)

MOST_KEPT: Final = 20
KEPT_SECONDS: Final = 3600.0
"""For which a result is there, counted from when it was asked for last."""

FORGOTTEN_SECONDS: Final = 120.0
"""Without anybody who asks, one that runs is ended. Browsers ask once a minute from a page that is not looked at."""

LONGEST_SECONDS: Final = 1800.0


STARTING: Final = Progress("starting", 0.0)


class BacktestState(StrEnum):
    """How it is with a backtest."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Backtest:
    """One that was asked for.

    Attributes:
        started_ms: Epoch milliseconds.
        changes: The lines of the configuration that differ.
        progress: How far it is.
        found: What came of it; None unless it is done.
        problem: Why there is no result; empty where there is nothing to say.
    """

    identity: str
    task: BacktestTask
    started_ms: int
    changes: tuple[str, ...]
    state: BacktestState = BacktestState.RUNNING
    progress: Progress = STARTING
    found: BacktestFound | None = None
    problem: str = ""


Begin = Callable[[BacktestTask], OwnProcess]


@dataclass
class _Kept:
    """A backtest, its process while it runs, and instants of the monotonic clock."""

    backtest: Backtest
    process: OwnProcess | None
    begun: float
    asked: float


class Backtests:
    """Begins backtests, follows them and ends them. Calls may come from any thread.

    Args:
        begin: Begins a process; may raise :class:`OwnProcessError`.
        clock: Seconds, never going back.
    """

    def __init__(self, begin: Begin = begin, clock: Callable[[], float] = time.monotonic) -> None:
        self._begin = begin
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._listeners: list[Callable[[Backtest], None]] = []
        self._is_closed = False

    def follow(self, listener: Callable[[Backtest], None]) -> None:
        """Tell somebody what has changed, from a thread of this room or of who asks."""
        self._listeners.append(listener)

    def start(self, task: BacktestTask, changes: tuple[str, ...], now_ms: int) -> Backtest:
        """Begin a backtest.

        Args:
            task: What is simulated.
            changes: The lines of the configuration that differ.
            now_ms: The clock, epoch milliseconds.

        Raises:
            ConflictError: Another one runs, or the daemon ends.
            OwnProcessError: The process could not be started.
        """
        self._end_forgotten()
        with self._lock:
            self._require_room(now_ms)
            backtest = Backtest(secrets.token_hex(8), task, now_ms, changes)
            process, now = self._begin(task), self._clock()
            kept = self._kept[backtest.identity] = _Kept(backtest, process, now, now)
            self._forget_oldest()
        log.info("backtest_started", job_key=task.job_key, days=task.days, backtest=backtest.identity)
        threading.Thread(target=self._receive, args=(kept, process), name="backtest", daemon=True).start()
        return backtest

    def get(self, identity: str) -> Backtest:
        """Return a backtest, which counts as being asked for. Raises :class:`NotFoundError`."""
        self._end_forgotten()
        with self._lock:
            kept = self._of(identity)
            kept.asked = self._clock()
            return kept.backtest

    def cancel(self, identity: str) -> Backtest:
        """End a backtest that runs; one that has ended stays as it is. Raises :class:`NotFoundError`."""
        with self._lock:
            kept = self._of(identity)
        self._end(kept, BacktestState.CANCELLED, "it was cancelled")
        return kept.backtest

    def close(self) -> None:
        """End what runs, and begin nothing more."""
        with self._lock:
            self._is_closed = True
            running = self._running()
        if running is not None:
            self._end(running, BacktestState.CANCELLED, "the daemon ends")

    def _of(self, identity: str) -> _Kept:
        if identity not in self._kept:
            raise NotFoundError("there is no such backtest: results are kept for an hour")
        return self._kept[identity]

    def _running(self) -> _Kept | None:
        return next((each for each in self._kept.values() if each.backtest.state is BacktestState.RUNNING), None)

    def _require_room(self, now_ms: int) -> None:
        if self._is_closed:
            raise ConflictError("the daemon ends")
        running = self._running()
        if running is not None:
            backtest = running.backtest
            since = max(0, now_ms - backtest.started_ms) // 1000
            raise ConflictError(
                f"a backtest of {masked(backtest.task.job_key)} runs since {since} s, and a daemon does one at a time: "
                f"wait for it, or cancel it ({backtest.identity})"
            )

    def _forget_oldest(self) -> None:
        for identity in list(self._kept)[:-MOST_KEPT]:
            del self._kept[identity]

    def _end_forgotten(self) -> None:
        """End what nobody asks for or what takes too long, and forget old results."""
        now = self._clock()
        with self._lock:
            running = self._running()
            old = [key for key, each in self._kept.items() if each is not running and now - each.asked > KEPT_SECONDS]
            for identity in old:
                del self._kept[identity]
        if running is not None and now - running.asked > FORGOTTEN_SECONDS:
            self._end(running, BacktestState.CANCELLED, "nobody asked for it any more")
        elif running is not None and now - running.begun > LONGEST_SECONDS:
            minutes = LONGEST_SECONDS / 60
            self._end(running, BacktestState.FAILED, f"it took longer than {minutes:g} minutes: ask for fewer days")

    def _end(self, kept: _Kept, state: BacktestState, problem: str) -> None:
        """End the process of a backtest that runs, and say why; nothing where it has ended."""
        if self._note(kept, state=state, problem=problem):
            log.info("backtest_ended_early", backtest=kept.backtest.identity, reason=problem)
        process = kept.process
        if process is not None:
            process.close()

    def _receive(self, kept: _Kept, process: OwnProcess) -> None:
        try:
            for message in process.messages():
                self._take(kept, message)
                self._end_forgotten()
        except OwnProcessError as error:
            self._note(kept, state=BacktestState.FAILED, problem=f"its process {error}; the log may say why")
        finally:
            process.close()
            kept.process = None

    def _take(self, kept: _Kept, message: Progress | BacktestFound | BacktestFailed) -> None:
        if isinstance(message, BacktestFound):
            self._note(kept, state=BacktestState.DONE, found=message, progress=Progress("done", 1.0))
        elif isinstance(message, BacktestFailed):
            self._note(kept, state=BacktestState.FAILED, problem=message.problem)
        elif message != kept.backtest.progress:
            self._note(kept, progress=message)

    def _note(self, kept: _Kept, **changes: object) -> bool:
        """Change what is known of a backtest that runs, and tell; False where it has ended."""
        with self._lock:
            if kept.backtest.state is not BacktestState.RUNNING:
                return False
            kept.backtest = replace(kept.backtest, **changes)  # type: ignore[arg-type]
            backtest = kept.backtest
        for listener in self._listeners:
            listener(backtest)
        return True
