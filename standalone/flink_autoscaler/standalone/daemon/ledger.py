"""The free slots of a cluster of fixed size, and which of its jobs may take them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

import structlog

from flink_autoscaler.core.border import Border, attempted
from flink_autoscaler.core.decide.slot_sharing import Claim, fair_shares, more_slots, postponed
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.job import Capacity, Headroom, JobKey, JobStatus
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.observe.wanted_facts import shares_slots
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.realizers.taskmanagers.slots import Released, SlotsComing
from flink_autoscaler.standalone.daemon.slot_deals import NO_DEAL, dealt, has_given
from flink_autoscaler.standalone.daemon.slot_holders import SlotHolders, SlotPromise, told_missing

log = structlog.get_logger(__name__)

T = TypeVar("T")

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


@dataclass(frozen=True, slots=True)
class _Promise:
    """Slots that others give to a job that waits, and until when it should run with them."""

    slots: int
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
        self._free = self._unclaimed = self._set_aside = 0
        self._common: Headroom | None = None
        self._holders = SlotHolders()
        self._deal = NO_DEAL
        self._promised: dict[JobKey, _Promise] = {}
        self._taking: dict[JobKey, int] = {}

    def limit(
        self, requests: Sequence[PassRequest], failures: MutableMapping[JobKey, AutoscalerError] | None = None
    ) -> list[PassRequest]:
        """Return the requests with what each job may take, where the cluster does not grow by itself.

        Args:
            requests: Of the pass.
            failures: Takes why a job is left out, by its key; the others are not concerned.
        """
        capacities = (request.context.capacity for request in requests)
        capacity = next((each for each in capacities if each is not None and each.is_fixed), None)
        self._taking = {}
        if capacity is None:
            return list(requests)
        self._expire()
        self._capacity = capacity
        self._addable = self._ask_for_more(requests[0].context)
        failed = failures if failures is not None else {}
        reserved = sum(_of_each(self._reserved, requests, failed))
        # Jobs that this pass does not look at, such as one that is still being carried out.
        seen = {request.context.job_key for request in requests}
        reserved += sum(grant.slots for job_key, grant in self._granted.items() if job_key not in seen)
        self._unclaimed = max(0, capacity.free_slots - reserved)
        self._deal = self._deal.among(requests)
        self._free = max(0, self._unclaimed - sum(map(self._kept_for, requests)))
        self._set_aside = sum(each.slots for each in self._allotted.values())
        self._common = self._headroom(requests[0].context.cluster, self._left_for(None))
        kept = [request for request in requests if request.context.job_key not in failed]
        return _of_each(self._with_limit, kept, failed)

    def settle(
        self,
        requests: Sequence[PassRequest],
        outcomes: Sequence[PassOutcome],
        failures: MutableMapping[JobKey, AutoscalerError] | None = None,
    ) -> tuple[PassOutcome, ...]:
        """Return the outcomes; those that want more than their fair share are put off to the next pass.

        Args:
            requests: As they were limited.
            outcomes: One per request, in the same order.
            failures: Takes why an outcome cannot be counted, by job. Such an outcome comes back as it was, and is not
                to be carried out: nobody knows what it takes from the others.
        """
        failed = failures if failures is not None else {}
        found = (_counted(request, outcome, failed) for request, outcome in zip(requests, outcomes, strict=True))
        claims = {claim.job_key: claim for claim in found if claim is not None}
        kept = sum(each.slots for job_key, each in self._allotted.items() if job_key not in claims)
        shares = fair_shares(claims.values(), max(0, self._free - kept))
        wanted = sum(claim.wanted - claim.held for claim in claims.values())
        waited_for = sum(each.waits_for.most for each in outcomes if each.waits_for is not None)
        coming = self._supplied(requests, wanted + waited_for)
        settled = []
        for request, outcome in zip(requests, outcomes, strict=True):
            claim, share = claims.get(outcome.job_key), shares.get(outcome.job_key, 0)
            if claim is None:
                settled.append(outcome)
            elif coming is None:
                settled.append(self._judged(request, claim, share, outcome, wanted))
            else:
                settled.append(self._waiting(claim, share, outcome, coming))
        self._holders.note(requests, outcomes)
        return self._with_missing(requests, settled)

    def promised(self) -> tuple[SlotPromise, ...]:
        """Return what jobs are about to have, as the last pass left it; nothing where slots are not counted."""
        return tuple(each for each in self._promises() if each.slots > 0)

    def _promises(self) -> Iterator[SlotPromise]:
        taking = {**self._taking, **{job_key: each.slots for job_key, each in self._granted.items()}}
        for job_key, slots in taking.items():
            yield SlotPromise(job_key, slots, "its rescale takes them")
        for job_key, allotment in self._allotted.items():
            yield SlotPromise(job_key, allotment.slots, "its share, until it has decided again")
        waiting = {
            job_key: self._deal.shares[job_key] for job_key, claim in self._deal.starving.items() if not claim.held
        }
        for job_key, slots in {**waiting, **{key: each.slots for key, each in self._promised.items()}}.items():
            yield SlotPromise(job_key, slots, "kept free until it runs")

    def _with_missing(
        self, requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome]
    ) -> tuple[PassOutcome, ...]:
        """Return the outcomes; jobs that wait for slots say how many they lack, with an event from the second time on.

        For a moment slots are missing whenever a TaskManager is started anew.
        """
        if self._capacity is None:
            return tuple(outcomes)
        before = self._deal
        self._note_promises(requests, outcomes)
        promised = {job_key: promise.slots for job_key, promise in self._promised.items()}
        found = NO_DEAL if self._addable else dealt(requests, outcomes, self._unclaimed, promised)
        self._deal = deal = before if promised and not found.starving else found
        settled = list(outcomes)
        for index, (request, outcome) in enumerate(zip(requests, outcomes, strict=True)):
            if outcome.job_key in deal.missing:
                headroom = self._headroom(request.context.cluster, self._unclaimed)
                lack, is_news = deal.lack_of(outcome.job_key), outcome.job_key in before.missing
                with Border():  # words must not end the pass
                    settled[index] = told_missing(request, outcome, lack, headroom, is_news=is_news)
        return tuple(settled)

    def _kept_for(self, request: PassRequest) -> int:
        """Return the slots that are kept free for a job that waits: at first those of a rescale under way."""
        if request.context.status is not JobStatus.CREATED:
            return 0
        promise = self._promised.get(request.context.job_key)
        if promise is not None:
            return promise.slots
        return self._deal.reserved_for(request) or self._under_way(request)

    def _note_promises(self, requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome]) -> None:
        """Remember what starving jobs are given, as long as it may take until they run."""
        now = self._clock()
        if has_given(outcomes):
            until = now + ALLOTMENT_SECONDS
            self._promised |= {job_key: _Promise(slots, until) for job_key, slots in self._deal.helped().items()}
        waiting = {each.context.job_key for each in requests if each.context.status is JobStatus.CREATED}
        self._promised = {key: each for key, each in self._promised.items() if key in waiting and each.until > now}

    def _headroom(self, cluster: str, slots: int, *, is_share: bool = False) -> Headroom:
        """Return what a job may take, and who has the slots where nobody adds any."""
        source = f"its fair share of cluster {cluster}" if is_share else f"cluster {cluster}"
        headroom = Headroom(source, taskmanagers=0, slots=slots)
        if self._addable or self._capacity is None:
            return headroom
        kept = self._capacity.free_slots - slots
        holders = (*self._holders.among(self._capacity), *([("kept for others", kept)] if kept > 0 else []))
        return replace(headroom, total=self._capacity.slots, holders=holders)

    def _ask_for_more(self, context: JobAutoScalerContext) -> int:
        """Return the slots that could be added; a cluster without limit counts as twice its size."""
        if self._source is None or self._capacity is None:
            return 0
        addable = attempted(partial(self._source.addable, context))
        if isinstance(addable, AutoscalerError):
            log.debug("slot_source_failed", cluster=context.cluster, error=str(addable))
            return 0
        return max(self._capacity.slots, 1) if addable is None else addable

    def _supplied(self, requests: Sequence[PassRequest], wanted: int) -> SlotsComing | None:
        """Have TaskManagers added or idle ones taken away; return what is coming where plans should wait for it."""
        if self._source is None or self._capacity is None or not requests:
            return None
        context, used = requests[0].context, self._capacity.slots - self._capacity.free_slots
        needed = used + (self._capacity.free_slots - self._free) + wanted
        coming: SlotsComing | None = None
        with Border() as border:
            if wanted <= self._free:
                _log_events(context, self._source.release(context, needed).events)
                return None
            coming = self._source.ensure(context, needed)
            if coming is not None:
                _log_events(context, coming.events)
                coming = coming if coming.slots > 0 and coming.problem is None else None
        if border.error is None:
            return coming
        log.warning("slot_source_failed", cluster=context.cluster, error=str(border.error))
        return None

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
        """Return the slots that the rescale of a job that runs takes: nobody else may.

        Of one that lost its slots meanwhile they are a part of what it needs to start.
        """
        job_key = request.context.job_key
        if request.state.supervision.under_way is None:
            self._granted.pop(job_key, None)
            return 0
        if request.context.status is JobStatus.CREATED:
            return 0
        self._taking[job_key] = self._under_way(request)
        return self._taking[job_key]

    def _under_way(self, request: PassRequest) -> int:
        """Return the slots that a rescale under way is still going to take."""
        current, grant = request.state.supervision.under_way, self._granted.get(request.context.job_key)
        if current is None:
            return 0
        if grant is not None and grant.decided_ms == current.decided_ms:
            return grant.slots
        return max(0, _widest(current.target) - _widest(current.before))

    def _with_limit(self, request: PassRequest) -> PassRequest:
        share = self._deal.share_of(request)
        return replace(request, context=replace(self._limited(request.context), share=share))

    def _limited(self, context: JobAutoScalerContext) -> JobAutoScalerContext:
        if context.headroom is not None or not shares_slots(context):
            return context
        own = self._allotted.get(context.job_key)
        if own is None:
            return replace(context, headroom=self._common)
        return replace(context, headroom=self._headroom(context.cluster, self._left_for(own), is_share=True))

    def _left_for(self, own: _Allotment | None) -> int:
        """Return the slots that a job may take, beside what is set aside for others.

        What was allotted to it, and what has become free since: a share is no limit once there is more.
        """
        kept = 0 if own is None else own.slots
        return max(self._free - (self._set_aside - kept), min(kept, self._free), 0) + self._addable

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


def _of_each(
    work: Callable[[PassRequest], T], requests: Sequence[PassRequest], failures: MutableMapping[JobKey, AutoscalerError]
) -> list[T]:
    """Return what is found out about each job; jobs of which nothing can be found out are failures."""
    found = []
    for request in requests:
        with Border() as border:
            found.append(work(request))
        if border.error is not None:
            failures[request.context.job_key] = border.error
    return found


def _counted(
    request: PassRequest, outcome: PassOutcome, failures: MutableMapping[JobKey, AutoscalerError]
) -> Claim | None:
    found = attempted(partial(_claim, request, outcome), what="what was decided cannot be counted")
    if isinstance(found, AutoscalerError):
        failures[request.context.job_key] = found
        return None
    return found


def _claim(request: PassRequest, outcome: PassOutcome) -> Claim | None:
    slots, options = more_slots(outcome), request.context.options
    if slots is None or slots[1] <= slots[0] or not shares_slots(request.context):
        return None
    return Claim(request.context.job_key, *slots, options.capacity_priority, options.capacity_weight)


def _widest(vector: Mapping[str, int]) -> int:
    """Return the slots of a job whose vertices share them; without its graph nothing better is known."""
    return max(vector.values(), default=0)
