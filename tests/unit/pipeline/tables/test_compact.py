"""Compaction and retention: the same rows in fewer files, whatever interrupts it."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.pipeline.tables.compact import STALE_MS, LockedError, MaintenanceTask, run_maintenance
from flink_autoscaler.pipeline.tables.export import Format, write_export
from flink_autoscaler.pipeline.tables.files import (
    STAGING,
    FileEntry,
    HistoryError,
    LocalFiles,
    MissingHistoryError,
    new_id,
)
from flink_autoscaler.pipeline.tables.schema import RESCALES, SAMPLES
from flink_autoscaler.pipeline.tables.store import (
    EVERYTHING,
    LOCK,
    append,
    describe,
    distinct_rows,
    list_folders,
    read_rows,
)
from testkit.builders.history import (
    DAY_MS,
    NOON_MS,
    CrashError,
    a_batch,
    a_storage,
    crashing,
    files_of,
    part_files,
    rates,
    sample_rows,
    write,
)
from testkit.builders.history.dying import BATCH, EVENING, ROWS

TOMORROW = MaintenanceTask(NOON_MS + DAY_MS)


FOLDER = "samples/version=1/date=2026-01-31/cluster=main"


class CompactedMeanwhile(LocalFiles):
    """Files of a history that is compacted right after they are listed for the first time."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self._is_listed = False

    def list(self, folder: str = "") -> Sequence[FileEntry]:
        listed = super().list(folder)
        if listed and not self._is_listed:
            self._is_listed = True
            run_maintenance(a_storage(self.root), replace(TOMORROW, now_ms=NOON_MS + 3 * DAY_MS))
        return listed


class CompactedWhileRead(LocalFiles):
    """Files of a history that is compacted right after the first of them is read."""

    _is_read = False

    def read(self, path: str, last: int | None = None) -> bytes:
        content = super().read(path, last)
        if not self._is_read:
            self._is_read = True
            run_maintenance(a_storage(self.root), TOMORROW)
        return content


def three_files(root: Path) -> list[float]:
    """Write three small files of one folder; return the rates in them."""
    write(a_storage(root), *(sample_rows(2, at_ms=NOON_MS + hour * 3_600_000) for hour in range(3)))
    return rates(a_storage(root))


def test_small_files_of_a_day_that_has_ended_become_one(tmp_path: Path) -> None:
    before = three_files(tmp_path)

    done = run_maintenance(a_storage(tmp_path), TOMORROW)

    assert files_of(tmp_path) == {FOLDER: 1}
    assert rates(a_storage(tmp_path)) == before
    assert (done.before, done.after, done.duplicates, done.damaged) == (3, 1, 0, [])


def test_day_that_has_not_ended_stays_as_it_is(tmp_path: Path) -> None:
    three_files(tmp_path)

    done = run_maintenance(a_storage(tmp_path), MaintenanceTask(NOON_MS))

    assert (files_of(tmp_path), done.before) == ({FOLDER: 3}, 0)


def test_second_compaction_does_nothing(tmp_path: Path) -> None:
    three_files(tmp_path)
    run_maintenance(a_storage(tmp_path), TOMORROW)

    done = run_maintenance(a_storage(tmp_path), TOMORROW)

    assert (done.before, done.leftovers) == (0, 0)


def test_compacted_files_have_a_greatest_size(tmp_path: Path) -> None:
    before = three_files(tmp_path)

    run_maintenance(a_storage(tmp_path), replace(TOMORROW, large_rows=4))

    assert files_of(tmp_path) == {FOLDER: 2}
    assert rates(a_storage(tmp_path)) == before


def test_large_files_are_left_alone(tmp_path: Path) -> None:
    three_files(tmp_path)

    assert run_maintenance(a_storage(tmp_path), replace(TOMORROW, large_rows=3)).before == 0


def test_rows_that_were_written_twice_count_once(tmp_path: Path) -> None:
    write(a_storage(tmp_path), sample_rows(3), sample_rows(4))

    done = run_maintenance(a_storage(tmp_path), TOMORROW)

    assert rates(a_storage(tmp_path)) == [0.0, 1.0, 2.0, 3.0]
    assert done.duplicates == 3


def test_dry_run_counts_and_changes_nothing(tmp_path: Path) -> None:
    three_files(tmp_path)

    done = run_maintenance(a_storage(tmp_path), replace(TOMORROW, is_dry_run=True, keep_seconds=0.0))

    assert (done.before, done.after, done.expired) == (3, 1, 1)
    assert files_of(tmp_path) == {FOLDER: 3}


