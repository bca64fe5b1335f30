"""What a scaling policy sees and what it returns.

Rates are records/s, shares are 0..1, sizes bytes, times epoch seconds and durations seconds. What is not known is None.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from flink_autoscaler.core.model.job import JobAutoScalerContext, JobKey, JobStatus
from flink_autoscaler.core.model.load_profile import LoadProfile
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, VertexId
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.topology import JobTopology


@dataclass(frozen=True, slots=True)
class VertexObs:
    """One vertex over one metric window.

    Attributes:
        min_parallelism: The user's bound.
        max_parallelism: The least of the user's bound, Flink's max parallelism and the partitions of a source.
        rate_in: Records/s consumed, all subtasks together; for sources what they read.
        rate_out: Records/s sent, by downstream vertex.
        target_rate: Records/s that the vertex has to sustain; for sources what arrives.
        true_rate: Records/s of busy time, summed over the subtasks; None when it was not busy or that is unknown.
        busy: As aggregated by the options.
        busy_mean: Mean over the subtasks.
        idle: Share of time without input, mean over the subtasks; None until two samples of one attempt of all its
            subtasks are in the window.
        backpressured: The same of waiting for vertices downstream.
        lag_records: Backlog; of sources only.
        lag_slope: Change of the backlog in records/s, fitted over the window.
        subtask_rates: Records/s by subtask; empty when unknown, as in production, where only aggregates are read.
        skew: How many times what the average subtask reads the one with most does, in the last minute; at least 1, None
            when unknown.
        complete: False when a metric of the window was incomplete.
    """

    vertex_id: VertexId
    name: str
    is_source: bool
    parallelism: int
    min_parallelism: int
    max_parallelism: int
    rate_in: float | None = None
    rate_out: Mapping[VertexId, float] = field(default_factory=dict)
    target_rate: float | None = None
    true_rate: float | None = None
    busy: float | None = None
    busy_mean: float | None = None
    idle: float | None = None
    backpressured: float | None = None
    lag_records: float | None = None
    lag_slope: float | None = None
    subtask_rates: tuple[float, ...] = ()
    skew: float | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class JobObservation:
    """One job over one metric window.

    Attributes:
        now: Instant of the pass.
        all_tasks_running: Not implied by a job that is RUNNING.
        window: First and last instant of the window.
        vertices: In topological order.
        edges: Records out per record in, by upstream and downstream vertex.
        slot_groups: Vertices by slot-sharing group.
        last_rescale_at: Last rescale of ours; None without one.
        last_restart_at: When the job last began to run.
    """

    job_key: JobKey
    job_id: str
    now: float
    status: JobStatus
    all_tasks_running: bool
    window: tuple[float, float]
    vertices: Mapping[VertexId, VertexObs]
    edges: Mapping[tuple[VertexId, VertexId], float] = field(default_factory=dict)
    slot_groups: Mapping[str, frozenset[VertexId]] = field(default_factory=dict)
    slots_total: int | None = None
    slots_free: int | None = None
    slots_per_tm: int | None = None
    tm_count: int | None = None
    state_bytes: int | None = None
    checkpoint_interval: float | None = None
    last_checkpoint_at: float | None = None
    gc_pressure: float | None = None
    heap_usage: float | None = None
    last_rescale_at: float | None = None
    last_restart_at: float | None = None


@dataclass(frozen=True, slots=True)
class SourceForecast:
    """What a forecast says about one source, in records/s.

    Attributes:
        up: Greatest expected arrival rate until a scale-up decided now would have caught up.
        down: The same over the longer horizon that matters for a scale-down.
        level: The level that the profile is scaled with (``L_0``).
    """

    up: float
    down: float
    level: float


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """What the nightly job came to about one source.

    Attributes:
        source_id: The source's vertex.
        asof: End of the history it looked at.
        profile: None where there is none.
        problem: Why there is none; None where there is one.
        is_readable: Whether what the store has could be used; not where another version wrote it, or it is damaged.
    """

    job_key: JobKey
    source_id: VertexId
    asof: float
    profile: LoadProfile | None = None
    problem: str | None = None
    is_readable: bool = True

    @property
    def revision(self) -> str:
        """Sixteen hex digits that another result of the source does not have, be its ``asof`` the same."""
        return hashlib.blake2b(repr(self).encode(), digest_size=8).hexdigest()


DemandForecast = Mapping[VertexId, SourceForecast]


NO_READING: Final = JobReading(None)
"""Of a job of which no more is known than its metrics."""


@dataclass(frozen=True, slots=True)
class EvaluatedJob:
    """A job whose metric window has been evaluated: everything that policies, forecasts and the decision depend on.

    Attributes:
        metrics: Of the window.
        state: What is remembered, with the sample of this pass.
        cluster: What the cluster said about itself.
        excluded: Vertices that are not scaled in this pass.
        restart_time: Seconds a restart is assumed to take.
        orders: What people ordered for the job.
        reading: What the cluster said about the job.
        demand: What is expected to arrive at the sources; None when that is not known.
    """

    context: JobAutoScalerContext
    topology: JobTopology
    metrics: EvaluatedMetrics
    state: JobState
    cluster: ClusterReading
    excluded: frozenset[VertexId]
    restart_time: int
    now_ms: int
    orders: Orders = NO_ORDERS
    reading: JobReading = NO_READING
    demand: DemandForecast | None = None


@dataclass(frozen=True, slots=True)
class PastRescale:
    """One rescale of a job: when, from what, to what, and how long it was away; None while that is not known."""

    at: float
    before: Mapping[VertexId, int]
    after: Mapping[VertexId, int]
    outage: float | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """What a rescale is expected to cost, in seconds.

    Attributes:
        mean: Expected outage.
        q90: What nine of ten outages stay below.
        delay: From the request to the start of the outage; the job still works.
        replay: Age of the checkpoint that is restored.
    """

    mean: float
    q90: float
    delay: float = 0.0
    replay: float = 0.0


@dataclass(frozen=True, slots=True)
class VertexLimits:
    """Bounds of the parallelism of one vertex.

    Attributes:
        lower: Least parallelism.
        upper: Greatest parallelism that the user allows.
        bound: Greatest parallelism that the vertex can have: within ``upper``, key groups and partitions.
    """

    lower: int
    upper: int
    bound: int

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise ValueError(f"least parallelism {self.lower} is above the greatest one {self.upper}")

    def clamp(self, parallelism: int) -> int:
        """Return the nearest parallelism within the bounds; the greatest one wins."""
        return min(max(self.lower, parallelism), self.bound)


@dataclass(frozen=True, slots=True)
class VertexSizing:
    """What one vertex should have.

    Attributes:
        current: Parallelism now.
        rate: True processing rate now, records/s.
        capacity: Processing rate that the vertex needs, records/s.
        factor: Factor between wanted and current parallelism, bounded per step.
        wanted: Parallelism before any limit.
        limits: The bounds.
        target: Parallelism within the bounds, before alignment.
        coefficient: Share of a linear speed-up that the vertex is taken to achieve.
        is_outside: Whether what it can do is outside of the band that is left alone; where that is so for no vertex
            that would change, nothing is changed.
    """

    current: int
    rate: float
    capacity: float
    factor: float
    wanted: int
    limits: VertexLimits
    target: int
    coefficient: float = 1.0
    is_outside: bool = True

    def under(self, ceiling: int) -> VertexSizing:
        """Return the sizing with a bound that is no greater than a ceiling."""
        if ceiling >= self.limits.bound:
            return self
        limits = replace(self.limits, bound=ceiling)
        return replace(self, limits=limits, target=limits.clamp(self.target))


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """Everything a policy may look at.

    Attributes:
        history: Past rescales, oldest first.
        demand: Forecast by source; None when there is none or it is not to be trusted.
        downtime: Of the next rescale.
        config: The job's configuration as text, by full key.
        state: What this policy returned last time for this job; JSON values.
    """

    obs: JobObservation
    history: tuple[PastRescale, ...]
    demand: DemandForecast | None
    downtime: Outage
    config: Mapping[str, str]
    state: Mapping[str, Any] = field(default_factory=dict)


class ProposalDirection(StrEnum):
    """Where a proposal goes."""

    UP = "up"
    DOWN = "down"
    MIXED = "mixed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a policy would do.

    Attributes:
        policy: Its name.
        targets: Parallelism by vertex, those left out being ones it has no opinion on; None to abstain, which is not
            the same as to keep everything as it is.
        direction: NONE when nothing changes and when it abstains.
        capacity: Records/s that each vertex was sized for.
        confidence: 0..1, for information.
        reasons: At least one.
        blocks_down: Whatever others say, the job is not to go down now.
        state: JSON values, handed back in the next pass.
        sizings: How each vertex was sized, of a policy that sizes all of them at once; None of others. These go before
            ``targets``: where a vertex is outside of its band, the others change with it.
    """

    policy: str
    targets: Mapping[VertexId, int] | None
    direction: ProposalDirection
    capacity: Mapping[VertexId, float]
    confidence: float
    reasons: tuple[Reason, ...]
    blocks_down: bool = False
    state: Mapping[str, Any] = field(default_factory=dict)
    sizings: Mapping[VertexId, VertexSizing] | None = None


class ScalingPolicy(Protocol):
    """Decides what it would do about a job.

    Called in every pass once the metric window is full, from any thread or process, Spark tasks included. Pure: the
    same input gives the same proposal. What it lacks makes it abstain with a reason; it never returns NaN or infinity,
    no target outside ``[min_parallelism, max_parallelism]``, and with a vector that it has proposed itself and the same
    load it proposes nothing new. An exception is reported and counts as abstaining.
    """

    @property
    def name(self) -> str:
        """The word it is chosen by."""
        ...

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid; the message names its key.
        """
        ...
