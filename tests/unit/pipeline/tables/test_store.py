"""Appending batches: whole files or none, and each row once."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flink_autoscaler.pipeline.tables import Partition
from flink_autoscaler.pipeline.tables.files import HistoryError
from flink_autoscaler.pipeline.tables.store import Folder, HistoryFilter, append
from testkit.builders.history import (
    NOON_MS,
    a_batch,
    a_storage,
    files_of,
    part_files,
    rates,
    sample_rows,
)

ROWS = [*sample_rows(3, cluster="main"), *sample_rows(2, cluster="other")]


def test_append_makes_one_file_per_day_and_cluster(tmp_path: Path) -> None:
    rows = [*ROWS, *sample_rows(2, at_ms=NOON_MS + 12 * 3_600_000 - 60_000)]

    added = append(a_storage(tmp_path), a_batch(rows))

    assert added == 3
    assert files_of(tmp_path) == {
        "samples/version=1/date=2026-01-31/cluster=main": 1,
        "samples/version=1/date=2026-01-31/cluster=other": 1,
        "samples/version=1/date=2026-02-01/cluster=main": 1,
    }


def test_append_makes_one_file_per_day_where_clusters_are_not_divided(tmp_path: Path) -> None:
    append(a_storage(tmp_path), a_batch(ROWS), Partition.DATE)

    assert files_of(tmp_path) == {"samples/version=1/date=2026-01-31": 1}
    assert len(rates(a_storage(tmp_path))) == 5


def test_rows_of_a_file_are_sorted_by_what_tells_them_apart(tmp_path: Path) -> None:
    append(a_storage(tmp_path), a_batch([*sample_rows(2, source="s2"), *sample_rows(2, source="s1")]))

    [file] = part_files(tmp_path)
    sources = pq.ParquetFile(file).read().column("source_id").to_pylist()
    assert sources == ["s1", "s1", "s2", "s2"]


def test_append_of_nothing_makes_nothing(tmp_path: Path) -> None:
    assert append(a_storage(tmp_path), a_batch([])) == 0
    assert files_of(tmp_path) == {}


def test_append_of_the_same_batch_again_adds_nothing(tmp_path: Path) -> None:
    storage, batch = a_storage(tmp_path), a_batch(ROWS)
    append(storage, batch)

    assert append(storage, batch) == 0
    assert len(rates(storage)) == 5


def test_path_that_is_not_writable_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(HistoryError, match=str(tmp_path / "file")):
        append(a_storage(tmp_path / "file" / "history"), a_batch(ROWS))


@pytest.mark.parametrize("cluster", ["main", "a cluster", "über/50%", "a=b", "007", "..", "x" * 64])
def test_folder_reads_back_whatever_the_cluster_is_called(cluster: str) -> None:
    folder = Folder("samples", date(2026, 1, 31), cluster)

    assert Folder.of(folder.path) == folder
    assert len(folder.path.split("/")) == 4


@pytest.mark.parametrize(
    "path",
    [
        "samples",
        "samples/version=1",
        "other/version=1/date=2026-01-31",
        "samples/version=1/date=2026-02-31",
        "_staging/x",
    ],
)
def test_other_folders_are_none_of_the_history(path: str) -> None:
    assert Folder.of(path) is None


@pytest.mark.parametrize(
    ("selection", "is_covered"),
    [
        pytest.param(HistoryFilter(), True, id="everything"),
        pytest.param(HistoryFilter(since_ms=NOON_MS), True, id="since noon of the day"),
        pytest.param(HistoryFilter(since_ms=NOON_MS + 43_200_000), False, id="since midnight after it"),
        pytest.param(HistoryFilter(until_ms=NOON_MS - 43_200_000), False, id="until midnight before it"),
        pytest.param(HistoryFilter(until_ms=NOON_MS), True, id="until noon"),
        pytest.param(HistoryFilter(clusters=frozenset({"main"})), True, id="its cluster"),
        pytest.param(HistoryFilter(clusters=frozenset({"other"})), False, id="another cluster"),
    ],
)
def test_selection_covers_days_and_clusters(selection: HistoryFilter, is_covered: bool) -> None:
    assert selection.covers(Folder("samples", date(2026, 1, 31), "main")) is is_covered
