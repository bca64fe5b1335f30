"""Code for Spark's Python workers: the functions of ``mapInArrow``, which load nothing of pyspark by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from flink_autoscaler.pipeline.backtest.case import FittedHistory
from flink_autoscaler.pipeline.backtest.fitting import COLUMNS, FitParams, Records, fit_case
from flink_autoscaler.pipeline.backtest.plan import SimulationTask
from flink_autoscaler.pipeline.backtest.simulate_case import simulate_task
from flink_autoscaler.pipeline.spark.codec import decode, encode
from flink_autoscaler.pipeline.tables.schema import TABLES

RESULT: Final = "result"
"""The column of what came of a row, encoded."""


@dataclass(frozen=True)
class RunTask:
    """From a row per piece, encoded, to a row per ``Outcome``."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compute the pieces of a partition one after the other."""
        for batch in batches:
            for piece in batch.column(0).to_pylist():
                yield _row(simulate_task(decode(piece, SimulationTask)))


@dataclass(frozen=True)
class FitTask:
    """From a row per job, with a list of rows of every table, to a row with its ``FittedHistory``.

    Attributes:
        terms: How to go about it.
    """

    terms: FitParams

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fit the jobs of a partition one after the other."""
        for batch in batches:
            for place in range(batch.num_rows):
                row = batch.slice(place, 1)
                tables = {name: _table(row.column(name), name) for name in COLUMNS}
                fitted = fit_case(Records(row.column("job_key")[0].as_py(), **tables), self.terms)
                yield _row(FittedHistory.of([fitted]))


def _row(value: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([encode(value)], pa.binary())], names=[RESULT])


def _table(cell: pa.ListArray, name: str) -> pa.Table:
    """Return the rows in a list; none where there is no list."""
    rows = cell.flatten()
    if len(rows) == 0:
        return TABLES[name].schema.empty_table().select(COLUMNS[name])
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])
