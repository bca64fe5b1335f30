"""The questions of a pass: a handful, whatever the number of jobs, and what their answers are called.

Everything is added up by the server, per vertex, so that an answer is as long as the jobs have vertices and not as they
have subtasks. Counters are those of one instant per job, the oldest scrape among the latest ones of its tasks: a
counter that was scraped later is taken back to there along the line from its scrape before. So the difference between
two passes is what happened between two instants that are known, however scrapes and passes lie to each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from flink_autoscaler.core.model.job import PrometheusSource
from flink_autoscaler.core.observe import metric_names

JOB: Final = "job_id"
VERTEX: Final = "task_id"
OPERATOR: Final = "operator_name"
TOPIC: Final = "topic"
PARTITION: Final = "partition"
FIGURE: Final = "figure"
"""The label that tells which figure a series is; put there by the questions."""

PUSHED_BY: Final = "job"
LABELS: Final = (JOB, VERTEX, OPERATOR, TOPIC, PARTITION, PUSHED_BY)
"""Labels of Flink's reporter that are used, and can be mapped."""

TASK: Final = "flink_taskmanager_job_task_"
SOURCE: Final = f"{TASK}operator_"
BUSY: Final = f"{TASK}busyTimeMsPerSecond"
BACKPRESSURED: Final = f"{TASK}backPressuredTimeMsPerSecond"
RECORDS_IN_RATE: Final = f"{TASK}numRecordsInPerSecond"
PUSHED_AT: Final = "push_time_seconds"

AT, SUBTASKS = "at", "subtasks"
COUNTERS: Final = {
    "records_in": f"{TASK}numRecordsIn",
    "records_out": f"{TASK}numRecordsOut",
    "busy_ms": f"{TASK}accumulateBusyTimeMs",
    "idle_ms": f"{TASK}accumulateIdleTimeMs",
    "backpressured_ms": f"{TASK}accumulateBackPressuredTimeMs",
}
"""Figures of a vertex that grow, and the metrics that they are the sums of."""

_TIMES: Final = ("busy_ms", "idle_ms", "backpressured_ms")
_MS_PER_SECOND: Final = 1000

SOURCE_FIGURES: Final = {
    "source_in": f"{SOURCE}numRecordsIn",
    "source_out": f"{SOURCE}numRecordsOut",
    "source_in_rate": f"{SOURCE}numRecordsInPerSecond",
}
PENDING: Final = f"{SOURCE}pendingRecords"
OFFSETS: Final = f"{SOURCE}KafkaSourceReader_topic_partition_currentOffset"
ACTIVE_SPLITS: Final = f"{SOURCE}DynamicKafkaSource_activeSplitCount"

TASKMANAGER: Final = {
    "flink_taskmanager_Status_JVM_Memory_Heap_Max": metric_names.HEAP_MAX,
    "flink_taskmanager_Status_JVM_Memory_Heap_Used": metric_names.HEAP_USED,
    "flink_taskmanager_Status_Flink_Memory_Managed_Used": metric_names.MANAGED_USED,
    "flink_taskmanager_Status_JVM_Memory_Metaspace_Used": metric_names.METASPACE_USED,
    "flink_taskmanager_Status_JVM_GarbageCollector_All_TimeMsPerSecond": metric_names.GC_TIME,
}
"""Metrics of TaskManagers and their ids over REST."""

JOBMANAGER: Final = {
    "flink_jobmanager_taskSlotsTotal": metric_names.SLOTS_TOTAL,
    "flink_jobmanager_taskSlotsAvailable": metric_names.SLOTS_AVAILABLE,
}
CLUSTERS: Final = "clusters"

NAMES: Final = frozenset(
    {
        BUSY,
        BACKPRESSURED,
        RECORDS_IN_RATE,
        PENDING,
        OFFSETS,
        ACTIVE_SPLITS,
        PUSHED_AT,
        *COUNTERS.values(),
        *SOURCE_FIGURES.values(),
        *TASKMANAGER,
        *JOBMANAGER,
    }
)
"""Metrics of Flink's reporter that are used, and can be mapped."""

CLOCK: Final = "vector(time())"


