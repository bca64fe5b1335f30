"""Which metric ids of a vertex are asked for, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

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

_KAFKA_READER = ".KafkaSourceReader.topic."
_KAFKA_OFFSET = ".currentOffset"
_PULSAR_CONSUMER = ".PulsarConsumer."
_PULSAR_RECEIVED = ".numMsgsReceived"
_PULSAR_PARTITION = re.compile(r"-partition-(\d++)\.", re.ASCII)


class _Rule(NamedTuple):
    """How an id begins and ends; one that has no end is the whole id."""

    start: str
    end: str = ""


_SOURCE = "Source__"

_RULES: Mapping[FlinkMetric, _Rule] = {
    FlinkMetric.BUSY_TIME: _Rule("busyTimeMsPerSecond"),
    FlinkMetric.BACKPRESSURE_TIME: _Rule("backPressuredTimeMsPerSecond"),
    FlinkMetric.SOURCE_RECORDS_IN_RATE: _Rule(_SOURCE, ".numRecordsInPerSecond"),
    FlinkMetric.SOURCE_RECORDS_IN: _Rule(_SOURCE, ".numRecordsIn"),
    FlinkMetric.SOURCE_RECORDS_OUT: _Rule(_SOURCE, ".numRecordsOut"),
    FlinkMetric.PENDING_RECORDS: _Rule("", ".pendingRecords"),
    FlinkMetric.ACTIVE_SPLITS: _Rule("", ".activeSplitCount"),
    FlinkMetric.RECORDS_IN_RATE: _Rule("numRecordsInPerSecond"),
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
        Metric id to meaning. Every source reports all its gauges of pending records and of active splits, of the rest
        one id each, the first in lexicographical order.

    Raises:
        MissingMetricError: A required metric is not offered.
    """
    names: dict[str, FlinkMetric] = {}
    if vertex.is_source:
        for metric in (FlinkMetric.PENDING_RECORDS, FlinkMetric.ACTIVE_SPLITS):
            names.update(dict.fromkeys(_matching(metric, available), metric))
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


def _matching(metric: FlinkMetric, available: Collection[str]) -> list[str]:
    start, end = _RULES[metric]
    if not end:
        return [start] if start in available else []
    return sorted(metric_id for metric_id in available if metric_id.endswith(end) and metric_id.startswith(start))


def count_partitions(available: Collection[str]) -> int:
    """Count the distinct Kafka or Pulsar partitions that a source's metric ids tell of; 0 when there are none."""
    kafka, pulsar = set(_kafka_partitions(available)), set(_pulsar_partitions(available))
    return len(kafka) + len(pulsar)


def topics_of(available: Iterable[str]) -> tuple[str, ...]:
    """Return the topics of Kafka that a source's metric ids tell of, in order, as Flink writes them: ``.`` is ``_``."""
    return tuple(sorted({topic for _, topic, _ in _kafka_partitions(available)}))


def _kafka_partitions(available: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield cluster (empty where the id names none), topic and number of what ids of partitions name."""
    for metric_id in available:
        head, _, rest = metric_id.removesuffix(_KAFKA_OFFSET).partition(_KAFKA_READER)
        topic, _, number = rest.rpartition(".partition.")
        is_one = metric_id.endswith(_KAFKA_OFFSET) and _KAFKA_READER not in rest and "\n" not in metric_id
        if is_one and topic and number.isascii() and number.isdigit():
            yield head.partition(".kafkaCluster.")[2], topic, number


def _pulsar_partitions(available: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield topic and number of what ids of partitions name."""
    for metric_id in available:
        rest = metric_id.removesuffix(_PULSAR_RECEIVED).partition(_PULSAR_CONSUMER)[2]
        is_one = metric_id.endswith(_PULSAR_RECEIVED) and _PULSAR_CONSUMER not in rest and "\n" not in metric_id
        found = list(_PULSAR_PARTITION.finditer(rest, 1)) if is_one else []
        if found:
            yield rest[: found[-1].start()], found[-1][1]


def by_metric(names: MetricNames, answers: Mapping[str, Aggregate]) -> dict[FlinkMetric, Aggregate]:
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
