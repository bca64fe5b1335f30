"""Work that goes on side by side, says how far it is, and can be stopped at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from installing.failures import SetupError, StoppedError, explain

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_EVERY = 5.0
"""Seconds between two lines about work that takes long."""
_END_TIMEOUT = 5.0
_SAID = 6
"""Last lines of a program that are shown when the reason is none of the usual ones."""


class Work:
    """Runs programs and threads for one set-up; a context manager that leaves nothing running.

    Inside, a signal raises :class:`StoppedError` in the main thread.

    Attributes:
        log: What the programs say.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self._started = time.monotonic()
        self._doing: dict[str, str] = {}
        self._children: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_over = threading.Event()

    def __enter__(self) -> Work:
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        threading.Thread(target=self._tell, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        with self._lock:
            running = list(self._children)
        for child in running:
            _end(child)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def say(self, text: str) -> None:
        """Print one line with the seconds since the start."""
        print(f"setup: {time.monotonic() - self._started:4.0f} s  {text}", flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[Callable[[str], None]]:
        """Say what begins; until it ends, say every some seconds how far it is, as the given function was told."""
        self.say(text)
        self._doing[text] = ""
        try:
            yield lambda how_far: self._doing.__setitem__(text, how_far)
        finally:
            del self._doing[text]

    def require_going_on(self) -> None:
        """Raise in a thread when the set-up is over for whatever reason."""
        if self._is_over.is_set():
            raise StoppedError(1)

    def run(self, command: Sequence[str | Path], extra: Mapping[str, str] | None = None) -> None:
        """Run a program to its end.

        Raises:
            SetupError: It failed; with what to do, or with the end of what it said.
        """
        said = self.output(command, extra)
        if said is not None:
            last = "\n".join(said.strip().splitlines()[-_SAID:])
            raise SetupError(explain(said) or f"{Path(command[0]).name} failed, its output is in {self.log}\n{last}")

    def output(self, command: Sequence[str | Path], extra: Mapping[str, str] | None = None) -> str | None:
        """Run a program to its end; return what it said when it failed, None when all went well."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            log.write(f"$ {' '.join(map(str, command))}\n".encode())
            log.flush()
            start = log.tell()
            status = self._wait(command, {**os.environ, **(extra or {})}, log.fileno())
        with self.log.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace") if status else None

    def _wait(self, command: Sequence[str | Path], environ: Mapping[str, str], out: int) -> int:
        with self._lock:
            self.require_going_on()
            # A session of its own: Ctrl-C is for us, who stop all of it.
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environ, start_new_session=True
            )
            self._children.add(child)
        status = child.wait()
        self._children.discard(child)
        self.require_going_on()
        return status

    def _tell(self) -> None:
        while not self._is_over.wait(_EVERY):
            doing = [f"{text}: {how_far}" if how_far else text for text, how_far in list(self._doing.items())]
            self.say(f"still {'; '.join(doing)}" if doing else "still looking at what is there")

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        raise StoppedError(128 + number)


def _end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(_END_TIMEOUT)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


class Aside:
    """Something done in a thread of its own while the main thread goes on."""

    def __init__(self, do: Callable[[], None]) -> None:
        self._do = do
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Return when it is done; raise what it raised. A signal ends the wait."""
        while self._thread.is_alive():
            self._thread.join(0.2)
        if self._error is not None:
            raise self._error

    def let_end(self, timeout: float) -> None:
        """Give it some time to tidy up after the end of the set-up."""
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._do()
        except BaseException as error:
            self._error = error


def warn(text: str) -> None:
    """Tell what is wrong."""
    print(f"setup: {text}", file=sys.stderr, flush=True)
