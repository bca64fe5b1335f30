"""What a plan comes to in reactive mode, where all vertices run in all slots and only TaskManagers are added."""

from __future__ import annotations

from flink_autoscaler.core.decide.decision_run import DecisionRun
from flink_autoscaler.core.decide.limits.slots import planned_parallelism, taskmanagers_for
from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId, of
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.state import ScalingSummaries, ScalingSummary
from flink_autoscaler.core.ports.task_managers import is_reactive, reactive_parallelism, reactive_slots


def in_whole_taskmanagers(run: DecisionRun, summaries: ScalingSummaries, *, is_cut: bool = False) -> ScalingSummaries:
    """Return the plan as it can come true in reactive mode; other jobs' plans stay as they are.

    ``n = ceil(max_v min(p_v, max_v) / slots per TaskManager)`` TaskManagers, and every vertex in all their slots. A
    vertex that the plan leaves alone keeps the others from shrinking below it.

    Args:
        run: The decision.
        summaries: The plan.
        is_cut: Whether limits were applied to it: then what it still grows to is rounded down, to stay within them.

    Returns:
        The plan; empty when it needs as many TaskManagers as there are.
    """
    if not summaries or not is_reactive(run.given.context):
        return summaries
    vertices = run.given.topology.vertices
    limits = {vertex_id: vertex.max_parallelism for vertex_id, vertex in vertices.items()}
    present = max(vertex.parallelism for vertex in vertices.values())
    needed = reactive_slots(planned_parallelism(run.given.topology, summaries), limits)
    per_taskmanager = _slots_per_taskmanager(run)
    count = needed // per_taskmanager if is_cut and needed > present else taskmanagers_for(needed, per_taskmanager)
    slots = count * per_taskmanager
    new = reactive_parallelism(max(slots, present) if needed > present else max(slots, 1), limits)
    changed = {v: parallelism for v, parallelism in new.items() if parallelism != vertices[v].parallelism}
    shape = f"{needed} slots are {count} TaskManagers of {per_taskmanager}"
    if not changed:
        run.explain("REACTIVE_UNCHANGED", f"reactive mode: {shape}, which changes nothing")
        return {}
    run.explain("REACTIVE", f"reactive mode: {shape}; all vertices run in all slots")
    return {vertex_id: _resized(run, summaries, vertex_id, parallelism) for vertex_id, parallelism in changed.items()}


def _slots_per_taskmanager(run: DecisionRun) -> int:
    capacity = run.given.context.capacity
    known = capacity.slots_per_taskmanager if capacity else 0
    return max(1, known or run.given.context.flink_options.task_slots)


def _resized(run: DecisionRun, summaries: ScalingSummaries, vertex_id: VertexId, parallelism: int) -> ScalingSummary:
    """Return the change of one vertex; one that the plan left alone changes because the others do."""
    if vertex_id in summaries:
        return run.resized(vertex_id, summaries[vertex_id], parallelism)
    metrics = run.vertices.setdefault(vertex_id, {})
    current = run.given.topology.vertices[vertex_id].parallelism
    rate = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average if ScalingMetric.TRUE_PROCESSING_RATE in metrics else NAN
    metrics[ScalingMetric.EXPECTED_PROCESSING_RATE] = of(rate / current * parallelism)
    metrics[ScalingMetric.RECOMMENDED_PARALLELISM] = of(float(parallelism))
    return ScalingSummary(current, parallelism, metrics)
