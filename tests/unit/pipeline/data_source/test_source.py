"""Jobs whose entry in the list cannot be read: others are read, and nobody is left out without a word."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flink_autoscaler.pipeline.data_source.read_options import parse_options
from flink_autoscaler.pipeline.data_source.source import ClusterShare, Row, read_share
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.runner import LogLines


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as fake:
        fake.add_job("healthy")
        fake.add_job("sick").state = 5  # type: ignore[assignment]
        yield fake


def rows_of(flink: FakeFlink, **options: str) -> list[Row]:
    choices = parse_options({"url": f"main={flink.url}", **options})
    shares = [ClusterShare("main", index) for index in range(choices.partitions)]
    return [row for share in shares for batch in read_share(choices, share, {}) for row in batch.to_pylist()]


@pytest.mark.parametrize("partitions", ["1", "3"])
def test_job_that_cannot_be_read_has_one_row_with_the_reason(flink: FakeFlink, partitions: str) -> None:
    rows = rows_of(flink, partitions=partitions)

    found = {row["job_name"]: row for row in rows}
    assert (len(rows), found["healthy"]["state"], found["healthy"]["error"]) == (2, "RUNNING", None)
    assert (found["sick"]["state"], found["sick"]["cluster"]) == (None, "main")
    assert "state" in found["sick"]["error"]


def test_other_job_that_is_asked_for_has_no_such_row(flink: FakeFlink) -> None:
    assert [row["job_name"] for row in rows_of(flink, job="healthy")] == ["healthy"]
    assert [row["job_name"] for row in rows_of(flink, job="sick")] == ["sick"]


@pytest.mark.parametrize("table", ["vertices", "metrics"])
def test_tables_without_a_row_for_it_tell_that_it_is_left_out(flink: FakeFlink, table: str) -> None:
    with LogLines() as lines:
        rows = rows_of(flink, table=table)

    assert {row["job_name"] for row in rows} == {"healthy"}
    (line,) = lines.of("job_skipped", cluster="main")
    assert "state" in line["error"]
