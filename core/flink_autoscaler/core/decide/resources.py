"""What may still change a plan: resources of the cluster, executors, whole TaskManagers, and Flink's own threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import itemgetter

from flink_autoscaler.core.decide.plan import Plan, filter_event, plan_event, with_plugin_problem
from flink_autoscaler.core.decide.slots import (
    Quota,
    TaskManagerSize,
    available_capacity,
    exceeds_quota,
    free_slots,
    limit_figures,
    limit_text,
    missing_slots,
    more_slots_for,
    planned_parallelism,
    slots_after,
    slots_of,
    taskmanagers_for,
    taskmanagers_to_add,
    within_capacity,
    within_quota,
)
from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.errors import AutoscalerError, PluginError
from flink_autoscaler.core.model.events import EventType, Reason
from flink_autoscaler.core.model.job import Headroom
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import trunc32
from flink_autoscaler.core.model.syntax import abbreviate
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.policies.base.sizing import SizingSettings, limits_of
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.plugins import (
    EXECUTOR,
    ExecutorContext,
    Plugins,
    ResourceRequest,
    ScalingExecutor,
    plugin_class,
    with_plugin_options,
)
from flink_autoscaler.core.ports.task_managers import is_reactive, reactive_parallelism, reactive_slots


def within_resources(plan: Plan, job: EvaluatedJob, plugins: Plugins, tuned: FlinkOptions) -> Plan:
    """Return what the cluster and the quotas can hold of a plan, with tuned memory where that is on."""
    context = job.context
    memory = tuned.process_memory or context.taskmanager_memory or 0
    plan = _check_schedulable(plan, job, plugins, tuned, memory)
    options = context.options
    if plan.changes and not (options.quota_cpu is None and options.quota_memory is None):
        cpu = context.taskmanager_cpu or 0.0
        quota = Quota(options.quota_cpu, options.quota_memory, cpu, memory, max(1, tuned.task_slots))
        plan = _within_quota(plan, job, quota)
    return plan


def within_headroom(plan: Plan, job: EvaluatedJob, tuned: FlinkOptions) -> Plan:
    """Return what the resource manager, or the free slots of the cluster, can hold of a plan."""
    context = job.context
    if context.headroom is None or not plan.changes:
        return plan
    memory = tuned.process_memory or context.taskmanager_memory or 0
    # A resource manager may give a TaskManager more than its configuration asks for, rounded up to its own steps.
    granted = max(memory, context.taskmanager_memory or 0)
    size = TaskManagerSize(max(1, tuned.task_slots), context.taskmanager_cpu or 0.0, granted)
    return _within_headroom(plan, job, context.headroom, size)


def at_least_half(asked: Plan, fitting: Plan, job: EvaluatedJob) -> Plan:
    """Return what fits of a plan, or nothing where that is less than half of the slots that it wants, or has.

    A job whose slots come free one after the other is not rescaled for each of them. Half as many again as it has are
    worth a rescale whatever it wants: else a job that wants more than the cluster has would never get any. Where
    something shrinks as well, the outage is paid anyway.

    Args:
        asked: The plan before what the cluster can still give was looked at.
        fitting: What is left of it.
        job: The job.
    """
    if fitting is asked:
        return asked
    wanted, part = (more_slots_for(job.topology, plan.changes) for plan in (asked, fitting))
    has = slots_of(job.topology, planned_parallelism(job.topology, {}))
    is_up = all(change.is_scale_up for change in fitting.changes.values())
    if not (fitting.changes and is_up and 2 * part < min(wanted, has) and job.context.options.filters_rescales):
        return fitting
    figures = (("available", float(part)), ("wanted", float(wanted)))
    reason = Reason.of(ReasonCode.WAITS_FOR_MORE_SLOTS, figures=figures)
    event = filter_event(job.context, "ScaleUpWaits", reason)
    return fitting.with_reason(reason).with_event(event).without_changes()


def _check_schedulable(plan: Plan, job: EvaluatedJob, plugins: Plugins, tuned: FlinkOptions, memory: int) -> Plan:
    """Ask the resource check of the job; without one, everything can be scheduled."""
    name = job.context.options.resource_check
    if not name:
        return plan
    check = plugins.resource_checks.get(name)
    if check is None:
        text = f"resource check {name!r} is ignored: there is no such plug-in"
        return with_plugin_problem(plan, job.context, ReasonCode.RESOURCE_CHECK, text)
    request = _resource_request(plan, job, tuned, memory)
    has_room = try_call(lambda: bool(check.try_schedule(request, job.cluster)))
    if isinstance(has_room, AutoscalerError):
        raise PluginError(f"resource check {name!r} failed: {has_room}") from has_room
    if has_room:
        return plan
    reason = Reason.of(ReasonCode.NOT_SCHEDULABLE, needed=request.slots_needed, used=request.slots_used)
    event = replace(filter_event(job.context, "NotSchedulable", reason), type=EventType.WARNING)
    return plan.with_reason(reason).with_event(event).without_changes()


def _resource_request(plan: Plan, job: EvaluatedJob, tuned: FlinkOptions, memory: int) -> ResourceRequest:
    used = job.metrics.globals_[ScalingMetric.NUM_TASK_SLOTS_USED].current
    needed = slots_after(job.topology, plan.changes, used)
    return ResourceRequest(
        current=taskmanagers_for(trunc32(used), max(1, tuned.task_slots)),
        new=taskmanagers_for(needed, max(1, tuned.task_slots)),
        cpu=job.context.taskmanager_cpu or 0.0,
        memory=memory,
        slots_used=trunc32(used),
        slots_needed=needed,
        more_slots=more_slots_for(job.topology, plan.changes),
    )


def _within_quota(plan: Plan, job: EvaluatedJob, quota: Quota) -> Plan:
    """Return what a quota allows of a plan: as much as fits, in the reference all of it or nothing."""
    options = job.context.options
    if not options.is_improved:
        return _quota_reached(plan, job).without_changes() if exceeds_quota(job.topology, plan.changes, quota) else plan
    if quota.is_unknown:
        reason = Reason.of(ReasonCode.QUOTA_UNKNOWN)
        event = plan_event(job.context, "QuotaUnknown", f"Beware, {reason.text}.", "QuotaUnknown")
        plan = plan.with_reason(reason).with_event(event)
    allowed = within_quota(job.topology, plan.changes, quota)
    if allowed == {vertex_id: change.new for vertex_id, change in plan.changes.items()}:
        return plan
    return _quota_reached(plan, job).with_parallelism(allowed, {})


def _quota_reached(plan: Plan, job: EvaluatedJob) -> Plan:
    reason = Reason.of(ReasonCode.QUOTA_REACHED)
    return plan.with_event(plan_event(job.context, "ResourceQuotaReached", reason.text, None)).with_reason(reason)


def _within_headroom(plan: Plan, job: EvaluatedJob, headroom: Headroom, size: TaskManagerSize) -> Plan:
    topology, changes = job.topology, plan.changes
    room = available_capacity(headroom, size, free_slots(job.cluster) or 0)
    if room.unchecked and taskmanagers_to_add(topology, changes, room):
        limits = " and ".join(room.unchecked)
        plan = plan.with_reason(Reason.of(ReasonCode.HEADROOM_UNKNOWN, source=headroom.source, limits=limits))
    allowed = within_capacity(topology, changes, room)
    if allowed == {vertex_id: change.new for vertex_id, change in changes.items()}:
        return plan
    capacity = job.context.capacity
    if capacity is not None and capacity.slots_per_taskmanager:
        room = replace(room, slots_per_taskmanager=capacity.slots_per_taskmanager)  # of those that are there
    text = limit_text(headroom, room, topology=topology, summaries=changes, allowed=allowed)
    figures = limit_figures(headroom, room, missing_slots(topology, changes, allowed))
    event = plan_event(job.context, "HeadroomReached", f"Scaling up is limited: {text}", "HeadroomReached")
    plan = plan.with_reason(Reason.of(ReasonCode.HEADROOM_REACHED, figures=figures, limit=text))
    return plan.with_event(replace(event, figures=figures)).with_parallelism(allowed, {})


def apply_executors(plan: Plan, job: EvaluatedJob, plugins: Plugins) -> Plan:
    """Let the configured executors change the plan, in the order of their priority; empty after a veto.

    Raises:
        PluginError: An executor failed.
    """
    names = tuple(dict.fromkeys(job.context.options.custom_executors))
    if not names:
        return plan
    configuration = job.context.flink_options.with_changes(plan.tuning.overrides, plan.tuning.removals).configuration
    chosen = []
    for name in names:
        identity = plugin_class(configuration, EXECUTOR, name)
        executor = plugins.executors.get(identity or "")
        if executor is None:
            text = f"scaling executor {name!r} is ignored: no plug-in {identity!r}"
            plan = with_plugin_problem(plan, job.context, ReasonCode.SCALING_EXECUTOR, text)
        else:
            chosen.append((_priority(name, executor), name, executor))
    for _, name, executor in sorted(chosen, key=itemgetter(0)):
        plan = _apply_executor(plan, job, name, executor) if plan.changes else plan
    return plan


def _priority(name: str, executor: ScalingExecutor) -> float:
    priority: object = try_call(lambda: executor.priority)
    if isinstance(priority, AutoscalerError):
        raise PluginError(f"scaling executor {name!r} has no priority: {priority}") from priority
    if not isinstance(priority, int | float) or math.isnan(priority):
        raise PluginError(f"scaling executor {name!r} has the priority {abbreviate(repr(priority))}, not a number")
    return priority


def _apply_executor(plan: Plan, job: EvaluatedJob, name: str, executor: ScalingExecutor) -> Plan:
    metrics = EvaluatedMetrics(plan.metrics, job.metrics.globals_)
    context = ExecutorContext(with_plugin_options(job.context, EXECUTOR, name), job.topology, metrics)
    result = try_call(lambda: executor.apply(context, plan.changes))
    if isinstance(result, AutoscalerError):
        raise PluginError(f"scaling executor {name!r} failed: {result}") from result
    if result:
        return replace(plan, changes=result)
    identity = f"{type(executor).__module__}.{type(executor).__qualname__}"
    reason = Reason.of(ReasonCode.VETOED, executor=name, identity=identity)
    event = plan_event(job.context, "ScalingVetoed", reason.text, f"ScalingVetoed:{name}")
    return plan.with_event(event).with_reason(reason).without_changes()


def in_whole_taskmanagers(plan: Plan, job: EvaluatedJob, *, is_cut: bool = False) -> Plan:
    """Return the plan as it can come true in reactive mode; other jobs' plans stay as they are.

    ``n = ceil(max_v min(p_v, max_v) / slots per TaskManager)`` TaskManagers, and every vertex in all their slots. A
    vertex that the plan leaves alone keeps the others from shrinking below it.

    Args:
        plan: What is wanted.
        job: The job.
        is_cut: Whether limits were applied to it: then what it still grows to is rounded down, to stay within them.

    Returns:
        The plan; empty when it needs as many TaskManagers as there are.
    """
    if not plan.changes or not is_reactive(job.context):
        return plan
    current = planned_parallelism(job.topology, {})
    limits = {vertex_id: vertex.max_parallelism for vertex_id, vertex in job.topology.vertices.items()}
    present = max(current.values())
    needed = reactive_slots(planned_parallelism(job.topology, plan.changes), limits)
    known = job.context.capacity.slots_per_taskmanager if job.context.capacity else 0
    size = max(1, known or job.context.flink_options.task_slots)
    count = needed // size if is_cut and needed > present else taskmanagers_for(needed, size)
    slots = count * size
    new = reactive_parallelism(max(slots, present) if needed > present else max(slots, 1), limits)
    changed = {vertex_id: parallelism for vertex_id, parallelism in new.items() if parallelism != current[vertex_id]}
    code = ReasonCode.REACTIVE if changed else ReasonCode.REACTIVE_UNCHANGED
    plan = plan.with_reason(Reason.of(code, slots=needed, taskmanagers=count, size=size))
    return plan.with_parallelism(changed, current) if changed else plan.without_changes()


def too_small(context: JobAutoScalerContext, before: Mapping[VertexId, int], after: Mapping[VertexId, int]) -> str:
    """Return why Flink would accept a rescale and never do it; empty where it does it.

    Flink 1.18 to 1.20 rescale a job that runs when a vertex shrinks, or one grows by at least
    ``min-parallelism-increase`` (``EnforceMinimalIncreaseRescalingController``); with ``scaling-interval.max`` what is
    smaller comes true after that time.

    Args:
        context: The job.
        before: Parallelism by vertex, as the job runs.
        after: What is wanted of these vertices.
    """
    least, forced = context.flink_options.min_parallelism_increase, context.flink_options.forced_rescale
    growth = [after.get(vertex_id, now) - now for vertex_id, now in before.items()]
    if forced is not None or min(growth, default=0) < 0 or max(growth, default=0) >= least:
        return ""
    return (
        f"Flink rescales this job only if a vertex grows by {least} subtasks or more "
        f"({FlinkOptions.min_parallelism_increase.key}); the largest increase is {max(growth, default=0)}"
    )


def raise_to_threshold(plan: Plan, job: EvaluatedJob) -> Plan:
    """Raise the vertex that grows most as far as Flink demands, where its bounds allow that."""
    if not _is_too_small(plan, job):
        return plan
    before = planned_parallelism(job.topology, {})
    vertex_id = max(plan.changes, key=lambda v: plan.changes[v].new - plan.changes[v].current)
    vertex, settings = job.topology.vertices[vertex_id], SizingSettings.of(job.context.options, job.restart_time)
    wanted = plan.changes[vertex_id].new
    raised = before[vertex_id] + job.context.flink_options.min_parallelism_increase
    if raised > limits_of(vertex, vertex.working_subtasks, settings).bound:
        return plan
    new = {**{v: change.new for v, change in plan.changes.items()}, vertex_id: raised}
    problem = too_small(job.context, before, {**before, vertex_id: wanted})
    figures = (("wanted", float(wanted)), ("raised", float(raised)))
    reason = Reason.of(ReasonCode.RAISED_TO_THRESHOLD, vertex_id, figures, problem=problem)
    return plan.with_parallelism(new, before).with_reason(reason)


def above_threshold(plan: Plan, job: EvaluatedJob) -> Plan:
    """Drop a plan that Flink would accept and never carry out: it waits until more is needed."""
    problem = _is_too_small(plan, job)
    if not problem:
        return plan
    return plan.with_reason(Reason.of(ReasonCode.RESCALE_TOO_SMALL, problem=problem)).without_changes()


def _is_too_small(plan: Plan, job: EvaluatedJob) -> str:
    """Return why Flink would never carry out a plan; empty where it does. One subtask more is enough by default."""
    least = job.context.flink_options.min_parallelism_increase
    if least <= 1 or not (plan.changes and job.context.options.is_improved):
        return ""
    after = {v: change.new for v, change in plan.changes.items()}
    return too_small(job.context, planned_parallelism(job.topology, {}), after)
