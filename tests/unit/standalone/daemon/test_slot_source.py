"""An allocator of a cluster to which somebody adds TaskManagers when slots are short."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.job import ClusterCapacity
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassObservation, PassOutcome, PassRequest
from flink_autoscaler.realizers.task_managers.slots import PendingSlots, ReleasedTaskManagers
from flink_autoscaler.standalone.daemon.slot_allocator import SlotAllocator
from testkit.builders.core import a_configuration, a_context, a_plan, a_topology, a_vertex

COMING = PendingSlots(4, 1, waited=3.0)


@dataclass
class Source:
    """Adds up to ``addable`` slots; remembers what it was asked for."""

    addable_slots: int | None = 8
    coming: PendingSlots | None = COMING
    error: Exception | None = None
    ensured: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)

    def addable(self, context: JobAutoScalerContext) -> int | None:
        return self.addable_slots

    def ensure(self, context: JobAutoScalerContext, slots_needed: int) -> PendingSlots | None:
        if self.error is not None:
            raise self.error
        self.ensured.append(slots_needed)
        return self.coming

    def release(self, context: JobAutoScalerContext, slots_needed: int) -> ReleasedTaskManagers:
        self.released.append(slots_needed)
        return ReleasedTaskManagers()


def request_of(capacity: ClusterCapacity) -> PassRequest:
    context = replace(a_context(), configuration=a_configuration(), capacity=capacity)
    return PassRequest(context, JobState(), 0)


def outcome_of(request: PassRequest, *, held: int, wanted: int) -> PassOutcome:
    topology = a_topology(a_vertex(1, parallelism=held, group="default"))
    decision = Hold(()) if held == wanted else Rescale(a_plan({1: (held, wanted)}), ())
    key = request.context.job_key
    return PassOutcome(
        key, PassPhase.EXECUTED, decision, undecided=JobState(), observation=PassObservation(topology=topology)
    )


def settle(source: Source, *, free: int, held: int, wanted: int) -> tuple[PassRequest, PassOutcome]:
    allocator = SlotAllocator(source)
    capacity = ClusterCapacity(1, held + free, free, 4, is_fixed=True)
    (request,) = allocator.cap_requests([request_of(capacity)], {})
    (outcome,) = allocator.arbitrate([request], [outcome_of(request, held=held, wanted=wanted)], {})
    return request, outcome


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


@pytest.mark.parametrize(
    ("addable", "expected"),
    [pytest.param(8, 2 + 8, id="what it adds"), pytest.param(None, 2 + 4, id="no limit: twice the cluster")],
)
def test_a_job_may_want_what_can_be_added(addable: int | None, expected: int) -> None:
    request, _ = settle(Source(addable_slots=addable), free=2, held=2, wanted=2)

    assert request.context.headroom is not None
    assert request.context.headroom.slots == expected


def test_a_plan_waits_for_the_slots_that_are_coming() -> None:
    source = Source()

    _, outcome = settle(source, free=2, held=2, wanted=6)

    assert source.ensured == [6]
    assert codes(outcome) == ["SLOTS_COMING"]
    assert isinstance(outcome.decision, Hold)


def test_a_plan_that_fits_needs_nobody_and_idle_taskmanagers_may_go() -> None:
    source = Source()

    _, outcome = settle(source, free=4, held=2, wanted=6)

    assert isinstance(outcome.decision, Rescale)
    assert (source.ensured, source.released) == ([], [6])


def test_when_nothing_comes_the_job_gets_its_share() -> None:
    refused = Source(coming=PendingSlots(0, 0, problem="at most 3 TaskManagers"))

    _, outcome = settle(refused, free=2, held=2, wanted=6)

    assert codes(outcome) == ["FAIR_SHARE"]


def test_a_source_that_raises_anything_is_as_good_as_none() -> None:
    _, outcome = settle(Source(error=ZeroDivisionError("no slots")), free=2, held=2, wanted=6)

    assert codes(outcome) == ["FAIR_SHARE"]
