"""The borders of the core, named as in FLIP-334. Implementations register as entry points."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import ClusterReading, CollectorMemory
from flink_autoscaler.core.model.state import ConfigChanges, JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest


@dataclass(frozen=True, slots=True)
class JobList:
    """The jobs of one cluster.

    Attributes:
        jobs: Contexts, in the cluster's order, with distinct keys.
        unreadable: Jobs that exist but whose context could not be built, and why. They are not looked at in this
            pass and count as present for clean-up.
        left_out: Jobs that exist but are not to be looked at, by name or because of where they run. They count as
            present for clean-up.
        problems: What keeps parts of the cluster from being listed, such as an application that does not answer,
            by the name of the part. While there is any, no job counts as gone.
    """

    jobs: tuple[JobAutoScalerContext, ...]
    unreadable: Mapping[JobKey, AutoscalerError] = field(default_factory=dict)
    left_out: frozenset[JobKey] = frozenset()
    problems: Mapping[str, AutoscalerError] = field(default_factory=dict)

    @property
    def present(self) -> frozenset[JobKey]:
        """Keys of all jobs that are known to exist."""
        return frozenset(context.job_key for context in self.jobs) | self.unreadable.keys() | self.left_out


class JobListFetcher(Protocol):
    """Lists the jobs of one cluster. Called once per pass, from one thread."""

    def fetch(self) -> JobList:
        """Return all jobs, finished ones too.

        Raises:
            AutoscalerError: The list could not be read; nothing is concluded from that about any job.
        """
        ...

    def close(self) -> None:
        """Release connections. Called once."""
        ...


class MetricCollector(Protocol):
    """Reads jobs, with what tells how their last rescale goes, and takes each one pass further.

    Only sends requests that change nothing. The one call through which the daemon and ``JobAutoScaler.scale`` look at
    jobs.
    """

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return one outcome per request, in the same order; a job that fails has its error in the outcome.

        All requests belong to one pass over one configured cluster; they may be behind several endpoints, which do not
        wait for each other. Calls for different clusters may come from different threads.

        Raises:
            AutoscalerError: The collector itself failed; no outcome is known for any job.
        """
        ...


class EvaluationEngine(MetricCollector, Protocol):
    """Runs collect, evaluate and decide for all jobs of a cluster."""

    def start(self) -> None:
        """Get ready in the background. Optional; may be called once, before the first pass."""
        ...

    def close(self) -> None:
        """Release resources. Called once."""
        ...


class AutoScalerStateStore(Protocol):
    """Remembers one :class:`JobState` per job across passes and, where it can, across restarts.

    Calls for different jobs may come from different threads; calls for one job never overlap.
    Implementations raise :class:`StoreError` and nothing else.
    """

    def load(self, job_key: JobKey) -> JobState:
        """Return what was saved last, or an empty state. Later passes rely on seeing the last save."""
        ...

    def save(self, job_key: JobKey, state: JobState) -> None:
        """Replace the state of one job, all of it or nothing. Saving an equal state may do nothing."""
        ...

    def delete(self, job_key: JobKey) -> None:
        """Forget one job. Deleting an unknown job does nothing."""
        ...

    def job_keys(self) -> frozenset[JobKey]:
        """Return the keys of all jobs with a state."""
        ...

    def close(self) -> None:
        """Release resources; everything saved is kept. Further calls may raise."""
        ...


@runtime_checkable
class BatchingStateStore(Protocol):
    """A state store that saves the states of many jobs for less than one by one."""

    def save_all(self, states: Mapping[JobKey, JobState]) -> frozenset[JobKey]:
        """Replace the states of jobs, each of them wholly or not at all, and return those that surely were replaced.

        Never raises: the others are to be saved one by one, which tells what is wrong with each. Calls for one job
        never overlap.
        """
        ...


@runtime_checkable
class ReleasingStateStore(Protocol):
    """A state store that can free the memory of a job that left its cluster, while its state is kept for a while."""

    def release(self, job_key: JobKey) -> None:
        """Keep little in memory about a job until it is loaded or saved again. Never raises."""
        ...


@runtime_checkable
class SharedStateStore(Protocol):
    """What a state store can do besides, where other daemons write to it as well."""

    def forget(self) -> None:
        """Drop what is kept in memory, what was not written included, so that the next access reads it all again.

        Called when another daemon may have written in the meantime; from any thread, also during other calls.
        """
        ...


