"""The slots that the jobs of one cluster share, with who adds TaskManagers to it when slots are short."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence
from functools import partial
from typing import Protocol

import structlog

from flink_autoscaler.core.decide.slot_allocation import Reservation, SlotAllocation, arbitrate, cap_requests, claims_of
from flink_autoscaler.core.error_boundary import ErrorBoundary, try_call
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.realizers.task_managers.slots import PendingSlots, ReleasedTaskManagers

log = structlog.get_logger(__name__)


class SlotSource(Protocol):
    """Adds TaskManagers to a cluster and takes idle ones away. May raise :class:`AutoscalerError`."""

    def addable(self, context: JobAutoScalerContext) -> int | None:
        """Return the slots that could still be added; None without a limit."""
        ...

    def ensure(self, context: JobAutoScalerContext, slots_needed: int) -> PendingSlots | None:
        """Ask for TaskManagers until the cluster has that many slots."""
        ...

    def release(self, context: JobAutoScalerContext, slots_needed: int) -> ReleasedTaskManagers:
        """Stop TaskManagers that have been without work for a while."""
        ...


class SlotAllocator:
    """Lets the jobs of one cluster ask only for slots that are there. Belongs to the thread of the cluster's passes.

    Where the plans of one pass want more than that, TaskManagers are added, if anybody adds any; the plans wait for
    them. Else :mod:`flink_autoscaler.core.decide.slot_allocation` says which of them go on.

    Args:
        source: Who adds TaskManagers; None where nobody does.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, source: SlotSource | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._allocation = SlotAllocation()

    def cap_requests(
        self, requests: Sequence[PassRequest], failures: MutableMapping[JobKey, AutoscalerError]
    ) -> list[PassRequest]:
        """Return the requests with what each job may take, where the cluster does not grow by itself.

        Args:
            requests: Of the pass.
            failures: Takes why a job is left out, by its key; the others are not concerned.
        """
        capacities = (request.context.capacity for request in requests)
        capacity = next((each for each in capacities if each is not None and each.is_fixed), None)
        if capacity is None:
            self._allocation = replace(self._allocation, capacity=None)
            return list(requests)
        addable = 0
        if self._source is not None:
            context = requests[0].context
            found = try_call(partial(self._source.addable, context))
            if isinstance(found, AutoscalerError):
                log.debug("slot_source_failed", cluster=context.cluster, error=str(found))
            else:  # a cluster without limit counts as twice its size
                addable = max(capacity.slots, 1) if found is None else found
        self._allocation, capped, failed = cap_requests(self._allocation, requests, capacity, addable, self._clock())
        failures.update(failed)
        return capped

    def arbitrate(
        self,
        requests: Sequence[PassRequest],
        outcomes: Sequence[PassOutcome],
        failures: MutableMapping[JobKey, AutoscalerError],
    ) -> Sequence[PassOutcome]:
        """Return the outcomes; those that want more than their fair share are put off to the next pass.

        Args:
            requests: As they were capped.
            outcomes: One per request, in the same order.
            failures: Takes why an outcome cannot be counted, by job. Such an outcome comes back as it was, and is not
                to be carried out: nobody knows what it takes from the others.
        """
        if self._allocation.capacity is None:
            return outcomes
        claims, failed = claims_of(requests, outcomes)
        failures.update(failed)
        wanted = sum(claim.wanted - claim.held for claim in claims.values())
        waited_for = sum(each.waits_for.most for each in outcomes if each.waits_for is not None)
        coming = self._adjust_supply(requests, wanted + waited_for)
        self._allocation, settled = arbitrate(self._allocation, requests, outcomes, claims, coming, self._clock())
        return settled

    def reservations(self) -> tuple[Reservation, ...]:
        """Return what jobs are about to have, as the last pass left it; nothing where slots are not counted."""
        return tuple(self._allocation.reservations())

    def _adjust_supply(self, requests: Sequence[PassRequest], wanted: int) -> Reason | None:
        """Have TaskManagers added or idle ones taken away; return why plans should wait, where they should."""
        capacity, free = self._allocation.capacity, self._allocation.free
        if self._source is None or capacity is None or not requests:
            return None
        context, needed = requests[0].context, capacity.slots - free + wanted
        with ErrorBoundary() as boundary:
            if wanted <= free:
                _log_events(context, self._source.release(context, needed).events)
                return None
            coming = self._source.ensure(context, needed)
            if coming is None:
                return None
            _log_events(context, coming.events)
            if coming.slots <= 0 or coming.problem is not None:
                return None
            return Reason.of(
                ReasonCode.SLOTS_COMING,
                free=free,
                coming=coming.slots,
                taskmanagers=coming.taskmanagers,
                waited=coming.waited,
            )
        log.warning("slot_source_failed", cluster=context.cluster, error=str(boundary.error))
        return None


def _log_events(context: JobAutoScalerContext, events: Sequence[Event]) -> None:
    for event in events:
        write = log.warning if event.type is EventType.WARNING else log.info
        write("slot_supply", cluster=context.cluster, reason=event.reason, message=event.message)
