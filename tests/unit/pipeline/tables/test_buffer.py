"""Rows that wait: when they are due, what survives a killed process, and what is given up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from flink_autoscaler.pipeline.tables.buffer import RowBuffer, SpilledBatch
from testkit.builders.history import NOON_MS, sample_rows

SECOND = 1000


class HeldBuffer(RowBuffer):
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


@pytest.mark.parametrize("cut", [1, 100, 300])
def test_rows_up_to_where_spilling_was_interrupted_are_kept(tmp_path: Path, cut: int) -> None:
    dead = a_buffer(tmp_path)
    for minute in range(5):
        dead.add(sample_rows(minute + 1)[minute:], NOON_MS)
    dead.end()
    [spill] = tmp_path.iterdir()
    spill.write_bytes(spill.read_bytes()[:-cut])
    heir = a_buffer(tmp_path)

    with capture_logs() as logs:
        kept = heir.recover()

    assert taken(heir) == [float(minute) for minute in range(kept)]
    assert (kept >= 3, logs) == (True, [])


def left_behind(root: Path, *lines: bytes) -> Path:
    """Leave a spilled batch of a process that has ended."""
    file = root / f"{NOON_MS + len(list(root.iterdir())):013d}-abc.jsonl"
    file.write_bytes(b"".join(b"\n" + line for line in lines))
    return file


def a_line(rate: object) -> bytes:
    """Write what another version adds: fewer columns, and some that this one does not know."""
    return json.dumps([["samples", {"arrival_rate": rate, "colour": "red"}]]).encode()


def test_spilled_rows_of_another_version_are_taken_over(tmp_path: Path) -> None:
    left_behind(tmp_path, a_line(7.0))
    heir = a_buffer(tmp_path)

    assert heir.recover() == 1
    assert taken(heir) == [7.0]


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(b"\xff\x00" * 50, id="noise"),
        pytest.param(a_line(7.0)[:-9], id="an interrupted line"),
        pytest.param(a_line("a lot"), id="another type"),
        pytest.param(b'[["other", {}]]', id="another table"),
        pytest.param(b'{"rows": 1}', id="something else"),
    ],
)
def test_spilled_rows_that_cannot_be_read_are_told_once_and_kept_aside(tmp_path: Path, damaged: bytes) -> None:
    file = left_behind(tmp_path, a_line(6.0), damaged, a_line(7.0))
    content = file.read_bytes()
    left_behind(tmp_path, a_line(8.0))
    heir = a_buffer(tmp_path)

    with capture_logs() as logs:
        kept = heir.recover()
        found = taken(heir)
        again = a_buffer(tmp_path).recover()

    aside = tmp_path / f"damaged-{file.name}"
    assert (kept, found, again) == (3, [6.0, 7.0, 8.0], 0)
    assert [(line["event"], line["kept_in"]) for line in logs] == [("history_spill_damaged", str(aside))]
    assert list(tmp_path.iterdir()) == [aside]
    assert aside.read_bytes() == content


@pytest.mark.parametrize("size", [0, 1, 100])
def test_spilling_that_was_interrupted_as_it_began_is_no_damage(tmp_path: Path, size: int) -> None:
    dead = a_buffer(tmp_path)
    dead.add(sample_rows(1), NOON_MS)
    dead.end()
    [spill] = tmp_path.iterdir()
    spill.write_bytes(spill.read_bytes()[:size])
    heir = a_buffer(tmp_path)

    with capture_logs() as logs:
        assert heir.recover() == 0
        taken(heir)

    assert (logs, list(tmp_path.iterdir())) == ([], [])


def test_spill_that_cannot_be_used_keeps_no_other_from_being_taken_over(tmp_path: Path) -> None:
    unusable = tmp_path / f"{NOON_MS:013d}-abc.jsonl"
    unusable.mkdir()
    left_behind(tmp_path, a_line(7.0))
    heir = a_buffer(tmp_path)

    with capture_logs() as logs:
        heir.recover()

    assert taken(heir) == [7.0]
    assert [(line["event"], line["file"]) for line in logs] == [("history_spill_unreadable", str(unusable))]
    assert unusable.exists()


def test_value_that_is_no_json_is_kept_in_memory(tmp_path: Path) -> None:
    buffer = a_buffer(tmp_path)
    [(name, row)] = sample_rows(1)

    with capture_logs() as logs:
        buffer.add([(name, {**row, "job_id": b"bytes"})], NOON_MS)

    assert taken(buffer) == [0.0]
    assert [line["event"] for line in logs] == ["history_not_spilled"]


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
