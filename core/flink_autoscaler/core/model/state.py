"""What is remembered about a job between passes.

Everything here is immutable: a pass takes a :class:`JobState` and returns the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flink_autoscaler.core.model.metrics import EvaluatedVertex, MetricSample, VertexId
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Supervision
from flink_autoscaler.core.model.value import value


@dataclass(frozen=True, slots=True)
class ScalingSummary:
    """One vertex of one decision.

    Attributes:
        current: Parallelism before, at least 1.
        new: Parallelism after, different from ``current``.
        metrics: The evaluated metrics that led to it.
    """

    current: int
    new: int
    metrics: EvaluatedVertex

    def __post_init__(self) -> None:
        if self.current == self.new:
            raise ValueError(f"a scaling summary needs a change of parallelism, not {self.current} -> {self.new}")

    @property
    def is_scale_up(self) -> bool:
        """Whether the parallelism grows."""
        return self.new > self.current


ScalingSummaries = Mapping[VertexId, ScalingSummary]


class HistoryEntry(NamedTuple):
    """A past decision about a vertex, by the instant of the pass that made it."""

    at_ms: int
    summary: ScalingSummary


ScalingHistory = Mapping[VertexId, tuple[HistoryEntry, ...]]
"""Past decisions per vertex, oldest first."""


class ScalingRecord(NamedTuple):
    """An executed decision and how long the job was away for it; None until that is known."""

    at_ms: int
    restart_ms: int | None = None


class DelayedRecommendation(NamedTuple):
    """A scale-down that was advised but has to wait."""

    at_ms: int
    parallelism: int
    is_outside: bool


class DelayedVertex(NamedTuple):
    """Pending scale-down of one vertex.

    Attributes:
        first_ms: When it was first advised.
        queue: Recommendations by time with strictly falling parallelism: a sliding-window maximum.
    """

    first_ms: int
    queue: tuple[DelayedRecommendation, ...]


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """Configuration that should change: keys to set, and keys to remove before that."""

    overrides: Mapping[str, str] = field(default_factory=dict)
    removals: tuple[str, ...] = ()


PolicyMemories = Mapping[str, Mapping[str, Any]]
"""What each policy of a job is handed back in the next pass, by its name; JSON values."""

ForecastMemory = Mapping[str, Any]
"""What the forecasts of a job need in the next pass; JSON values."""


@value
class JobState:
    """Everything that is remembered about one job.

    Attributes:
        job_id: The Flink job the metric samples belong to; None before the first pass.
        samples: The metric window, oldest first.
        history: Executed decisions per vertex.
        tracking: Executed decisions of the job with measured restarts, oldest first.
        overrides: Parallelism per vertex that was decided and is applied in every pass; empty before the first
            decision.
        config_changes: Result of memory tuning.
        delayed: Scale-downs that wait for the scale-down interval.
        supervision: The rescale that is followed, and those of the past.
        policies: What the policies of the job remember of its present graph.
        forecast: What the forecasts of its sources remember; empty without forecasts.
    """

    job_id: str | None = None
    samples: tuple[MetricSample, ...] = ()
    history: ScalingHistory = field(default_factory=dict)
    tracking: tuple[ScalingRecord, ...] = ()
    overrides: Mapping[VertexId, int] = field(default_factory=dict)
    config_changes: ConfigChanges = ConfigChanges()
    delayed: Mapping[VertexId, DelayedVertex] = field(default_factory=dict)
    supervision: Supervision = NO_SUPERVISION
    policies: PolicyMemories = field(default_factory=dict)
    forecast: ForecastMemory = field(default_factory=dict)


EMPTY_STATE = JobState()
