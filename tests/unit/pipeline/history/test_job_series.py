"""How one job went, out of the files of a history."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flink_autoscaler.pipeline.history.files import MissingHistoryError
from flink_autoscaler.pipeline.history.job_series import Span, TooMuchError, job_series
from testkit.builders.backtests import SOURCE, WORK, a_history, job_rows
from testkit.builders.history import NOON_MS, part_files

JOB = ("main", "main/orders")
HOUR_MS = 3_600_000
TWO_HOURS = Span(NOON_MS, NOON_MS + 2 * HOUR_MS, HOUR_MS)


def test_steps_are_means_of_what_was_recorded_and_only_of_that_job(tmp_path: Path) -> None:
    path = a_history(tmp_path / "history", job_rows(), job_rows("main/clicks", rate=lambda _: 9.0))

    found = job_series(str(path), JOB, TWO_HOURS)

    assert [each.at_ms for each in found.points] == [NOON_MS, NOON_MS + HOUR_MS]
    assert found.points[0].load == pytest.approx(400.0)
    assert found.points[1].load == pytest.approx(600.0, rel=0.01)
    assert [(each.capacity, each.lag_seconds, each.slots) for each in found.points] == [(None, None, 4)] * 2
    assert {each.vertex_id: each.parallelism[-1][1] for each in found.vertices} == {SOURCE: 1, WORK: 4}


def test_rows_that_were_written_twice_count_once(tmp_path: Path) -> None:
    once = job_series(str(a_history(tmp_path / "once", job_rows())), JOB, TWO_HOURS)
    twice = job_series(str(a_history(tmp_path / "twice", job_rows(), job_rows())), JOB, TWO_HOURS)

    assert twice == once


def test_nothing_recorded_is_no_point_and_no_history_is_an_error(tmp_path: Path) -> None:
    path = a_history(tmp_path / "history", job_rows("main/clicks"))

    assert job_series(str(path), JOB, TWO_HOURS).points == ()
    with pytest.raises(MissingHistoryError):
        job_series(str(tmp_path / "nowhere"), JOB, TWO_HOURS)


def test_what_takes_too_long_is_given_up(tmp_path: Path) -> None:
    path = a_history(tmp_path / "history", job_rows())
    seconds = count(0, 60)

    with pytest.raises(TooMuchError, match="ask for a shorter time"):
        job_series(str(path), JOB, TWO_HOURS, clock=lambda: float(next(seconds)))


def test_file_of_fewer_columns_is_read_and_a_damaged_one_is_left_out_and_named(tmp_path: Path) -> None:
    """Columns that an earlier version did not have are not known."""
    whole = job_series(str(a_history(tmp_path / "whole", job_rows())), JOB, TWO_HOURS)
    path = a_history(tmp_path / "history", job_rows())
    for file in part_files(path):
        if "vertices" in file.parts:
            rows = pq.ParquetFile(file).read()
            pq.write_table(rows.drop_columns(["slot_sharing_group", "true_rate"]), file)
    [samples] = {file.parent for file in part_files(path) if "samples" in file.parts}
    (samples / "0000000000001-damaged.parquet").write_bytes(b"PAR1 and no more")

    found = job_series(str(path), JOB, TWO_HOURS)

    assert (found.points, found.vertices) == (whole.points, whole.vertices)
    assert [problem.split(":")[0].rpartition("/")[2] for problem in found.damaged] == ["0000000000001-damaged.parquet"]
