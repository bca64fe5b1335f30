"""Which metric ids of a vertex are asked for, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from flink_autoscaler.core.errors import MissingMetricError
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.reading import MetricNames
from flink_autoscaler.core.model.topology import Vertex

SLOTS_TOTAL = "taskSlotsTotal"
SLOTS_AVAILABLE = "taskSlotsAvailable"
JOBMANAGER_METRICS = (SLOTS_TOTAL, SLOTS_AVAILABLE)

HEAP_MAX = "Status.JVM.Memory.Heap.Max"
HEAP_USED = "Status.JVM.Memory.Heap.Used"
MANAGED_USED = "Status.Flink.Memory.Managed.Used"
METASPACE_USED = "Status.JVM.Memory.Metaspace.Used"
GC_TIME = "Status.JVM.GarbageCollector.All.TimeMsPerSecond"
TASKMANAGER_METRICS = (HEAP_MAX, HEAP_USED, MANAGED_USED, METASPACE_USED)
TASKMANAGER_METRICS_WITH_GC = (*TASKMANAGER_METRICS, GC_TIME)

_KAFKA_PARTITION = re.compile(
    r".*?(?:\.kafkaCluster\.(?P<cluster>.+))?\.KafkaSourceReader\.topic\.(?P<topic>.+)"
    r"\.partition\.(?P<partition>\d+)\.currentOffset",
    re.ASCII,
)
_PULSAR_PARTITION = re.compile(
    r".*\.PulsarConsumer\.(?P<topic>.+)-partition-(?P<partition>\d+)\..*\.numMsgsReceived", re.ASCII
)


def _equals(name: str) -> Callable[[str], bool]:
    return lambda metric_id: metric_id == name


def _source_task(suffix: str) -> Callable[[str], bool]:
    return lambda metric_id: metric_id.startswith("Source__") and metric_id.endswith(suffix)


_RULES: Mapping[FlinkMetric, Callable[[str], bool]] = {
    FlinkMetric.BUSY_TIME: _equals("busyTimeMsPerSecond"),
    FlinkMetric.BACKPRESSURE_TIME: _equals("backPressuredTimeMsPerSecond"),
    FlinkMetric.SOURCE_RECORDS_IN_RATE: _source_task(".numRecordsInPerSecond"),
    FlinkMetric.SOURCE_RECORDS_IN: _source_task(".numRecordsIn"),
    FlinkMetric.SOURCE_RECORDS_OUT: _source_task(".numRecordsOut"),
    FlinkMetric.PENDING_RECORDS: lambda metric_id: metric_id.endswith(".pendingRecords"),
    FlinkMetric.RECORDS_IN_RATE: _equals("numRecordsInPerSecond"),
}

_SOURCE_REQUIRED = (
    FlinkMetric.BUSY_TIME,
    FlinkMetric.BACKPRESSURE_TIME,
    FlinkMetric.SOURCE_RECORDS_IN_RATE,
    FlinkMetric.SOURCE_RECORDS_IN,
)


def choose_names(vertex: Vertex, available: Collection[str]) -> MetricNames:
    """Choose the metric ids to ask one vertex for.

    Args:
        vertex: The vertex; sources are asked for more.
        available: All metric ids that the vertex offers; empty while it has just started.

    Returns:
        Metric id to meaning. Every source reports all its pending-records gauges, of the rest one id each, the
        first in lexicographical order.

    Raises:
        MissingMetricError: A required metric is not offered.
    """
    names: dict[str, FlinkMetric] = {}
    if vertex.is_source:
        names.update(dict.fromkeys(_matching(FlinkMetric.PENDING_RECORDS, available), FlinkMetric.PENDING_RECORDS))
    for metric in _wanted(vertex):
        matching = _matching(metric, available)
        if matching:
            names[matching[0]] = metric
        elif metric in _SOURCE_REQUIRED and (vertex.is_source or metric is FlinkMetric.BUSY_TIME):
            raise MissingMetricError(vertex.vertex_id, metric.value)
    return names


def _wanted(vertex: Vertex) -> tuple[FlinkMetric, ...]:
    if vertex.is_source:
        return (*_SOURCE_REQUIRED, FlinkMetric.SOURCE_RECORDS_OUT)
    return (FlinkMetric.BUSY_TIME, FlinkMetric.RECORDS_IN_RATE)


def _matching(metric: FlinkMetric, available: Iterable[str]) -> list[str]:
    rule = _RULES[metric]
    return sorted(metric_id for metric_id in available if rule(metric_id))


def count_partitions(available: Iterable[str]) -> int:
    """Count the distinct Kafka or Pulsar partitions that a source's metric ids tell of; 0 when there are none."""
    found: set[tuple[str | None, ...]] = set()
    for metric_id in available:
        kafka = _KAFKA_PARTITION.fullmatch(metric_id) if _may_be_kafka(metric_id) else None
        pulsar = _PULSAR_PARTITION.fullmatch(metric_id) if _may_be_pulsar(metric_id) else None
        if kafka:
            found.add((kafka["cluster"], kafka["topic"], kafka["partition"]))
        elif pulsar:
            found.add((pulsar["topic"], pulsar["partition"]))
    return len(found)


def topics_of(available: Iterable[str]) -> tuple[str, ...]:
    """Return the topics of Kafka that a source's metric ids tell of, in order, as Flink writes them: ``.`` is ``_``."""
    found = (_KAFKA_PARTITION.fullmatch(metric_id) for metric_id in available if _may_be_kafka(metric_id))
    return tuple(sorted({match["topic"] for match in found if match}))


def _may_be_kafka(metric_id: str) -> bool:
    """Tell whether a name is worth a look: with parts of it more than once that takes the square of its length."""
    is_one = metric_id.count(".KafkaSourceReader.topic.") == 1 and metric_id.count(".kafkaCluster.") <= 1
    return metric_id.endswith(".currentOffset") and is_one


def _may_be_pulsar(metric_id: str) -> bool:
    return metric_id.endswith(".numMsgsReceived") and metric_id.count(".PulsarConsumer.") == 1


def by_meaning(names: MetricNames, answers: Mapping[str, Aggregate]) -> dict[FlinkMetric, Aggregate]:
    """Group answers by what they mean; several ids of one meaning are combined.

    Combined: the least minimum, the greatest maximum and skew, the sum of totals; the average is unknown then.
    """
    grouped: dict[FlinkMetric, Aggregate] = {}
    for metric_id, aggregate in answers.items():
        metric = names.get(metric_id)
        if metric is not None:
            grouped[metric] = _combine(grouped[metric], aggregate) if metric in grouped else aggregate
    return grouped


def _combine(left: Aggregate, right: Aggregate) -> Aggregate:
    return Aggregate(
        minimum=_with(min, left.minimum, right.minimum),
        maximum=_with(max, left.maximum, right.maximum),
        average=None,
        total=_with(lambda a, b: a + b, left.total, right.total),
        skew=_with(max, left.skew, right.skew),
    )


def _with(operation: Callable[[float, float], float], left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return left if right is None else right
    return operation(left, right)
