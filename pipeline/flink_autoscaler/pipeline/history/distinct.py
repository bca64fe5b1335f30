"""Rows of a history without those that were written twice."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from flink_autoscaler.pipeline.history.schema import HistoryTable


def distinct_rows(table: HistoryTable, rows: pa.Table) -> pa.Table:
    """Return rows sorted by their key, of those with equal keys the latest one."""
    # Only the key is sorted and compared; the other columns are copied once, at the end.
    order = [*table.key, *({"ts"} - set(table.key))]
    places = pc.sort_indices(rows.select(order), [(name, "ascending") for name in order])
    if len(rows) > 1:
        columns = [rows.column(name).combine_chunks().take(places) for name in table.key]
        differs = reduce(pc.or_, [pc.fill_null(pc.not_equal(column[:-1], column[1:]), True) for column in columns])
        places = places.filter(pa.concat_arrays([differs, pa.array([True])]))
    return rows.take(places)
