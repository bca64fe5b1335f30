"""Counters of vertices from their metrics: a job that has not changed needs no request for its details.

Flink fills both from the same store. What the details say beside a counter, whether every subtask had reported, follows
from the sum over all subtasks and their average.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final

from flink_autoscaler.core.model.metrics import Aggregate, VertexId
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, VertexDetails
from flink_autoscaler.core.model.value import replace

_NEEDED: Final = ("numRecordsIn", "numRecordsOut", "accumulateBusyTimeMs")
_WAITED: Final = ("accumulateIdleTimeMs", "accumulateBackPressuredTimeMs")

COUNTERS: Final = (*_NEEDED, *_WAITED)
"""Metric ids that every task has (``TaskIOMetricGroup``)."""

_MOST: Final = 2.0**53
_LIKELY: Final = 1e-6
"""Share of a sum by which it may differ from an average times the number of subtasks."""


def offers_counters(available: Collection[str]) -> bool:
    """Tell whether a vertex offers all counters among its metric ids."""
    return all(name in available for name in COUNTERS)


def answers_counters(answer: Mapping[str, Aggregate]) -> bool:
    """Tell whether a vertex has answered with the counters that are needed."""
    return all(name in answer for name in _NEEDED)


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
    if records_in is None or records_out is None or busy_ms is None or not _is_whole(vertex, found):
        return None
    counts = (records_in, records_out, 0.0 if math.isnan(busy_ms) else busy_ms, idle_ms or 0.0, backpressured_ms or 0.0)
    if not all(0 <= count < _MOST for count in counts):
        return None
    return IoMetrics(
        records_in=round(records_in),
        records_out=round(records_out),
        busy_ms=busy_ms,
        idle_ms=idle_ms,
        backpressured_ms=backpressured_ms,
    )


def _is_whole(vertex: VertexDetails, found: Collection[Aggregate]) -> bool:
    """Tell whether as many subtasks are in the sums as the vertex has; with sums of 0 nobody can tell."""
    known = [(each.total, each.average or 0.0) for each in found if each.total is not None and each.total > 0]
    return bool(known) and all(abs(avg * vertex.parallelism - total) <= _LIKELY * total for total, avg in known)
