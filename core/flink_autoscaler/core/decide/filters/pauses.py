"""Directions that people paused, or that are switched off."""

from __future__ import annotations

from flink_autoscaler.core.decide.plan import Plan
from flink_autoscaler.core.model.orders import PauseScope
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.state import ScalingSummary
from flink_autoscaler.core.ports.passes import EvaluatedJob


def without_paused(plan: Plan, job: EvaluatedJob) -> Plan:
    """Drop the directions that are paused or switched off."""
    options = job.context.options
    switches = {PauseScope.UP: options.scale_up_enabled, PauseScope.DOWN: options.scale_down_enabled}
    for direction, is_on in switches.items():
        pause = job.orders.paused(direction, job.now_ms)
        is_safe = direction is PauseScope.UP or job.context.restriction.may_scale_down
        left = {v: change for v, change in plan.changes.items() if _direction(change) is not direction}
        if len(left) == len(plan.changes) or (is_on and is_safe and pause is None):
            continue
        if pause is not None:
            who = pause.signed
            plan = plan.explained("PAUSED", f"scaling {direction.value} is paused by {who.who}: {who.reason}")
        elif not is_on:
            text = f"scaling {direction.value} is switched off (scale-{direction.value}.enabled)"
            plan = plan.explained("DIRECTION_OFF", text)
        # Else the reasons of the pass say already what is unknown, and that nothing is scaled down for that.
        plan = replace(plan, changes=left)
    return plan


def _direction(change: ScalingSummary) -> PauseScope:
    return PauseScope.UP if change.is_scale_up else PauseScope.DOWN
