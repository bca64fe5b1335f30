"""The free slots of a cluster of fixed size, and which of its jobs may take them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from flink_autoscaler.core.decide.limits.shares import Claim, fair_shares, more_slots, postponed
from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.job import Capacity, Headroom, JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.realizers.taskmanagers.slots import Released, SlotsComing

log = structlog.get_logger(__name__)

ALLOTMENT_SECONDS: Final = 120.0
"""How long a job may take up what was allotted to it, once it could; after that the slots are free for all again."""

GRANT_SECONDS: Final = 600.0
"""How long slots stay reserved for a job that was granted them and cannot be looked at since."""


@dataclass(frozen=True, slots=True)
class _Allotment:
    """Slots set aside for a job that has to decide again.

    Attributes:
        until: When they are free for all again.
        is_offered: Whether a pass has begun since. Only then can they lapse, however far apart passes are.
    """

    slots: int
    until: float
    is_offered: bool = False


@dataclass(frozen=True, slots=True)
class _Grant:
    """Slots that the rescale of an instant takes, and until when to believe in that without seeing the job."""

    slots: int
    decided_ms: int
    until: float


class SlotSource(Protocol):
    """Adds TaskManagers to a cluster and takes idle ones away. May raise :class:`AutoscalerError`."""

    def addable(self, context: JobAutoScalerContext) -> int | None:
        """Return the slots that could still be added; None without a limit."""
        ...

    def ensure(self, context: JobAutoScalerContext, slots_needed: int) -> SlotsComing | None:
        """Ask for TaskManagers until the cluster has that many slots."""
        ...

    def release(self, context: JobAutoScalerContext, slots_needed: int) -> Released:
        """Stop TaskManagers that have been without work for a while."""
        ...


class SlotLedger:
    """Lets the jobs of one cluster ask only for slots that are there. Belongs to the thread of the cluster's passes.

    Where the plans of one pass want more than that, TaskManagers are added, if anybody adds any; the plans wait for
    them. Else each job gets a fair share: plans that fit into it are carried out, the others are made again in the next
    pass, within the share.

    Args:
        source: Who adds TaskManagers; None where nobody does.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, source: SlotSource | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._addable = 0
        self._capacity: Capacity | None = None
        self._allotted: dict[JobKey, _Allotment] = {}
        self._granted: dict[JobKey, _Grant] = {}
        self._free = 0

    def limit(self, requests: Sequence[PassRequest]) -> list[PassRequest]:
        """Return the requests with what each job may take, where the cluster does not grow by itself."""
        capacities = (request.context.capacity for request in requests)
        capacity = next((each for each in capacities if each is not None and each.is_fixed), None)
        if capacity is None:
            return list(requests)
        self._expire()
        self._capacity = capacity
        self._addable = self._ask_for_more(requests[0].context)
        reserved = sum(self._reserved(request) for request in requests)
        # Jobs that this pass does not look at, such as one that is still being carried out.
        seen = {request.context.job_key for request in requests}
        reserved += sum(grant.slots for job_key, grant in self._granted.items() if job_key not in seen)
        self._free = max(0, capacity.free_slots - reserved)
        return [replace(request, context=self._limited(request.context)) for request in requests]

    def settle(self, requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome]) -> tuple[PassOutcome, ...]:
        """Return the outcomes; those that want more than their fair share are put off to the next pass."""
        found = (_claim(request, outcome) for request, outcome in zip(requests, outcomes, strict=True))
        claims = {claim.job_key: claim for claim in found if claim is not None}
        kept = sum(each.slots for job_key, each in self._allotted.items() if job_key not in claims)
        shares = fair_shares(claims.values(), max(0, self._free - kept))
        wanted = sum(claim.wanted - claim.held for claim in claims.values())
        coming = self._supplied(requests, wanted)
        settled = []
        for request, outcome in zip(requests, outcomes, strict=True):
            claim, share = claims.get(outcome.job_key), shares.get(outcome.job_key, 0)
            if claim is None:
                settled.append(outcome)
            elif coming is None:
                settled.append(self._judged(request, claim, share, outcome, wanted))
            else:
                settled.append(self._waiting(claim, share, outcome, coming))
        return tuple(settled)

    def _ask_for_more(self, context: JobAutoScalerContext) -> int:
        """Return the slots that could be added; a cluster without limit counts as twice its size."""
        if self._source is None or self._capacity is None:
            return 0
        try:
            addable = self._source.addable(context)
        except AutoscalerError as error:
            log.debug("slot_source_failed", cluster=context.cluster, error=str(error))
            return 0
        return max(self._capacity.slots, 1) if addable is None else addable

    def _supplied(self, requests: Sequence[PassRequest], wanted: int) -> SlotsComing | None:
        """Have TaskManagers added or idle ones taken away; return what is coming where plans should wait for it."""
        if self._source is None or self._capacity is None or not requests:
            return None
        context, used = requests[0].context, self._capacity.slots - self._capacity.free_slots
        needed = used + (self._capacity.free_slots - self._free) + wanted
        try:
            if wanted <= self._free:
                _log_events(context, self._source.release(context, needed).events)
                return None
            coming = self._source.ensure(context, needed)
        except AutoscalerError as error:
            log.warning("slot_source_failed", cluster=context.cluster, error=str(error))
            return None
        if coming is None:
            return None
        _log_events(context, coming.events)
        return coming if coming.slots > 0 and coming.problem is None else None

    def _waiting(self, claim: Claim, share: int, outcome: PassOutcome, coming: SlotsComing) -> PassOutcome:
        if claim.held + share >= claim.wanted:
            return outcome
        text = (
            f"{self._free} slots are free and {coming.slots} are coming with {coming.taskmanagers} TaskManagers, "
            f"asked for {coming.waited:.0f} s ago"
        )
        return postponed(outcome, Reason("SLOTS_COMING", text))

    def _expire(self) -> None:
        now = self._clock()
        self._allotted = {
            key: replace(each, is_offered=True)
            for key, each in self._allotted.items()
            if each.until > now or not each.is_offered
        }
        self._granted = {key: each for key, each in self._granted.items() if each.until > now}

    def _reserved(self, request: PassRequest) -> int:
        """Return the slots that a rescale under way is still going to take."""
        job_key, current = request.context.job_key, request.state.supervision.current
        if current is None or current.stage.is_final:
            self._granted.pop(job_key, None)
            return 0
        grant = self._granted.get(job_key)
        if grant is not None and grant.decided_ms == current.decided_ms:
            return grant.slots
        return max(0, _widest(current.target) - _widest(current.before))

    def _limited(self, context: JobAutoScalerContext) -> JobAutoScalerContext:
        if context.headroom is not None or not _is_counted(context):
            return context
        others = sum(each.slots for key, each in self._allotted.items() if key != context.job_key)
        own = self._allotted.get(context.job_key)
        # What was allotted to it, and what has become free since: a share is no limit once there is more.
        slots = max(self._free - others, 0 if own is None else min(own.slots, self._free), 0) + self._addable
        source = f"cluster {context.cluster}" if own is None else f"its fair share of cluster {context.cluster}"
        return replace(context, headroom=Headroom(source, taskmanagers=0, slots=slots))

    def _judged(self, request: PassRequest, claim: Claim, share: int, outcome: PassOutcome, wanted: int) -> PassOutcome:
        if claim.held + share >= claim.wanted:
            self._allotted.pop(claim.job_key, None)
            self._granted[claim.job_key] = _Grant(share, request.now_ms, self._clock() + GRANT_SECONDS)
            return outcome
        self._allotted[claim.job_key] = _Allotment(share, self._clock() + ALLOTMENT_SECONDS)
        text = (
            f"the jobs of the cluster want {wanted} more slots and {self._free} are free: this one may take {share} of "
            f"the {claim.wanted - claim.held} it wants and decides again"
        )
        return postponed(outcome, Reason("FAIR_SHARE", text))


def _log_events(context: JobAutoScalerContext, events: Sequence[Event]) -> None:
    for event in events:
        write = log.warning if event.type is EventType.WARNING else log.info
        write("slot_supply", cluster=context.cluster, reason=event.reason, message=event.message)


def _claim(request: PassRequest, outcome: PassOutcome) -> Claim | None:
    slots, options = more_slots(outcome), request.context.options
    if slots is None or slots[1] <= slots[0] or not _is_counted(request.context):
        return None
    return Claim(request.context.job_key, *slots, options.capacity_priority, options.capacity_weight)


def _is_counted(context: JobAutoScalerContext) -> bool:
    """Tell whether the job has to do with the slots that its cluster has."""
    if context.capacity is None or not context.capacity.is_fixed:
        return False
    options = context.options
    try:
        return options.improves(options.calm) and options.capacity_enabled
    except ConfigError:  # the pass says what is wrong with it
        return False


def _widest(vector: Mapping[str, int]) -> int:
    """Return the slots of a job whose vertices share them; without its graph nothing better is known."""
    return max(vector.values(), default=0)
