"""The result of a pass: to rescale or to hold, with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.events import Event, ScalingReport
from flink_autoscaler.core.job import JobAutoScalerContext, JobKey
from flink_autoscaler.core.metrics import EvaluatedMetrics, MetricSample, VertexId
from flink_autoscaler.core.reading import EMPTY_MEMORY, CollectorMemory
from flink_autoscaler.core.state import EMPTY_STATE, JobState, ScalingSummaries
from flink_autoscaler.core.topology import JobTopology


class Phase(StrEnum):
    """How far a pass came."""

    DISABLED = "disabled"
    INVALID_CONFIG = "invalid_config"
    NOT_RUNNING = "not_running"
    NOT_READY = "not_ready"
    ERROR = "error"
    COLLECTING = "collecting"
    WINDOW_FILLING = "window_filling"
    EXECUTED = "executed"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a decision is what it is.

    Attributes:
        code: Stable upper-snake-case word for programs, such as ``WITHIN_BOUNDS``.
        text: One sentence for people.
        vertex_id: The vertex it is about; None for the whole job.
    """

    code: str
    text: str
    vertex_id: VertexId | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Leave the job as it is."""

    reasons: tuple[Reason, ...]

    @classmethod
    def because(cls, code: str, text: str) -> Hold:
        """Make a hold with one reason about the whole job."""
        return cls((Reason(code, text),))


@dataclass(frozen=True, slots=True)
class Rescale:
    """Change the parallelism of some vertices."""

    summaries: ScalingSummaries
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a pass made of the metric window.

    Attributes:
        metrics: Evaluated metrics, with recommendations once the window is full.
        topology: The job graph they belong to.
        restart_time: Seconds a restart was assumed to take; None when no evaluation took place.
        is_window_full: Whether the window allowed a decision.
    """

    metrics: EvaluatedMetrics
    topology: JobTopology
    restart_time: int
    is_window_full: bool


@dataclass(frozen=True, slots=True)
class PassRequest:
    """A job to look at: its context, what is remembered about it, and the instant of the pass."""

    context: JobAutoScalerContext
    state: JobState
    now_ms: int
    memory: CollectorMemory = EMPTY_MEMORY


@dataclass(frozen=True, slots=True)
class PassOutcome:
    """What one pass found out about one job. Nothing has been written or changed yet.

    Attributes:
        state: What to remember from now on.
        memory: The same for the collector.
        sample: The sample that was collected; None when none was.
        sample_count: Samples in the window after trimming; None when nothing was collected.
        is_window_full: Whether the window allows a decision; None when nothing was collected.
        topology: The job graph of this pass; None when nothing was collected.
        restart_time: Seconds a restart was assumed to take; None when the pass did not come that far.
        evaluation: None when there was none.
        wanted: Parallelism per vertex to realize now, the user's own overrides merged in; empty realizes nothing.
        wanted_config: Whether config changes are to be handed to the realizer (memory tuning is on).
        events: To be handed to the event handler, in order.
        report: The scaling report; None without a change.
        error: What went wrong; None when nothing did.
        excluded: Vertices that this pass did not scale.
        seconds: Time the stages took, by stage name; for gauges only.
    """

    job_key: JobKey
    phase: Phase
    decision: Hold | Rescale
    state: JobState = EMPTY_STATE
    memory: CollectorMemory = EMPTY_MEMORY
    sample: MetricSample | None = None
    sample_count: int | None = None
    is_window_full: bool | None = None
    topology: JobTopology | None = None
    restart_time: int | None = None
    evaluation: Evaluation | None = None
    wanted: Mapping[VertexId, int] = field(default_factory=dict)
    wanted_config: bool = False
    events: tuple[Event, ...] = ()
    report: ScalingReport | None = None
    error: AutoscalerError | None = None
    excluded: frozenset[VertexId] = frozenset()
    seconds: Mapping[str, float] = field(default_factory=dict)
