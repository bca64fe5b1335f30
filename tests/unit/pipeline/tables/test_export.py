"""What is in a history, and copies of a part of it."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flink_autoscaler.pipeline.tables.export import Format, write_export
from flink_autoscaler.pipeline.tables.files import MissingHistoryError
from flink_autoscaler.pipeline.tables.schema import DECISIONS, RESCALES, SAMPLES, TABLES, VERTICES, HistoryTable
from flink_autoscaler.pipeline.tables.store import EVERYTHING, HistoryFilter, append, describe, jobs_like
from testkit.builders.history import DAY_MS, NOON_MS, a_batch, a_storage, part_files, sample_rows, write


def a_history(root: Path) -> None:
    """Write two days of two clusters, three rows each."""
    for days in (0, 1):
        for cluster in ("main", "other"):
            write(a_storage(root), sample_rows(3, at_ms=NOON_MS + days * DAY_MS, cluster=cluster))


def exported(
    root: Path, table: HistoryTable, selection: HistoryFilter = EVERYTHING, form: Format = Format.JSON
) -> tuple[bytes, int, list[str]]:
    """Return what was written, how many rows that is, and which files were damaged."""
    stream = io.BytesIO()
    damaged: list[str] = []
    rows = write_export(a_storage(root), table, selection, stream, form, damaged)
    return stream.getvalue(), rows, damaged


def test_info_counts_by_table(tmp_path: Path) -> None:
    a_history(tmp_path)

    found = describe(a_storage(tmp_path))

    samples = found[0]
    assert (samples.name, samples.files, samples.rows) == ("samples", 4, 12)
    assert (samples.first, samples.last) == (date(2026, 1, 31), date(2026, 2, 1))
    assert (samples.clusters, samples.versions) == (("main", "other"), {1: 4})


def test_info_of_a_selection(tmp_path: Path) -> None:
    a_history(tmp_path)

    found = describe(a_storage(tmp_path), HistoryFilter(since_ms=NOON_MS + DAY_MS, clusters=frozenset({"main"})))

    assert found[0].files == 1


def test_info_of_an_empty_history(tmp_path: Path) -> None:
    assert {each.name: each.files for each in describe(a_storage(tmp_path))} == dict.fromkeys(TABLES, 0)


def test_info_of_no_history(tmp_path: Path) -> None:
    with pytest.raises(MissingHistoryError, match="there is no such folder"):
        describe(a_storage(tmp_path / "typo"))


def test_info_names_damaged_files_and_counts_the_others(tmp_path: Path) -> None:
    a_history(tmp_path)
    first = part_files(tmp_path)[0]
    first.write_bytes(first.read_bytes()[:-20])

    found = describe(a_storage(tmp_path))

    assert found[0].rows == 9
    assert found[0].damaged == (f"{first}: not a whole Parquet file",)


@pytest.mark.parametrize(
    ("table", "selection", "count"),
    [
        pytest.param(SAMPLES, EVERYTHING, 12, id="everything"),
        pytest.param(SAMPLES, HistoryFilter(jobs=jobs_like("main/*")), 6, id="jobs by pattern"),
        pytest.param(SAMPLES, HistoryFilter(jobs=jobs_like("order?")), 12, id="jobs by what follows their cluster"),
        pytest.param(SAMPLES, HistoryFilter(jobs=jobs_like("order")), 0, id="not by a part of that"),
        pytest.param(SAMPLES, HistoryFilter(clusters=frozenset({"other"})), 6, id="a cluster"),
        pytest.param(SAMPLES, HistoryFilter(since_ms=NOON_MS + 60_000, until_ms=NOON_MS + 120_000), 2, id="a minute"),
        pytest.param(SAMPLES, HistoryFilter(until_ms=NOON_MS), 0, id="before it began"),
        pytest.param(DECISIONS, EVERYTHING, 0, id="a table without rows"),
    ],
)
def test_export_has_what_is_wanted(tmp_path: Path, table: HistoryTable, selection: HistoryFilter, count: int) -> None:
    a_history(tmp_path)

    text, rows, _ = exported(tmp_path, table, selection)

    assert (rows, len(text.splitlines())) == (count, count)


def test_export_as_json_has_instants_in_utc_and_null_for_unknown(tmp_path: Path) -> None:
    write(a_storage(tmp_path), sample_rows(1))

    text, _, _ = exported(tmp_path, SAMPLES)

    row = json.loads(text)
    assert (row["ts"], row["arrival_rate"], row["lag"]) == ("2026-01-31T12:00:00+00:00", 0.0, None)


def test_export_as_csv_has_lists_as_json_and_empty_for_unknown(tmp_path: Path) -> None:
    reasons = [{"code": "WITHIN_BOUNDS", "text": 'say "so", please', "vertex_id": None}]
    rows = [("decisions", {"cluster": "main", "ts": NOON_MS * 1000, "reasons": reasons, "is_window_full": True})]
    append(a_storage(tmp_path), a_batch(rows))

    text, _, _ = exported(tmp_path, DECISIONS, form=Format.CSV)

    [row] = csv.DictReader(io.StringIO(text.decode()))
    assert json.loads(row["reasons"]) == reasons
    assert (row["error"], row["is_window_full"], row["ts"]) == ("", "true", "2026-01-31T12:00:00+00:00")


@pytest.mark.parametrize(
    ("form", "lag", "selectivity"),
    [(Format.JSON, ": null, ", '"selectivity": null'), (Format.CSV, ",,", '""selectivity"": null')],
)
def test_numbers_that_are_none_are_exported_as_unknown(
    tmp_path: Path, form: Format, lag: str, selectivity: str
) -> None:
    inputs = [{"vertex_id": "a", "ship_strategy": None, "selectivity": math.inf}]
    who = {"cluster": "main", "ts": NOON_MS * 1000}
    write(a_storage(tmp_path), [("samples", {**who, "lag": math.nan}), ("vertices", {**who, "inputs": inputs})])

    samples, _, _ = exported(tmp_path, SAMPLES, form=form)
    vertices, _, _ = exported(tmp_path, VERTICES, form=form)

    assert lag in samples.decode()
    assert selectivity in vertices.decode()
    assert "nan" not in samples.decode().lower()


def test_export_as_parquet_has_the_declared_columns(tmp_path: Path) -> None:
    a_history(tmp_path)

    content, _, _ = exported(tmp_path, SAMPLES, form=Format.PARQUET)

    rows = pq.read_table(pa.BufferReader(content))
    assert rows.schema.names == SAMPLES.schema.names
    assert len(rows) == 12


def test_export_has_the_latest_of_rows_that_were_revised(tmp_path: Path) -> None:
    row = {"cluster": "main", "job_key": "main/orders", "decided_at": NOON_MS * 1000}
    for days, reverted in ((0, False), (1, True)):
        revised = {**row, "ts": (NOON_MS + days * DAY_MS) * 1000, "reverted": reverted}
        append(a_storage(tmp_path), a_batch([("rescales", revised)]))

    text, _, _ = exported(tmp_path, RESCALES)

    assert [json.loads(line)["reverted"] for line in text.splitlines()] == [True]


def test_export_leaves_damaged_files_out_and_says_so(tmp_path: Path) -> None:
    a_history(tmp_path)
    part_files(tmp_path)[0].write_bytes(b"")

    _, rows, damaged = exported(tmp_path, SAMPLES)

    assert (rows, len(damaged)) == (9, 1)


def test_versions_are_read_together(tmp_path: Path) -> None:
    """An earlier version without a column and a later one with another are read with the columns of this one."""
    write(a_storage(tmp_path), sample_rows(1))
    [file] = part_files(tmp_path)
    rows = pq.ParquetFile(file).read()
    for version, other in ((0, rows.drop_columns(["lag"])), (9, rows.append_column("colour", pa.array(["red"])))):
        folder = tmp_path / f"samples/version={version}/date=2026-01-31/cluster=main"
        folder.mkdir(parents=True)
        pq.write_table(other, folder / "0000000000001-x.parquet")

    text, count, damaged = exported(tmp_path, SAMPLES)

    documents = [json.loads(line) for line in text.splitlines()]
    assert (count, damaged) == (3, [])
    assert all(list(document) == SAMPLES.schema.names for document in documents)


def test_column_of_another_type_counts_as_damage(tmp_path: Path) -> None:
    write(a_storage(tmp_path), sample_rows(1))
    [file] = part_files(tmp_path)
    rows = pq.ParquetFile(file).read()
    wrong = rows.set_column(rows.schema.get_field_index("lag"), "lag", pa.array(["a lot"]))
    pq.write_table(wrong, file)

    _, rows, damaged = exported(tmp_path, SAMPLES)

    assert (rows, len(damaged)) == (0, 1)