class JobTombstones(Protocol):
    """Remembers which jobs are gone from their cluster, and since when, until their state is deleted.

    A state store that keeps states across restarts should come with one that does so as well. Concerns only the
    states that this installation wrote itself. Calls for different clusters may come from different threads.
    Implementations raise :class:`StoreError` and nothing else.
    """

    def marked_jobs(self, cluster: str) -> frozenset[JobKey]:
        """Return the jobs of a cluster that are marked as gone."""
        ...

    def mark(self, cluster: str, job_keys: Collection[JobKey]) -> None:
        """Mark jobs as gone from now on. Those that are marked already keep their time."""
        ...

    def clear(self, cluster: str, job_keys: Collection[JobKey]) -> None:
        """Forget about jobs, because they are back or their state is deleted. Unknown ones do nothing."""
        ...

    def due_jobs(self, cluster: str, seconds: float) -> frozenset[JobKey]:
        """Return the jobs of a cluster that were marked at least so many seconds ago."""
        ...

    def unseen_jobs(self, cluster: str, present: Collection[JobKey], seconds: float) -> frozenset[JobKey]:
        """Return jobs of a cluster that have a state, are not present, and have not been for so many seconds.

        Those that are present count as seen now. Called rarely.
        """
        ...


class AutoScalerEventHandler(Protocol):
    """Takes events and scaling reports. De-duplication is its own business.

    Calls for different jobs may come from different threads. May raise :class:`StoreError`.
    """

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Take one event. A repetition within ``event.interval`` may be dropped or merged."""
        ...

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Take one report. Executed ones are never dropped; others within ``report.interval`` per hash."""
        ...

    def close(self) -> None:
        """Release resources. Called once."""
        ...


class RealizeResult(StrEnum):
    """What a realizer did.

    Attributes:
        UNCHANGED: The cluster was asked for it already.
        REQUESTED: The cluster was told, and accepted it.
        REFUSED: It cannot be done on this cluster; the events say why.
    """

    UNCHANGED = "unchanged"
    REQUESTED = "requested"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Realization:
    """Outcome of realizing: what was done, and what should be told about it.

    Attributes:
        result: What was done.
        requested: Parallelism per vertex that the cluster was asked for; empty unless REQUESTED.
        events: To be handed to the event handler, in order.
    """

    result: RealizeResult
    requested: Mapping[VertexId, int] = field(default_factory=dict)
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class RealizationTerms:
    """How a parallelism is to be realized.

    Attributes:
        min_parallelism: The smallest that a vertex may get where slots are scarce; 1 for those that are not named.
        found_requirements: Minimum and maximum parallelism by vertex that the job was asked to have when this was
            decided. Where it is something else by now, somebody else was faster: nothing is changed before the next
            pass has seen that. None when not known.
        is_repair: Whether this undoes a rescale that the job did not survive: then it need not be running.
        vertices: The names of all vertices of the job; empty where they are not known.
    """

    min_parallelism: Mapping[VertexId, int] = field(default_factory=dict)
    found_requirements: Mapping[VertexId, tuple[int, int]] | None = None
    is_repair: bool = False
    vertices: Mapping[VertexId, str] = field(default_factory=dict)


NO_TERMS = RealizationTerms()
"""No least parallelism, and nothing known about what the job was asked to have."""


class ScalingRealizer(Protocol):
    """Applies decisions. Called in every pass with what should be so; idempotent and cheap when it is.

    Calls for different jobs may come from different threads. Must leave a job that is not running alone, unless it is
    to be repaired.
    """

    def realize_overrides(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        """Give every named vertex its parallelism. ``overrides`` is not empty.

        Args:
            context: The job.
            overrides: Parallelism per vertex.
            terms: How it is to be done.

        Raises:
            AutoscalerError: It could not be applied; the next pass tries again.
        """
        ...

    def realize_config(self, context: JobAutoScalerContext, changes: ConfigChanges) -> Realization:
        """Apply tuned configuration, where the realizer can. Called in every pass while memory tuning is on.

        Raises:
            AutoscalerError: It could not be applied; the next pass tries again.
        """
        ...

    def close(self) -> None:
        """Release resources. Called once."""
        ...


__all__ = [
    "NO_TERMS",
    "AutoScalerEventHandler",
    "AutoScalerStateStore",
    "BatchingStateStore",
    "ClusterReading",
    "CollectorMemory",
    "EvaluationEngine",
    "JobList",
    "JobListFetcher",
    "JobTombstones",
    "MetricCollector",
    "Realization",
    "RealizationTerms",
    "RealizeResult",
    "ReleasingStateStore",
    "ScalingRealizer",
    "SharedStateStore",
]
