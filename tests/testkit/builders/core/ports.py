"""The ports of the core in memory: they work, write down every call in one journal, and fail when told to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.outcome import without_reading
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE, ConfigChanges, JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import NO_TERMS, Realization, RealizationTerms, RealizeResult
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from testkit.builders.core.readings import a_cluster

Journal = list[str]
"""Names of the calls of all ports, in order."""


@dataclass
class RecordingStore:
    """A state store; ``save_error``, ``load_error`` and ``delete_error`` are raised by those calls.

    Attributes:
        deleted: Keys, in order.
    """

    journal: Journal = field(default_factory=list)
    states: dict[JobKey, JobState] = field(default_factory=dict)
    deleted: list[JobKey] = field(default_factory=list)
    save_error: AutoscalerError | None = None
    load_error: AutoscalerError | None = None
    delete_error: AutoscalerError | None = None

    def load(self, job_key: JobKey) -> JobState:
        self.journal.append("load")
        _raise(self.load_error)
        return self.states.get(job_key, EMPTY_STATE)

    def save(self, job_key: JobKey, state: JobState) -> None:
        self.journal.append("save")
        _raise(self.save_error)
        self.states[job_key] = state

    def delete(self, job_key: JobKey) -> None:
        self.journal.append("delete")
        _raise(self.delete_error)
        self.deleted.append(job_key)
        self.states.pop(job_key, None)

    def job_keys(self) -> frozenset[JobKey]:
        return frozenset(self.states)

    def close(self) -> None:
        self.journal.append("close")


@dataclass
class RecordingRealizer:
    """A realizer that says it asked the cluster; ``error`` is raised instead, ``events`` go into its answer.

    Attributes:
        before: Called first with every job; it may wait or raise.
    """

    journal: Journal = field(default_factory=list)
    overrides: list[dict[VertexId, int]] = field(default_factory=list)
    configs: list[ConfigChanges] = field(default_factory=list)
    error: AutoscalerError | None = None
    events: tuple[Event, ...] = ()
    before: Callable[[JobAutoScalerContext], object] = lambda _: None

    def realize_overrides(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        self.journal.append("realize_overrides")
        self.before(context)
        _raise(self.error)
        self.overrides.append(dict(overrides))
        return Realization(RealizeResult.REQUESTED, dict(overrides), self.events)

    def realize_config(self, context: JobAutoScalerContext, changes: ConfigChanges) -> Realization:
        self.journal.append("realize_config")
        _raise(self.error)
        self.configs.append(changes)
        return Realization(RealizeResult.UNCHANGED)

    def close(self) -> None:
        self.journal.append("close")


@dataclass
class RecordingEvents:
    """An event handler that keeps everything; ``error`` is raised instead."""

    journal: Journal = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    reports: list[ScalingReport] = field(default_factory=list)
    error: AutoscalerError | None = None

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        self.journal.append(f"event {event.reason}")
        _raise(self.error)
        self.events.append(event)

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        self.journal.append("report")
        _raise(self.error)
        self.reports.append(report)

    def close(self) -> None:
        self.journal.append("close")


@dataclass
class ScriptedCollector:
    """A collector that takes jobs one pass further with one prepared reading per instant."""

    readings: Mapping[int, JobReading]
    journal: Journal = field(default_factory=list)
    cluster: ClusterReading = field(default_factory=a_cluster)

    def evaluate(self, requests: Sequence[PassRequest]) -> list[PassOutcome]:
        return [without_reading(request) or self._read(request) for request in requests]

    def _read(self, request: PassRequest) -> PassOutcome:
        self.journal.append("read")
        reading = self.readings[request.now_ms]
        memory = replace(request.memory, partitions=reading.memory.partitions)
        return advance(request, replace(reading, memory=memory), self.cluster)


def _raise(error: AutoscalerError | None) -> None:
    if error is not None:
        raise error
