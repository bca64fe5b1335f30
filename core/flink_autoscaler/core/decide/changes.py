"""Which vertices should change, what holds a vertex back, and scale-downs that wait."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from flink_autoscaler.core.decide.alignment import AlignmentSettings, align, alignment_limited_event, alignment_request
from flink_autoscaler.core.decide.plan import Plan, plan_event
from flink_autoscaler.core.errors import EvaluationError
from flink_autoscaler.core.evaluate.evaluation import EvaluationSettings, is_processing_backlog, saturated_sources
from flink_autoscaler.core.model.events import Event, EventType, NamedFigures, Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import EvaluatedMetric, ScalingMetric, VertexId, of
from flink_autoscaler.core.model.numbers import NAN, plain
from flink_autoscaler.core.model.policy_values import VertexSizing
from flink_autoscaler.core.model.state import DelayedRecommendation, DelayedVertex, ScalingSummary
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.observe.window import window_of
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import saturation_reason
from flink_autoscaler.core.policies.base.scalability import Gains, ineffective_gains
from flink_autoscaler.core.policies.base.sizing import SizingSettings, sizing_for_target
from flink_autoscaler.core.policies.policy_runner import PolicyPlan
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.plugins import Plugins

_SIZED: Final = (
    "target_rate",
    "utilization_target",
    "catch_up_rate",
    "restart_rate",
    "needed_rate",
    "processing_rate",
    "coefficient",
    "factor",
    "wanted",
    "least",
    "greatest",
    "max_parallelism",
    "partitions",
    "within_limits",
    "aligned",
)
"""The terms of the formula by which a vertex is sized, as :func:`_sizing_reason` gives them."""
_WAITED: Final = ("waited", "scale_down_interval")


def queue_recommendation(
    pending: DelayedVertex | None, recommendation: DelayedRecommendation, interval_ms: int
) -> tuple[DelayedVertex | None, DelayedRecommendation | None]:
    """Add a recommendation to those of a vertex that wait.

    Args:
        pending: What waits; None where nothing does.
        recommendation: The scale-down advised now.
        interval_ms: How long it has to stay advisable; 0 or less for not at all.

    Returns:
        What waits now, and the highest recommendation of the last interval once that has passed since the first; None
        while it has not.
    """
    if interval_ms <= 0:
        return pending, recommendation
    pending = pending or DelayedVertex(recommendation.at_ms, ())
    higher = list(pending.queue)
    while higher and higher[-1].parallelism <= recommendation.parallelism:
        higher.pop()
    queue, start_ms = (*higher, recommendation), recommendation.at_ms - interval_ms
    if start_ms < pending.first_ms:
        return pending._replace(queue=queue), None
    recent = tuple(entry for entry in queue if entry.at_ms >= start_ms)
    return pending._replace(queue=recent), recent[0]


@value
class VertexChange:
    """What becomes of one vertex.

    Attributes:
        wanted: The parallelism that it should have from now on; None for the one it has.
        pending: Its scale-downs that wait from now on; None where none does.
        expected: Records/s with the parallelism that was sized; None where that is the one it has.
        reasons: Why.
        events: To be raised.
    """

    wanted: DelayedRecommendation | None = None
    pending: DelayedVertex | None = None
    expected: float | None = None
    reasons: tuple[Reason, ...] = ()
    events: tuple[Event, ...] = ()


def vertex_changes(chosen: PolicyPlan, job: EvaluatedJob, plugins: Plugins) -> Plan:
    """Return the changes that are left of what policies want, within factors, limits and delays.

    As in the reference nothing changes unless a vertex that would change is outside of its band; all others go with it.

    Raises:
        EvaluationError: A vertex would get no subtasks at all.
        PluginError: A custom alignment mode failed.
    """
    wanted = dict[VertexId, DelayedRecommendation]()
    # Before the window is full not all partitions may have been seen.
    idle = {v for v, vertex in job.topology.vertices.items() if vertex.idle_subtasks and job.is_window_full}
    metrics, waiting = dict(job.metrics.vertices), dict(job.state.delayed)
    skews = [plan_event(job.context, "DataSkew", skew.text, f"DataSkew{v}") for v, skew in job.skewed.items()]
    reasons, events = [*chosen.reasons, *job.skewed.values()], [*chosen.events(job.context.options), *skews]
    for vertex_id, vertex in job.topology.vertices.items():
        if vertex_id in job.excluded:
            if vertex_id not in job.context.restriction.fixed:  # what others told has its own reason
                reasons.append(Reason.of(ReasonCode.EXCLUDED, vertex_id))
        elif vertex_id not in chosen.unknown or vertex_id in idle:
            change = _change_of(vertex, chosen, job, plugins)
            if vertex_id in idle:
                change = _without_idle_subtasks(vertex, change, job)
            reasons += change.reasons
            events += change.events
            waiting.pop(vertex_id, None)
            if change.pending is not None:
                waiting[vertex_id] = change.pending
            if change.expected is not None:
                metrics[vertex_id] = {
                    **metrics[vertex_id],
                    ScalingMetric.EXPECTED_PROCESSING_RATE: of(change.expected),
                }
            if change.wanted is not None and change.wanted.parallelism != vertex.parallelism:
                wanted[vertex_id] = change.wanted
    plan = Plan(
        changes={},
        metrics=metrics,
        delayed=waiting,
        reasons=tuple(reasons),
        events=tuple(events),
        bypasses_damping=chosen.bypasses_damping | idle,
        memories=chosen.memories,
        is_confirmed=chosen.is_confirmed,
    )
    return _with_changes(plan, job, wanted)


def _within_bounds(wanted: Mapping[VertexId, DelayedRecommendation], job: EvaluatedJob) -> Reason:
    """Say that nothing is outside its bounds, and how much room the busiest vertex has left that would grow."""
    vertices, options = job.topology.vertices, job.context.options
    settings = EvaluationSettings.of(options, 0)  # a restart has no part in what is a backlog
    if (waiting := _backlog_reason(wanted, job, settings)) is not None:
        return waiting
    growing = (v for v, advice in wanted.items() if advice.parallelism > vertices[v].parallelism)
    loads = {v: job.metrics.vertices[v][ScalingMetric.LOAD].average for v in growing}
    known = {v: load for v, load in loads.items() if math.isfinite(load)}
    if not known:
        return Reason.of(ReasonCode.WITHIN_BOUNDS)
    busiest = max(known, key=lambda v: known[v])
    load, most = known[busiest], settings.utilization_max
    lags = [metrics[ScalingMetric.LAG] for metrics in job.metrics.vertices.values() if ScalingMetric.LAG in metrics]
    condition = "while its lag does not grow " if all(math.isfinite(lag.current) for lag in lags) else ""
    figures = (("load", load), ("headroom", max(0.0, 1 - load)), ("utilization_max", most))
    vertex, limit = vertices[busiest].name, min(1.0, most)
    return Reason.of(ReasonCode.WITHIN_BOUNDS, figures=figures, vertex=vertex, condition=condition, limit=limit)


def _backlog_reason(
    wanted: Mapping[VertexId, DelayedRecommendation], job: EvaluatedJob, settings: EvaluationSettings
) -> Reason | None:
    """Say that a backlog is what keeps vertices from being scaled down, with its records; None where it does not."""
    vertices, window = job.topology.vertices, window_of(job.state.samples)
    is_lowered = any(advice.parallelism < vertices[v].parallelism for v, advice in wanted.items())
    if not (is_lowered and settings.is_improved and is_processing_backlog(job.topology, window, settings)):
        return None
    lags = {
        vertices[v].name: metrics[ScalingMetric.LAG].current
        for v, metrics in job.metrics.vertices.items()
        if ScalingMetric.LAG in metrics
    }
    waiting = {name: lag for name, lag in lags.items() if lag > 0}
    told = ", ".join(f"{plain(lag)} records wait at {name}" for name, lag in waiting.items())
    return Reason.of(ReasonCode.PROCESSING_BACKLOG, None, (("lag", sum(waiting.values())),), waiting=told)


def _with_changes(plan: Plan, job: EvaluatedJob, wanted: Mapping[VertexId, DelayedRecommendation]) -> Plan:
    """Return the plan with changes; what is expected of a vertex stays the rate for what it was sized for now."""
    if not wanted:
        return plan.with_reason(Reason.of(ReasonCode.NO_CHANGE))
    if not any(each.is_outside for each in wanted.values()):
        return replace(plan, reasons=(*plan.reasons, _within_bounds(wanted, job)))
    metrics, changes = dict(plan.metrics), dict[VertexId, ScalingSummary]()
    for vertex_id, each in wanted.items():
        recommended = EvaluatedMetric(float(each.parallelism), NAN)
        metrics[vertex_id] = {**metrics[vertex_id], ScalingMetric.RECOMMENDED_PARALLELISM: recommended}
        current = job.topology.vertices[vertex_id].parallelism
        changes[vertex_id] = ScalingSummary(current, each.parallelism, metrics[vertex_id])
    return replace(plan, changes=changes, metrics=metrics)


def _change_of(vertex: Vertex, chosen: PolicyPlan, job: EvaluatedJob, plugins: Plugins) -> VertexChange:
    """Return what becomes of one vertex; one of which policies know nothing stays as it is."""
    if vertex.vertex_id in chosen.unknown:
        return VertexChange(pending=job.state.delayed.get(vertex.vertex_id))
    vertex_id, target = vertex.vertex_id, chosen.targets[vertex.vertex_id]
    sized, pending = chosen.sizings.get(vertex_id), job.state.delayed.get(vertex_id)
    is_sized, is_at_once = sized is not None and sized.target == target, vertex_id in chosen.bypasses_damping
    if sized is not None and is_sized:
        sizing = sized
    else:
        rate = job.metrics.vertices[vertex_id][ScalingMetric.TRUE_PROCESSING_RATE].average
        settings = SizingSettings.of_job(job)
        sizing = sizing_for_target(vertex, target, rate, replace(settings, min_factor=0.0) if is_at_once else settings)
    parallelism, reasons, events = sizing.target, tuple[Reason, ...](), tuple[Event, ...]()
    # A policy that chooses among what alignment comes to means what it says.
    if sizing.target != sizing.current and not (is_at_once and sizing.target in job.aligned.get(vertex_id, ())):
        parallelism, reasons, events = _align_target(vertex, sizing, job, plugins)
    if parallelism == sizing.current:
        kept = None if is_sized or chosen.is_sure else pending
        at_target = (_sizing_reason(ReasonCode.AT_TARGET, vertex, sizing, job, parallelism),) if is_sized else ()
        return VertexChange(pending=kept, reasons=(*reasons, *at_target), events=events)
    if is_sized:
        reasons = (*reasons, _sizing_reason(ReasonCode.SIZED, vertex, sizing, job, parallelism))
    else:
        reasons = (*reasons, _plan_reason(vertex, sizing, parallelism))
    advice = DelayedRecommendation(job.now_ms, parallelism, sized is None or sized.is_outside)
    if advice.parallelism > sizing.current:
        held = _scale_up(vertex, advice, job)
    else:
        held = VertexChange(advice) if is_at_once else _scale_down(vertex, advice, job)
    aimed = parallelism
    if held.wanted is not None and job.context.options.is_improved:
        aimed = held.wanted.parallelism  # not what is wanted now, where an earlier scale-down counts
    return replace(
        held,
        expected=(sizing.rate / sizing.current) * aimed,
        reasons=(*reasons, *held.reasons),
        events=(*events, *held.events),
    )


def _without_idle_subtasks(vertex: Vertex, change: VertexChange, job: EvaluatedJob) -> VertexChange:
    """Take the subtasks from a source that have no partition, at once and whatever becomes of the others.

    Nothing is lost by that, so that neither a scale-down interval nor the band around the target has a say; what the
    user or the cluster demands at least has.
    """
    most, change_to = vertex.working_subtasks, change.wanted
    least = min(vertex.parallelism, max(SizingSettings.of_job(job).limits_for(vertex)[0], vertex.floor))
    parallelism = max(least, most if change_to is None else min(change_to.parallelism, most))
    figures = (("partitions", float(vertex.source_partitions)), ("idle_subtasks", float(vertex.idle_subtasks)))
    reason = Reason.of(ReasonCode.IDLE_SUBTASKS, vertex.vertex_id, figures, subtasks=vertex.parallelism)
    rate = job.metrics.vertices[vertex.vertex_id][ScalingMetric.TRUE_PROCESSING_RATE].average
    return replace(
        change,
        wanted=DelayedRecommendation(job.now_ms, parallelism, is_outside=True),
        expected=rate / most * min(parallelism, most),
        reasons=(*change.reasons, reason),
    )


def _plan_reason(vertex: Vertex, sizing: VertexSizing, parallelism: int) -> Reason:
    return Reason.of(
        ReasonCode.PLANNED,
        vertex.vertex_id,
        current=sizing.current,
        asked=round(sizing.factor * sizing.current),
        wanted=sizing.wanted,
        limited=sizing.target,
        aligned=parallelism,
    )


def _sizing_reason(
    code: ReasonCode, vertex: Vertex, sizing: VertexSizing, job: EvaluatedJob, parallelism: int
) -> Reason:
    """Say how a vertex was sized, with every term of the formula; rates in records/s, summed over all subtasks."""
    options, metrics = job.context.options, job.metrics.vertices[vertex.vertex_id]
    target, catch_up = metrics[ScalingMetric.TARGET_DATA_RATE].average, options.catch_up_duration.seconds
    values = (
        target,
        options.utilization_target,
        metrics[ScalingMetric.CATCH_UP_DATA_RATE].current,
        target * job.restart_time / catch_up if catch_up else 0.0,
        sizing.capacity,
        sizing.rate,
        sizing.coefficient,
        sizing.factor,
        sizing.wanted,
        sizing.limits.lower,
        sizing.limits.upper,
        vertex.max_parallelism,
        vertex.source_partitions,
        sizing.target,
        parallelism,
    )
    return Reason.of(code, vertex.vertex_id, NamedFigures(_SIZED, values), current=sizing.current)


def _align_target(
    vertex: Vertex, sizing: VertexSizing, job: EvaluatedJob, plugins: Plugins
) -> tuple[int, tuple[Reason, ...], tuple[Event, ...]]:
    """Return the parallelism that spreads key groups or partitions well; a source stays within its partitions."""
    if sizing.target < 1:
        key = AutoscalerOptions.min_parallelism.key
        raise EvaluationError(f"vertex {vertex.vertex_id}: parallelism {sizing.target} is impossible; raise {key}")
    aligned, options = align(vertex, sizing, job, plugins), job.context.options
    parallelism, reasons, events = aligned.parallelism, list[Reason](), list[Event]()
    if aligned.problem is not None:
        reasons.append(Reason.of(ReasonCode.ALIGNMENT_MODE, problem=aligned.problem))
        if options.is_improved:
            events.append(plan_event(job.context, "PluginProblem", aligned.problem, "ALIGNMENT_MODE"))
    if aligned.is_limited:
        request = alignment_request(vertex, sizing.limits, sizing.current, sizing.target)
        events.append(alignment_limited_event(request, aligned, options))
    if aligned.beyond is not None:
        reasons.append(
            _uneven_reason(vertex, aligned.parallelism, aligned.beyond, AlignmentSettings.of(options).max_increase)
        )
    if vertex.is_source and vertex.source_partitions > 0 and options.is_improved:
        parallelism = min(parallelism, max(sizing.current, vertex.source_partitions))
    return parallelism, tuple(reasons), tuple(events)


def _uneven_reason(vertex: Vertex, parallelism: int, beyond: int, most: float) -> Reason:
    """Say that a parallelism is not raised to the next one with even shares, which is too far away."""
    spread = (
        f"{vertex.source_partitions} partitions" if vertex.source_partitions else f"{vertex.max_parallelism} key groups"
    )
    figures = (("parallelism", float(parallelism)), ("even", float(beyond)), ("max_increase", most))
    option = AutoscalerOptions.alignment_max_increase.key
    return Reason.of(ReasonCode.ALIGNMENT_TOO_FAR, vertex.vertex_id, figures, spread=spread, option=option)


def _scale_up(vertex: Vertex, advice: DelayedRecommendation, job: EvaluatedJob) -> VertexChange:
    options, entries = job.context.options, job.state.history.get(vertex.vertex_id, ())
    rate = job.metrics.vertices[vertex.vertex_id][ScalingMetric.TRUE_PROCESSING_RATE].average
    if not entries or math.isnan(rate):  # of a rate that is not known nothing can be said
        return VertexChange(advice)
    gains = ineffective_gains(entries, vertex.parallelism, rate, options.effectiveness_threshold)
    if gains is None:
        return VertexChange(advice)
    events = (_ineffective_event(vertex.vertex_id, gains, job),)
    if not options.effectiveness_detection:
        return VertexChange(advice, events=events)
    reason = Reason.of(ReasonCode.INEFFECTIVE_SCALING, vertex.vertex_id)
    return VertexChange(reasons=(reason,), events=events)


def _ineffective_event(vertex_id: VertexId, gains: Gains, job: EvaluatedJob) -> Event:
    expected = plain(gains.expected)
    state = "enabled" if job.context.options.effectiveness_detection else "disabled"
    message = (
        f"Ineffective scaling detected for vertex {vertex_id}: expected an increase of {expected} records/s, got "
        f"{plain(gains.actual)} records/s. Blocking of ineffective scaling is {state}."
    )
    key = f"ineffective{vertex_id}{expected}"
    return plan_event(job.context, "IneffectiveScaling", message, key, EventType.NORMAL)


def _scale_down(vertex: Vertex, advice: DelayedRecommendation, job: EvaluatedJob) -> VertexChange:
    options, pending = job.context.options, job.state.delayed.get(vertex.vertex_id)
    load = job.metrics.vertices[vertex.vertex_id][ScalingMetric.LOAD].average
    if not vertex.is_source and options.is_improved and load >= options.utilization_target:
        # It is too busy to believe that it has capacity to spare.
        return VertexChange(pending=pending, reasons=(Reason.of(ReasonCode.SATURATED, vertex.vertex_id),))
    if options.is_improved and (behind := saturated_sources(job.topology, window_of(job.state.samples))):
        return VertexChange(pending=pending, reasons=(saturation_reason(behind[0].name, vertex.vertex_id),))
    pending, highest = queue_recommendation(pending, advice, options.scale_down_interval.ms)
    if highest is None:
        waited = 0.0 if pending is None else (job.now_ms - pending.first_ms) / 1000
        figures = NamedFigures(_WAITED, (waited, options.scale_down_interval.exact_seconds))
        interval = str(options.scale_down_interval)
        reason = Reason.of(ReasonCode.SCALE_DOWN_DELAYED, vertex.vertex_id, figures, interval=interval)
        return VertexChange(pending=pending, reasons=(reason,))
    if highest.parallelism > vertex.parallelism and options.is_improved:
        return VertexChange(pending=pending, reasons=(Reason.of(ReasonCode.SCALE_DOWN_STALE, vertex.vertex_id),))
    return VertexChange(highest, pending, reasons=_highest_reasons(vertex, advice, highest, options))


def _highest_reasons(
    vertex: Vertex, advice: DelayedRecommendation, highest: DelayedRecommendation, options: AutoscalerOptions
) -> tuple[Reason, ...]:
    """Say that a scale-down goes by the most that was wanted while it waited, where that is not what is wanted now."""
    if highest.parallelism == advice.parallelism:
        return ()
    figures = (("highest", float(highest.parallelism)), ("wanted_now", float(advice.parallelism)))
    interval = str(options.scale_down_interval)
    return (Reason.of(ReasonCode.SCALE_DOWN_HIGHEST, vertex.vertex_id, figures, interval=interval),)
