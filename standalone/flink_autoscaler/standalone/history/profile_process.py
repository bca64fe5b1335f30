"""Makes load profiles in a process of its own, so that nothing of it delays a pass: neither its work nor its memory.

The daemon hands settings to the process and reads results from it, one after the other. The process ends when the
daemon does, however that ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any, Final, cast

import structlog

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.standalone.observability.logs import configure_logging, masked
from flink_autoscaler.standalone.settings.schema.settings import Settings

log = structlog.get_logger(__name__)

NICENESS: Final = 10
"""Passes go first where processors are short."""

PROGRESS_SECONDS: Final = 30.0
STOP_SECONDS: Final = 5.0
"""For Spark to end in order, before it is killed."""

_TROUBLE: Final = (OSError, EOFError, pickle.UnpicklingError)


class ProfileBuildError(AutoscalerError):
    """Profiles could not be made."""


class ProfileProcess:
    """A process that makes the profiles of the configured history. It is begun at once.

    Args:
        settings: Those of the daemon.
        end: End of the history, epoch seconds.

    Raises:
        ProfileBuildError: It could not be started.
    """

    def __init__(self, settings: Settings, end: float) -> None:
        # Not multiprocessing: its children import the main module of the daemon, and a tracker process stays behind.
        command = [sys.executable, "-P", "-m", __name__]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
            pickle.dump((settings, end), self._input)
            self._input.flush()
        except OSError as error:
            raise ProfileBuildError(f"the process could not be started: {error}") from error

    def results(self) -> Iterator[ProfileResult]:
        """Yield one result per source, in no order, as they come.

        Raises:
            ProfileBuildError: They could not be made, or the process was ended.
        """
        while (message := self._message()) is not None:
            if isinstance(message, str):
                raise ProfileBuildError(message)
            yield message

    def close(self) -> None:
        """End the process, in order if possible; from any thread, also while another one waits for results."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(OSError):
            self._input.close()

    @property
    def _input(self) -> IO[bytes]:
        return cast("IO[bytes]", self._process.stdin)

    def _message(self) -> ProfileResult | str | None:
        try:
            message: ProfileResult | str | None = pickle.load(cast("IO[bytes]", self._process.stdout))  # noqa: S301 - ours
        except _TROUBLE as error:
            code = self._process.wait()
            raise ProfileBuildError(f"the process that makes them ended with code {code}") from error
        return message


def main() -> None:
    """Make profiles, and write them to standard output; what the daemon's settings are comes from standard input."""
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else somebody prints must not come between the results
    _prepare_signals()
    settings, end = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the daemon that started this process
    with suppress(OSError):  # a sandbox may refuse it
        os.nice(NICENESS)
    configure_logging(log_format=settings.log.format, level=settings.log.level)
    threading.Thread(target=_end_with_the_daemon, daemon=True).start()
    try:
        for result in _built(settings, end):
            pickle.dump(result, target)
        pickle.dump(None, target)
    except AutoscalerError as error:
        pickle.dump(masked(str(error)), target)
    target.flush()


def _prepare_signals() -> None:
    """Undo what the daemon holds back, and end in order when it says so."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _end_with_the_daemon() -> None:
    """Wait until the daemon has closed its end of standard input, as the system does when it dies."""
    # Not through sys.stdin, whose lock this thread would still hold when the interpreter ends.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _built(settings: Settings, end: float) -> Iterator[ProfileResult]:
    # Imported here: the daemon, which imports this module as well, need not have Spark.
    from flink_autoscaler.pipeline.spark.session import open_session  # noqa: PLC0415
    from flink_autoscaler.standalone.history.profiles import scheduled_build  # noqa: PLC0415

    def opened(*arguments: Any) -> Any:
        session: Any = open_session(*arguments)
        tracker = session.spark.sparkContext.statusTracker()
        threading.Thread(target=_tell_progress, args=(lambda: _stages(tracker),), daemon=True).start()
        return session

    return scheduled_build(settings, end)(opener=opened)


def _tell_progress(stages: Callable[[], list[str]]) -> None:
    began = time.monotonic()
    with suppress(Exception):  # Spark has ended meanwhile
        while True:
            time.sleep(PROGRESS_SECONDS)
            seconds = round(time.monotonic() - began)
            log.info("forecast_build_progress", seconds=seconds, tasks_done_of_stages=stages())


def _stages(tracker: Any) -> list[str]:
    """Return how many tasks of each stage that runs are done, such as ``3/16``."""
    found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return [f"{info.numCompletedTasks}/{info.numTasks}" for info in found if info is not None]


if __name__ == "__main__":
    main()
