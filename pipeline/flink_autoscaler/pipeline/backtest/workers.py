"""What runs in Spark's Python workers: the functions of ``mapInArrow``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flink_autoscaler.pipeline.backtest.computing import computed
from flink_autoscaler.pipeline.backtest.fitting import COLUMNS, FitTerms, Records, fit
from flink_autoscaler.pipeline.backtest.plan import Piece
from flink_autoscaler.pipeline.backtest.subject import Subject
from flink_autoscaler.pipeline.history.schema import TABLES

OUTCOME: Final = ("outcome",)
"""Columns of what came of a piece; all columns here are texts."""

FITTED: Final = ("job_key", "subject", "reason")
"""Columns of what came of a job of the history; one of the last two is null."""

_FITTED: Final = pa.schema([(name, pa.string()) for name in FITTED])


@dataclass(frozen=True)
class RunTask:
    """From a row per piece, as text, to a row per outcome, as text."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compute the pieces of a partition one after the other."""
        for batch in batches:
            for text in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_arrays([pa.array([computed(Piece.loaded(text)).dumped()])], names=OUTCOME)


@dataclass(frozen=True)
class FitTask:
    """From a row per job, with a list of rows of every table, to its model as text, or the reason why there is none.

    Attributes:
        terms: How to go about it.
    """

    terms: FitTerms

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fit the jobs of a partition one after the other."""
        for batch in batches:
            for place in range(batch.num_rows):
                yield pa.RecordBatch.from_pylist([self._row(batch.slice(place, 1))], schema=_FITTED)

    def _row(self, row: pa.RecordBatch) -> dict[str, Any]:
        job_key = row.column("job_key")[0].as_py()
        fitted = fit(Records(job_key, **{name: _table(row.column(name), name) for name in COLUMNS}), self.terms)
        if isinstance(fitted, Subject):
            return {"job_key": job_key, "subject": json.dumps(fitted.document()), "reason": None}
        return {"job_key": job_key, "subject": None, "reason": fitted.reason}


def _table(cell: pa.ListArray, name: str) -> pa.Table:
    """Return the rows in a list; none where there is no list."""
    rows = cell.flatten()
    if len(rows) == 0:
        return TABLES[name].schema.empty_table().select(COLUMNS[name])
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])
