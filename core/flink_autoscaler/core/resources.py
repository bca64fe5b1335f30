"""What may still stop a plan: the cluster's resources, quotas, and scaling executors."""

from __future__ import annotations

from flink_autoscaler.core.decision_run import DecisionRun
from flink_autoscaler.core.errors import PluginError
from flink_autoscaler.core.events import EventType
from flink_autoscaler.core.extensions import (
    EXECUTOR,
    ExecutorContext,
    ResourceRequest,
    ScalingExecutor,
    plugin_class,
    with_plugin_options,
)
from flink_autoscaler.core.flink_options import FlinkOptions
from flink_autoscaler.core.metrics import EvaluatedMetrics, ScalingMetric
from flink_autoscaler.core.numbers import trunc32
from flink_autoscaler.core.slots import Quota, exceeds_quota, slots_after, taskmanagers_for
from flink_autoscaler.core.state import ConfigChanges, ScalingSummaries


def fits_resources(run: DecisionRun, summaries: ScalingSummaries, changes: ConfigChanges) -> bool:
    """Tell whether the cluster and the quotas can hold a plan, with tuned memory where that is on."""
    tuned = run.given.context.flink_options.with_changes(changes.overrides, changes.removals)
    memory = tuned.process_memory or run.given.context.taskmanager_memory or 0
    return _is_schedulable(run, summaries, tuned, memory) and _is_within_quota(run, summaries, tuned, memory)


def _is_schedulable(run: DecisionRun, summaries: ScalingSummaries, tuned: FlinkOptions, memory: int) -> bool:
    cpu = run.given.context.taskmanager_cpu or 0.0
    if cpu <= 0 or memory <= 0:
        return True
    used = run.given.metrics.globals_[ScalingMetric.NUM_TASK_SLOTS_USED].current
    needed = slots_after(run.given.topology, summaries, used)
    request = ResourceRequest(
        current=taskmanagers_for(trunc32(used), tuned.task_slots),
        new=taskmanagers_for(needed, tuned.task_slots),
        cpu=cpu,
        memory=memory,
        slots_used=trunc32(used),
        slots_needed=needed,
    )
    for check in run.given.plugins.resource_checks.values():
        if not check.try_schedule(request, run.given.cluster):
            run.explain("NOT_SCHEDULABLE", f"the cluster cannot hold {request.new} TaskManagers")
            return False
    return True


def _is_within_quota(run: DecisionRun, summaries: ScalingSummaries, tuned: FlinkOptions, memory: int) -> bool:
    options = run.given.options
    cpu = run.given.context.taskmanager_cpu or 0.0
    quota = Quota(options.quota_cpu, options.quota_memory, cpu, memory, tuned.task_slots)
    if not exceeds_quota(run.given.topology, summaries, quota):
        return True
    message = "Resource usage is above the allowed limit for scaling operations. Please adjust the quota by hand."
    run.tell(EventType.WARNING, "ResourceQuotaReached", message, None)
    run.explain("QUOTA_REACHED", message)
    return False


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
            run.explain("EXECUTOR_UNKNOWN", f"scaling executor {name!r} is ignored: no plug-in {identity!r}")
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
