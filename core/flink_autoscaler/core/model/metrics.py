"""Metrics: what Flink reports, what the autoscaler makes of it, and the containers between the stages.

Instants are epoch milliseconds, as Flink reports them, so that equality and differences are exact.
Rates are records/s, shares are 0..1, NaN is "unknown" (see the docs, decision 0003).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from flink_autoscaler.core.model.numbers import NAN, r3
from flink_autoscaler.core.model.value import value

VertexId = str
"""32 lower-case hex digits."""


class FlinkMetric(StrEnum):
    """Metrics of Flink by what they mean; the names on the wire differ (see ``metric_names``).

    The last three are none that Flink has: others say them, see :mod:`.source_lag`.
    """

    __hash__ = str.__hash__

    BUSY_TIME = "BUSY_TIME_PER_SEC"
    BACKPRESSURE_TIME = "BACKPRESSURE_TIME_PER_SEC"
    SOURCE_RECORDS_IN_RATE = "SOURCE_TASK_NUM_RECORDS_IN_PER_SEC"
    SOURCE_RECORDS_IN = "SOURCE_TASK_NUM_RECORDS_IN"
    SOURCE_RECORDS_OUT = "SOURCE_TASK_NUM_RECORDS_OUT"
    SOURCE_RECORDS_OUT_RATE = "SOURCE_TASK_NUM_RECORDS_OUT_PER_SEC"
    PENDING_RECORDS = "PENDING_RECORDS"
    ACTIVE_SPLITS = "ACTIVE_SPLIT_COUNT"
    RECORDS_IN_RATE = "NUM_RECORDS_IN_PER_SEC"
    HEAP_MAX = "HEAP_MEMORY_MAX"
    HEAP_USED = "HEAP_MEMORY_USED"
    MANAGED_USED = "MANAGED_MEMORY_USED"
    METASPACE_USED = "METASPACE_MEMORY_USED"
    GC_TIME = "TOTAL_GC_TIME_PER_SEC"
    SLOTS_TOTAL = "NUM_TASK_SLOTS_TOTAL"
    SLOTS_AVAILABLE = "NUM_TASK_SLOTS_AVAILABLE"
    SLOWEST_PARTITION = "PENDING_RECORDS_OF_SLOWEST_PARTITION"
    ARRIVAL_RATE = "ARRIVAL_RATE"
    MIN_PARALLELISM = "MIN_PARALLELISM"


class Aggregate(NamedTuple):
    """One metric over all subtasks or TaskManagers; None where the cluster did not report an aggregate."""

    minimum: float | None = None
    maximum: float | None = None
    average: float | None = None
    total: float | None = None
    skew: float | None = None


class ScalingMetric(StrEnum):
    """Metrics that the autoscaler computes."""

    __hash__ = str.__hash__

    LOAD = "LOAD"
    TRUE_PROCESSING_RATE = "TRUE_PROCESSING_RATE"
    OBSERVED_TPR = "OBSERVED_TPR"
    TARGET_DATA_RATE = "TARGET_DATA_RATE"
    CATCH_UP_DATA_RATE = "CATCH_UP_DATA_RATE"
    LAG = "LAG"
    PARALLELISM = "PARALLELISM"
    RECOMMENDED_PARALLELISM = "RECOMMENDED_PARALLELISM"
    MAX_PARALLELISM = "MAX_PARALLELISM"
    NUM_SOURCE_PARTITIONS = "NUM_SOURCE_PARTITIONS"
    SCALE_UP_RATE_THRESHOLD = "SCALE_UP_RATE_THRESHOLD"
    SCALE_DOWN_RATE_THRESHOLD = "SCALE_DOWN_RATE_THRESHOLD"
    EXPECTED_PROCESSING_RATE = "EXPECTED_PROCESSING_RATE"
    NUM_RECORDS_IN = "NUM_RECORDS_IN"
    NUM_RECORDS_IN_PER_SECOND = "NUM_RECORDS_IN_PER_SECOND"
    NUM_RECORDS_OUT = "NUM_RECORDS_OUT"
    ACCUMULATED_BUSY_TIME = "ACCUMULATED_BUSY_TIME"
    GC_PRESSURE = "GC_PRESSURE"
    HEAP_MEMORY_USED = "HEAP_MEMORY_USED"
    MANAGED_MEMORY_USED = "MANAGED_MEMORY_USED"
    METASPACE_MEMORY_USED = "METASPACE_MEMORY_USED"
    HEAP_MAX_USAGE_RATIO = "HEAP_MAX_USAGE_RATIO"
    NUM_TASK_SLOTS_USED = "NUM_TASK_SLOTS_USED"


class EvaluatedMetric(NamedTuple):
    """A metric of the evaluation: its latest value and its average over the window, NaN where it has none."""

    current: float
    average: float


made: Final[Callable[[tuple[float, float]], EvaluatedMetric]] = partial(tuple.__new__, EvaluatedMetric)
"""Makes an evaluated metric of its two values, in half the time; a pass makes a dozen of them for every vertex."""


def of(value: float) -> EvaluatedMetric:
    """Make an evaluated metric that only has a latest value, rounded to three decimals."""
    return made((r3(value), NAN))


def avg(value: float) -> EvaluatedMetric:
    """Make an evaluated metric that only has an average, rounded to three decimals."""
    return made((NAN, r3(value)))


VertexMetrics = Mapping[ScalingMetric, float]
EvaluatedVertex = Mapping[ScalingMetric, EvaluatedMetric]


class NonBusyTime(NamedTuple):
    """Time in which a vertex did not work since its execution began, milliseconds over all subtasks.

    Attributes:
        idle_ms: Without input.
        backpressured_ms: Waiting for vertices downstream.
    """

    idle_ms: float
    backpressured_ms: float


@value
class MetricSample:
    """What was collected in one pass.

    Attributes:
        at_ms: The instant of the pass, epoch milliseconds.
        vertices: Scaling metrics per vertex; a metric is absent where it does not apply, NaN where unknown.
        globals_: Scaling metrics of the whole cluster.
        incomplete: Vertices of which not all subtasks had reported; their counters are too low.
        waited: Of the vertices of which it is known: of sources, and of all where the job has policies of its own.
    """

    at_ms: int
    vertices: Mapping[VertexId, VertexMetrics]
    globals_: VertexMetrics
    incomplete: frozenset[VertexId] = field(default_factory=frozenset)
    waited: Mapping[VertexId, NonBusyTime] = field(default_factory=dict)


@value
class EvaluatedMetrics:
    """The metrics of one evaluation, per vertex in topological order and for the whole cluster."""

    vertices: Mapping[VertexId, EvaluatedVertex]
    globals_: Mapping[ScalingMetric, EvaluatedMetric]
