"""The working values of one decision."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from flink_autoscaler.core.decide.sizing.delayed import DelayedScaleDown
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.job import JobAutoScalerContext
from flink_autoscaler.core.model.metrics import EvaluatedMetric, EvaluatedMetrics, ScalingMetric, VertexId, of
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.model.policy_values import DemandForecast
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.model.state import JobState, PolicyMemories, ScalingSummary
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.plugins import NO_PLUGINS, Plugins

NO_READING: Final = JobReading(None)
"""Of a job of which no more is known than its metrics."""


@dataclass(frozen=True, slots=True)
class ExecutionInput:
    """Everything a decision depends on.

    Attributes:
        metrics: Evaluated metrics of a full window.
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
    plugins: Plugins = NO_PLUGINS
    orders: Orders = NO_ORDERS
    reading: JobReading = NO_READING
    demand: DemandForecast | None = None

    @property
    def options(self) -> AutoscalerOptions:
        """The options of the job."""
        return self.context.options


@dataclass(frozen=True, slots=True)
class Executed:
    """The result of :func:`execute`: the decision, what to remember, and what to tell."""

    decision: Hold | Rescale
    state: JobState
    metrics: EvaluatedMetrics
    events: tuple[Event, ...] = ()
    report: ScalingReport | None = None


@dataclass
class DecisionRun:
    """Working values of one decision.

    Attributes:
        vertices: Evaluated metrics per vertex, to which recommendations are added.
        events: To be raised, in order.
        reasons: Why the decision is what it is.
        policies: What the policies of the job want to remember; None where none of them was asked.
    """

    given: ExecutionInput
    delayed: DelayedScaleDown
    vertices: dict[VertexId, dict[ScalingMetric, EvaluatedMetric]]
    events: list[Event] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    policies: PolicyMemories | None = None

    def explain(self, code: str, text: str, vertex_id: VertexId | None = None) -> None:
        """Add a reason."""
        self.reasons.append(Reason(code, text, vertex_id))

    def tell(self, event_type: EventType, reason: str, message: str, key: str | None) -> None:
        """Add an event that is repeated at most once per event interval."""
        self.events.append(Event(event_type, reason, message, key, self.given.options.scaling_event_interval))

    def warn_about_plugin(self, code: str, text: str) -> None:
        """Explain and, where that is wanted, tell that a plug-in cannot be used."""
        self.explain(code, text)
        if self.given.options.improves(self.given.options.problem_events):
            self.tell(EventType.WARNING, "PluginProblem", text, code)

    def resized(self, vertex_id: VertexId, summary: ScalingSummary, parallelism: int) -> ScalingSummary:
        """Return the summary with another parallelism, and keep the metrics of the vertex in line with it."""
        if parallelism == summary.new:
            return summary
        metrics = self.vertices[vertex_id]
        rate = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average
        metrics[ScalingMetric.EXPECTED_PROCESSING_RATE] = of((rate / summary.current) * parallelism)
        metrics[ScalingMetric.RECOMMENDED_PARALLELISM] = of(float(parallelism))
        return ScalingSummary(summary.current, parallelism, metrics)

    def finish(
        self, decision: Hold | Rescale, state: JobState | None = None, report: ScalingReport | None = None
    ) -> Executed:
        """Make the result; without ``state`` only delayed scale-downs and policies' memories are kept."""
        if state is None:
            state = replace(self.given.state, delayed=self.delayed.vertices)
        if self.policies is not None:
            state = replace(state, policies=self.policies)
        metrics = EvaluatedMetrics(self.vertices, self.given.metrics.globals_)
        return Executed(decision, state, metrics, tuple(self.events), report)

    def hold(self, report: ScalingReport | None = None) -> Executed:
        """Make the result for a job that is left as it is."""
        return self.finish(Hold(tuple(self.reasons)), report=report)
