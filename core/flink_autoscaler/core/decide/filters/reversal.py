"""Scale-downs that were soon taken back make the next one wait."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from flink_autoscaler.core.decide.filters.budget import DAY_MS, own_rescales
from flink_autoscaler.core.decide.plan import Plan, held_back_event
from flink_autoscaler.core.ports.passes import EvaluatedJob

_MOST_DOUBLINGS: Final = 6


def without_reversals(plan: Plan, job: EvaluatedJob) -> Plan:
    """Let a job that went down too early before wait longer before it goes down again."""
    if plan.is_weighed:
        return plan
    window_ms, now_ms = job.context.options.reversal_window.ms, job.now_ms
    records = own_rescales(job) if window_ms else []
    reversals = sum(
        not earlier.is_up and later.is_up and later.decided_ms - earlier.decided_ms <= window_ms
        for earlier, later in pairwise(records)
        if later.decided_ms > now_ms - DAY_MS
    )
    if not reversals:
        return plan
    wait_ms = window_ms * (2 ** min(reversals, _MOST_DOUBLINGS)) // 2
    left_ms = records[-1].decided_ms + wait_ms - now_ms
    if left_ms <= 0:
        return plan
    text = f"{reversals} scale-downs of the last day were taken back soon; the next waits {left_ms // 1000} s more"
    if all(change.is_scale_up for change in plan.changes.values()):
        return plan
    figures = (("reversals", float(reversals)), ("wait", wait_ms / 1000), ("left", left_ms / 1000))
    event = held_back_event(job.context, "ReversalDamped", text, figures)
    return plan.without_downs("REVERSAL_DAMPED", text, figures).told(event)
