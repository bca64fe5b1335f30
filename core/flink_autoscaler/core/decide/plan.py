"""What is to change in a job: the value that every stage of a decision takes and returns, and its report for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from flink_autoscaler.core.model.events import Event, EventType, Reason, ScalingReport, VertexReport
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import EvaluatedMetric, EvaluatedVertex, ScalingMetric, VertexId, of
from flink_autoscaler.core.model.numbers import NAN, two_decimals
from flink_autoscaler.core.model.state import (
    ConfigChanges,
    DelayedVertex,
    PolicyMemories,
    ScalingSummaries,
    ScalingSummary,
)
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.options.context import JobAutoScalerContext


@value
class Plan:
    """What is to change, and what there is to say about it.

    Attributes:
        changes: The vertices that get another parallelism; empty where nothing is to change.
        metrics: Evaluated metrics of all vertices, with what was recommended, also where that is not carried out.
        delayed: Scale-downs that wait.
        reasons: Why the plan is what it is.
        events: To be raised, in order.
        bypasses_damping: Vertices that a policy wants changed that needs no metric window and weighs itself what a
            rescale costs: filters that do that for the others leave these alone.
        memories: What the policies of the job are handed back in the next pass.
        is_confirmed: Whether the policy confirms its plans over several passes itself.
        tuning: Memory settings that change with it.
        blocked_by: The lead-in of the report that names the option which prevents the changes; None where none does.
    """

    changes: ScalingSummaries
    metrics: Mapping[VertexId, EvaluatedVertex]
    delayed: Mapping[VertexId, DelayedVertex]
    reasons: tuple[Reason, ...] = ()
    events: tuple[Event, ...] = ()
    bypasses_damping: frozenset[VertexId] = frozenset()
    memories: PolicyMemories = field(default_factory=dict)
    is_confirmed: bool = False
    tuning: ConfigChanges = field(default_factory=ConfigChanges)
    blocked_by: str | None = None

    @property
    def is_weighed(self) -> bool:
        """Whether every scale-down is one that its policy has weighed itself."""
        return {v for v, change in self.changes.items() if change.new < change.current} <= self.bypasses_damping

    def with_reason(self, *reasons: Reason) -> Plan:
        """Return the plan with more reasons."""
        return replace(self, reasons=(*self.reasons, *reasons))

    def with_event(self, event: Event) -> Plan:
        """Return the plan with one more event."""
        return replace(self, events=(*self.events, event))

    def without_changes(self) -> Plan:
        """Return the plan of which nothing is carried out."""
        return replace(self, changes={})

    def without_scale_downs(self, reason: Reason) -> Plan:
        """Return the plan without its scale-downs, which a reason keeps from happening."""
        downs = [vertex_id for vertex_id, change in self.changes.items() if not change.is_scale_up]
        ups = {vertex_id: change for vertex_id, change in self.changes.items() if change.is_scale_up}
        reasons = (replace(reason, vertex_id=vertex_id) for vertex_id in downs)
        return replace(self, changes=ups, reasons=(*self.reasons, *reasons))

    def with_parallelism(self, parallelism: Mapping[VertexId, int], current: Mapping[VertexId, int]) -> Plan:
        """Return the plan in which these vertices change and no others; metrics follow where that is new.

        Args:
            parallelism: What each of them is to have from now on.
            current: What vertices have that the plan does not change.
        """
        changes, metrics = dict[VertexId, ScalingSummary](), dict(self.metrics)
        for vertex_id, new in parallelism.items():
            change = self.changes.get(vertex_id)
            if change is None or change.new != new:
                now = current[vertex_id] if change is None else change.current
                metrics[vertex_id] = with_recommendation(metrics.get(vertex_id, {}), now, new)
                change = ScalingSummary(now, new, metrics[vertex_id])
            changes[vertex_id] = change
        return replace(self, changes=changes, metrics=metrics)


def with_recommendation(metrics: EvaluatedVertex, current: int, new: int) -> EvaluatedVertex:
    """Return the metrics of a vertex with another parallelism recommended, and the rate expected of it."""
    rate = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average if ScalingMetric.TRUE_PROCESSING_RATE in metrics else NAN
    return {
        **metrics,
        ScalingMetric.EXPECTED_PROCESSING_RATE: of((rate / current) * new),
        ScalingMetric.RECOMMENDED_PARALLELISM: of(float(new)),
    }


def plan_event(
    context: JobAutoScalerContext, reason: str, message: str, key: str | None, kind: EventType = EventType.WARNING
) -> Event:
    """Make an event that is repeated at most once per event interval."""
    return Event(kind, reason, message, key, context.options.scaling_event_interval)


def filter_event(context: JobAutoScalerContext, event: str, reason: Reason, subject: str = "") -> Event:
    """Make the event that a filter holds a rescale back: nothing is wrong, and each interval tells it once.

    Args:
        context: The job.
        event: What happened, as one upper-camel-case word.
        reason: Why, with words and numbers that may be others in every pass.
        subject: The vertex that is held back, as the message names it; empty where it is the whole plan.
    """
    message, key = f"Scaling{subject} is held back: {reason.text}", event + subject.removeprefix(" of vertex ")
    return replace(plan_event(context, event, message, key, EventType.NORMAL), figures=reason.figures)


def with_plugin_problem(plan: Plan, context: JobAutoScalerContext, code: ReasonCode, text: str) -> Plan:
    """Return the plan with the reason and, where that is wanted, the event about a plug-in that cannot be used."""
    plan = plan.with_reason(Reason.of(code, problem=text))
    if not context.options.is_improved:
        return plan
    return plan.with_event(plan_event(context, "PluginProblem", text, code.value))


EXECUTED_HEADER = "Scaling execution enabled, begin scaling vertices:"
_BLOCKED_MARKER = "Scaling execution disabled by config"


def blocked_header(key: str, value: str) -> str:
    """Return the lead-in of a report about a change that an option prevents."""
    return f"{_BLOCKED_MARKER} {key}:{value}, recommended parallelism change:"


def scaling_report(
    summaries: ScalingSummaries, topology: JobTopology, *, blocked_by: str | None, interval: Duration
) -> ScalingReport:
    """Make the report of a decision.

    Args:
        summaries: Changed vertices; not empty.
        topology: For the names of the vertices.
        blocked_by: Lead-in that says what prevents the change; None when it is carried out.
        interval: De-duplication interval of a report that is not carried out.
    """
    text = header = EXECUTED_HEADER if blocked_by is None else blocked_by
    vertices = dict[VertexId, VertexReport]()
    for vertex_id, summary in summaries.items():
        vertex, metrics = topology.vertices.get(vertex_id), summary.metrics
        capacity = metrics.get(ScalingMetric.TRUE_PROCESSING_RATE, _UNKNOWN).average
        expected = metrics.get(ScalingMetric.EXPECTED_PROCESSING_RATE, _UNKNOWN).current
        target = metrics.get(ScalingMetric.TARGET_DATA_RATE, _UNKNOWN).average
        name = "" if vertex is None else vertex.name
        vertices[vertex_id] = VertexReport(name, summary.current, summary.new, capacity, expected, target)
        text += (
            f"{{ Vertex ID {vertex_id} | Parallelism {summary.current} -> {summary.new}"
            f" | Processing capacity {two_decimals(capacity)} -> {two_decimals(expected)}"
            f" | Target data rate {two_decimals(target)}}}"
        )
    is_executed = blocked_by is None
    return ScalingReport(is_executed, header, vertices, text, parallelism_hash(summaries), interval)


_UNKNOWN: Final = EvaluatedMetric(NAN, NAN)


def parallelism_hash(summaries: Mapping[VertexId, ScalingSummary]) -> str:
    """Return a digest of the changes of parallelism, the same for every order of vertices."""
    total = sum(
        _string_hash(vertex_id) ^ _string_hash(f"Parallelism {summary.current} -> {summary.new}")
        for vertex_id, summary in summaries.items()
    )
    return str(total & 0x7FFFFFFF)


def _string_hash(text: str) -> int:
    """Return the polynomial string hash of the Java platform, as 32 unsigned bits."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value