class QueryBuilder:
    """Writes the questions to one server about one cluster.

    Args:
        source: Its names, labels and selector.
    """

    def __init__(self, source: PrometheusSource) -> None:
        self._names = dict(source.names)
        self._labels = dict(source.labels)
        self._selector = [_matcher(name, value) for name, value in source.selector]
        self._replicas = ", ".join(source.replica_labels)
        self._range = f"[{max(1, round(1000 * source.max_age))}ms]"
        self._is_pushed = source.is_pushed

    def label(self, name: str) -> str:
        """Return what a label of Flink's reporter is called there."""
        return self._labels.get(name, name)

    def loads(self, jobs: Sequence[str]) -> str:
        """Ask how busy vertices are, with their number of subtasks; and per job of which instant the metrics are."""
        busy = self._deduplicated(self._series(BUSY, jobs))
        blocked = self._deduplicated(self._series(BACKPRESSURED, jobs))
        return self._any(
            {
                AT: f"min by ({self.label(JOB)}) ({self._instants(BUSY, jobs)})",
                SUBTASKS: self._per_vertex("count", busy),
                "busy_max": self._per_vertex("max", busy),
                "busy_avg": self._per_vertex("avg", busy),
                "busy_min": self._per_vertex("min", busy),
                "blocked_avg": self._per_vertex("avg", blocked),
            }
        )

    def counters(self, jobs: Sequence[str]) -> str:
        """Ask for the counters of vertices, all of the instant that :meth:`loads` tells."""
        parts = {name: self._per_vertex("sum", self._at_instant(name, jobs)) for name in COUNTERS}
        return self._any({AT: f"min by ({self.label(JOB)}) ({self._instants(BUSY, jobs)})", **parts})

    def rates(self, jobs: Sequence[str]) -> str:
        """Ask for the records/s of vertices, and what their sources say."""
        per_operator = f"{self.label(JOB)}, {self.label(VERTEX)}, {self.label(OPERATOR)}"
        sources = {
            name: f"sum by ({per_operator}) ({self._deduplicated(self._series(metric, jobs, of_sources=True))})"
            for name, metric in SOURCE_FIGURES.items()
        }
        pending = self._deduplicated(self._series(PENDING, jobs))
        return self._any(
            {
                "in_rate": self._per_vertex("sum", self._deduplicated(self._series(RECORDS_IN_RATE, jobs))),
                "pending": self._per_vertex("sum", pending),
                "pending_min": self._per_vertex("min", pending),
                **sources,
            }
        )

    def partitions(self, jobs: Sequence[str]) -> str:
        """Ask for the number of partitions that sources read, and for their topics."""
        each = ", ".join(map(self.label, (JOB, VERTEX, TOPIC, PARTITION)))
        offsets = f"group by ({each}) ({self._series(OFFSETS, jobs)})"
        topics = f"group by ({', '.join(map(self.label, (JOB, VERTEX, TOPIC)))}) ({self._series(OFFSETS, jobs)})"
        splits = self._deduplicated(self._series(ACTIVE_SPLITS, jobs))
        return self._any(
            {
                "partitions": self._per_vertex("count", offsets),
                "splits": self._per_vertex("sum", splits),
                "splits_avg": self._per_vertex("avg", splits),
                TOPIC: topics,
            }
        )

    def cluster(self) -> str:
        """Ask for what there is once per cluster, and for how many clusters it is there."""
        managers = {name: f"max({self._series(name)})" for name in TASKMANAGER}
        slots = {name: f"max({self._series(name)})" for name in JOBMANAGER}
        total = self._deduplicated(self._series("flink_jobmanager_taskSlotsTotal"))
        return self._any({**managers, **slots, CLUSTERS: f"count({total})"})

    def _at_instant(self, counter: str, jobs: Sequence[str]) -> str:
        """Return a counter of every subtask as it was at the instant of its job."""
        series = self._series(COUNTERS[counter], jobs)
        if self._is_pushed:  # the instants of the scrapes say nothing
            return self._deduplicated(series)
        slope = f"irate({series}{self._range})"
        if counter in _TIMES:  # busy time may go back by some milliseconds, which is no counter that began anew
            slope = f"clamp_max({slope}, {_MS_PER_SECOND})"
        instants, job = self._instants(COUNTERS[counter], jobs), self.label(JOB)
        after = f"({instants} - on ({job}) group_left () min by ({job}) ({self._instants(BUSY, jobs)}))"
        value = self._deduplicated(series)
        return f"{value} - ({self._deduplicated(slope)} * clamp_min({after}, 0) or {value} * 0)"

    def _instants(self, name: str, jobs: Sequence[str]) -> str:
        """Return of which instant a metric of every subtask is."""
        series = self._series(name, jobs)
        if not self._is_pushed:
            return self._deduplicated(f"timestamp({series})")
        group = f"on ({self.label(PUSHED_BY)}, instance)"
        return self._deduplicated(f"({series} * 0 + {group} group_left () {self._series(PUSHED_AT)})")

    def _series(self, name: str, jobs: Iterable[str] = (), *, of_sources: bool = False) -> str:
        matchers = list(self._selector)
        if jobs:
            matchers.append(f'{self.label(JOB)}=~"{"|".join(jobs)}"')
        if of_sources:
            matchers.append(f'{self.label(OPERATOR)}=~"Source:.*"')
        return f"{self._names.get(name, name)}{{{','.join(matchers)}}}"

    def _deduplicated(self, vector: str) -> str:
        """Return a vector in which what several servers have scraped is there once."""
        return f"max without ({self._replicas}) ({vector})" if self._replicas else f"({vector})"

    def _per_vertex(self, aggregation: str, vector: str) -> str:
        return f"{aggregation} by ({self.label(JOB)}, {self.label(VERTEX)}) ({vector})"

    @staticmethod
    def _any(parts: dict[str, str]) -> str:
        """Return several vectors as one, each series with the name of its figure."""
        return " or ".join(f'label_replace({vector}, "{FIGURE}", "{name}", "", "")' for name, vector in parts.items())


def _matcher(name: str, value: str) -> str:
    operator, text = ("=~", value[1:]) if value.startswith("~") else ("=", value)
    return f'{name}{operator}"{_escape(text)}"'


def _escape(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text).replace("\n", "\\n")
