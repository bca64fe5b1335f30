"""A process that has children change histories, each of which is killed before another change of the files.

Arguments: folder for the histories, ``append`` or ``compact``. Child ``n`` works on ``<folder>/<n>`` and dies, by
SIGKILL, before the change with that number; the last one has no more changes to make. Child ``torn`` dies while a file
is half written. Prints the names of those that were killed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from flink_autoscaler.pipeline.tables.compact import MaintenanceTask, run_maintenance
from flink_autoscaler.pipeline.tables.files import STAGING, Files, LocalFiles, new_id
from flink_autoscaler.pipeline.tables.store import append
from testkit.builders.history import DAY_MS, NOON_MS, CrashingFiles, a_batch, a_storage, sample_rows, write

BATCH = "1769860800000-abc"
TORN = "torn"
ROWS = [*sample_rows(3), *sample_rows(2, cluster="other")]
EVENING = MaintenanceTask(NOON_MS + DAY_MS)


class DyingFiles(CrashingFiles):
    """Files of a process that is killed before one of its changes."""

    def _change(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        super()._change()


class TornFiles(LocalFiles):
    """Files of a process that is killed while it writes the first one with rows."""

    def create(self, path: str, content: bytes) -> bool:
        if path.endswith(".parquet"):
            draft = Path(self.root, STAGING, new_id(NOON_MS))
            draft.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().create(path, content)


def dying_files(root: Path, step: str) -> Files:
    """Return a history whose process is killed at a step."""
    files = LocalFiles(str(root))
    return TornFiles(str(root)) if step == TORN else DyingFiles(files, int(step))


def append_until_killed(root: Path, step: str) -> None:
    """Append a batch to a history."""
    append(dying_files(root, step), a_batch(ROWS, BATCH))


def compact_until_killed(root: Path, step: str) -> None:
    """Compact a history of three files."""
    write(a_storage(root), *(sample_rows(2, at_ms=NOON_MS + hour * 3_600_000) for hour in range(3)))
    run_maintenance(dying_files(root, step), EVENING)


def is_killed(work: Callable[[Path, str], None], root: Path, step: str) -> bool:
    """Let a child do some work, and tell whether it was killed."""
    child = os.fork()
    if child == 0:
        work(root / step, step)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main() -> None:
    """Let children die until one does not."""
    work = {"append": append_until_killed, "compact": compact_until_killed}[sys.argv[2]]
    steps = [TORN]
    while is_killed(work, Path(sys.argv[1]), steps[-1]):
        sys.stdout.write(f"{steps[-1]}\n")
        steps.append(str(len(steps) - 1))


if __name__ == "__main__":
    main()
