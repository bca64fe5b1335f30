"""Real processes that are killed while they change a history, and several that change one at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flink_autoscaler.pipeline.tables.compact import MaintenanceTask, run_maintenance
from flink_autoscaler.pipeline.tables.store import append
from testkit.builders.history import DAY_MS, NOON_MS, a_batch, a_storage, files_of, rates
from testkit.builders.history.dying import BATCH, EVENING, ROWS

DYING = Path(__file__).parents[3] / "testkit" / "builders" / "history" / "dying.py"
LATER = MaintenanceTask(NOON_MS + 3 * DAY_MS)


def killed(folder: Path, work: str) -> list[str]:
    """Have processes killed at every step of some work; return the steps."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(DYING), str(folder), work]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.split()


@pytest.fixture(scope="module")
def appended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("appended")
    return folder, killed(folder, "append")


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("compacted")
    return folder, killed(folder, "compact")


def test_batch_of_a_process_that_was_killed_at_any_step_is_completed(appended: tuple[Path, list[str]]) -> None:
    folder, steps = appended

    for step in steps:
        left = rates(a_storage(folder / step))
        append(a_storage(folder / step), a_batch(ROWS, BATCH))

        assert set(left) <= {0.0, 1.0, 2.0}, step
        assert rates(a_storage(folder / step)) == [0.0, 0.0, 1.0, 1.0, 2.0], step
        run_maintenance(a_storage(folder / step), LATER)
        assert not [name for name in files_of(folder / step) if name.startswith("_staging")], step

    # Half a file, and a file per cluster.
    assert steps == ["torn", "0", "1"]


def test_compaction_that_was_killed_at_any_step_loses_and_doubles_nothing(compacted: tuple[Path, list[str]]) -> None:
    folder, steps = compacted
    every = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]

    for step in steps:
        assert rates(a_storage(folder / step)) == every, step
        run_maintenance(a_storage(folder / step), LATER)

        assert rates(a_storage(folder / step)) == every, step
        assert files_of(folder / step) == {"samples/version=1/date=2026-01-31/cluster=main": 1}, step

    # Half a file, lock, note, compacted file, three small files, note, lock.
    assert len(steps) >= 9


def test_lock_of_a_process_that_was_killed_keeps_nobody_out(compacted: tuple[Path, list[str]]) -> None:
    folder, _ = compacted

    run_maintenance(a_storage(folder / "torn"), EVENING)

    assert not (folder / "torn" / "_maintenance.json").exists()
