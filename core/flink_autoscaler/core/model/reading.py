"""What a cluster answered about a job in one pass, as it goes from the collector to the core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, VertexId
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.topology import JobDetails
from flink_autoscaler.core.model.value import value

MetricNames = Mapping[str, FlinkMetric]
"""Metric id on the wire to its meaning."""

VertexAggregates = Mapping[FlinkMetric, Aggregate]

REST: Final = "rest"
"""The origin of values that Flink's REST API gave."""

Origins = Mapping[VertexId, Mapping[FlinkMetric, str]]
"""Where values came from, for people: ``kafka``, ``prometheus``, ``http``, or the name of a plug-in.

What is not in it came from Flink's REST API, or is not known at all: a reading over REST alone has none.
"""


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """Cluster-wide metrics, fetched once per cluster and pass.

    Attributes:
        jobmanager: JobManager metrics, id to text.
        taskmanagers: TaskManager metrics including garbage collection, id to aggregate over all TaskManagers;
            empty when any of them is missing.
        taskmanagers_without_gc: The same without garbage collection; asked for only when the other is empty.
        error: What prevented the reading, or the first part of it that could not be read.
        missing: What could not be read, and why, by its name; all the rest is there.
        is_away: Whether nobody answered at all, so that nothing else needs to be asked.
        doubt: Why nobody can tell whether metrics read after this are fresh; empty where they are.
        waited_ms: For how long the cluster was waited for to gather metrics.
        read_ms: When that was over, by the clock of the machine that read it, epoch milliseconds; 0 where nobody noted
            it.
        age_ms: How much before that instant the cluster gathered the metrics which it answers with; 0 for just now.
        interval_ms: For how long metrics may stay the same; 0 where nobody can tell whether they were gathered again.
    """

    jobmanager: Mapping[str, str] = field(default_factory=dict)
    taskmanagers: Mapping[str, Aggregate] = field(default_factory=dict)
    taskmanagers_without_gc: Mapping[str, Aggregate] = field(default_factory=dict)
    error: AutoscalerError | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    is_away: bool = False
    doubt: str = ""
    waited_ms: int = 0
    read_ms: int = 0
    age_ms: int = 0
    interval_ms: int = 0

    @property
    def has_taskmanagers(self) -> bool:
        """Whether the TaskManagers report anything."""
        return bool(self.taskmanagers or self.taskmanagers_without_gc)


@dataclass(frozen=True, slots=True)
class CachedDetails:
    """Job details that are used as long as the job does not change.

    Attributes:
        details: As they were read; their counters are of that moment.
        modified_ms: When the job last changed before that, by the list of jobs.
        read_ms: When they were read, by the clock of the pass.
    """

    details: JobDetails
    modified_ms: int
    read_ms: int


@value
class CollectorMemory:
    """What the collector remembers about a job from pass to pass.

    Attributes:
        names: Chosen metric ids per vertex; empty before the first pass and after a restart of the job.
        partitions: Partitions found per source; sources without are left out.
        names_at_ms: When the names of the sources were last read.
        reports_gc: Whether the TaskManagers report garbage collection; None when not known yet.
        task_ms: For how long a subtask had run, by Flink's metrics, when they were last read; None when unknown.
        kept: The details of the job, to be used until it changes; None when they are read every time.
        counted: Vertices whose metrics have the counters that details have, too.
        topics: Topics of Kafka found per source, as Flink's metrics write them: with ``_`` for what is special there.
    """

    names: Mapping[VertexId, MetricNames] = field(default_factory=dict)
    partitions: Mapping[VertexId, int] = field(default_factory=dict)
    names_at_ms: int = 0
    reports_gc: bool | None = None
    task_ms: float | None = None
    kept: CachedDetails | None = None
    counted: frozenset[VertexId] = frozenset()
    topics: Mapping[VertexId, tuple[str, ...]] = field(default_factory=dict)


EMPTY_MEMORY = CollectorMemory()


@value
class JobReading:
    """One job, read once.

    Attributes:
        details: The job graph with its counters; None when it could not be read.
        aggregates: Metrics per vertex that has not finished, by meaning; a vertex whose answer was an empty list
            has an empty map ("not yet").
        memory: What to hand to the collector in the next pass.
        error: What ended the reading early; the fields before it in the order of requests are filled.
        facts: About a rescale that is followed; None when nothing was asked about it.
        at_ms: The instant that the metrics are of, by the clock of the pass, where their source tells; None otherwise.
        doubt: Why the metrics are no sample, such as that they are too old; empty where they are one.
        origins: Where values of ``aggregates`` came from, as far as it was not Flink's REST API.
        asked_ms: When the job was asked for, by the clock of the machine that read it, epoch milliseconds; 0 where
            nobody noted it.
        read_ms: When all its answers were there, by the same clock.
    """

    details: JobDetails | None
    aggregates: Mapping[VertexId, VertexAggregates] = field(default_factory=dict)
    memory: CollectorMemory = EMPTY_MEMORY
    error: AutoscalerError | None = None
    facts: RescaleFacts | None = None
    at_ms: int | None = None
    doubt: str = ""
    origins: Origins = field(default_factory=dict)
    asked_ms: int = 0
    read_ms: int = 0
