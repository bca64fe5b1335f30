"""Whether a scale-up for which not all slots are there pays already, or waits until more of them come together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from flink_autoscaler.core.decide.limits.slots import more_slots_for, planned_parallelism, slots_of
from flink_autoscaler.core.decide.plan import Plan, held_back_event
from flink_autoscaler.core.evaluate.downtime import downtime_at, replay_seconds
from flink_autoscaler.core.model.events import Figures
from flink_autoscaler.core.model.state import PolicyMemories
from flink_autoscaler.core.ports.passes import EvaluatedJob

MEMORY: Final = "partial-scale-up"
CODE: Final = "WAITS_FOR_MORE_SLOTS"
EVENT: Final = "ScaleUpWaits"


@dataclass(frozen=True, slots=True)
class PartialCase:
    """What a part of a scale-up brings and costs.

    Attributes:
        slots_now: Slots before.
        brings: More slots that it gets now.
        wanted: More slots that it wants.
        outage: Seconds without processing, replay included.
        waited: Seconds since not all of it fitted for the first time.
    """

    slots_now: int
    brings: int
    wanted: int
    outage: float
    waited: float

    def has_to_bring(self, factor: float) -> int:
        """Return the slots that are worth an outage of their own: half of what is wanted always are.

        Waiting costs slot-seconds, too. Whoever goes once waiting has cost as much as the outage does pays at most
        twice what knowing the future would have saved (the ski rental problem), so that less and less has to come.
        """
        cost = factor * self.slots_now * self.outage
        by_cost = math.ceil(cost / max(self.waited, self.outage, 1.0))
        return max(1, min(math.ceil(self.wanted / 2), by_cost))

    @property
    def figures(self) -> Figures:
        """What is weighed, in slots and seconds."""
        return (
            ("slots", float(self.slots_now)),
            ("brings", float(self.brings)),
            ("wanted", float(self.wanted)),
            ("outage", self.outage),
            ("waited", self.waited),
        )


class Weighed(NamedTuple):
    """What is left of a plan, and what is remembered as long as it is not carried out."""

    plan: Plan
    memories: PolicyMemories


def worth_its_outage(asked: Plan, fitting: Plan, job: EvaluatedJob) -> Weighed:
    """Return what fits of a plan, or nothing as long as that brings less than its outage costs.

    Where something shrinks as well, the outage is paid anyway.

    Args:
        asked: The plan before what the cluster can still give was looked at.
        fitting: What is left of it.
        job: The job.
    """
    options, wanted = job.context.options, more_slots_for(job.topology, asked.changes)
    brings = more_slots_for(job.topology, fitting.changes)
    is_up = all(change.is_scale_up for change in fitting.changes.values())
    if brings >= wanted or not is_up or not (options.filters_rescales and options.partial_wait.ms > 0):
        return Weighed(fitting, {})
    since_ms = _since_ms(job)
    memories = {MEMORY: {"since_ms": since_ms}}
    if not fitting.changes:
        return Weighed(fitting, memories)
    case = _case(fitting, job, brings, wanted, (job.now_ms - since_ms) / 1000)
    least = case.has_to_bring(options.economics_factor)
    if brings >= least or case.waited >= options.partial_wait.exact_seconds:
        return Weighed(fitting, memories)
    return Weighed(_waiting(fitting, job, case, least), memories)


def _waiting(plan: Plan, job: EvaluatedJob, case: PartialCase, least: int) -> Plan:
    most = job.context.options.partial_wait
    text = (
        f"{case.brings} of the {case.wanted} more slots that it wants can be had: a rescale, with an outage of "
        f"{case.outage:.0f} s, has to bring {least} by now, and fewer later; it has waited for {case.waited:.0f} s and "
        f"does so for {most} at most"
    )
    figures = (*case.figures, ("has_to_bring", float(least)), ("longest_wait", most.exact_seconds))
    return (
        plan.explained(CODE, text, figures=figures).told(held_back_event(job.context, EVENT, text, figures)).dropped()
    )


def _case(plan: Plan, job: EvaluatedJob, brings: int, wanted: int, waited: float) -> PartialCase:
    now, planned = (planned_parallelism(job.topology, changes) for changes in ({}, plan.changes))
    outage = downtime_at(job, sum(planned.values())).q90 + replay_seconds(job)
    return PartialCase(slots_of(job.topology, now), brings, wanted, outage, waited)


def _since_ms(job: EvaluatedJob) -> int:
    """Return since when not all of a scale-up fits; a clock that was set back begins anew."""
    remembered: Mapping[str, Any] = job.state.policies.get(MEMORY) or {}
    match remembered:
        case {"since_ms": int(since_ms)} if since_ms <= job.now_ms:
            return since_ms
    return job.now_ms
