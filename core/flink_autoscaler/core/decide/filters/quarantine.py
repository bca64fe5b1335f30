"""Parallelisms that failed are not tried again until the cluster has changed."""

from __future__ import annotations

from flink_autoscaler.core.decide.plan import Plan, held_back_event
from flink_autoscaler.core.ports.passes import EvaluatedJob


def outside_quarantine(plan: Plan, job: EvaluatedJob) -> Plan:
    """Keep vertices below a parallelism that failed."""
    failed = {entry.vertex_id: entry for entry in job.state.supervision.quarantine}
    if not failed:
        return plan
    kept = {}
    for vertex_id, change in plan.changes.items():
        entry = failed.get(vertex_id)
        if entry is None or not change.is_scale_up or change.new < entry.parallelism:
            kept[vertex_id] = change.new
            continue
        limit = entry.parallelism - 1
        text = f"parallelism {entry.parallelism} failed ({entry.cause}); at most {limit} until the cluster has changed"
        figures = (("wanted", float(change.new)), ("failed", float(entry.parallelism)), ("limit", float(limit)))
        event = held_back_event(job.context, "ParallelismQuarantined", text, figures, vertex_id)
        plan = plan.explained("QUARANTINED", text, vertex_id, figures).told(event)
        if limit > change.current:
            kept[vertex_id] = limit
    return plan.resized(kept, {})
