"""The declaration of the tables is what the documentation says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from flink_autoscaler.pipeline.tables.schema import TABLES, VERSION, HistoryTable

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "history.md"
EVERY_TABLE = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


def written(kind: pa.DataType) -> str:
    """Write a type as Spark does."""
    if pa.types.is_list(kind):
        fields = ", ".join(f"{field.name} {written(field.type)}" for field in kind.value_type)
        return f"array<struct<{fields}>>"
    names = {pa.int32(): "int", pa.int64(): "bigint", pa.bool_(): "boolean"}
    return names.get(kind) or str(kind).partition("[")[0]


@EVERY_TABLE
def test_guide_describes_every_column(table: HistoryTable) -> None:
    text = GUIDE.read_text()

    missing = [
        row
        for column in table.columns
        if (row := f"| `{column.name}` | {written(column.type)} | {column.description} |") not in text
    ]

    assert not missing
    assert f"### {table.name}" in text
    assert table.description in text


@EVERY_TABLE
def test_key_and_instant_are_columns(table: HistoryTable) -> None:
    assert {*table.key, "ts", "cluster", "job_key"} <= set(table.schema.names)


@EVERY_TABLE
def test_columns_belong_to_a_version_that_exists(table: HistoryTable) -> None:
    assert all(1 <= column.since <= VERSION for column in table.columns)
