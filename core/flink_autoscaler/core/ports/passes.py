"""What goes into a pass, what its stages hand on, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale, RestartTime
from flink_autoscaler.core.model.events import Event, Reason, ScalingReport
from flink_autoscaler.core.model.job import JobKey, SlotDemand
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, EvaluatedVertex, MetricSample, VertexId
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.model.policy_values import NO_READING, DemandForecast, LoadProfiles, Outage, ShadowProposal
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, ClusterReading, CollectorMemory, JobReading, Origins
from flink_autoscaler.core.model.source_lag import ExternalMetric, SourceLag
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.model.topology import JobTopology, Vertex
from flink_autoscaler.core.model.value import value
from flink_autoscaler.core.options.context import JobAutoScalerContext


@dataclass(frozen=True, slots=True)
class LastRecord:
    """The last pass over a job that was recorded with its inputs.

    Attributes:
        at_ms: Its instant; 0 when there was none yet.
        signature: What it came to, in a few words; a pass that comes to the same is recorded again only after a while.
        interval_ms: That while.
    """

    at_ms: int = 0
    signature: str = ""
    interval_ms: int = 600_000


@value
class PassRequest:
    """A job to look at.

    Attributes:
        context: Which job, and how it is configured.
        state: What is remembered about it.
        now_ms: The instant of the pass, epoch milliseconds.
        memory: Of the collector.
        orders: What people ordered for the job.
        refusal: Why the last attempt to realize something failed; None when it did not.
        recorded: The last pass whose inputs were recorded; None when none was, and nothing is to be recorded.
        profiles: What is known about the usual load of the sources, as much of it as matters now.
        outages: Milliseconds that rescales took other jobs of the cluster away, one figure per job; empty once the job
            was measured often enough itself.
        lags: What others than Flink say about the lag of sources, in the order in which they are believed.
        numbers: What they say about arrival rates and least parallelisms, in the same order.
    """

    context: JobAutoScalerContext
    state: JobState
    now_ms: int
    memory: CollectorMemory = EMPTY_MEMORY
    orders: Orders = NO_ORDERS
    refusal: str | None = None
    recorded: LastRecord | None = None
    profiles: Mapping[VertexId, ProfileResult] = field(default_factory=dict)
    outages: tuple[int, ...] = ()
    lags: tuple[SourceLag, ...] = ()
    numbers: tuple[ExternalMetric, ...] = ()


@dataclass(frozen=True, slots=True)
class PassInputs:
    """Everything that a pass depends on besides its request.

    Attributes:
        reading: What the cluster said about the job; None when it was not asked.
        cluster: What the cluster said about itself.
    """

    reading: JobReading | None
    cluster: ClusterReading


@dataclass(frozen=True, slots=True)
class EngineUse:
    """Which engine evaluated a job, and why that one.

    Attributes:
        engine: ``spark`` or ``inline``.
        reason: In a few words; does not change while its cause lasts.
    """

    engine: str
    reason: str


@value
class PassObservation:
    """What a pass collected about a job; None where nothing was.

    Attributes:
        sample: The newest sample.
        sample_count: Samples in the window after trimming.
        is_window_full: Whether the window allows a decision.
        topology: The job graph.
        excluded: Vertices that this pass did not scale.
        origins: Where the values came from, as far as it was not Flink's REST API.
    """

    sample: MetricSample | None = None
    sample_count: int | None = None
    is_window_full: bool | None = None
    topology: JobTopology | None = None
    excluded: frozenset[VertexId] = frozenset()
    origins: Origins = field(default_factory=dict)

    @property
    def vertices(self) -> Mapping[VertexId, Vertex]:
        """The vertices of the job graph, inputs before outputs; empty where nothing was collected."""
        return {} if self.topology is None else self.topology.vertices


NOT_OBSERVED: Final = PassObservation()


@value
class RescaleTarget:
    """What a pass asks the realizer for.

    Attributes:
        parallelism: By vertex, the user's own overrides merged in; empty realizes nothing.
        min_parallelism: The least that vertices may get; 1 for those that are not named.
        found_requirements: Least and greatest parallelism that the cluster was asked for when this pass read it; None
            where that is not known.
        tunes_memory: Whether config changes are to be handed to the realizer.
        is_repair: Whether it undoes a failed rescale, so that it is realized although the job does not run.
    """

    parallelism: Mapping[VertexId, int] = field(default_factory=dict)
    min_parallelism: Mapping[VertexId, int] = field(default_factory=dict)
    found_requirements: Mapping[VertexId, tuple[int, int]] | None = None
    tunes_memory: bool = False
    is_repair: bool = False


NO_TARGET: Final = RescaleTarget()


@value
class PassOutcome:
    """What one pass found out about one job. Nothing has been written or changed yet.

    Attributes:
        job_key: The job.
        phase: How far the pass came.
        decision: What is to be done about the job, with the reasons.
        state: What to remember from now on.
        undecided: What to remember instead, where the decision cannot be carried out; None without a decision.
        memory: The same for the collector.
        observation: What was collected.
        restart: How long a restart was assumed to take; None when the pass did not come that far.
        metrics: Evaluated, with recommendations once the window is full; None where there are none.
        target: What is to be realized now.
        events: To be handed to the event handler, in order.
        report: The scaling report; None without a change.
        error: What went wrong; None when nothing did.
        seconds: Seconds that the stages took, by stage name; for gauges only.
        inputs: What the cluster answered, where the pass is to be recorded.
        engine: Where the job was read and evaluated; None where there was nothing to read.
        waits_for: The slots that the job waits for; None where it waits for none, or nobody knows.
        shadow: What the second policy of the job would do; None where it has none, or it was not asked.
    """

    job_key: JobKey
    phase: PassPhase
    decision: Hold | Rescale
    state: JobState = EMPTY_STATE
    undecided: JobState | None = None
    memory: CollectorMemory = EMPTY_MEMORY
    observation: PassObservation = NOT_OBSERVED
    restart: RestartTime | None = None
    metrics: EvaluatedMetrics | None = None
    target: RescaleTarget = NO_TARGET
    events: tuple[Event, ...] = ()
    report: ScalingReport | None = None
    error: AutoscalerError | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    inputs: PassInputs | None = None
    engine: EngineUse | None = None
    waits_for: SlotDemand | None = None
    shadow: ShadowProposal | None = None

    @property
    def evaluated(self) -> Mapping[VertexId, EvaluatedVertex]:
        """Evaluated metrics of the vertices; empty where there are none."""
        return {} if self.metrics is None else self.metrics.vertices


@value
class EvaluatedJob:
    """A job whose metric window has been evaluated: all that policies, forecasts and the decision depend on.

    Attributes:
        context: Which job, and how it is configured.
        topology: The job graph of this pass.
        metrics: Of the window.
        state: What is remembered, with the sample of this pass.
        cluster: What the cluster said about itself.
        excluded: Vertices that are not scaled in this pass.
        restart_time: Seconds a restart is assumed to take.
        now_ms: The instant of the pass, epoch milliseconds.
        orders: What people ordered for the job.
        reading: What the cluster said about the job.
        demand: What is expected to arrive at the sources; None when that is not known.
        is_window_full: Whether the metrics are those of a whole window; else only policies that need none are asked.
        profiles: What the sources usually have to take, as far as that can be used.
        aligned: Every parallelism that alignment can come to, ascending, by vertex; without those whose targets it
            leaves as they are. Known where a policy needs no window.
        outage: What the next rescale is expected to cost; None where nobody has asked for that yet.
        skewed: Vertices that more subtasks do not help, so that they are not scaled up, and why.
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
    is_window_full: bool = True
    profiles: LoadProfiles = field(default_factory=dict)
    aligned: Mapping[VertexId, Sequence[int]] = field(default_factory=dict)
    outage: Outage | None = None
    skewed: Mapping[VertexId, Reason] = field(default_factory=dict)
