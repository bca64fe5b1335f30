"""Slots that several jobs want at the same time, dealt out fairly."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from flink_autoscaler.core.decide.limits.slots import planned_parallelism, slots_of
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.ports.passes import PassOutcome


@dataclass(frozen=True, slots=True)
class Claim:
    """What one job wants.

    Attributes:
        held: Slots that it has.
        wanted: Slots that it wants to have, more than ``held``.
        priority: Jobs with a higher number come first.
        weight: Share relative to jobs of the same priority; more than 0.
    """

    job_key: JobKey
    held: int
    wanted: int
    priority: int = 0
    weight: float = 1.0


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
