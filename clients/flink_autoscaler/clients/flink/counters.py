"""Counters of vertices from their metrics: a job that has not changed needs no request for its details.

Flink fills both from the same store. What the details say beside a counter, whether every subtask had reported, follows
from the sum over all subtasks and their average.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final

from flink_autoscaler.core.model.metrics import Aggregate, VertexId
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, VertexDetails

COUNTERS: Final = (
    "numRecordsIn",
    "numRecordsOut",
    "accumulateBusyTimeMs",
    "accumulateIdleTimeMs",
    "accumulateBackPressuredTimeMs",
)
"""Metric ids of every task (``TaskIOMetricGroup``), in the order of the fields that they become."""

_MOST: Final = 2.0**53
_LIKELY: Final = 1e-6
"""Share of a sum by which it may differ from an average times the number of subtasks."""


def offers_counters(available: Collection[str]) -> bool:
    """Tell whether a vertex offers all counters among its metric ids."""
    return all(name in available for name in COUNTERS)


def counted(details: JobDetails, answers: Mapping[VertexId, Mapping[str, Aggregate]]) -> JobDetails | None:
    """Return details with the counters that vertices have answered; None where one of them is not known.

    Those of vertices that have finished stay as they are.
    """
    vertices = []
    for vertex in details.vertices:
        is_finished = vertex.status == "FINISHED"
        io = vertex.io if is_finished else _io(vertex, answers.get(vertex.vertex_id, {}))
        if io is None:
            return None
        vertices.append(vertex if is_finished else replace(vertex, io=io))
    return replace(details, vertices=tuple(vertices))


def _io(vertex: VertexDetails, answer: Mapping[str, Aggregate]) -> IoMetrics | None:
    found = [answer.get(name, Aggregate()) for name in COUNTERS]
    records_in, records_out, busy_ms, idle_ms, backpressured_ms = (each.total for each in found)
    if not (_is_count(records_in) and _is_count(records_out) and _is_count(idle_ms) and _is_count(backpressured_ms)):
        return None
    is_busy_known = _is_count(busy_ms)
    if not (is_busy_known or (busy_ms is not None and math.isnan(busy_ms))) or not _is_whole(vertex, found):
        return None
    return IoMetrics(
        records_in=round(records_in or 0),
        records_out=round(records_out or 0),
        busy_ms=busy_ms if is_busy_known and busy_ms is not None else math.nan,
        idle_ms=idle_ms,
        backpressured_ms=backpressured_ms,
    )


def _is_count(value: float | None) -> bool:
    return value is not None and 0 <= value < _MOST


def _is_whole(vertex: VertexDetails, found: Collection[Aggregate]) -> bool:
    """Tell whether as many subtasks are in the sums as the vertex has; with sums of 0 nobody can tell."""
    total, average = max((each.total or 0.0, each.average or 0.0) for each in found if _is_count(each.total))
    return total > 0 and abs(average * vertex.parallelism - total) <= _LIKELY * total
