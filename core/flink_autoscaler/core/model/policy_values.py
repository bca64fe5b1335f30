"""What a scaling policy sees and what it returns.

Rates are records/s, shares are 0..1, sizes bytes, times epoch seconds and durations seconds. What is not known is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import JobKey, JobStatus
from flink_autoscaler.core.model.load_profile import LoadProfile
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.value import replace, value


@value
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
        lag_to_drain: The backlog that a source has to be sized for, so that its slowest partition is caught up in time;
            ``lag_records`` where partitions lag alike or are not told apart. What is behind the source gets the latter.
        skew: How many times what the average subtask reads the one with most does, in the last minute; at least 1, None
            when unknown.
        complete: False when a metric of the window was incomplete.
        spread: Key groups or partitions that are spread over the subtasks, of which the fullest has the most: the
            capacity is that of ``spread / ceil(spread / parallelism)`` subtasks. None where none are.
        aligned: Every parallelism that alignment can come to, ascending; others are aligned to one of these. None where
            targets stay as they are.
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
    lag_to_drain: float | None = None
    skew: float | None = None
    complete: bool = True
    spread: int | None = None
    aligned: Sequence[int] | None = None


@value
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


class VertexSample(NamedTuple):
    """What one pass read about one vertex: all its subtasks together, since the execution began; None when unknown.

    Attributes:
        parallelism: Subtasks.
        records_in: Records consumed; for sources what they read.
        records_out: Records sent.
        pending: Records that wait; of sources that tell.
        busy: Share of time at the instant of the pass, of the subtask that the options let stand for the vertex.
        busy_ms: Milliseconds busy.
        idle_ms: Milliseconds without input.
        backpressured_ms: Milliseconds of waiting for vertices downstream.
        is_complete: False when not all subtasks had reported; the counters are too low then, or unknown.
    """

    parallelism: int
    records_in: float | None = None
    records_out: float | None = None
    pending: float | None = None
    busy: float | None = None
    busy_ms: float | None = None
    idle_ms: float | None = None
    backpressured_ms: float | None = None
    is_complete: bool = True


@value
class JobSample:
    """What one pass read about one job, as it is: not averaged over a window.

    Attributes:
        at: Instant of the pass.
        began_at: When the execution began that the counters belong to.
        vertices: Those that have not finished.
    """

    at: float
    began_at: float
    vertices: Mapping[VertexId, VertexSample]


LATEST_SAMPLES: Final = 8
"""So many samples policies are shown at most."""


@value
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


DemandForecast = Mapping[VertexId, SourceForecast]


LoadProfiles = Mapping[VertexId, LoadProfile]
"""By source; for a pass, each knows the quarter hours around it."""


NO_READING: Final = JobReading(None)
"""Of a job of which no more is known than its metrics."""


@value
class PastRescale:
    """One rescale of a job: when, from what, to what, and how long it was away; None while that is not known."""

    at: float
    before: Mapping[VertexId, int]
    after: Mapping[VertexId, int]
    outage: float | None = None


@value
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


@value
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


@value
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
        is_outside: Whether what it can do is outside of the band in which nothing is scaled; where that is so for no
            vertex that would change, nothing is changed.
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

    def capped_at(self, ceiling: int) -> VertexSizing:
        """Return the sizing with a bound that is no greater than a ceiling."""
        if ceiling >= self.limits.bound:
            return self
        limits = replace(self.limits, bound=ceiling)
        return replace(self, limits=limits, target=limits.clamp(self.target))


@value
class PolicyInput:
    """Everything a policy may look at.

    Attributes:
        history: Past rescales, oldest first.
        demand: Forecast by source; None when there is none or it is not to be trusted.
        downtime: Of the next rescale.
        config: The job's configuration as text, by full key.
        state: What this policy returned last time for this job; JSON values.
        samples: The latest ones of the present execution, at most :data:`LATEST_SAMPLES`, oldest first, the last one
            of this pass. What was before a restart of the job is for a policy to remember.
        is_window_full: Whether ``obs`` covers a whole metric window; else what there is of it.
        profiles: What the sources usually have to take, whether that is trusted or not; of those of which it is known.
    """

    obs: JobObservation
    history: tuple[PastRescale, ...]
    demand: DemandForecast | None
    downtime: Outage
    config: Mapping[str, str]
    state: Mapping[str, Any] = field(default_factory=dict)
    samples: Sequence[JobSample] = ()
    is_window_full: bool = True
    profiles: LoadProfiles = field(default_factory=dict)


class ProposalDirection(StrEnum):
    """Where a proposal goes."""

    UP = "up"
    DOWN = "down"
    MIXED = "mixed"
    NONE = "none"


@value
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


@dataclass(frozen=True, slots=True)
class ShadowProposal:
    """What a second policy would do about a job as it is, beside the policies in charge; nothing of it is done.

    Attributes:
        policy: Its name.
        held: Slots that the job has.
        reasons: At least one.
        direction: NONE when nothing would change and when it abstains.
        wanted: Slots that it would give the job, within the bounds of the vertices; None when it abstains.
        changes: Parallelism of the vertices that it would change.
    """

    policy: str
    held: int
    reasons: tuple[Reason, ...]
    direction: ProposalDirection = ProposalDirection.NONE
    wanted: int | None = None
    changes: Mapping[VertexId, int] = field(default_factory=dict)
