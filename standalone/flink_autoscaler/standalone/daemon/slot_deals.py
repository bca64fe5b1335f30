"""Jobs of a cluster that have too few slots, and what the others are asked to give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from flink_autoscaler.core.border import attempted
from flink_autoscaler.core.decide.slot_sharing import (
    Claim,
    can_give,
    dealt_anew,
    least_slots,
    slots_in_groups,
    slots_needed,
)
from flink_autoscaler.core.model.job import JobKey, JobStatus, SlotShare
from flink_autoscaler.core.observe.wanted_facts import shares_slots
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.standalone.daemon.slot_holders import SlotLack, held_slots, name_of


@dataclass(frozen=True)
class SlotDeal:
    """What one pass found out about the slots of a cluster.

    Attributes:
        starving: The jobs that have too few, by key.
        shares: Slots that each job is to have, as far as it takes part.
        names: Of those jobs, for people.
        givers: Slots that jobs are asked down to; empty where what is free is enough.
        missing: Slots that starving jobs lack where what is free is not enough for them.
    """

    starving: Mapping[JobKey, Claim] = field(default_factory=dict)
    shares: Mapping[JobKey, int] = field(default_factory=dict)
    names: Mapping[JobKey, str] = field(default_factory=dict)
    givers: Mapping[JobKey, int] = field(default_factory=dict)
    missing: Mapping[JobKey, int] = field(default_factory=dict)

    def help_text(self) -> str:
        """Say what is done about slots that are missing."""
        if not self.givers:
            return "no other job has any to give"
        asked = (f"{self.names[key]} is asked down to {slots}" for key, slots in sorted(self.givers.items()))
        return ", ".join(asked)

    def lack_of(self, job_key: JobKey) -> SlotLack:
        """Return what a job lacks that is among the missing."""
        claim = self.starving[job_key]
        return SlotLack(claim.held, claim.least, self.missing[job_key], self.help_text())

    def share_of(self, request: PassRequest) -> SlotShare | None:
        """Return the slots that a job may keep; None where it is not asked for any."""
        slots = self.givers.get(request.context.job_key)
        if slots is None:
            return None
        return SlotShare(slots, ", ".join(self.names[key] for key in self.missing if self._is_helped(key)))

    def reserved_for(self, request: PassRequest) -> int:
        """Return the slots that are kept free for a job until it runs."""
        job_key = request.context.job_key
        if job_key not in self.starving or request.context.status is not JobStatus.CREATED:
            return 0
        return self.shares[job_key]

    def among(self, requests: Sequence[PassRequest]) -> SlotDeal:
        """Return what is left of the deal in the next pass: nothing once those who starved are gone, or run."""
        present = {request.context.job_key: request.context.status for request in requests}
        still = [
            key
            for key, claim in self.starving.items()
            if self._is_helped(key) and _starves_still(claim, present.get(key))
        ]
        return self if still else replace(self, givers={})

    def helped(self) -> dict[JobKey, int]:
        """Return the slots that jobs get that starve."""
        return {key: self.shares[key] for key in self.starving if self._is_helped(key)}

    def _is_helped(self, job_key: JobKey) -> bool:
        return self.shares[job_key] >= self.starving[job_key].least


NO_DEAL = SlotDeal()


def _starves_still(claim: Claim, status: JobStatus | None) -> bool:
    """Tell whether a job still has too few; one without any does not run."""
    return status is (JobStatus.RUNNING if claim.held else JobStatus.CREATED)


def has_given(outcomes: Sequence[PassOutcome]) -> bool:
    """Tell whether some job has begun to give slots in this pass."""
    return any(reason.code == "GIVES_SLOTS" for each in outcomes for reason in each.decision.reasons)


def dealt(
    requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome], free: int, promised: Mapping[JobKey, int]
) -> SlotDeal:
    """Return who has too few slots after a pass, and how many each job is to have so that all run.

    Args:
        requests: Of the pass.
        outcomes: One per request, in the same order.
        free: Slots that nobody has, and nobody is about to take.
        promised: Slots that others give to jobs that wait. Flink hands them over before such a job runs: they are
            neither free then, nor anybody's to see.
    """
    claims, names = [], {}
    for request, outcome in zip(requests, outcomes, strict=True):
        claim = attempted(partial(_claim, request, outcome, promised.get(outcome.job_key, 0)))
        if isinstance(claim, Claim):
            claims.append(claim)
            names[claim.job_key] = name_of(request.context)
    starving = {claim.job_key: claim for claim in claims if claim.lacks}
    if not starving:
        return NO_DEAL
    free = max(0, free - sum(promised.values()))
    shares, missing = dealt_anew(claims, free), dict(_missing(starving.values(), free))
    givers = {each.job_key: shares[each.job_key] for each in claims if shares[each.job_key] < each.held}
    return SlotDeal(starving, shares, names, givers if missing else {}, missing)


def _missing(starving: Iterable[Claim], free: int) -> Iterator[tuple[JobKey, int]]:
    """Yield the slots that each job lacks; who lacks the fewest takes first what is free, as soon as Flink sees it."""
    for claim in sorted(starving, key=lambda each: (each.lacks, each.job_key)):
        if claim.lacks <= free:
            free -= claim.lacks
        else:
            yield claim.job_key, claim.lacks - free


def _claim(request: PassRequest, outcome: PassOutcome, promised: int) -> Claim | None:
    """Return what a job holds and needs; None where it takes no part."""
    context, held = request.context, held_slots(outcome)
    if held is None or not shares_slots(context):
        return None
    options = context.options
    claim = Claim(context.job_key, held, held, options.capacity_priority, options.capacity_weight)
    if outcome.waits_for is not None and promised:
        return replace(claim, held=promised, wanted=promised, least=min(promised, outcome.waits_for.least))
    if outcome.waits_for is not None:
        return replace(claim, wanted=outcome.waits_for.most, least=outcome.waits_for.least)
    if outcome.topology is None:
        return None
    vertices, soon = outcome.topology.vertices.values(), _held_soon(outcome, held)
    need = slots_needed(vertices, outcome.found, options) if outcome.found else None
    if need is not None and need.least > max(held, soon):
        return replace(claim, wanted=need.least, least=need.least)
    held = min(held, soon)
    least = min(held, least_slots(vertices, request))
    return replace(claim, held=held, wanted=held, least=least) if can_give(request) else None


def _held_soon(outcome: PassOutcome, held: int) -> int:
    """Return the slots that a job has once a rescale that is under way is through.

    Flink sets them aside for it before it runs with them: they are neither free then, nor missing.
    """
    under_way = outcome.state.supervision.under_way
    if under_way is None or outcome.topology is None:
        return held
    vertices = outcome.topology.vertices
    target = {v: under_way.target.get(v, vertex.parallelism) for v, vertex in vertices.items()}
    return slots_in_groups(vertices.values(), target)
