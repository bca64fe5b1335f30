"""Rows that wait: when they are due, what survives a killed process, and what is given up."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from flink_autoscaler.pipeline.history.buffer import Buffer, SpilledBatch
from testkit.builders.history import NOON_MS, sample_rows

SECOND = 1000


class HeldBuffer(Buffer):
    """A buffer whose batches wait for the test."""

    def __init__(self, spill: Path | None, rows: int) -> None:
        self.batches: list[SpilledBatch] = []
        super().__init__(flush_seconds=900, flush_rows=rows, spill=spill, hand_over=self.batches.append)

    def end(self) -> None:
        """Let go of what was spilled, as the end of the process does."""
        self.close_batch()
        for _, spill in self.batches:
            if spill is not None:
                spill.close()


def a_buffer(spill: Path | None = None, *, rows: int = 1000) -> HeldBuffer:
    return HeldBuffer(spill, rows)


def taken(buffer: HeldBuffer) -> list[float]:
    """Take everything as a writer would."""
    buffer.close_batch()
    found: list[float] = []
    for batch, spill in buffer.batches:
        found += [rate for rows in batch.tables.values() for rate in rows.column("arrival_rate").to_pylist()]
        if spill is not None:
            spill.remove()
    buffer.batches.clear()
    return found


@pytest.mark.parametrize(
    ("rows", "seconds", "is_due"),
    [
        pytest.param(0, 10_000, False, id="nothing is never due"),
        pytest.param(1, 899, False, id="young and few"),
        pytest.param(1, 900, True, id="old enough"),
        pytest.param(1000, 0, True, id="enough rows"),
        pytest.param(1, -10, True, id="the clock was set back"),
    ],
)
def test_batch_is_due_by_age_or_size(rows: int, seconds: int, is_due: bool) -> None:
    buffer = a_buffer()
    buffer.add(sample_rows(rows), NOON_MS)

    buffer.close_due(NOON_MS + seconds * SECOND)

    assert bool(buffer.batches) is is_due


def test_age_counts_from_the_first_row() -> None:
    buffer = a_buffer()
    buffer.add(sample_rows(1), NOON_MS)
    buffer.add(sample_rows(1), NOON_MS + 899 * SECOND)

    assert buffer.batches == []
    buffer.close_due(NOON_MS + 900 * SECOND)
    assert [batch.rows for batch, _ in buffer.batches] == [2]


def test_rows_of_a_process_that_ended_are_taken_over(tmp_path: Path) -> None:
    dead = a_buffer(tmp_path)
    dead.add(sample_rows(2), NOON_MS)
    dead.add(sample_rows(3)[2:], NOON_MS)
    dead.end()

    heir = a_buffer(tmp_path)

    assert heir.recover() == 3
    assert taken(heir) == [0.0, 1.0, 2.0]
    assert list(tmp_path.iterdir()) == []


def test_batch_keeps_its_identity_when_it_is_taken_over(tmp_path: Path) -> None:
    dead, heir = a_buffer(tmp_path), a_buffer(tmp_path)
    dead.add(sample_rows(1), NOON_MS)
    dead.close_batch()
    identity = dead.batches[0][0].identity
    dead.end()

    heir.recover()

    assert heir.batches[0][0].identity == identity


def test_rows_of_a_process_that_lives_are_left_alone(tmp_path: Path) -> None:
    alive = a_buffer(tmp_path)
    alive.add(sample_rows(1), NOON_MS)

    assert a_buffer(tmp_path).recover() == 0
    assert taken(alive) == [0.0]


@pytest.mark.parametrize("cut", [1, 100, 700])
def test_rows_up_to_where_spilling_was_interrupted_are_kept(tmp_path: Path, cut: int) -> None:
    dead = a_buffer(tmp_path)
    for minute in range(5):
        dead.add(sample_rows(minute + 1)[minute:], NOON_MS)
    dead.end()
    [stream] = tmp_path.rglob("*.arrows")
    whole = stream.read_bytes()
    stream.write_bytes(whole[:-cut])
    heir = a_buffer(tmp_path)

    kept = heir.recover()

    assert taken(heir) == [float(minute) for minute in range(kept)]
    assert kept >= 3


def test_spilled_rows_of_an_earlier_version_are_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / f"{NOON_MS:013d}-abc"
    folder.mkdir()
    rows = pa.table({"job_key": ["main/orders"], "arrival_rate": [7.0]})
    with pa.OSFile(str(folder / "samples.arrows"), "wb") as stream, pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    heir = a_buffer(tmp_path)

    assert heir.recover() == 1
    assert taken(heir) == [7.0]


def left_behind(root: Path, name: str, rows: pa.Table | bytes) -> Path:
    """Leave a spilled batch of a process that has ended."""
    folder = root / f"{NOON_MS + len(list(root.iterdir())):013d}-abc"
    folder.mkdir()
    if isinstance(rows, bytes):
        (folder / f"{name}.arrows").write_bytes(rows)
        return folder
    with pa.OSFile(str(folder / f"{name}.arrows"), "wb") as stream, pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    return folder


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(b"no Arrow at all. " * 1000, id="something else"),
        pytest.param(b"\xff" * 5000, id="noise"),
        pytest.param(pa.table({"arrival_rate": ["a lot"]}), id="another type"),
    ],
)
def test_spilled_rows_that_cannot_be_read_are_told_once_and_kept_aside(
    tmp_path: Path, damaged: pa.Table | bytes
) -> None:
    folder = left_behind(tmp_path, "samples", damaged)
    content = (folder / "samples.arrows").read_bytes()
    left_behind(tmp_path, "samples", pa.table({"arrival_rate": [7.0]}))
    heir = a_buffer(tmp_path)

    with capture_logs() as logs:
        kept = heir.recover()
        found = taken(heir)
        again = a_buffer(tmp_path).recover()

    aside = tmp_path / f"damaged-{folder.name}"
    assert (kept, found, again) == (1, [7.0], 0)
    assert [(line["event"], line["kept_in"]) for line in logs] == [("history_spill_damaged", str(aside))]
    assert [path for path in tmp_path.iterdir() if path != aside] == []
    assert (aside / "samples.arrows").read_bytes() == content


@pytest.mark.parametrize("size", [0, 1, 100, 700])
def test_spilling_that_was_interrupted_as_it_began_is_no_damage(tmp_path: Path, size: int) -> None:
    dead = a_buffer(tmp_path)
    dead.add(sample_rows(1), NOON_MS)
    dead.end()
    [stream] = tmp_path.rglob("*.arrows")
    stream.write_bytes(stream.read_bytes()[:size])
    heir = a_buffer(tmp_path)

    with capture_logs() as logs:
        assert heir.recover() == 0
        taken(heir)

    assert (logs, list(tmp_path.iterdir())) == ([], [])


def test_spill_that_cannot_be_used_keeps_no_other_from_being_taken_over(tmp_path: Path) -> None:
    folder = left_behind(tmp_path, "samples", pa.table({"arrival_rate": [1.0]}))
    (folder / "lock").mkdir()
    left_behind(tmp_path, "samples", pa.table({"arrival_rate": [7.0]}))
    heir = a_buffer(tmp_path)

    with capture_logs() as logs:
        heir.recover()

    assert taken(heir) == [7.0]
    assert [(line["event"], line["folder"]) for line in logs] == [("history_spill_unreadable", str(folder))]
    assert folder.exists()


def test_folder_of_others_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()

    assert a_buffer(tmp_path).recover() == 0
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_rows_stay_in_memory_where_nothing_can_be_spilled(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    buffer = a_buffer(tmp_path / "file" / "spill")

    with capture_logs() as logs:
        for _ in range(3):
            buffer.add(sample_rows(1), NOON_MS)
            buffer.close_batch()

    assert taken(buffer) == [0.0, 0.0, 0.0]
    assert [line["event"] for line in logs] == ["history_not_spilled"]


def test_batch_ends_when_it_has_enough_rows(tmp_path: Path) -> None:
    buffer = a_buffer(tmp_path, rows=2)

    for _ in range(3):
        buffer.add(sample_rows(2), NOON_MS)

    assert ([batch.rows for batch, _ in buffer.batches], buffer.rows) == ([2, 2, 2], 0)
