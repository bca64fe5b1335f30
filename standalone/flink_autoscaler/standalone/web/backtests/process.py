"""The process of a backtest: its main function, and how the daemon begins it."""

from __future__ import annotations

import resource
import signal
import threading
from contextlib import suppress
from typing import Final

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.standalone.history.own_process import OwnProcess, Target, begun
from flink_autoscaler.standalone.observability.logs import configure_logging, masked
from flink_autoscaler.standalone.web.backtests.values import BacktestFailed, BacktestFound, BacktestTask, Progress

MOST_MEMORY: Final = 1 << 30
"""Bytes of data that the process may have; a week of a job of ten vertices takes a quarter of it."""

TELL_SECONDS: Final = 0.25
"""Between two messages of how far it is; also while nothing moves, so that the daemon looks at the clock."""

_ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}


def begin(task: BacktestTask) -> OwnProcess:
    """Begin a backtest. May raise :class:`OwnProcessError`."""
    return OwnProcess(__name__, task, _ONE_THREAD)


def main() -> None:
    """Simulate, and send to the daemon how far it is and what came of it."""
    task, target = begun()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing has to be put in order
    log_format, level = task.log
    configure_logging(log_format=log_format, level=level)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    meter = _Meter(target)
    teller = threading.Thread(target=meter.tell, daemon=True)
    teller.start()
    result = _result(task, meter)
    meter.is_over.set()
    teller.join()  # who writes when the interpreter ends makes it abort
    target.send(result)
    target.send(None)


def _result(task: BacktestTask, meter: _Meter) -> BacktestFound | BacktestFailed:
    # Imported here: the daemon, which imports this module as well, simulates nothing.
    from flink_autoscaler.standalone.web.backtests.simulating import backtested  # noqa: PLC0415

    try:
        found = backtested(task, meter.note)
    except AutoscalerError as error:
        return BacktestFailed(masked(f"{error}. {task.seldom}"))
    except MemoryError:
        return BacktestFailed(f"it takes more than {MOST_MEMORY >> 20} MiB of memory: ask for fewer days.")
    return BacktestFailed(masked(found.problem)) if isinstance(found, BacktestFailed) else found


class _Meter:
    """Remembers how far it is, and tells the daemon now and then."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._latest = Progress("starting", 0.0)
        self.is_over = threading.Event()

    def note(self, progress: Progress) -> None:
        """Take how far it is."""
        self._latest = progress

    def tell(self) -> None:
        """Tell until it is over."""
        with suppress(OSError):  # the daemon has ended
            while not self.is_over.wait(TELL_SECONDS):
                self._target.send(self._latest)


if __name__ == "__main__":
    main()
