"""The filters that keep rescales few and safe, in the order in which they are asked; none is asked twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flink_autoscaler.core.decide.filters.budget import within_budget
from flink_autoscaler.core.decide.filters.economics import paying
from flink_autoscaler.core.decide.filters.network_memory import within_network_memory
from flink_autoscaler.core.decide.filters.pauses import without_paused
from flink_autoscaler.core.decide.filters.quarantine import outside_quarantine
from flink_autoscaler.core.decide.plan import Plan
from flink_autoscaler.core.ports.passes import EvaluatedJob

Filter = Callable[[Plan, EvaluatedJob], Plan]
"""Takes a plan that is not empty, and returns it, a smaller one or an empty one, and says why."""

FILTERS: Final[tuple[Filter, ...]] = (
    without_paused,
    outside_quarantine,
    within_budget,
    paying,
    within_network_memory,
)


def filtered(plan: Plan, job: EvaluatedJob) -> Plan:
    """Return what is left of a plan; the reference knows none of the filters but what people forbid."""
    options = job.context.options
    for part in FILTERS if options.filters_rescales else FILTERS[:1]:
        if not plan.changes:
            break
        plan = part(plan, job)
    return plan
