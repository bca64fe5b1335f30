"""Flink's own threshold for rescales: what it accepts and never does, since a job would grow by too little."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.core.decide.limits.slots import planned_parallelism
from flink_autoscaler.core.decide.plan import Plan
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.policies.base.sizing import SizingSettings, limits_of
from flink_autoscaler.core.ports.passes import EvaluatedJob

TOO_SMALL = "RESCALE_TOO_SMALL"


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
        f"Flink scales this job up by at least {least} subtasks of some vertex "
        f"({FlinkOptions.min_parallelism_increase.key}), and by {max(growth, default=0)} not at all"
    )


def raised_to_threshold(plan: Plan, job: EvaluatedJob) -> Plan:
    """Raise the vertex that grows most as far as Flink demands, where its bounds allow that."""
    before = planned_parallelism(job.topology, {})
    if not _is_too_small(plan, job, before):
        return plan
    vertex_id = max(plan.changes, key=lambda v: plan.changes[v].new - plan.changes[v].current)
    vertex, settings = job.topology.vertices[vertex_id], SizingSettings.of(job.context.options, job.restart_time)
    wanted = plan.changes[vertex_id].new
    raised = before[vertex_id] + job.context.flink_options.min_parallelism_increase
    if raised > limits_of(vertex, vertex.working_subtasks, settings).bound:
        return plan
    new = {**{v: change.new for v, change in plan.changes.items()}, vertex_id: raised}
    text = f"{raised} instead of {wanted}: {too_small(job.context, before, {**before, vertex_id: wanted})}"
    figures = (("wanted", float(wanted)), ("raised", float(raised)))
    return plan.resized(new, before).explained("RAISED_TO_THRESHOLD", text, vertex_id, figures)


def above_threshold(plan: Plan, job: EvaluatedJob) -> Plan:
    """Drop a plan that Flink would accept and never carry out: it waits until more is needed."""
    before = planned_parallelism(job.topology, {})
    if not _is_too_small(plan, job, before):
        return plan
    after = {v: change.new for v, change in plan.changes.items()}
    return plan.explained(TOO_SMALL, too_small(job.context, before, after)).dropped()


def _is_too_small(plan: Plan, job: EvaluatedJob, before: Mapping[VertexId, int]) -> bool:
    after = {v: change.new for v, change in plan.changes.items()}
    return bool(after) and job.context.options.is_improved and bool(too_small(job.context, before, after))
