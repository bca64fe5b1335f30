"""How long vertices do not work: without input, or held up by vertices downstream.

Flink counts both per subtask since its execution began, next to the busy time, and the job details have the sums. A
subtask that is started again begins anew, so that a sum which goes back belongs to another attempt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId, WaitingTime
from flink_autoscaler.core.model.topology import IoMetrics, Vertex
from flink_autoscaler.core.observe.window import MetricWindow


class WaitingShares(NamedTuple):
    """Shares of time of the average subtask, 0..1; the rest of the time it is busy."""

    idle: float
    backpressured: float


def waited(vertices: Iterable[Vertex]) -> dict[VertexId, WaitingTime]:
    """Return how long vertices waited, of those that run and whose subtasks all have reported it."""
    running = (v for v in vertices if not v.is_finished and v.io.is_complete)
    times = {vertex.vertex_id: _waiting_time(vertex.io) for vertex in running}
    return {vertex_id: time for vertex_id, time in times.items() if time is not None}


def _waiting_time(io: IoMetrics) -> WaitingTime | None:
    if io.idle_ms is None or io.backpressured_ms is None:
        return None
    is_known = math.isfinite(io.idle_ms) and math.isfinite(io.backpressured_ms)
    return WaitingTime(io.idle_ms, io.backpressured_ms) if is_known else None


def waiting_shares(window: MetricWindow, vertex_id: VertexId, working: float = 1.0) -> WaitingShares | None:
    """Return how a vertex spent the metric window.

    The three times come from the same reports, so their sum is the time that passed, however late the reports are.

    Args:
        window: Of one execution of the job.
        vertex_id: Whose.
        working: Share of its subtasks that have anything to do; the others are idle all the time and left out.

    Returns:
        None until two samples of one attempt of all subtasks tell, as after a restart.
    """
    first, last, first_busy_ms, last_busy_ms = None, None, 0.0, 0.0
    busy_times = window.values(ScalingMetric.ACCUMULATED_BUSY_TIME, vertex_id)
    for sample, busy_ms in zip(window.samples, busy_times, strict=True):
        time = sample.waited.get(vertex_id)
        if time is not None and math.isfinite(busy_ms):
            # No wait goes back within one attempt; busy time may by some milliseconds, since it is a rest.
            if first is None or last is None or time[0] < last[0] or time[1] < last[1]:
                first, first_busy_ms = time, busy_ms
            last, last_busy_ms = time, busy_ms
    if first is None or last is None:
        return None
    idle, backpressured = max(0.0, last[0] - first[0]), max(0.0, last[1] - first[1])
    busy = max(0.0, last_busy_ms - first_busy_ms)
    total = idle + backpressured + busy
    idle, total = max(0.0, idle - total * (1.0 - working)), total * working
    return WaitingShares(idle / total, backpressured / total) if 0 < total < math.inf else None
