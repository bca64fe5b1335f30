"""From evaluated metrics to a decision: what is changed, what prevents it, and what is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from flink_autoscaler.core.decide.changes import changes_of
from flink_autoscaler.core.decide.filters import filtered
from flink_autoscaler.core.decide.memory_tuning import TuningInput, recommendation_event, tune
from flink_autoscaler.core.decide.plan import Plan, blocked_header, plan_event, scaling_report
from flink_autoscaler.core.decide.resources import (
    above_threshold,
    after_executors,
    at_least_half,
    in_whole_taskmanagers,
    raised_to_threshold,
    within_headroom,
    within_resources,
)
from flink_autoscaler.core.decide.slots import planned_parallelism
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import plain
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.model.state import ConfigChanges, JobState, PolicyMemories, ScalingRecord
from flink_autoscaler.core.model.supervision import Vector
from flink_autoscaler.core.observe.observation import add_to_history
from flink_autoscaler.core.options import calendar
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.choosing import PolicyPlan, choose, hear
from flink_autoscaler.core.policies.observing import policy_input
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.plugins import Plugins


@quick
@dataclass(frozen=True, slots=True)
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


Look = Callable[[Plan], Plan]
"""Looks again at a plan that would be carried out, and returns what is left of it."""


def decide(job: EvaluatedJob, plugins: Plugins, look: Look | None = None) -> Decision:
    """Decide about a job whose metric window is full, or that has a policy which needs no window.

    Args:
        job: As it was evaluated.
        plugins: Of the pass.
        look: Has the last word on a plan; None lets it be carried out.

    Raises:
        AutoscalerError: The decision could not be made; nothing of it is to be remembered.
    """
    options, memories = job.context.options, job.state.policies
    plan = _under_memory_pressure(job)
    if plan is not None:
        heard = hear(lambda: policy_input(job), options, plugins.policies, memories)
        return _held(replace(plan, reasons=(*plan.reasons, *heard.reasons)), job, heard.memories)
    chosen = choose(lambda: policy_input(job), options, plugins.policies, memories, job)
    return _decided(chosen, job, plugins, look)


def _decided(chosen: PolicyPlan, job: EvaluatedJob, plugins: Plugins, look: Look | None) -> Decision:
    """Return what is left of what the policies want."""
    plan = raised_to_threshold(in_whole_taskmanagers(changes_of(chosen, job, plugins), job), job)
    if not plan.changes:
        return _held(plan, job, chosen.memories)
    blocked_by = _blocked_by(job)
    if blocked_by is not None:
        plan = plan.explained("SCALING_DISABLED", blocked_by.rstrip(":"))
        return _held(plan, job, chosen.memories, _report(plan, job, blocked_by))
    plan = filtered(plan, job)
    if not plan.changes:
        return _held(plan, job, chosen.memories)
    plan, tuning = _tuned(plan, job)
    flink = job.context.flink_options.with_changes(tuning.overrides, tuning.removals)
    plan = within_resources(plan, job, plugins, flink)
    plan = at_least_half(plan, within_headroom(plan, job, flink), job)
    if plan.changes:
        plan = in_whole_taskmanagers(after_executors(plan, job, plugins, tuning), job, is_cut=True)
        plan = above_threshold(plan, job)
    if look and plan.changes and not chosen.is_confirmed:
        plan = look(plan)
    if plan.changes:
        return _carried_out(plan, job, chosen.memories, tuning)
    return _held(plan, job, chosen.memories)


def _held(plan: Plan, job: EvaluatedJob, memories: PolicyMemories, report: ScalingReport | None = None) -> Decision:
    """Leave the job as it is; only scale-downs that wait and the memories of policies are kept."""
    state = replace(job.state, delayed=plan.delayed, policies=memories)
    metrics = EvaluatedMetrics(plan.metrics, job.metrics.globals_)
    hold = Hold(plan.reasons)
    return Decision(hold, state, metrics=metrics, events=plan.events, report=report, excluded=job.excluded)


def _carried_out(plan: Plan, job: EvaluatedJob, memories: PolicyMemories, tuning: ConfigChanges) -> Decision:
    """Record the changes: history, tracking, and the parallelism of every vertex from now on."""
    tracking = (record for record in job.state.tracking if record.at_ms != job.now_ms)
    state = replace(
        job.state,
        history=add_to_history(job.state.history, plan.changes, job.now_ms),
        tracking=(*tracking, ScalingRecord(job.now_ms)),
        overrides=planned_parallelism(job.topology, plan.changes),
        config_changes=tuning,
        delayed={},
        policies=memories,
    )
    return Decision(
        Rescale(plan.changes, plan.reasons),
        state,
        metrics=EvaluatedMetrics(plan.metrics, job.metrics.globals_),
        events=plan.events,
        report=_report(plan, job, None),
        excluded=job.excluded,
    )


def _report(plan: Plan, job: EvaluatedJob, blocked_by: str | None) -> ScalingReport:
    interval = job.context.options.scaling_event_interval
    return scaling_report(plan.changes, job.topology, blocked_by=blocked_by, interval=interval)


def _under_memory_pressure(job: EvaluatedJob) -> Plan | None:
    """Return the plan to change nothing where garbage collection or heap usage forbid it; NaN forbids nothing."""
    options, globals_ = job.context.options, job.metrics.globals_
    pressure = globals_[ScalingMetric.GC_PRESSURE].current
    usage = globals_[ScalingMetric.HEAP_MAX_USAGE_RATIO].average
    if pressure > options.gc_pressure_threshold:
        key, subject = "gcPressure", f"GC pressure {plain(pressure)}"
        limit = AutoscalerOptions.gc_pressure_threshold.key
    elif usage > options.heap_usage_threshold:
        key, subject = "heapUsage", f"Heap usage {plain(usage)}"
        limit = AutoscalerOptions.heap_usage_threshold.key
    else:
        return None
    message = f"{subject} is above the limit {limit} for scaling. Please adjust the memory of the TaskManagers by hand."
    event = plan_event(job.context, "MemoryPressure", message, key, EventType.NORMAL)
    return Plan({}, job.metrics.vertices, job.state.delayed).told(event).explained("MEMORY_PRESSURE", message)


def _tuned(plan: Plan, job: EvaluatedJob) -> tuple[Plan, ConfigChanges]:
    """Recommend memory settings; return them when tuning is on, else no changes."""
    context: JobAutoScalerContext = job.context
    tuning = tune(
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
        return plan, ConfigChanges()
    plan = plan.told(recommendation_event(tuning, context.options))
    return plan, tuning if context.options.memory_tuning else ConfigChanges()


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
