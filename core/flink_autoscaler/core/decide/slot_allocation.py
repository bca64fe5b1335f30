"""The slots of a cluster of fixed size, shared by its jobs: who may take which of them, and who gives some back.

Before a pass :func:`cap_requests` tells each job how many slots it may take; after it :func:`arbitrate` lets the plans
go on that fit together. Where the plans of one pass want more than is free, each job gets a fair share: plans that fit
into it are carried out, the others are made again in the next pass, within the share. Where a job has fewer slots than
it needs to run, jobs that have more than they need are asked to give some (:func:`plan_reallocation`).

What has to be remembered between two passes is one value, :class:`SlotAllocation`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final

from flink_autoscaler.core.decide.plan import plan_event
from flink_autoscaler.core.decide.slot_sharing import (
    Claim,
    defer,
    fair_shares,
    is_preemptible,
    min_slots_of,
    more_slots,
    redistribute,
    slots_in_groups,
    slots_needed,
)
from flink_autoscaler.core.decide.slots import slots_text
from flink_autoscaler.core.error_boundary import ErrorBoundary, try_call
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import ClusterCapacity, Headroom, JobKey, JobStatus, SlotShare
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.required_facts import shares_slots
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest

SHARE_SECONDS: Final = 120.0
"""How long a job may take up its share, once it could; after that the slots are free for all again."""

RESCALE_SECONDS: Final = 600.0
"""How long slots stay reserved for a rescale of a job that cannot be looked at since."""

_NAMED_HOLDERS: Final = 4
"""Jobs that are named where it is said who has the slots; the others are counted."""


class ReservationKind(StrEnum):
    """Why slots are reserved for a job, for people."""

    RESCALE = "its rescale takes them"
    SHARE = "its share, until it has decided again"
    START = "kept free until it runs"


@dataclass(frozen=True, slots=True)
class Reservation:
    """Slots that a job is about to have: others may not take them meanwhile.

    Attributes:
        until: When they are free for all again, in seconds of the clock that the passes are given.
        decided_ms: Of a rescale: when it was decided.
        is_offered: Of a share: whether a pass has begun since. Only then can it lapse, however far apart passes are.
    """

    job_key: JobKey
    slots: int
    kind: ReservationKind
    until: float = 0.0
    decided_ms: int = 0
    is_offered: bool = False


@dataclass(frozen=True)
class SlotUsage:
    """The slots that each job of a cluster had when it was last seen to run.

    Attributes:
        names: Of the jobs of the last pass, for people.
        largest: Names of a few jobs with their slots, most first.
    """

    held: Mapping[JobKey, int] = field(default_factory=dict)
    names: Mapping[JobKey, str] = field(default_factory=dict)
    largest: tuple[tuple[str, int], ...] = ()

    def after(self, requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome]) -> SlotUsage:
        """Return the usage after a pass; jobs that it does not know any more have no slots."""
        names = {each.context.job_key: each.context.job_name or each.context.job_key for each in requests}
        seen = {outcome.job_key: try_call(partial(held_slots, outcome)) for outcome in outcomes}
        held = {job_key: slots for job_key, slots in self.held.items() if job_key in names}
        held |= {job_key: slots for job_key, slots in seen.items() if isinstance(slots, int)}
        holders = ((names[job_key], slots) for job_key, slots in held.items() if slots)
        largest = heapq.nsmallest(_NAMED_HOLDERS, holders, key=lambda each: (-each[1], each[0]))
        return SlotUsage(held, names, tuple(largest))

    def holders(self, capacity: ClusterCapacity) -> tuple[tuple[str, int], ...]:
        """Return who has the slots that are taken: the names of a few jobs, most slots first, and all others."""
        others = capacity.slots - capacity.free_slots - sum(slots for _, slots in self.largest)
        return (*self.largest, ("others", others)) if others > 0 else self.largest


@dataclass(frozen=True)
class Reallocation:
    """Jobs that have too few slots, and what the others are asked to give them.

    Attributes:
        below_minimum: The jobs that have too few, by key.
        shares: Slots that each of those is to have.
        donors: Slots that jobs are asked down to; empty where what is free is enough.
        missing: Slots that jobs lack where what is free is not enough for them.
    """

    below_minimum: Mapping[JobKey, Claim] = field(default_factory=dict)
    shares: Mapping[JobKey, int] = field(default_factory=dict)
    donors: Mapping[JobKey, int] = field(default_factory=dict)
    missing: Mapping[JobKey, int] = field(default_factory=dict)

    def granted_slots(self) -> dict[JobKey, int]:
        """Return the slots of the jobs that have too few now and will have enough."""
        return {key: self.shares[key] for key, claim in self.below_minimum.items() if self.shares[key] >= claim.minimum}

    def carry_over(self, requests: Sequence[PassRequest]) -> Reallocation:
        """Return what is left of it in the next pass: nobody gives once those who lacked slots are gone, or run."""
        present = {request.context.job_key: request.context.status for request in requests}
        for job_key in self.granted_slots():
            # One without any slots does not run.
            waiting = JobStatus.RUNNING if self.below_minimum[job_key].held else JobStatus.CREATED
            if present.get(job_key) is waiting:
                return self
        return replace(self, donors={})


NO_REALLOCATION: Final = Reallocation()


@dataclass(frozen=True)
class SlotAllocation:
    """How the jobs of a cluster share its slots, from one pass to the next.

    Attributes:
        capacity: Of the cluster in this pass; None where its slots are not counted.
        addable: Slots that somebody could add to it.
        unclaimed: Free slots that no rescale under way takes.
        free: Those that are not kept for a job that waits for them, either.
        rescales: Slots that rescales under way take, by job.
        shares: Slots that are set aside for jobs that have to decide again, by job.
        starts: Slots that others give to a job that waits, by job.
    """

    capacity: ClusterCapacity | None = None
    addable: int = 0
    unclaimed: int = 0
    free: int = 0
    rescales: Mapping[JobKey, Reservation] = field(default_factory=dict)
    shares: Mapping[JobKey, Reservation] = field(default_factory=dict)
    starts: Mapping[JobKey, Reservation] = field(default_factory=dict)
    reallocation: Reallocation = NO_REALLOCATION
    usage: SlotUsage = field(default_factory=SlotUsage)

    def reservations(self) -> Iterator[Reservation]:
        """Yield what jobs are about to have; nothing where slots are not counted."""
        waiting = {
            job_key: Reservation(job_key, self.reallocation.shares[job_key], ReservationKind.START)
            for job_key, claim in self.reallocation.below_minimum.items()
            if not claim.held
        }
        kinds = (self.rescales, self.shares, {**waiting, **self.starts})
        yield from (each for kind in kinds for each in kind.values() if each.slots > 0)

    def headroom(self, cluster: str, slots: int, *, is_share: bool = False) -> Headroom:
        """Return so many slots as what a job may take, and who has the others where nobody adds any."""
        source = f"its fair share of cluster {cluster}" if is_share else f"cluster {cluster}"
        headroom = Headroom(source, taskmanagers=0, slots=slots)
        if self.addable or self.capacity is None:
            return headroom
        kept = self.capacity.free_slots - slots
        holders = (*self.usage.holders(self.capacity), *([("kept for others", kept)] if kept > 0 else []))
        return replace(headroom, total=self.capacity.slots, holders=holders)


def cap_requests(
    before: SlotAllocation, requests: Sequence[PassRequest], capacity: ClusterCapacity, addable: int, now: float
) -> tuple[SlotAllocation, list[PassRequest], dict[JobKey, AutoscalerError]]:
    """Tell the jobs of a pass how many slots each of them may take.

    Args:
        before: As the last pass left it.
        requests: Of the pass; not empty.
        capacity: Of the cluster, which does not grow by itself.
        addable: Slots that could be added to it.
        now: Seconds of a clock that never goes back.

    Returns:
        The allocation of this pass, the requests with their headroom, and why jobs are left out of these.
    """
    rescales = {key: each for key, each in before.rescales.items() if each.until > now}
    # A share that lapses before its job could decide again would be offered to nobody: passes may be far apart.
    shares = {
        key: replace(each, is_offered=True)
        for key, each in before.shares.items()
        if each.until > now or not each.is_offered
    }
    # Jobs that this pass does not look at, such as one that is still being carried out.
    seen = {request.context.job_key for request in requests}
    # They keep what is theirs: their rescale goes on while nobody looks.
    taken = sum(each.slots for key, each in rescales.items() if key not in seen)
    kept, counted, failures = 0, list[PassRequest](), dict[JobKey, AutoscalerError]()
    for request in requests:
        job_key = request.context.job_key
        with ErrorBoundary() as boundary:
            rescale = _rescale_under_way(request, rescales.get(job_key), now)
            if rescale is None:
                rescales.pop(job_key, None)  # it has ended, or what was decided was never saved
            if request.context.status is JobStatus.CREATED:
                # It has lost its slots: what its rescale was to add is a part of what it needs to start.
                kept += _reserved_for_start(before, job_key) or (rescale.slots if rescale else 0)
            elif rescale is not None:
                rescales[job_key] = rescale
                taken += rescale.slots
            counted.append(request)
        if boundary.error is not None:
            failures[job_key] = boundary.error
    unclaimed = max(0, capacity.free_slots - taken)
    allocation = replace(before, capacity=capacity, addable=addable, unclaimed=unclaimed, free=max(0, unclaimed - kept))
    reallocation = before.reallocation.carry_over(requests)
    allocation = replace(allocation, rescales=rescales, shares=shares, reallocation=reallocation)
    set_aside = sum(each.slots for each in shares.values())
    common = allocation.headroom(requests[0].context.cluster, _available(allocation, set_aside, 0))
    capped = []
    for request in counted:
        with ErrorBoundary() as boundary:
            capped.append(_cap_request(allocation, request, common, set_aside))
        if boundary.error is not None:
            failures[request.context.job_key] = boundary.error
    return allocation, capped, failures


def _rescale_under_way(request: PassRequest, known: Reservation | None, now: float) -> Reservation | None:
    """Return the slots that a rescale under way is still going to take; None where none is."""
    current = request.state.supervision.under_way
    if current is None:
        return None
    # The same rescale: what was counted when it was decided is exact, by slot sharing group.
    if known is not None and known.decided_ms == current.decided_ms:
        return known
    # Decided by another daemon, or long ago. Without the job's graph its vertices are taken to share slots.
    slots = max(current.target.values(), default=0) - max(current.before.values(), default=0)
    return Reservation(request.context.job_key, max(0, slots), ReservationKind.RESCALE, now, current.decided_ms)


def _reserved_for_start(before: SlotAllocation, job_key: JobKey) -> int:
    """Return the slots that others have given, or are about to give, to a job that waits."""
    if job_key in before.starts:
        return before.starts[job_key].slots
    return before.reallocation.shares.get(job_key, 0)


def _cap_request(allocation: SlotAllocation, request: PassRequest, common: Headroom, set_aside: int) -> PassRequest:
    context, reallocation, names = request.context, allocation.reallocation, allocation.usage.names
    share, own = None, allocation.shares.get(context.job_key)
    if context.job_key in reallocation.donors:
        claimants = (names.get(key, key) for key in reallocation.missing if key in reallocation.granted_slots())
        share = SlotShare(reallocation.donors[context.job_key], ", ".join(claimants))
    headroom = context.headroom
    if headroom is None and shares_slots(context):
        headroom = common
        if own is not None:
            available = _available(allocation, set_aside, own.slots)
            headroom = allocation.headroom(context.cluster, available, is_share=True)
    return replace(request, context=replace(context, headroom=headroom, share=share))


def _available(allocation: SlotAllocation, set_aside: int, own: int) -> int:
    """Return the slots that a job may take, beside what is set aside for others.

    Its own share, and what has become free since: a share is no limit once there is more.
    """
    return max(allocation.free - (set_aside - own), min(own, allocation.free), 0) + allocation.addable


def claims_of(
    requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome]
) -> tuple[dict[JobKey, Claim], dict[JobKey, AutoscalerError]]:
    """Return what the jobs want that decided to take more slots, and why some outcomes cannot be counted.

    Nobody knows what those take from the others: they are not to be carried out.
    """
    claims, failures = {}, {}
    for request, outcome in zip(requests, outcomes, strict=True):
        found = try_call(partial(_claim, request, outcome), what="what was decided cannot be counted")
        if isinstance(found, AutoscalerError):
            failures[request.context.job_key] = found
        elif found is not None:
            claims[found.job_key] = found
    return claims, failures


def _claim(request: PassRequest, outcome: PassOutcome) -> Claim | None:
    slots, options = more_slots(outcome), request.context.options
    if slots is None or slots[1] <= slots[0] or not shares_slots(request.context):
        return None
    return Claim(request.context.job_key, *slots, options.capacity_priority, options.capacity_weight)


def arbitrate(
    allocation: SlotAllocation,
    requests: Sequence[PassRequest],
    outcomes: Sequence[PassOutcome],
    claims: Mapping[JobKey, Claim],
    coming: Reason | None,
    now: float,
) -> tuple[SlotAllocation, tuple[PassOutcome, ...]]:
    """Defer the plans of a pass that want more than their fair share, and find out who has too few slots.

    Args:
        allocation: As :func:`cap_requests` left it.
        requests: As they were capped.
        outcomes: One per request, in the same order.
        claims: Of those, see :func:`claims_of`.
        coming: Why plans wait for TaskManagers that are being added; None where none are.
        now: Seconds of a clock that never goes back.

    Returns:
        What the next pass begins with, and the outcomes. Jobs that wait for slots say how many they lack, with an event
        from the second time on: for a moment slots are missing whenever a TaskManager is started anew.
    """
    shares, rescales = dict(allocation.shares), dict(allocation.rescales)
    set_aside = sum(each.slots for job_key, each in shares.items() if job_key not in claims)
    granted = fair_shares(claims.values(), max(0, allocation.free - set_aside))
    wanted = sum(claim.wanted - claim.held for claim in claims.values())
    settled = []
    for request, outcome in zip(requests, outcomes, strict=True):
        job_key, claim = outcome.job_key, claims.get(outcome.job_key)
        if claim is None:
            settled.append(outcome)
            continue
        share = granted[job_key]
        is_granted = claim.held + share >= claim.wanted
        if coming is not None:
            # Nothing is reserved: what comes is counted once it is there, and then everybody decides anew.
            settled.append(outcome if is_granted else defer(outcome, coming))
        elif is_granted:
            # Flink shows these slots as free until the job runs with them.
            shares.pop(job_key, None)
            rescales[job_key] = Reservation(
                job_key, share, ReservationKind.RESCALE, now + RESCALE_SECONDS, request.now_ms
            )
            settled.append(outcome)
        else:
            shares[job_key] = Reservation(job_key, share, ReservationKind.SHARE, now + SHARE_SECONDS)
            own, free = claim.wanted - claim.held, allocation.free
            reason = Reason.of(ReasonCode.FAIR_SHARE, wanted=wanted, free=free, share=share, own=own)
            settled.append(defer(outcome, reason))
    usage = allocation.usage.after(requests, outcomes)
    allocation = replace(allocation, rescales=rescales, shares=shares, usage=usage)
    return _reallocate(allocation, requests, settled, now)


def _reallocate(
    allocation: SlotAllocation, requests: Sequence[PassRequest], outcomes: list[PassOutcome], now: float
) -> tuple[SlotAllocation, tuple[PassOutcome, ...]]:
    """Find out who has too few slots, and have those say so."""
    before, starts = allocation.reallocation, dict(allocation.starts)
    if any(reason.code == "GIVES_SLOTS" for each in outcomes for reason in each.decision.reasons):
        # As long as it may take until those run that are given slots.
        until = now + SHARE_SECONDS
        starts |= {key: Reservation(key, n, ReservationKind.START, until) for key, n in before.granted_slots().items()}
    waiting = {each.context.job_key for each in requests if each.context.status is JobStatus.CREATED}
    starts = {key: each for key, each in starts.items() if key in waiting and each.until > now}
    promised = {job_key: each.slots for job_key, each in starts.items()}
    found = (
        NO_REALLOCATION if allocation.addable else plan_reallocation(requests, outcomes, allocation.unclaimed, promised)
    )
    # What is being handed over is nobody's to see: who was to get it does not lack it anew.
    reallocation = before if promised and not found.below_minimum else found
    allocation = replace(allocation, starts=starts, reallocation=reallocation)
    told = []
    for request, outcome in zip(requests, outcomes, strict=True):
        told.append(outcome)
        if outcome.job_key in reallocation.missing:
            with ErrorBoundary():  # words must not end the pass
                told[-1] = _with_shortage(allocation, request, outcome, is_news=outcome.job_key in before.missing)
    return allocation, tuple(told)


def _with_shortage(
    allocation: SlotAllocation, request: PassRequest, outcome: PassOutcome, *, is_news: bool
) -> PassOutcome:
    """Return the outcome of a job that has too few slots with how many it lacks, and who has them."""
    reallocation, names = allocation.reallocation, allocation.usage.names
    claim, missing = reallocation.below_minimum[outcome.job_key], reallocation.missing[outcome.job_key]
    are_missing = f"{missing} {'is' if missing == 1 else 'are'} missing"
    needs = f"needs {claim.minimum} slot{'' if claim.minimum == 1 else 's'} at least"
    lack = f"it runs with {claim.held}, {needs}, {are_missing}" if claim.held else f"it {needs} to run, {are_missing}"
    donors = (f"{names.get(key, key)} is to shrink to {slots}" for key, slots in sorted(reallocation.donors.items()))
    free, headroom = allocation.unclaimed, allocation.headroom(request.context.cluster, allocation.unclaimed)
    figures = (
        ("slots_held", claim.held),
        ("slots_needed", claim.minimum),
        ("slots_free", free),
        ("slots_missing", missing),
    )
    reason = Reason.of(
        ReasonCode.SLOTS_MISSING,
        figures=figures,
        lack=lack,
        free=slots_text(headroom, free),
        donors=", ".join(donors) or "no other job can release any",
    )
    decision = replace(outcome.decision, reasons=(*outcome.decision.reasons, reason))
    if not is_news:
        return replace(outcome, decision=decision)
    event = plan_event(request.context, "SlotsMissing", f"The job has too few slots: {reason.text}", "SlotsMissing")
    return replace(outcome, decision=decision, events=(*outcome.events, replace(event, figures=figures)))


def plan_reallocation(
    requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome], free: int, promised: Mapping[JobKey, int]
) -> Reallocation:
    """Return who has too few slots after a pass, and how many each job is to have so that all run.

    Args:
        requests: Of the pass.
        outcomes: One per request, in the same order.
        free: Slots that nobody has, and nobody is about to take.
        promised: Slots that others give to jobs that wait. Flink hands them over before such a job runs: they are
            neither free then, nor anybody's to see.
    """
    claims = []
    for request, outcome in zip(requests, outcomes, strict=True):
        claim = try_call(partial(_need, request, outcome, promised.get(outcome.job_key, 0)))
        if isinstance(claim, Claim):
            claims.append(claim)
    below_minimum = {claim.job_key: claim for claim in claims if claim.deficit}
    if not below_minimum:
        return NO_REALLOCATION
    # Flink counts them as free until the job they are for runs.
    free = max(0, free - sum(promised.values()))
    shares, missing = redistribute(claims, free), {}
    # Who lacks the fewest takes first what is free, as soon as Flink sees it.
    for claim in sorted(below_minimum.values(), key=lambda each: (each.deficit, each.job_key)):
        if claim.deficit <= free:
            free -= claim.deficit
        else:
            missing[claim.job_key] = claim.deficit - free
    donors = {claim.job_key: shares[claim.job_key] for claim in claims if shares[claim.job_key] < claim.held}
    kept = {job_key: shares[job_key] for job_key in below_minimum}
    return Reallocation(below_minimum, kept, donors if missing else {}, missing)


def _need(request: PassRequest, outcome: PassOutcome, promised: int) -> Claim | None:
    """Return what a job holds and needs; None where it takes no part."""
    context, held = request.context, held_slots(outcome)
    if held is None or not shares_slots(context):
        return None
    options = context.options
    claim = Claim(context.job_key, held, held, options.capacity_priority, options.capacity_weight)
    if outcome.waits_for is not None and promised:
        return replace(claim, held=promised, wanted=promised, minimum=min(promised, outcome.waits_for.least))
    if outcome.waits_for is not None:
        return replace(claim, wanted=outcome.waits_for.most, minimum=outcome.waits_for.least)
    if outcome.observation.topology is None:
        return None
    vertices, soon = outcome.observation.topology.vertices.values(), _held_after_rescale(outcome, held)
    need = (
        slots_needed(vertices, outcome.target.found_requirements, options)
        if outcome.target.found_requirements
        else None
    )
    # What is under way may be all that is missing.
    if need is not None and need.least > max(held, soon):
        return replace(claim, wanted=need.least, minimum=need.least)
    held = min(held, soon)
    least = min(held, min_slots_of(vertices, request))
    return replace(claim, held=held, wanted=held, minimum=least) if is_preemptible(request) else None


def _held_after_rescale(outcome: PassOutcome, held: int) -> int:
    """Return the slots that a job has once a rescale that is under way is through.

    Flink sets them aside for it before it runs with them: they are neither free then, nor missing.
    """
    under_way = outcome.state.supervision.under_way
    if under_way is None or outcome.observation.topology is None:
        return held
    vertices = outcome.observation.topology.vertices
    target = {v: under_way.target.get(v, vertex.parallelism) for v, vertex in vertices.items()}
    return slots_in_groups(vertices.values(), target)


def held_slots(outcome: PassOutcome) -> int | None:
    """Return the slots that a job has; None where this pass did not see it run, 0 where it waits for some."""
    if outcome.observation.topology is None:
        return None if outcome.waits_for is None else 0
    vertices = outcome.observation.topology.vertices
    return slots_in_groups(vertices.values(), {v: vertex.parallelism for v, vertex in vertices.items()})
