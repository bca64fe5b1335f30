"""What others than Flink said in a pass, as far as evaluation goes by it: arrival rates, and partitions that lag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.core.model.metrics import EvaluatedMetric, EvaluatedVertex, FlinkMetric, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import r3
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.topology import Vertex


@dataclass(frozen=True, slots=True)
class OutsideFigures:
    """By source, where known.

    Attributes:
        arrivals: Records/s that arrive.
        slowest: Records that wait in the partition with most of them.
    """

    arrivals: Mapping[VertexId, float] = field(default_factory=dict)
    slowest: Mapping[VertexId, float] = field(default_factory=dict)

    @classmethod
    def of(cls, reading: JobReading) -> OutsideFigures:
        """Take them from a reading."""
        if not reading.origins:
            return NOTHING_OUTSIDE
        return cls(_totals(reading, FlinkMetric.ARRIVAL_RATE), _totals(reading, FlinkMetric.SLOWEST_PARTITION))


NOTHING_OUTSIDE: Final = OutsideFigures()


def _totals(reading: JobReading, metric: FlinkMetric) -> dict[VertexId, float]:
    given = {v: values[metric].total for v, values in reading.aggregates.items() if metric in values}
    return {vertex_id: total for vertex_id, total in given.items() if total is not None}


def unevenness(
    vertex: Vertex, metrics: EvaluatedVertex, most: float, *, catch_up: float, utilization_target: float
) -> float:
    """Return how many times its lag a source has to be sized for, so that its slowest partition is caught up in time.

    A subtask takes whole partitions. That with the slowest one has, at parallelism ``p``, ``P/p - 1`` others of ``P``,
    with the mean lag ``m`` of those: it is done in time when all subtasks together are sized for a lag of
    ``E(p) = P m + p (most - m)``. The least such ``p`` is where ``p`` subtasks do just what arrives and ``E(p)`` in
    time. Sizing for ``P`` times the slowest partition takes a third more subtasks and is hardly sooner done (decision
    44).

    Args:
        vertex: The source, with its partitions.
        metrics: Its lag, target rate and true processing rate.
        most: Records that wait in its slowest partition.
        catch_up: Seconds in which a backlog should be gone.
        utilization_target: Share of the capacity that what arrives may take.

    Returns:
        At least 1; 1 where nothing waits or partitions are not told apart.
    """
    lag, count = metrics[ScalingMetric.LAG].current, vertex.source_partitions
    if count <= 1 or catch_up <= 0 or not 0 < lag < math.inf:
        return 1.0
    mean = max(0.0, lag - most) / (count - 1)
    above = max(0.0, most - mean)
    rate = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average / vertex.working_subtasks
    arriving = metrics[ScalingMetric.TARGET_DATA_RATE].average / max(utilization_target, 1e-9)
    subtasks = _least(arriving + count * mean / catch_up, rate - above / catch_up, vertex.working_subtasks)
    return max(1.0, (count * mean + min(max(1.0, subtasks), count) * above) / lag)


def _least(needed: float, left: float, present: int) -> float:
    """Return the subtasks that do what is needed with what is left of each; the present ones where that is unknown."""
    if math.isnan(needed) or math.isnan(left):
        return present
    return needed / left if left > 0 else math.inf


def times(metric: EvaluatedMetric, factor: float) -> EvaluatedMetric:
    """Return a metric with a value that is so many times as large."""
    return metric if factor == 1.0 else EvaluatedMetric(r3(metric.current * factor), metric.average)
