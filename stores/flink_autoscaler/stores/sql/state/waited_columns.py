"""How long vertices had waited, by columns: one list per vertex and kind of waiting, with an entry per sample."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flink_autoscaler.core.model.metrics import MetricSample, VertexId, WaitingTime

Column = list[float | None]
"""Milliseconds; None where a sample does not tell."""


def waited_columns(samples: Sequence[MetricSample]) -> dict[VertexId, list[Column]]:
    """Return two columns per vertex, its idle and its backpressured time; empty when no sample tells anything."""
    vertices = dict.fromkeys(vertex_id for sample in samples for vertex_id in sample.waited)
    return {v: _columns([sample.waited.get(v) for sample in samples]) for v in vertices}


def _columns(times: Sequence[WaitingTime | None]) -> list[Column]:
    return [
        [None if time is None else _short(time.idle_ms) for time in times],
        [None if time is None else _short(time.backpressured_ms) for time in times],
    ]


def _short(milliseconds: float) -> float:
    """Return the same number, without a fraction of 0: Flink counts whole milliseconds."""
    return int(milliseconds) if milliseconds.is_integer() else milliseconds


def waited_rows(columns: Mapping[str, Any], count: int) -> list[dict[VertexId, WaitingTime]]:
    """Return what :func:`waited_columns` made of so many samples, by sample.

    Raises:
        ValueError, TypeError, AttributeError: They are something else.
    """
    rows: list[dict[VertexId, WaitingTime]] = [{} for _ in range(count)]
    for vertex_id, (idle, backpressured) in columns.items():
        for row, *times in zip(rows, idle, backpressured, strict=True):
            if None not in times:
                row[str(vertex_id)] = _waiting_time(*times)
    return rows


def _waiting_time(idle: float, backpressured: float) -> WaitingTime:
    time = WaitingTime(float(idle), float(backpressured))
    if not all(map(math.isfinite, time)):
        raise ValueError("a time is not finite")
    return time
