"""What may still stop a plan: the cluster's resources, quotas, headroom, and scaling executors."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.core.decide.decision_run import DecisionRun
from flink_autoscaler.core.decide.limits.headroom import (
    TaskManagerSize,
    limit_text,
    room_in,
    taskmanagers_to_add,
    within_room,
)
from flink_autoscaler.core.decide.limits.slots import (
    Quota,
    exceeds_quota,
    free_slots,
    planned_parallelism,
    slots_after,
    slots_of,
    taskmanagers_for,
    within_quota,
)
from flink_autoscaler.core.errors import PluginError
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import Headroom
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, ScalingMetric, VertexId, of
from flink_autoscaler.core.model.numbers import trunc32
from flink_autoscaler.core.model.state import ConfigChanges, ScalingSummaries, ScalingSummary
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.ports.plugins import (
    EXECUTOR,
    ExecutorContext,
    ResourceRequest,
    ScalingExecutor,
    plugin_class,
    with_plugin_options,
)


def within_resources(run: DecisionRun, summaries: ScalingSummaries, changes: ConfigChanges) -> ScalingSummaries:
    """Return what the cluster, the quotas and the headroom can hold of a plan, with tuned memory where that is on.

    Returns:
        The plan, a smaller one, or nothing.
    """
    context = run.given.context
    tuned = context.flink_options.with_changes(changes.overrides, changes.removals)
    memory = tuned.process_memory or context.taskmanager_memory or 0
    if not _is_schedulable(run, summaries, tuned, memory):
        return {}
    summaries = _within_quotas(run, summaries, tuned, memory)
    if context.headroom is None or not summaries:
        return summaries
    # A resource manager may give a TaskManager more than its configuration asks for, rounded up to its own steps.
    granted = max(memory, context.taskmanager_memory or 0)
    size = TaskManagerSize(max(1, tuned.task_slots), context.taskmanager_cpu or 0.0, granted)
    return _limited_by_headroom(run, summaries, context.headroom, size)


def _within_quotas(run: DecisionRun, summaries: ScalingSummaries, tuned: FlinkOptions, memory: int) -> ScalingSummaries:
    options = run.given.options
    if options.quota_cpu is None and options.quota_memory is None:
        return summaries
    cpu = run.given.context.taskmanager_cpu or 0.0
    quota = Quota(options.quota_cpu, options.quota_memory, cpu, memory, max(1, tuned.task_slots))
    if options.improves(options.exact_quota):
        return _limited_by_quota(run, summaries, quota)
    return _refused_by_quota(run, summaries, quota)


def _is_schedulable(run: DecisionRun, summaries: ScalingSummaries, tuned: FlinkOptions, memory: int) -> bool:
    """Ask the resource check of the job; without one, everything can be scheduled."""
    check = run.given.plugins.resource_checks.get(run.given.options.resource_check)
    if check is None:
        if run.given.options.resource_check:
            name = run.given.options.resource_check
            run.warn_about_plugin("RESOURCE_CHECK", f"resource check {name!r} is ignored: there is no such plug-in")
        return True
    request = _resource_request(run, summaries, tuned, memory)
    if check.try_schedule(request, run.given.cluster):
        return True
    text = f"the cluster has no room for {request.slots_needed} slots, {request.slots_used} are in use"
    run.explain("NOT_SCHEDULABLE", text)
    run.tell(EventType.WARNING, "NotSchedulable", f"Scaling is held back: {text}", "NotSchedulable")
    return False


def _resource_request(
    run: DecisionRun, summaries: ScalingSummaries, tuned: FlinkOptions, memory: int
) -> ResourceRequest:
    used = run.given.metrics.globals_[ScalingMetric.NUM_TASK_SLOTS_USED].current
    needed = slots_after(run.given.topology, summaries, used)
    planned = planned_parallelism(run.given.topology, summaries)
    current = {vertex_id: vertex.parallelism for vertex_id, vertex in run.given.topology.vertices.items()}
    return ResourceRequest(
        current=taskmanagers_for(trunc32(used), max(1, tuned.task_slots)),
        new=taskmanagers_for(needed, max(1, tuned.task_slots)),
        cpu=run.given.context.taskmanager_cpu or 0.0,
        memory=memory,
        slots_used=trunc32(used),
        slots_needed=needed,
        more_slots=slots_of(run.given.topology, planned) - slots_of(run.given.topology, current),
    )


def _refused_by_quota(run: DecisionRun, summaries: ScalingSummaries, quota: Quota) -> ScalingSummaries:
    if not exceeds_quota(run.given.topology, summaries, quota):
        return summaries
    _tell_quota(run)
    return {}


def _limited_by_quota(run: DecisionRun, summaries: ScalingSummaries, quota: Quota) -> ScalingSummaries:
    if quota.is_unknown:
        text = "a quota is set but not checked: CPU or memory of a TaskManager is not known"
        run.explain("QUOTA_UNKNOWN", text)
        run.tell(EventType.WARNING, "QuotaUnknown", f"Beware, {text}.", "QuotaUnknown")
    allowed = within_quota(run.given.topology, summaries, quota)
    if allowed == {vertex_id: summary.new for vertex_id, summary in summaries.items()}:
        return summaries
    _tell_quota(run)
    return _cut_to(run, summaries, allowed)


def _limited_by_headroom(
    run: DecisionRun, summaries: ScalingSummaries, headroom: Headroom, size: TaskManagerSize
) -> ScalingSummaries:
    topology = run.given.topology
    room = room_in(headroom, size, free_slots(run.given.cluster) or 0)
    if room.unchecked and taskmanagers_to_add(topology, summaries, room):
        limits = " and ".join(room.unchecked)
        text = f"what {headroom.source} has left is not checked for {limits}: not known for a TaskManager"
        run.explain("HEADROOM_UNKNOWN", text)
    allowed = within_room(topology, summaries, room)
    if allowed == {vertex_id: summary.new for vertex_id, summary in summaries.items()}:
        return summaries
    text = limit_text(headroom, room, topology=topology, summaries=summaries, allowed=allowed)
    run.explain("HEADROOM_REACHED", text)
    run.tell(EventType.WARNING, "HeadroomReached", f"Scaling up is limited: {text}", "HeadroomReached")
    return _cut_to(run, summaries, allowed)


def _cut_to(run: DecisionRun, summaries: ScalingSummaries, allowed: Mapping[VertexId, int]) -> ScalingSummaries:
    """Return the plan with what a limit allows: the parallelism of each vertex that still changes."""
    return {
        vertex_id: _with_parallelism(run, vertex_id, summaries[vertex_id], parallelism)
        for vertex_id, parallelism in allowed.items()
    }


def _with_parallelism(
    run: DecisionRun, vertex_id: VertexId, summary: ScalingSummary, parallelism: int
) -> ScalingSummary:
    """Return the summary with another parallelism, and keep the metrics of the vertex in line with it."""
    metrics = run.vertices[vertex_id]
    rate = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average
    metrics[ScalingMetric.EXPECTED_PROCESSING_RATE] = of((rate / summary.current) * parallelism)
    metrics[ScalingMetric.RECOMMENDED_PARALLELISM] = of(float(parallelism))
    return ScalingSummary(summary.current, parallelism, metrics)


def _tell_quota(run: DecisionRun) -> None:
    message = "Resource usage is above the allowed limit for scaling operations. Please adjust the quota by hand."
    run.tell(EventType.WARNING, "ResourceQuotaReached", message, None)
    run.explain("QUOTA_REACHED", message)


def apply_executors(run: DecisionRun, summaries: ScalingSummaries, changes: ConfigChanges) -> ScalingSummaries:
    """Let the configured executors change the plan, in the order of their priority; empty after a veto.

    Raises:
        PluginError: An executor failed.
    """
    configuration = run.given.context.flink_options.with_changes(changes.overrides, changes.removals).configuration
    chosen = []
    for name in dict.fromkeys(run.given.options.custom_executors):
        identity = plugin_class(configuration, EXECUTOR, name)
        executor = run.given.plugins.executors.get(identity or "")
        if executor is None:
            run.warn_about_plugin("SCALING_EXECUTOR", f"scaling executor {name!r} is ignored: no plug-in {identity!r}")
        else:
            chosen.append((name, executor))
    for name, executor in sorted(chosen, key=lambda entry: entry[1].priority):
        summaries = _applied(run, name, executor, summaries)
        if not summaries:
            break
    return summaries


def _applied(run: DecisionRun, name: str, executor: ScalingExecutor, summaries: ScalingSummaries) -> ScalingSummaries:
    metrics = EvaluatedMetrics(run.vertices, run.given.metrics.globals_)
    context = ExecutorContext(with_plugin_options(run.given.context, EXECUTOR, name), run.given.topology, metrics)
    try:
        result = executor.apply(context, summaries)
    except Exception as error:
        raise PluginError(f"scaling executor {name!r} failed: {type(error).__name__}: {error}") from error
    if not result:
        identity = f"{type(executor).__module__}.{type(executor).__qualname__}"
        message = f"Scaling was vetoed by the scaling executor {name!r} ({identity})"
        run.tell(EventType.WARNING, "ScalingVetoed", message, f"ScalingVetoed:{name}")
        run.explain("VETOED", message)
    return result or {}
