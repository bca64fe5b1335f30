"""A budget of rescales per day."""

from __future__ import annotations

import math
from typing import Final

from flink_autoscaler.core.decide.plan import Plan, plan_event
from flink_autoscaler.core.evaluate.downtime import rescales_of
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.supervision import Origin, RescaleRecord
from flink_autoscaler.core.options.safety import DOWN_SHARE
from flink_autoscaler.core.ports.passes import EvaluatedJob

DAY_MS: Final = 86_400_000


def own_rescales(job: EvaluatedJob) -> list[RescaleRecord]:
    """Return the rescales that were the autoscaler's own wish and did something, or may have; oldest first."""
    return [record for record in rescales_of(job.state.supervision) if record.origin is Origin.AUTOSCALER]


def within_budget(plan: Plan, job: EvaluatedJob) -> Plan:
    """Allow only so many rescales a day; scale-downs leave some of them to scale-ups."""
    budget = job.context.options.rescales_per_day
    if not budget:
        return plan
    used = sum(record.decided_ms > job.now_ms - DAY_MS for record in own_rescales(job))
    is_up = any(change.is_scale_up for change in plan.changes.values())
    limit = budget if is_up else max(1, math.floor(budget * DOWN_SHARE))
    if used < limit:
        return plan
    kind = "rescales" if is_up else "rescales, the rest is kept for scale-ups"
    text = f"{used} rescales within a day; at most {limit} {kind} (rescale.budget.per-day {budget})"
    figures = (("used", float(used)), ("limit", float(limit)), ("budget", float(budget)))
    event = plan_event(job.context, "RescaleBudgetSpent", f"Scaling is held back: {text}", "RescaleBudgetSpent")
    event = replace(event, figures=figures)
    return plan.explained("BUDGET_SPENT", text, figures=figures).told(event).dropped()