@pytest.mark.parametrize("changes", range(8))
def test_compaction_that_is_interrupted_anywhere_loses_and_doubles_nothing(tmp_path: Path, changes: int) -> None:
    before = three_files(tmp_path)
    storage = crashing(tmp_path, changes)
    try:
        run_maintenance(storage, TOMORROW)
    except CrashError:
        assert rates(a_storage(tmp_path)) == before, "while it is interrupted"
    (tmp_path / LOCK).unlink(missing_ok=True)

    run_maintenance(a_storage(tmp_path), replace(TOMORROW, now_ms=NOON_MS + 3 * DAY_MS))

    assert rates(a_storage(tmp_path)) == before
    assert files_of(tmp_path) == {FOLDER: 1}


def test_days_that_are_too_old_are_removed_whole(tmp_path: Path) -> None:
    write(a_storage(tmp_path), *(sample_rows(1, at_ms=NOON_MS - days * DAY_MS) for days in range(4)))

    done = run_maintenance(a_storage(tmp_path), MaintenanceTask(NOON_MS, keep_seconds=2 * 86_400.0))

    assert sorted(folder.split("/")[2] for folder in files_of(tmp_path)) == [
        "date=2026-01-29",
        "date=2026-01-30",
        "date=2026-01-31",
    ]
    assert done.expired == 1


@pytest.mark.parametrize(
    ("now", "keep_days", "kept"),
    [
        pytest.param("2026-03-01T00:00", 1, ["2026-02-28", "2026-03-01"], id="the first of March"),
        pytest.param("2024-03-01T12:00", 2, ["2024-02-28", "2024-02-29", "2024-03-01"], id="of a leap year"),
        pytest.param("2026-01-01T23:59", 1, ["2025-12-31", "2026-01-01"], id="a new year"),
        pytest.param("2026-03-01T06:00", 1.5, ["2026-02-27", "2026-02-28", "2026-03-01"], id="not a whole day yet"),
        pytest.param("2026-03-01T13:00", 1.5, ["2026-02-28", "2026-03-01"], id="a day and a half after it ended"),
        pytest.param("2026-03-01T00:00", 400_000, [], id="longer than there is time"),
    ],
)
def test_retention_goes_across_months_and_years(tmp_path: Path, now: str, keep_days: float, kept: list[str]) -> None:
    now_ms = round(datetime.fromisoformat(f"{now}+00:00").timestamp() * 1000)
    write(a_storage(tmp_path), *(sample_rows(1, at_ms=now_ms - days * DAY_MS) for days in range(4)))
    before = sorted(folder.split("/")[2].removeprefix("date=") for folder in files_of(tmp_path))

    run_maintenance(a_storage(tmp_path), MaintenanceTask(now_ms, keep_seconds=keep_days * 86_400.0))

    found = sorted(folder.split("/")[2].removeprefix("date=") for folder in files_of(tmp_path))
    assert found == (kept or before)


def test_files_that_vanish_while_the_history_is_looked_at_are_looked_for_again(tmp_path: Path) -> None:
    before = three_files(tmp_path)
    busy = CompactedMeanwhile(tmp_path)

    found = describe(busy)[0]

    assert (found.files, found.rows, found.damaged) == (1, len(before), ())


def test_note_that_vanishes_while_files_are_listed_is_no_error(tmp_path: Path) -> None:
    before = three_files(tmp_path)
    with pytest.raises(CrashError):
        run_maintenance(
            crashing(tmp_path, 3), TOMORROW
        )  # with the compacted file and the note, before the first removal
    (tmp_path / LOCK).unlink(missing_ok=True)
    assert list(tmp_path.rglob("_replaces-*"))
    busy = CompactedMeanwhile(tmp_path)

    [found] = list_folders(busy, SAMPLES)

    storage = a_storage(tmp_path)
    read = [read_rows(storage, entry.path, SAMPLES).column("arrival_rate").to_pylist() for entry in found.entries]
    assert sorted(rate for rates in read for rate in rates) == before


def test_export_that_a_compaction_overtakes_says_so_and_leaves_no_row_out(tmp_path: Path) -> None:
    three_files(tmp_path)
    files = CompactedWhileRead(str(tmp_path))

    with pytest.raises(HistoryError, match="compacted meanwhile: try again"):
        write_export(files, SAMPLES, EVERYTHING, io.BytesIO(), Format.JSON, [])

    assert write_export(files, SAMPLES, EVERYTHING, io.BytesIO(), Format.JSON, []) == 6


