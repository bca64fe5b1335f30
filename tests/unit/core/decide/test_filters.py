"""The filters that keep rescales few and safe, each with a plan for a job of two vertices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from flink_autoscaler.core.decide.filters import (
    SHARE,
    ScaleDownCase,
    apply_filters,
    late_seconds,
    required_buffers,
    usual_duration,
)
from flink_autoscaler.core.decide.plan import Plan
from flink_autoscaler.core.model.events import Event, Reason
from flink_autoscaler.core.model.job import ClusterCapacity
from flink_autoscaler.core.model.metrics import EvaluatedMetrics
from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders, PauseOrder, PauseScope
from flink_autoscaler.core.model.state import DelayedVertex, JobState, ScalingSummary
from flink_autoscaler.core.model.supervision import Origin, Quarantined, RescaleRecord, Stage, Supervision
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy
from flink_autoscaler.core.ports.passes import EvaluatedJob
from testkit.builders.core import a_cluster, a_context, a_topology, a_vertex, evaluated_vertex, vertex_id

HOUR_MS = 3_600_000


NOW_MS = 100 * 24 * HOUR_MS


def test_time_above_the_lag_limit_after_an_outage() -> None:
    assert late_seconds(100e3, 150e3, outage=60, limit=30) == pytest.approx(90)


@pytest.mark.parametrize(
    ("arrival", "capacity", "outage", "late"),
    [(100.0, 200.0, 30.0, 0.0), (0.0, 1.0, 600.0, 0.0), (100.0, 100.0, 60.0, math.inf)],
    ids=["a short outage", "nothing arrives", "no capacity to spare"],
)
def test_edges_of_lateness(arrival: float, capacity: float, outage: float, late: float) -> None:
    assert late_seconds(arrival, capacity, outage, limit=30) == late


def test_a_smaller_size_is_never_assumed_to_last_for_more_than_a_day() -> None:
    case = ScaleDownCase(slots_now=2, slots_new=1, outage_down=0, outage_up=0, hold=1e9, late=0)

    assert case.savings == 86_400


def a_rescale(hours_ago: float, before: int, after: int, stage: Stage = Stage.REACHED) -> RescaleRecord:
    at_ms = NOW_MS - round(hours_ago * HOUR_MS)
    return RescaleRecord(at_ms, at_ms, {"a": before}, {"a": after}, stage=stage)


@pytest.mark.parametrize(
    ("past", "seconds"),
    [
        ([], None),
        ([a_rescale(9, 1, 2), a_rescale(5, 2, 4)], None),
        ([a_rescale(9, 4, 2), a_rescale(5, 2, 4)], 4 * 3600),
        (
            [a_rescale(9, 4, 2), a_rescale(7, 2, 1), a_rescale(5, 1, 4), a_rescale(4, 4, 2), a_rescale(0, 2, 4)],
            3 * 3600,
        ),
        ([a_rescale(9, 4, 2, Stage.REFUSED), a_rescale(5, 2, 4)], None),
        ([a_rescale(15 * 24, 4, 2), a_rescale(5, 2, 4)], None),
    ],
    ids=["no past", "only upward", "one example", "the middle of two", "refused ones do not count", "too old"],
)
def test_how_long_a_smaller_size_usually_lasts(past: list[RescaleRecord], seconds: float | None) -> None:
    assert usual_duration(past, NOW_MS) == seconds


def two_vertices(strategy: ShipStrategy = ShipStrategy.HASH, **second: str) -> JobTopology:
    return a_topology(a_vertex(1, group="a"), a_vertex(2, inputs={1: strategy}, group=second.get("group", "a")))


def equal(parallelism: int) -> dict[str, int]:
    return {vertex_id(1): parallelism, vertex_id(2): parallelism}


@pytest.mark.parametrize(("parallelism", "buffers"), [(100, 1208), (200, 2408), (170, 2048)])
def test_all_to_all_edges_need_buffers_for_every_pair(parallelism: int, buffers: int) -> None:
    assert required_buffers(two_vertices(), equal(parallelism), 4) == buffers


def test_the_largest_parallelism_that_64_mebibytes_hold() -> None:
    fitting = [p for p in range(1, 300) if required_buffers(two_vertices(), equal(p), 4) <= (64 << 20) // (32 << 10)]
    advised = [p for p in fitting if required_buffers(two_vertices(), equal(p), 4) <= SHARE * 2048]

    assert (max(fitting), max(advised)) == (170, 161)


def test_forward_edges_need_one_channel() -> None:
    assert required_buffers(two_vertices(ShipStrategy.FORWARD), equal(100), 4) == 4 * (3 + 2)


def test_neighbours_share_what_is_on_the_other_side() -> None:
    parallelism = {vertex_id(1): 8, vertex_id(2): 2}

    # Each of the 8 writes to one, each of the 2 reads from four; four slots hold at most two of the latter.
    assert required_buffers(two_vertices(ShipStrategy.RESCALE), parallelism, 4) == 4 * 2 + 2 * 9


def test_groups_do_not_share_a_slot() -> None:
    together = required_buffers(two_vertices(), equal(10), 4)

    assert required_buffers(two_vertices(group="b"), equal(10), 4) < together


def test_finished_vertices_need_none() -> None:
    topology = a_topology(a_vertex(1, is_finished=True))

    assert required_buffers(topology, {vertex_id(1): 50}, 4) == 0


A, B = vertex_id(1), vertex_id(2)


HOUR = 3_600_000


NOW = 1_000 * HOUR


SIGNED = AuditStamp("ann", "a launch", NOW - HOUR)


QUIET = {"scale-down.economics.enabled": "false", "rescale.budget.per-day": "0"}


"""Options with which no filter has anything to say."""


Wanted = Mapping[str, tuple[int, int]]


@dataclass
class Run:
    """A job, and what the filters left of the plan for it."""

    job: EvaluatedJob
    delayed: Mapping[str, DelayedVertex] = field(default_factory=dict)
    left: Plan = field(default_factory=lambda: Plan({}, {}, {}))

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """What the filters said."""
        return self.left.reasons

    @property
    def events(self) -> tuple[Event, ...]:
        """What they told."""
        return self.left.events


def a_job(parallelism: Mapping[str, int] | None = None) -> JobTopology:
    """Two vertices with an all-to-all edge between them."""
    parallelism = {A: 4, B: 4} | dict(parallelism or {})
    return a_topology(
        a_vertex(1, parallelism=parallelism[A], max_parallelism=512),
        a_vertex(2, parallelism=parallelism[B], max_parallelism=512, inputs={1: ShipStrategy.HASH}),
    )


def a_run(
    plan: Wanted,
    options: Mapping[str, str] | None = None,
    *,
    past: tuple[RescaleRecord, ...] = (),
    quarantine: tuple[Quarantined, ...] = (),
    orders: Orders = NO_ORDERS,
    capacity: ClusterCapacity | None = None,
    rates: tuple[float, float] = (400.0, 100.0),
    flink: Mapping[str, str] | None = None,
) -> Run:
    topology = a_job({vertex: current for vertex, (current, _) in plan.items()})
    rate, target = rates
    vertices = {v: dict(evaluated_vertex(target=target, rate=rate, parallelism=4)) for v in topology.vertices}
    context = replace(a_context({**QUIET, **(options or {})}, flink), capacity=capacity)
    job = EvaluatedJob(
        context=context,
        topology=topology,
        metrics=EvaluatedMetrics(vertices, {}),
        state=JobState(supervision=Supervision(past=past, quarantine=quarantine)),
        cluster=a_cluster(),
        excluded=frozenset(),
        restart_time=0,
        now_ms=NOW,
        orders=orders,
    )
    return Run(job)


def after_filters(run: Run, plan: Wanted, at_once: frozenset[str] = frozenset()) -> dict[str, int]:
    metrics = run.job.metrics.vertices
    changes = {v: ScalingSummary(current, new, metrics[v]) for v, (current, new) in plan.items()}
    run.left = apply_filters(Plan(changes, metrics, run.delayed, bypasses_damping=at_once), run.job)
    return {vertex: change.new for vertex, change in run.left.changes.items()}


def codes(run: Run) -> set[str]:
    return {reason.code for reason in run.reasons}


UP, DOWN, MIXED = {A: (4, 8)}, {A: (4, 2)}, {A: (4, 8), B: (4, 2)}


@pytest.mark.parametrize(
    ("direction", "until_ms", "left"),
    [
        pytest.param(PauseScope.BOTH, None, {}, id="both directions"),
        pytest.param(PauseScope.UP, None, {B: 2}, id="up"),
        pytest.param(PauseScope.DOWN, None, {A: 8}, id="down"),
        pytest.param(PauseScope.BOTH, NOW + 1, {}, id="still for a millisecond"),
        pytest.param(PauseScope.BOTH, NOW, {A: 8, B: 2}, id="over"),
    ],
)
def test_a_pause_drops_what_goes_its_way(direction: PauseScope, until_ms: int | None, left: dict[str, int]) -> None:
    run = a_run(MIXED, orders=Orders(pause=PauseOrder(SIGNED, direction, until_ms)))

    assert after_filters(run, MIXED) == left
    assert codes(run) == (set() if len(left) == 2 else {"PAUSED"})
    assert all("ann: a launch" in reason.text for reason in run.reasons)


@pytest.mark.parametrize(
    ("switch", "left"), [("scale-up.enabled", {B: 2}), ("scale-down.enabled", {A: 8})], ids=["up", "down"]
)
def test_a_direction_can_be_switched_off(switch: str, left: dict[str, int]) -> None:
    run = a_run(MIXED, {switch: "false"})

    assert after_filters(run, MIXED) == left
    assert [reason.code for reason in run.reasons] == ["DIRECTION_OFF"]


def failed(parallelism: int, vertex: str = A) -> Quarantined:
    return Quarantined(vertex, parallelism, "network-memory", NOW - HOUR, 1)


@pytest.mark.parametrize(
    ("plan", "quarantined", "left"),
    [
        pytest.param(UP, failed(8), {A: 7}, id="one below what failed"),
        pytest.param(UP, failed(6), {A: 5}, id="below what failed before"),
        pytest.param(UP, failed(9), {A: 8}, id="not that far"),
        pytest.param(UP, failed(5), {}, id="no step is left"),
        pytest.param(UP, failed(2), {}, id="never down because of it"),
        pytest.param(UP, failed(6, B), {A: 8}, id="another vertex"),
        pytest.param(DOWN, failed(2), {A: 2}, id="a scale-down goes on"),
    ],
)
def test_a_parallelism_that_failed_is_not_tried_again(
    plan: Wanted, quarantined: Quarantined, left: dict[str, int]
) -> None:
    run = a_run(plan, quarantine=(quarantined,))

    assert after_filters(run, plan) == left
    is_held = {v: new for v, (_, new) in plan.items()} != left
    assert codes(run) == ({"QUARANTINED"} if is_held else set())


def past_rescale(
    hours_ago: float,
    before: int = 4,
    after: int = 8,
    *,
    stage: Stage = Stage.REACHED,
    origin: Origin = Origin.AUTOSCALER,
    outage_ms: int | None = None,
) -> RescaleRecord:
    at_ms = NOW - round(hours_ago * HOUR)
    return RescaleRecord(
        at_ms, at_ms, {A: before}, {A: after}, origin=origin, stage=stage, outage_ms=outage_ms, reached={A: after}
    )


def rescales(count: int, **others: Stage | Origin) -> tuple[RescaleRecord, ...]:
    return tuple(past_rescale(20 - number / 10, **others) for number in range(count))  # type: ignore[arg-type]


BUDGET = {"rescale.budget.per-day": "8"}


@pytest.mark.parametrize(
    ("plan", "past", "is_allowed"),
    [
        pytest.param(UP, rescales(7), True, id="one is left"),
        pytest.param(UP, rescales(8), False, id="none is left"),
        pytest.param(DOWN, rescales(5), True, id="a scale-down within three quarters"),
        pytest.param(DOWN, rescales(6), False, id="the last quarter is for scale-ups"),
        pytest.param(MIXED, rescales(6), True, id="a plan with a scale-up counts as one"),
        pytest.param(UP, (past_rescale(24), *rescales(7)), True, id="a day ago does not count"),
        pytest.param(UP, (past_rescale(23.99), *rescales(7)), False, id="almost a day ago does"),
        pytest.param(UP, rescales(9, stage=Stage.REFUSED), True, id="refused ones do not count"),
        pytest.param(UP, rescales(9, stage=Stage.SUPERSEDED), False, id="superseded ones may have happened"),
        pytest.param(UP, rescales(9, origin=Origin.ROLLBACK), True, id="rollbacks do not count"),
        pytest.param(UP, rescales(9, origin=Origin.OPERATOR), True, id="nor do people"),
    ],
)
def test_the_budget_of_a_day(plan: Wanted, past: tuple[RescaleRecord, ...], is_allowed: bool) -> None:
    run = a_run(plan, BUDGET, past=past)

    assert bool(after_filters(run, plan)) is is_allowed
    assert codes(run) == (set() if is_allowed else {"BUDGET_SPENT"})
    assert [event.reason for event in run.events] == ([] if is_allowed else ["RescaleBudgetSpent"])


@pytest.mark.parametrize(("budget", "used", "is_allowed"), [("0", 500, True), ("1", 0, True), ("1", 1, False)])
def test_edges_of_the_budget(budget: str, used: int, is_allowed: bool) -> None:
    run = a_run(DOWN, {"rescale.budget.per-day": budget}, past=rescales(used))

    assert bool(after_filters(run, DOWN)) is is_allowed


ECONOMICS = {"scale-down.economics.enabled": "true", "utilization.max": "0.65", "utilization.target": "0.5"}


FORTY_TO_28 = {A: (40, 28), B: (40, 28)}


SIXTY_SECONDS = tuple(past_rescale(200 - n, 40, 41, outage_ms=60_000) for n in range(60))


@pytest.mark.parametrize(
    ("lag", "goes"), [("30 s", False), ("120 s", True)], ids=["late after the outages: stay", "within the limit: go"]
)
def test_a_scale_down_has_to_pay_for_its_outages(lag: str, goes: bool) -> None:
    """40 to 28 slots with outages of about 60 s, 5,000 records/s per slot, 100,000 records/s arriving."""
    options = {**ECONOMICS, "slo.lag": lag}
    run = a_run(FORTY_TO_28, options, past=SIXTY_SECONDS, rates=(200_000.0, 100_000.0))

    assert after_filters(run, FORTY_TO_28) == ({A: 28, B: 28} if goes else {})
    assert codes(run) == (set() if goes else {"DOES_NOT_PAY"})


@pytest.mark.parametrize(("hours", "goes"), [((20, 20), True), ((20, 1), False)], ids=["all vertices", "not yet all"])
def test_a_scale_down_that_has_been_needed_for_long_is_expected_to_last(hours: tuple[int, int], goes: bool) -> None:
    run = a_run(FORTY_TO_28, {**ECONOMICS, "slo.lag": "30 s"}, past=SIXTY_SECONDS, rates=(200_000.0, 100_000.0))
    advised = dict(zip(FORTY_TO_28, hours, strict=True))
    run.delayed = {v: DelayedVertex(NOW - ago * HOUR, ()) for v, ago in advised.items()}

    assert bool(after_filters(run, FORTY_TO_28)) is goes


def test_a_scale_down_that_frees_no_slot_costs_only_its_outage_and_is_left_alone() -> None:
    plan = {B: (4, 2)}
    run = a_run(plan, {**ECONOMICS, "slo.lag": "1 s"})

    assert after_filters(run, plan) == {B: 2}


@pytest.mark.parametrize(("factor", "goes"), [("0", True), ("1000000", False)])
def test_how_much_a_scale_down_has_to_save_is_configurable(factor: str, goes: bool) -> None:
    run = a_run(FORTY_TO_28, {**ECONOMICS, "scale-down.economics.factor": factor}, rates=(200_000.0, 100_000.0))

    assert bool(after_filters(run, FORTY_TO_28)) is goes


def memory(mebibytes: int, slots: int = 4) -> ClusterCapacity:
    return ClusterCapacity(10, 10 * slots, 40, slots, mebibytes << 20)


@pytest.mark.parametrize(
    ("plan", "capacity", "left"),
    [
        pytest.param({A: (100, 200), B: (100, 200)}, None, {A: 200, B: 200}, id="memory not known"),
        pytest.param({A: (100, 200), B: (100, 200)}, memory(128), {A: 200, B: 200}, id="enough"),
        # 95 % of 64 MiB are 1,945 buffers; parallelism p needs 4 (3 p + 2), so that 161 fits.
        pytest.param({A: (100, 200), B: (100, 200)}, memory(64), {A: 161, B: 161}, id="as far as it fits"),
        pytest.param({A: (180, 200), B: (180, 200)}, memory(64), {}, id="no step fits"),
        pytest.param({A: (180, 90), B: (180, 90)}, memory(16), {A: 90, B: 90}, id="a scale-down needs less"),
    ],
)
def test_network_memory_limits_scale_ups(plan: Wanted, capacity: ClusterCapacity | None, left: dict[str, int]) -> None:
    run = a_run(plan, capacity=capacity)

    assert after_filters(run, plan) == left
    is_held = {v: new for v, (_, new) in plan.items()} != left
    assert codes(run) == ({"NETWORK_MEMORY"} if is_held else set())
    assert [event.reason for event in run.events] == (["NetworkMemoryLimited"] if is_held else [])


def test_a_filter_sees_what_the_one_before_left() -> None:
    options = {"scale-up.enabled": "false", **BUDGET}
    run = a_run(MIXED, options, past=rescales(6))

    # Without its scale-up the plan is a scale-down, for which the budget is spent.
    assert after_filters(run, MIXED) == {}
    assert codes(run) == {"DIRECTION_OFF", "BUDGET_SPENT"}
