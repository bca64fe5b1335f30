"""From evaluated metrics to a decision: what is changed, what prevents it, and what is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from flink_autoscaler.core.decide.changes import vertex_changes
from flink_autoscaler.core.decide.filters import apply_filters
from flink_autoscaler.core.decide.memory_tuning import TuningInput, recommendation_event, tune_memory
from flink_autoscaler.core.decide.plan import Plan, blocked_header, plan_event, scaling_report
from flink_autoscaler.core.decide.resources import (
    above_threshold,
    apply_executors,
    at_least_half,
    in_whole_taskmanagers,
    raise_to_threshold,
    within_headroom,
    within_resources,
)
from flink_autoscaler.core.decide.slots import planned_parallelism
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import Event, EventType, Reason, ScalingReport
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, ScalingMetric, VertexId
from flink_autoscaler.core.model.state import JobState, ScalingRecord
from flink_autoscaler.core.model.supervision import Vector
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.observe.observation import add_to_history
from flink_autoscaler.core.options import calendar
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.policy_input import policy_input
from flink_autoscaler.core.policies.policy_runner import run_job_policy, update_policies
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.plugins import Plugins


@value
class Decision:
    """What a pass decides about a job, or why it decides nothing.

    Attributes:
        action: What is to be done, with the reasons.
        state: What to remember from now on, but for what the stages after it learn.
        phase: How far the pass came.
        metrics: Those of the evaluation, with what was recommended; None where nothing was decided by them.
        events: To be raised, in order.
        report: The scaling report; None without a change.
        excluded: Vertices that this pass does not scale.
        error: What went wrong; None when nothing did.
        undecided: What to remember instead, where the decision cannot be carried out; None without a change.
        releases_slots: Whether the job gives slots to others.
        wanted: Parallelism per vertex that follows from the state and the user's own overrides; see :mod:`.overrides`.
        tunes_memory: Whether config changes are to be handed to the realizer.
    """

    action: Hold | Rescale
    state: JobState
    phase: PassPhase = PassPhase.EXECUTED
    metrics: EvaluatedMetrics | None = None
    events: tuple[Event, ...] = ()
    report: ScalingReport | None = None
    excluded: frozenset[VertexId] = frozenset()
    error: AutoscalerError | None = None
    undecided: JobState | None = None
    releases_slots: bool = False
    wanted: Vector = field(default_factory=dict)
    tunes_memory: bool = False


PlanCheck = Callable[[Plan], Plan]
"""Looks again at a plan that would be carried out, and returns what is left of it."""


def decide(job: EvaluatedJob, plugins: Plugins, look: PlanCheck | None = None) -> Decision:
    """Decide about a job whose metric window is full, or that has a policy which needs no window.

    Args:
        job: As it was evaluated.
        plugins: Of the pass.
        look: Has the last word on a plan; None lets it be carried out.

    Raises:
        AutoscalerError: The decision could not be made; nothing of it is to be remembered.
    """
    plan, options = make_plan(job, plugins), job.context.options
    if look and plan.changes and not (plan.blocked_by or plan.is_confirmed):
        plan = look(plan)
    state, interval = replace(job.state, delayed=plan.delayed, policies=plan.memories), options.scaling_event_interval
    action: Hold | Rescale = Hold(plan.reasons)
    report = None
    if plan.changes:
        report = scaling_report(plan.changes, job.topology, blocked_by=plan.blocked_by, interval=interval)
    if plan.changes and plan.blocked_by is None:
        action = Rescale(plan.changes, plan.reasons)
        state = replace(
            state,
            history=add_to_history(job.state.history, plan.changes, job.now_ms),
            tracking=(*(each for each in job.state.tracking if each.at_ms != job.now_ms), ScalingRecord(job.now_ms)),
            overrides=planned_parallelism(job.topology, plan.changes),
            config_changes=plan.tuning,
            delayed={},
        )
    metrics = EvaluatedMetrics(plan.metrics, job.metrics.globals_)
    return Decision(action, state, metrics=metrics, events=plan.events, report=report, excluded=job.excluded)


def make_plan(job: EvaluatedJob, plugins: Plugins) -> Plan:
    """Return what is left of what the policy of a job wants, and what it remembers, whatever becomes of that.

    Raises:
        AutoscalerError: The decision could not be made; nothing of it is to be remembered.
    """
    plan = _under_memory_pressure(job)
    if plan is not None:
        heard = update_policies(lambda: policy_input(job), job, plugins.policies)
        return replace(plan, reasons=(*plan.reasons, *heard.reasons), memories=heard.memories)
    chosen = run_job_policy(lambda: policy_input(job), job, plugins.policies)
    plan = vertex_changes(chosen, job, plugins)
    if plan.changes:
        plan = raise_to_threshold(in_whole_taskmanagers(plan, job), job)
    if not plan.changes:
        return plan
    if (blocked_by := _blocked_by(job)) is not None:
        reason = Reason.of(ReasonCode.SCALING_DISABLED, what=blocked_by.rstrip(":"))
        return replace(plan.with_reason(reason), blocked_by=blocked_by)
    plan = apply_filters(plan, job)
    if not plan.changes:
        return plan
    plan = _with_memory_tuning(plan, job)
    flink = job.context.flink_options.with_changes(plan.tuning.overrides, plan.tuning.removals)
    plan = within_resources(plan, job, plugins, flink)
    plan = at_least_half(plan, within_headroom(plan, job, flink), job)
    if plan.changes:
        plan = in_whole_taskmanagers(apply_executors(plan, job, plugins), job, is_cut=True)
        plan = above_threshold(plan, job)
    return plan


def _under_memory_pressure(job: EvaluatedJob) -> Plan | None:
    """Return the plan to change nothing where garbage collection or heap usage forbid it; NaN forbids nothing."""
    options, globals_ = job.context.options, job.metrics.globals_
    pressure = globals_[ScalingMetric.GC_PRESSURE].current
    usage = globals_[ScalingMetric.HEAP_MAX_USAGE_RATIO].average
    if pressure > options.gc_pressure_threshold:
        key, subject, number = "gcPressure", "GC pressure", pressure
        limit = AutoscalerOptions.gc_pressure_threshold.key
    elif usage > options.heap_usage_threshold:
        key, subject, number = "heapUsage", "Heap usage", usage
        limit = AutoscalerOptions.heap_usage_threshold.key
    else:
        return None
    reason = Reason.of(ReasonCode.MEMORY_PRESSURE, subject=subject, value=number, option=limit)
    event = plan_event(job.context, "MemoryPressure", reason.text, key, EventType.NORMAL)
    return Plan({}, job.metrics.vertices, job.state.delayed).with_event(event).with_reason(reason)


def _with_memory_tuning(plan: Plan, job: EvaluatedJob) -> Plan:
    """Recommend memory settings; they are changed when tuning is on."""
    context: JobAutoScalerContext = job.context
    tuning = tune_memory(
        TuningInput(
            topology=job.topology,
            summaries=plan.changes,
            globals_=job.metrics.globals_,
            options=context.options,
            flink_options=context.flink_options,
            taskmanager_memory=context.taskmanager_memory or context.flink_options.process_memory or 0,
        )
    )
    if tuning is None:
        return plan
    plan = plan.with_event(recommendation_event(tuning, context.options))
    return replace(plan, tuning=tuning) if context.options.memory_tuning else plan


def _blocked_by(job: EvaluatedJob) -> str | None:
    """Return the lead-in that names the option which prevents changes now."""
    options = job.context.options
    if options.dry_run or job.orders.dry_run is not None:
        return blocked_header(AutoscalerOptions.dry_run.key, "true")
    if not options.scaling_enabled:
        return blocked_header(AutoscalerOptions.scaling_enabled.key, "false")
    periods = options.excluded_periods
    if calendar.is_excluded(periods, job.now_ms, is_reference=not options.is_improved):
        return blocked_header(AutoscalerOptions.excluded_periods.key, f"[{', '.join(periods)}]")
    return None