def test_lock_appears_with_its_content(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    files.create(LOCK, b"held")

    assert not files.create(LOCK, b"taken")
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [(path.name, path.read_bytes()) for path in found] == [(LOCK, b"held")]


def test_what_an_interrupted_process_staged_is_removed_after_a_day(tmp_path: Path) -> None:
    three_files(tmp_path)
    for days in (0, 2):
        staged = tmp_path / STAGING / new_id(NOON_MS - days * DAY_MS) / "0.parquet"
        staged.parent.mkdir(parents=True)
        staged.write_bytes(b"partial")

    done = run_maintenance(a_storage(tmp_path), MaintenanceTask(NOON_MS))

    assert (done.leftovers, len(list((tmp_path / STAGING).rglob("*.parquet")))) == (1, 1)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all"], ids=["empty", "partial", "something else"])
def test_damaged_files_stay_and_are_told_while_the_others_are_compacted(tmp_path: Path, content: bytes) -> None:
    before = three_files(tmp_path)
    damaged = tmp_path / FOLDER / "0000000000001-damaged.parquet"
    damaged.write_bytes(content)

    done = run_maintenance(a_storage(tmp_path), TOMORROW)

    assert damaged.exists()
    assert len(part_files(tmp_path)) == 2
    assert len(done.damaged) == 1
    assert str(damaged) in done.damaged[0]
    damaged.unlink()
    assert rates(a_storage(tmp_path)) == before


def test_file_that_is_damaged_inside_stays_too(tmp_path: Path) -> None:
    three_files(tmp_path)
    first = part_files(tmp_path)[0]
    content = bytearray(first.read_bytes())
    content[4:200] = bytes(196)
    first.write_bytes(content)

    done = run_maintenance(a_storage(tmp_path), TOMORROW)

    assert first.exists()
    assert len(done.damaged) == 1


def test_missing_history_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(MissingHistoryError, match="there is no such folder"):
        run_maintenance(a_storage(tmp_path / "typo"), TOMORROW)

    assert not (tmp_path / "typo").exists()


def hold_lock(root: Path, *, pid: int, at_ms: int, host: str = "") -> None:
    holder = {"host": host or socket.gethostname(), "pid": pid, "at_ms": at_ms}
    (root / LOCK).write_text(json.dumps(holder))


def test_two_compactions_do_not_run_at_once(tmp_path: Path) -> None:
    three_files(tmp_path)
    hold_lock(tmp_path, pid=os.getpid(), at_ms=TOMORROW.now_ms - 1000)

    with pytest.raises(LockedError, match=f"process {os.getpid()}"):
        run_maintenance(a_storage(tmp_path), TOMORROW)

    assert files_of(tmp_path)[FOLDER] == 3


@pytest.mark.parametrize(
    ("pid", "age_ms", "host"),
    [
        pytest.param(2**22 + 1, 1000, "", id="of a process of this host that has ended"),
        pytest.param(1, STALE_MS + 1, "elsewhere", id="so old that it must have been left behind"),
    ],
)
def test_lock_that_was_left_behind_is_taken_over(tmp_path: Path, pid: int, age_ms: int, host: str) -> None:
    three_files(tmp_path)
    hold_lock(tmp_path, pid=pid, at_ms=TOMORROW.now_ms - age_ms, host=host)

    assert run_maintenance(a_storage(tmp_path), TOMORROW).after == 1
    assert not (tmp_path / LOCK).exists()


def test_latest_of_rows_that_were_revised_counts() -> None:
    row = {"job_key": "main/orders", "decided_at": 1_000_000}
    revised = [
        ("rescales", {**row, "ts": 2_000_000, "reverted": False}),
        ("rescales", {**row, "ts": 3_000_000, "reverted": True}),
    ]

    rows = distinct_rows(RESCALES, a_batch(revised).tables["rescales"])

    assert rows.column("reverted").to_pylist() == [True]


@given(st.lists(st.integers(0, 5), max_size=30))
def test_distinct_rows_have_every_key_once(minutes: list[int]) -> None:
    rows = [sample_rows(minute + 1)[minute] for minute in minutes]
    table = a_batch([*sample_rows(1), *rows]).tables["samples"]

    distinct = distinct_rows(SAMPLES, table)

    assert distinct.column("arrival_rate").to_pylist() == sorted({0.0, *map(float, minutes)})


def test_folder_of_an_earlier_version_is_compacted_in_its_place(tmp_path: Path) -> None:
    three_files(tmp_path)
    (tmp_path / "samples/version=1").rename(tmp_path / "samples/version=0")
    append(a_storage(tmp_path), a_batch(sample_rows(1)))

    run_maintenance(a_storage(tmp_path), TOMORROW)

    assert files_of(tmp_path) == {FOLDER: 1, FOLDER.replace("version=1", "version=0"): 1}


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
