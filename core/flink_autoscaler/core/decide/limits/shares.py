"""Slots that several jobs want at the same time, dealt out fairly."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flink_autoscaler.core.decide.limits.slots import planned_parallelism, slots_of
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.ports.passes import PassOutcome


@dataclass(frozen=True, slots=True)
class Claim:
    """What one job wants.

    Attributes:
        held: Slots that it has.
        wanted: Slots that it wants to have, more than ``held``.
        priority: Jobs with a higher number come first.
        weight: Share relative to jobs of the same priority; more than 0.
        least: Slots that it needs to run as it should; who holds fewer is starving.
    """

    job_key: JobKey
    held: int
    wanted: int
    priority: int = 0
    weight: float = 1.0
    least: int = 0

    @property
    def lacks(self) -> int:
        """The slots that it needs and does not hold; 0 for a job that is not starving."""
        return max(0, self.least - self.held)


def fair_shares(claims: Iterable[Claim], free: int) -> dict[JobKey, int]:
    """Deal free slots out: weighted max-min within a priority, higher priorities first.

    Returns:
        Slots that each job gets in addition to those it holds, at most what it wants, together at most ``free``.
    """
    granted = {claim.job_key: 0 for claim in claims}
    by_priority: dict[int, list[Claim]] = {}
    for claim in claims:
        by_priority.setdefault(claim.priority, []).append(claim)
    for priority in sorted(by_priority, reverse=True):
        free -= _fill(by_priority[priority], free, granted)
    return granted


def dealt_anew(claims: Sequence[Claim], free: int) -> dict[JobKey, int]:
    """Deal out anew what jobs hold and what is free, where some of them are starving.

    A starving job gets its least from what is free, and from what jobs of the same or a lower priority hold beyond
    their least; where that is not enough, it gets nothing. What is left goes by :func:`fair_shares`.

    Args:
        claims: Those that are not starving want no more than they hold.
        free: Slots that nobody holds.

    Returns:
        Slots that each job is to have: at least its least, unless it is starving and cannot be helped; at most what it
        wants; together at most what they hold and what is free.
    """
    served = _served(claims, free)
    if not served:
        return {claim.job_key: claim.held for claim in claims}
    floors = {claim.job_key: claim.least if claim in served or not claim.lacks else claim.held for claim in claims}
    rest = free + sum(claim.held for claim in claims) - sum(floors.values())
    open_claims = [
        replace(claim, held=floors[claim.job_key])
        for claim in claims
        if claim.wanted > floors[claim.job_key] and (claim in served or not claim.lacks)
    ]
    more = fair_shares(open_claims, rest)
    return {job_key: floor + more.get(job_key, 0) for job_key, floor in floors.items()}


def _served(claims: Sequence[Claim], free: int) -> list[Claim]:
    """Return the starving jobs that can be helped, by priority; of equal ones those that lack the least."""
    served, taken = list[Claim](), 0
    for claim in sorted(claims, key=lambda each: (-each.priority, each.lacks, each.job_key)):
        spare = sum(max(0, each.held - each.least) for each in claims if each.priority <= claim.priority)
        if claim.lacks and taken + claim.lacks <= free + spare:
            served.append(claim)
            taken += claim.lacks
    return served


def _fill(claims: Sequence[Claim], free: int, granted: dict[JobKey, int]) -> int:
    """Give slot after slot to the job that has the least for its weight; return how many were given."""
    queue = [(claim.held / claim.weight, position) for position, claim in enumerate(claims)]
    heapq.heapify(queue)
    given = 0
    while queue and given < free:
        _, position = heapq.heappop(queue)
        claim = claims[position]
        granted[claim.job_key] += 1
        given += 1
        total = claim.held + granted[claim.job_key]
        if total < claim.wanted:
            heapq.heappush(queue, (total / claim.weight, position))
    return given


def more_slots(outcome: PassOutcome) -> tuple[int, int] | None:
    """Return the slots that a job has and those that its new decision wants; None where it decided nothing."""
    if not isinstance(outcome.decision, Rescale) or outcome.topology is None:
        return None
    now, planned = (planned_parallelism(outcome.topology, changes) for changes in ({}, outcome.decision.summaries))
    return slots_of(outcome.topology, now), slots_of(outcome.topology, planned)


def postponed(outcome: PassOutcome, reason: Reason) -> PassOutcome:
    """Return the outcome as if the job had not decided anything in this pass."""
    if outcome.undecided is None:
        return outcome
    decision = Hold((*outcome.decision.reasons, reason))
    return replace(
        outcome, decision=decision, state=outcome.undecided, undecided=None, wanted={}, least={}, report=None
    )
