"""A metric window by columns: one list of numbers per vertex and metric, so that it takes little space."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexId, VertexMetrics
from flink_autoscaler.core.observe.vertex_table import VertexTable
from flink_autoscaler.stores.sql.state.own_state import waited_columns, waited_rows

Json = dict[str, Any]
Column = list[float | str | None]
"""One entry per sample: a number, its name where JSON has no number for it, or None where the metric is absent."""

_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}


def samples_document(before: Sequence[MetricSample], after: Sequence[MetricSample]) -> tuple[Json, list[list[int]]]:
    """Write the samples of two windows that mostly are the same.

    Returns:
        All of them by columns, and which of them each window has, in order.
    """
    places = {id(sample): index for index, sample in enumerate(before)}
    samples = list(before)
    for sample in after:
        if id(sample) not in places:
            places[id(sample)] = len(samples)
            samples.append(sample)
    return _columns(samples), [list(range(len(before))), [places[id(sample)] for sample in after]]


def samples_of(document: Json, order: Sequence[Sequence[int]]) -> tuple[tuple[MetricSample, ...], ...]:
    """Return the samples of the windows that were written.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: The document is something else.
    """
    samples = _samples(document)
    before, after = (tuple(samples[index] for index in window if index >= 0) for window in order)
    return before, after


def _columns(samples: Sequence[MetricSample]) -> Json:
    return {
        "at_ms": [sample.at_ms for sample in samples],
        "vertices": _vertices([sample.vertices for sample in samples]),
        "globals": _metrics([sample.globals_ for sample in samples]),
        "waited": waited_columns(samples),
        "incomplete": {str(index): sorted(s.incomplete) for index, s in enumerate(samples) if s.incomplete},
    }


def _vertices(rows: Sequence[Mapping[VertexId, VertexMetrics]]) -> Json:
    """Write the metrics of all vertices; those of tables of one layout, as nearly all are, column by column."""
    tables = [row for row in rows if isinstance(row, VertexTable)]
    if tables and len(tables) == len(rows) and all(table.layout is tables[0].layout for table in tables):
        columns = map(list, zip(*(table.numbers for table in tables), strict=True))
        return {
            v: {metric.value: _column(next(columns)) for metric in metrics} for v, metrics in tables[0].layout.shape
        }
    vertices = dict.fromkeys(vertex_id for row in rows for vertex_id in row)
    return {v: _metrics([row.get(v) for row in rows]) for v in vertices}


def _metrics(rows: Sequence[VertexMetrics | None]) -> Json:
    """Write one map per sample; None where a sample has no such map."""
    maps = [{} if row is None else dict(row.items()) for row in rows]
    names = dict.fromkeys(chain.from_iterable(maps))
    columns: Json = {metric.value: _column([each.get(metric) for each in maps]) for metric in names}
    missing = [index for index, row in enumerate(rows) if row is None]
    return {**columns, "": missing} if missing else columns


def _column(values: list[float | None] | list[float]) -> Column:
    # A sum is finite only where all numbers are, which are nearly all.
    if None not in values and math.isfinite(sum(cast("list[float]", values))):
        return cast("Column", values)
    return [_written(value) for value in values]


def _written(value: float | None) -> float | str | None:
    if value is None or value - value == 0.0:
        return value
    return _NAMES.get(value, "NaN")


def _samples(document: Json) -> list[MetricSample]:
    instants: list[int] = document["at_ms"]
    count = len(instants)
    vertices = {str(v): _rows(columns, count) for v, columns in document["vertices"].items()}
    globals_ = _rows(document["globals"], count)
    incomplete: Mapping[str, Iterable[str]] = document["incomplete"]
    waited = waited_rows(document.get("waited", {}), count)
    return [
        MetricSample(
            int(at_ms),
            VertexTable.of({v: row for v, rows in vertices.items() if (row := rows[index]) is not None}),
            globals_[index] or {},
            frozenset(incomplete.get(str(index), ())),
            waited[index],
        )
        for index, at_ms in enumerate(instants)
    ]


def _rows(columns: Mapping[str, Column], count: int) -> list[dict[ScalingMetric, float] | None]:
    missing = set(columns.get("", ()))
    rows: list[dict[ScalingMetric, float] | None] = [None if index in missing else {} for index in range(count)]
    for name, column in columns.items():
        if name:
            metric = ScalingMetric(name)
            for row, value in zip(rows, column, strict=True):
                if row is not None and value is not None:
                    row[metric] = float(value)
    return rows
