"""An allocator of a cluster to which somebody adds TaskManagers when slots are short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.decide.slot_allocation import RESCALE_SECONDS, SHARE_SECONDS
from flink_autoscaler.core.decide.slot_sharing import Claim, fair_shares
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.job import ClusterCapacity, Headroom
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassObservation, PassOutcome, PassRequest
from flink_autoscaler.realizers.task_managers.slots import PendingSlots, ReleasedTaskManagers
from flink_autoscaler.standalone.daemon.slot_allocator import SlotAllocator
from testkit.builders.core import a_configuration, a_context, a_plan, a_topology, a_vertex, vertex_id

ONLY = vertex_id(1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Job:
    """A job of one vertex that wants a parallelism and is rescaled some passes after it was allowed to be.

    Attributes:
        key: Its name.
        held: Slots that it runs with.
        wanted: Slots that it wants.
        pending: Slots that it was allowed to have and does not have yet; None when there is no rescale under way.
        options: Relative to ``job.autoscaler.``.
    """

    key: str
    held: int
    wanted: int
    options: Mapping[str, str] = field(default_factory=dict)
    pending: int | None = None
    decided_ms: int = 0

    @property
    def topology(self) -> JobTopology:
        return a_topology(a_vertex(1, parallelism=self.held, group="default"))

    def request(self, capacity: ClusterCapacity, now_ms: int = 0) -> PassRequest:
        return PassRequest(self.context(capacity), self.state(), now_ms)

    def context(self, capacity: ClusterCapacity) -> JobAutoScalerContext:
        return replace(a_context(), job_key=self.key, configuration=a_configuration(self.options), capacity=capacity)

    def state(self) -> JobState:
        if self.pending is None:
            return JobState()
        record = RescaleRecord(
            self.decided_ms, self.decided_ms, {ONLY: self.held}, {ONLY: self.pending}, stage=Stage.PENDING
        )
        return JobState(supervision=Supervision(current=record))

    def outcome(self, request: PassRequest) -> PassOutcome:
        """Want as much as the headroom allows, as the core does."""
        target = min(self.wanted, self.held + slots_for(request))
        if self.pending is not None or target == self.held:
            return PassOutcome(
                self.key, PassPhase.EXECUTED, Hold(()), observation=PassObservation(topology=self.topology)
            )
        return a_rescale(self.key, self.topology, {1: (self.held, target)})

    def take(self, outcome: PassOutcome, now_ms: int = 0) -> None:
        """Begin the rescale that was decided."""
        if isinstance(outcome.decision, Rescale):
            self.pending, self.decided_ms = outcome.decision.summaries[ONLY].new, now_ms

    def arrive(self) -> None:
        """Run as the rescale under way wants it."""
        if self.pending is not None:
            self.held, self.pending = self.pending, None


def a_rescale(key: str, topology: JobTopology, changes: Mapping[int, tuple[int, int]]) -> PassOutcome:
    decision = Rescale(a_plan(changes), ())
    return PassOutcome(
        key, PassPhase.EXECUTED, decision, undecided=JobState(), observation=PassObservation(topology=topology)
    )


def slots_for(request: PassRequest) -> int:
    """Return the slots that a job may take; the most it could ever want where nothing limits it."""
    headroom = request.context.headroom
    return 1000 if headroom is None else headroom.slots or 0


@dataclass
class Cluster:
    """Some jobs on a fixed number of slots, under one allocator."""

    slots: int
    jobs: Sequence[Job]
    clock: Clock = field(default_factory=Clock)
    passes: int = 0

    def __post_init__(self) -> None:
        self.allocator = SlotAllocator(clock=self.clock)

    def capacity(self) -> ClusterCapacity:
        free = self.slots - sum(job.held for job in self.jobs)
        return ClusterCapacity(1, self.slots, free, self.slots, is_fixed=True)

    def do_pass(self, *, seconds: float = 10.0, present: Sequence[Job] | None = None) -> tuple[PassOutcome, ...]:
        """Do one pass over some of the jobs, and begin what it decides."""
        jobs = list(self.jobs if present is None else present)
        self.clock.now += seconds
        self.passes += 1
        requests = self.allocator.cap_requests([job.request(self.capacity(), self.passes) for job in jobs], {})
        outcomes = [job.outcome(request) for job, request in zip(jobs, requests, strict=True)]
        settled = tuple(self.allocator.arbitrate(requests, outcomes, {}))
        for job, outcome in zip(jobs, settled, strict=True):
            job.take(outcome, self.passes)
        return settled

    def settle_down(self, *, seconds: float = 10.0) -> dict[str, int]:
        """Do passes until nobody changes any more; return what each job holds in the end."""
        quiet = 0
        while quiet <= SHARE_SECONDS // min(seconds, SHARE_SECONDS) + 2:
            before = [(job.held, job.pending) for job in self.jobs]
            self.do_pass(seconds=seconds)
            for job in self.jobs:
                job.arrive()
            quiet = quiet + 1 if before == [(job.held, job.pending) for job in self.jobs] else 0
        return {job.key: job.held for job in self.jobs}


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


# --- one pass


@pytest.mark.parametrize(
    ("capacity", "options", "expected"),
    [
        pytest.param(ClusterCapacity(1, 8, 3, 8, is_fixed=True), {}, 3, id="a fixed cluster: what is free"),
        pytest.param(ClusterCapacity(1, 8, 0, 8, is_fixed=True), {}, 0, id="nothing free"),
        pytest.param(ClusterCapacity(1, 8, 3, 8), {}, None, id="a cluster that grows"),
        pytest.param(None, {}, None, id="a cluster that says nothing"),
        pytest.param(
            ClusterCapacity(1, 8, 3, 8, is_fixed=True), {"slots.fair-shares.enabled": "false"}, None, id="switched off"
        ),
        pytest.param(
            ClusterCapacity(1, 8, 3, 8, is_fixed=True), {"compat": "reference"}, None, id="without the improvement"
        ),
        pytest.param(
            ClusterCapacity(1, 8, 3, 8, is_fixed=True),
            {"slots.fair-shares.enabled": "??"},
            None,
            id="invalid: not touched",
        ),
    ],
)
def test_a_job_may_take_the_free_slots_of_a_cluster_of_fixed_size(
    capacity: ClusterCapacity | None, options: dict[str, str], expected: int | None
) -> None:
    context = replace(a_context(options), capacity=capacity)

    (limited,) = SlotAllocator().cap_requests([PassRequest(context, JobState(), 0)], {})

    headroom = limited.context.headroom
    assert (None if headroom is None else headroom.slots) == expected


def test_what_a_resource_manager_said_goes_before_the_free_slots() -> None:
    given = Headroom("YARN", taskmanagers=2)
    context = replace(a_context(), capacity=ClusterCapacity(1, 8, 3, 8, is_fixed=True), headroom=given)

    (limited,) = SlotAllocator().cap_requests([PassRequest(context, JobState(), 0)], {})

    assert limited.context.headroom is given


def test_plans_that_do_not_fit_together_are_put_off_with_a_reason() -> None:
    cluster = Cluster(8, [Job("a", 2, 8), Job("b", 2, 8)])

    first = cluster.do_pass()
    second = cluster.do_pass()

    assert [codes(outcome) for outcome in first] == [["FAIR_SHARE"], ["FAIR_SHARE"]]
    assert [outcome.target.parallelism for outcome in first] == [{}, {}]
    assert [job.pending for job in cluster.jobs] == [4, 4]
    assert [type(outcome.decision) for outcome in second] == [Rescale, Rescale]


def test_a_plan_within_its_share_goes_on_while_the_others_are_put_off() -> None:
    cluster = Cluster(12, [Job("modest", 2, 3), Job("a", 2, 12), Job("b", 2, 12)])

    modest, *others = cluster.do_pass()

    assert isinstance(modest.decision, Rescale)
    assert [codes(outcome) for outcome in others] == [["FAIR_SHARE"], ["FAIR_SHARE"]]


# --- several passes


def test_slots_of_several_sharing_groups_are_not_given_twice() -> None:
    topology = a_topology(a_vertex(1, group="first"), a_vertex(2, group="second"))
    capacity = ClusterCapacity(1, 8, 6, 8, is_fixed=True)
    wide = replace(a_context(), job_key="wide", capacity=capacity)
    allocator = SlotAllocator(clock=Clock())
    requests = allocator.cap_requests([PassRequest(wide, JobState(), 1)], {})
    allocator.arbitrate(requests, [a_rescale("wide", topology, {1: (1, 4), 2: (1, 3)})], {})
    record = RescaleRecord(1, 1, {vertex_id(1): 1, vertex_id(2): 1}, {vertex_id(1): 4, vertex_id(2): 3})

    pending = PassRequest(wide, JobState(supervision=Supervision(current=record)), 2)
    _, other = allocator.cap_requests([pending, Job("other", 1, 9).request(capacity)], {})

    assert slots_for(other) == 1


def test_slots_of_a_job_that_is_not_seen_any_more_are_free_again_after_a_while() -> None:
    lost, other = Job("lost", 1, 5), Job("other", 1, 1)
    cluster = Cluster(6, [lost, other])
    cluster.do_pass()
    other.wanted = 6

    (outcome,) = cluster.do_pass(present=[other], seconds=RESCALE_SECONDS)

    assert isinstance(outcome.decision, Rescale)


def test_a_decision_that_was_not_recorded_keeps_no_slots() -> None:
    lost, other = Job("lost", 1, 5), Job("other", 1, 1)
    cluster = Cluster(6, [lost, other])
    cluster.do_pass()
    lost.pending, lost.wanted, other.wanted = None, 1, 5

    _, outcome = cluster.do_pass()

    assert isinstance(outcome.decision, Rescale)


def test_slots_that_become_free_are_there_for_the_next_pass_of_a_job_that_got_none() -> None:
    full, poor = Job("full", 8, 8), Job("poor", 1, 4)
    third = Job("third", 1, 9, {"slots.priority": "1"})
    cluster = Cluster(11, [full, poor, third])
    cluster.do_pass()
    third.wanted, full.held, full.wanted = 1, 4, 4

    cluster.do_pass()

    assert poor.pending == 4


def test_newcomers_do_not_take_what_was_set_aside_for_jobs_that_have_yet_to_decide_again() -> None:
    put_off = [Job("first", 1, 9), Job("second", 1, 9)]
    newcomers = [Job("third", 1, 1), Job("fourth", 1, 1)]
    giver = Job("giver", 5, 5)
    cluster = Cluster(15, [*put_off, *newcomers, giver])
    cluster.do_pass()
    giver.held, giver.wanted = 1, 1
    for newcomer in newcomers:
        newcomer.wanted = 4

    settled = cluster.do_pass(present=[*newcomers, giver])

    # Ten slots are free now; three of them are set aside for each of those that were put off.
    assert [codes(outcome) for outcome in settled[:2]] == [["FAIR_SHARE"], ["FAIR_SHARE"]]


def test_a_share_that_nobody_takes_up_is_free_again_after_a_while() -> None:
    gone, other = Job("gone", 1, 9), Job("other", 1, 9)
    cluster = Cluster(8, [gone, other])
    cluster.do_pass()
    gone.wanted = 1
    cluster.do_pass()
    other.arrive()

    early = cluster.do_pass()[1]
    late = cluster.do_pass(seconds=SHARE_SECONDS)[1]

    assert (type(early.decision), type(late.decision)) == (Hold, Rescale)
    assert other.pending == 7


# --- always

OPTIONS = st.fixed_dictionaries(
    {
        "slots.priority": st.sampled_from(["0", "1"]),
        "slots.weight": st.sampled_from(["0.5", "1.0", "3.0"]),
    }
)


JOBS = st.lists(
    st.builds(Job, key=st.uuids().map(str), held=st.integers(1, 6), wanted=st.integers(1, 20), options=OPTIONS),
    min_size=1,
    max_size=5,
    unique_by=lambda job: job.key,
)


@given(jobs=JOBS, free=st.integers(0, 12), data=st.data())
@settings(max_examples=60)
def test_never_more_is_given_than_is_free_over_many_passes(jobs: list[Job], free: int, data: st.DataObject) -> None:
    jobs = [replace(job) for job in jobs]
    cluster = Cluster(sum(job.held for job in jobs) + free, jobs)

    for _ in range(data.draw(st.integers(1, 12), "passes")):
        present = data.draw(st.lists(st.sampled_from(jobs), unique_by=lambda job: job.key), "read")
        cluster.do_pass(present=present, seconds=data.draw(st.sampled_from([1.0, RESCALE_SECONDS / 13]), "seconds"))

        for job in jobs:
            job.wanted = data.draw(st.integers(1, 20), "wanted")
            if job in present and data.draw(st.booleans(), "arrived"):
                job.arrive()
        assert sum(max(job.held, job.pending or 0) for job in jobs) <= cluster.slots


@given(jobs=JOBS, free=st.integers(0, 12), seconds=st.sampled_from([1.0, 60.0, 300.0, 3600.0]))
@settings(max_examples=60)
def test_jobs_that_want_slots_at_the_same_time_end_with_their_fair_shares(
    jobs: list[Job], free: int, seconds: float
) -> None:
    jobs = [replace(job, wanted=max(job.wanted, job.held)) for job in jobs]
    claims = [
        Claim(
            job.key,
            job.held,
            job.wanted,
            int(job.options["slots.priority"]),
            float(job.options["slots.weight"]),
        )
        for job in jobs
        if job.wanted > job.held
    ]
    shares = fair_shares(claims, free)
    expected = {job.key: job.held + shares.get(job.key, 0) for job in jobs}

    assert Cluster(sum(job.held for job in jobs) + free, jobs).settle_down(seconds=seconds) == expected


def test_an_outcome_that_cannot_be_counted_keeps_no_other_job_from_its_slots() -> None:
    broken, other = Job("broken", 1, 5), Job("other", 1, 4)
    capacity = ClusterCapacity(1, 8, 6, 8, is_fixed=True)
    allocator = SlotAllocator(clock=Clock())
    failures: dict[str, AutoscalerError] = {}
    requests = allocator.cap_requests([broken.request(capacity, 1), other.request(capacity, 1)], failures)
    rescale = Rescale(42, ())  # type: ignore[arg-type]
    outcomes = [replace(broken.outcome(requests[0]), decision=rescale), other.outcome(requests[1])]

    settled = allocator.arbitrate(requests, outcomes, failures)

    assert isinstance(settled[1].decision, Rescale)
    assert list(failures) == ["broken"]


def test_a_state_that_cannot_be_counted_leaves_out_its_job_alone() -> None:
    capacity = ClusterCapacity(1, 8, 6, 8, is_fixed=True)
    failures: dict[str, AutoscalerError] = {}
    broken = replace(Job("broken", 1, 5).request(capacity), state=JobState(supervision=42))  # type: ignore[arg-type]

    limited = SlotAllocator(clock=Clock()).cap_requests([broken, Job("other", 1, 9).request(capacity)], failures)

    assert [(request.context.job_key, slots_for(request)) for request in limited] == [("other", 6)]
    assert list(failures) == ["broken"]


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
