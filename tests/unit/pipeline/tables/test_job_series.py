"""How one job went, out of the files of a history."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flink_autoscaler.pipeline.tables.files import MissingHistoryError
from flink_autoscaler.pipeline.tables.job_series import QueryTooLargeError, SeriesPoint, Span, read_job_series
from testkit.builders.backtests import SOURCE, WORK, a_history, job_rows
from testkit.builders.history import NOON_MS, a_storage, part_files, write

JOB = ("main", "main/orders")
HOUR_MS = 3_600_000
TWO_HOURS = Span(NOON_MS, NOON_MS + 2 * HOUR_MS, HOUR_MS)


def test_steps_are_means_of_what_was_recorded_and_only_of_that_job(tmp_path: Path) -> None:
    path = a_history(tmp_path / "history", job_rows(), job_rows("main/clicks", rate=lambda _: 9.0))

    found = read_job_series(str(path), JOB, TWO_HOURS)

    assert [each.at_ms for each in found.points] == [NOON_MS, NOON_MS + HOUR_MS]
    assert found.points[0].load == pytest.approx(400.0)
    assert found.points[1].load == pytest.approx(600.0, rel=0.01)
    assert [(each.capacity, each.lag_seconds, each.slots) for each in found.points] == [(None, None, 4)] * 2
    assert {each.vertex_id: each.parallelism[-1][1] for each in found.vertices} == {SOURCE: 1, WORK: 4}


def test_figures_of_an_instant_are_those_of_all_sources_and_of_the_vertex_that_limits(tmp_path: Path) -> None:
    who = {"cluster": "main", "job_key": "main/orders", "ts": NOON_MS * 1000}
    sources = [
        {"source_id": "a", "arrival_rate": 10.0, "lag": 50.0},
        {"source_id": "b", "arrival_rate": 0.0, "lag": 0.0},
    ]
    vertices = [
        {"vertex_id": "a", "parallelism": 2, "true_rate": 30.0, "target_rate": 10.0, "slot_sharing_group": "left"},
        {"vertex_id": "b", "parallelism": 3, "true_rate": 20.0, "target_rate": 10.0, "slot_sharing_group": "left"},
        {"vertex_id": "c", "parallelism": 1, "true_rate": 5.0, "target_rate": 0.0, "slot_sharing_group": "right"},
    ]
    unknown = [{"source_id": "a", "ts": (NOON_MS + HOUR_MS) * 1000, "arrival_rate": 10.0, "lag": None}]
    rows = {"samples": [*sources, *unknown], "vertices": vertices}
    write(a_storage(tmp_path), [(table, {**who, **row}) for table, each in rows.items() for row in each])

    known, later = read_job_series(str(tmp_path), JOB, TWO_HOURS).points

    assert known == SeriesPoint(NOON_MS, load=10.0, capacity=20.0, lag=50.0, lag_seconds=5.0, slots=4)
    assert later == SeriesPoint(NOON_MS + HOUR_MS, load=10.0, capacity=None, lag=None, lag_seconds=None, slots=None)


def test_rows_that_were_written_twice_count_once(tmp_path: Path) -> None:
    once = read_job_series(str(a_history(tmp_path / "once", job_rows())), JOB, TWO_HOURS)
    twice = read_job_series(str(a_history(tmp_path / "twice", job_rows(), job_rows())), JOB, TWO_HOURS)

    assert twice == once


def test_nothing_recorded_is_no_point_and_no_history_is_an_error(tmp_path: Path) -> None:
    path = a_history(tmp_path / "history", job_rows("main/clicks"))

    assert read_job_series(str(path), JOB, TWO_HOURS).points == ()
    with pytest.raises(MissingHistoryError):
        read_job_series(str(tmp_path / "nowhere"), JOB, TWO_HOURS)


def test_what_takes_too_long_is_given_up(tmp_path: Path) -> None:
    path = a_history(tmp_path / "history", job_rows())
    seconds = count(0, 60)

    with pytest.raises(QueryTooLargeError, match="ask for a shorter time"):
        read_job_series(str(path), JOB, TWO_HOURS, clock=lambda: float(next(seconds)))


def test_file_of_fewer_columns_is_read_and_a_damaged_one_is_left_out_and_named(tmp_path: Path) -> None:
    """Columns that an earlier version did not have are not known."""
    whole = read_job_series(str(a_history(tmp_path / "whole", job_rows())), JOB, TWO_HOURS)
    path = a_history(tmp_path / "history", job_rows())
    for file in part_files(path):
        if "vertices" in file.parts:
            rows = pq.ParquetFile(file).read()
            pq.write_table(rows.drop_columns(["slot_sharing_group", "true_rate"]), file)
    [samples] = {file.parent for file in part_files(path) if "samples" in file.parts}
    (samples / "0000000000001-damaged.parquet").write_bytes(b"PAR1 and no more")

    found = read_job_series(str(path), JOB, TWO_HOURS)

    assert (found.points, found.vertices) == (whole.points, whole.vertices)
    assert [problem.split(":")[0].rpartition("/")[2] for problem in found.damaged] == ["0000000000001-damaged.parquet"]
