"""A dry run sends nothing that could change a cluster: every request that arrives there is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders, Pin
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import (
    Origin,
    RescaleRecord,
    Stage,
    Supervision,
    SupervisionPhase,
)
from flink_autoscaler.stores import HeapStateStore
from testkit.builders.core import RecordingEvents
from testkit.fakes.flink import Canned, FakeFlink, FakeJob, chain
from testkit.fakes.flink.load import keep_counting
from testkit.scenarios.runner.wired import passes_over

PASSES = 4
STEP_MS = 400
SOMEBODY = AuditStamp("anna", "to see what happens", 1)

WATCHING = {"job.autoscaler.metrics.window": "500 ms", "autoscaler.standalone.control-loop.interval": "400 ms"}
DAEMON_WIDE = {"autoscaler.dry-run": "true"}
PER_JOB = {"job.autoscaler.dry-run": "true"}


@dataclass(frozen=True)
class Case:
    """Something that makes the autoscaler send a request when it is not a dry run.

    Attributes:
        state: What is remembered about the job, whose work vertex runs with parallelism 2.
        orders: What people ordered.
        prepare: Changes the cluster before the first pass.
    """

    state: Callable[[str, str], JobState] = lambda source, work: JobState()
    orders: Orders = NO_ORDERS
    prepare: Callable[[FakeFlink, FakeJob], None] = lambda flink, job: None


def overloaded(flink: FakeFlink, job: FakeJob) -> None:
    job.vertices[1].metrics["busyTimeMsPerSecond"] = 1000.0


def failing(flink: FakeFlink, job: FakeJob) -> None:
    """Let the job die of its rescale."""
    asked_for_four(flink, job)
    job.state = "RESTARTING"
    for vertex in job.vertices:
        vertex.status = "CREATED"
    text = "java.io.IOException: Insufficient number of network buffers: required 65, but only 12 available"
    entry = {"timestamp": 5_000, "exceptionName": "java.io.IOException", "stacktrace": text}
    flink.fault("/exceptions", Canned.json({"exceptionHistory": {"entries": [entry]}}))


def lost(flink: FakeFlink, job: FakeJob) -> None:
    """Let the JobManager be restarted and forget what it was asked for."""
    job.start_ms = 3_000
    job.requirements = {vertex.vertex_id: (1, vertex.parallelism) for vertex in job.vertices}


def a_record(source: str, work: str, stage: Stage, *, back: bool = False) -> RescaleRecord:
    low, high = {source: 2, work: 2}, {source: 2, work: 4}
    before, target = (high, low) if back else (low, high)
    return RescaleRecord(
        1_000,
        1_000,
        before,
        target,
        origin=Origin.ROLLBACK if back else Origin.AUTOSCALER,
        stage=stage,
        accepted_ms=None if stage is Stage.REQUESTED else 1_500,
        settled_ms=2_000 if stage.is_final else None,
        reached=target if stage is Stage.REACHED else {},
    )


def requested(source: str, work: str) -> JobState:
    supervision = Supervision(current=a_record(source, work, Stage.REQUESTED), asked={source: 2, work: 4})
    return JobState(overrides={source: 2, work: 4}, supervision=supervision)


def pending(source: str, work: str) -> JobState:
    seen = {source: (1, 2), work: (1, 4)}
    supervision = Supervision(
        current=a_record(source, work, Stage.PENDING),
        phase=SupervisionPhase.PROBATION,
        since_ms=1_000,
        asked={source: 2, work: 4},
        seen=seen,
        seen_start_ms=1,
    )
    return JobState(overrides={source: 2, work: 4}, supervision=supervision)


def rolling_back(source: str, work: str) -> JobState:
    supervision = Supervision(
        current=a_record(source, work, Stage.REQUESTED, back=True),
        phase=SupervisionPhase.ROLLING_BACK,
        since_ms=1_000,
        initial={source: 1, work: 1},
        rollbacks_ms=(1_000,),
    )
    return JobState(overrides={source: 2, work: 2}, supervision=supervision)


def asked_for_four(flink: FakeFlink, job: FakeJob) -> None:
    """Let the cluster have the requirements of the rescale that is rolled back."""
    job.requirements[job.vertices[1].vertex_id] = (1, 4)


PINNED = Orders(pins=(Pin("*", 3, SOMEBODY),))

CASES = [
    pytest.param(Case(prepare=overloaded), id="an overloaded job"),
    pytest.param(Case(requested), id="requested before"),
    pytest.param(Case(pending, prepare=lost), id="pending, and lost by the cluster"),
    pytest.param(Case(rolling_back, prepare=asked_for_four), id="a rollback under way"),
    pytest.param(Case(orders=PINNED), id="a pin"),
    pytest.param(Case(pending, prepare=failing), id="a rescale that the job does not survive"),
]


class Bench:
    """Some passes over one job of a cluster whose requests are written down."""

    def __init__(self, flink: FakeFlink, case: Case) -> None:
        self.flink = flink
        self.case = case
        self.told = RecordingEvents()
        self.store = HeapStateStore()
        self.job = flink.add_job("orders", chain(sources=1, vertices=2, parallelism=2), start_ms=1, running_at_ms=1)
        source, work = (vertex.vertex_id for vertex in self.job.vertices)
        self.key = "main/orders"
        state = case.state(source, work)
        self.store.save(self.key, replace(state, job_id=self.job.job_id))
        case.prepare(flink, self.job)

    def run(self, more: Mapping[str, str] | None = None, orders: Orders | None = None) -> None:
        """Do passes; ``orders`` go before those of the case."""
        clock = iter(range(10_000, 10**9, STEP_MS))
        with ExitStack() as parts:
            passes = passes_over(
                self.flink.url,
                {**WATCHING, **(more or {})},
                parts,
                store=self.store,
                told=self.told,
                now_ms=lambda: next(clock),
                orders=lambda: orders or self.case.orders,
            )
            for _ in range(PASSES):
                keep_counting(self.job)
                assert passes.run().error is None

    def methods(self) -> set[str]:
        """Return the methods of all requests that arrived."""
        return {request.method for request in self.flink.requests}


@pytest.mark.parametrize("case", CASES)
def test_without_a_dry_run_a_request_is_sent(flink: FakeFlink, case: Case) -> None:
    bench = Bench(flink, case)

    bench.run()

    assert bench.methods() == {"GET", "PUT"}


@pytest.mark.parametrize("case", CASES)
def test_a_dry_run_of_a_job_only_ever_reads(flink: FakeFlink, case: Case) -> None:
    bench = Bench(flink, case)

    bench.run(PER_JOB)

    assert bench.methods() == {"GET"}


@pytest.mark.parametrize("dry", [DAEMON_WIDE, None], ids=["of the daemon", "that is ordered"])
def test_any_other_dry_run_only_reads_too(flink: FakeFlink, dry: Mapping[str, str] | None) -> None:
    bench = Bench(flink, Case(pending, prepare=lost))

    bench.run(dry, Orders(dry_run=SOMEBODY) if dry is None else None)

    assert bench.methods() == {"GET"}


@pytest.mark.parametrize("dry", [DAEMON_WIDE, PER_JOB], ids=["of the daemon", "of the job"])
def test_a_dry_run_reports_what_it_would_do_and_remembers_no_decision(flink: FakeFlink, dry: Mapping[str, str]) -> None:
    bench = Bench(flink, Case(prepare=overloaded))

    bench.run(dry)

    state = bench.store.load(bench.key)
    assert bench.told.reports
    assert (state.overrides, state.supervision.current) == ({}, None)


@pytest.mark.parametrize(
    ("settings", "orders"),
    [pytest.param(PER_JOB, NO_ORDERS, id="configured"), pytest.param({}, Orders(dry_run=SOMEBODY), id="ordered")],
)
def test_a_dry_run_says_that_a_rescale_should_be_undone_and_does_not_count_it_as_undone(
    flink: FakeFlink, settings: Mapping[str, str], orders: Orders
) -> None:
    bench = Bench(flink, Case(pending, prepare=failing))

    bench.run(settings, orders)

    advice = [event.message for event in bench.told.events if event.reason.startswith("Rollback")]
    assert ["dry run" in text for text in advice] == [True]
    assert bench.store.load(bench.key).supervision.phase is SupervisionPhase.PROBATION
