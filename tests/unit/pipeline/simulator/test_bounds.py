"""Bounds: against closed forms, against each other, and the oracle against trying everything."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.decide.filters import late_seconds
from flink_autoscaler.pipeline.backtest.case import chain
from flink_autoscaler.pipeline.simulator import BacktestResult, RescaleParams, Simulation, run
from flink_autoscaler.pipeline.simulator.bounds import (
    OracleParams,
    busy_slots,
    instant_rescaling_slots,
    oracle,
    parallelism_for,
    slots_for,
    static_peak,
    work_area,
)
from flink_autoscaler.pipeline.simulator.model import JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.workloads import DAY, HOUR, MINUTE, WORKLOADS, Workload, from_rates, week_sine

SOURCE, OTHER, MAP = "a" * 32, "b" * 32, "c" * 32


def a_chain(source: float = 200.0, mapped: float = 100.0) -> JobModel:
    """A source and a map that gets half of its records."""
    vertices = [VertexModel(SOURCE, "source", source), VertexModel(MAP, "map", mapped)]
    return JobModel.chain(vertices, [0.5])


def a_single(rate: float = 100.0) -> JobModel:
    return JobModel.chain([VertexModel(SOURCE, "only", rate)])


def test_bounds_of_a_workload_in_the_head() -> None:
    # One hour at 250 records/s and one at 1,000; the slower vertex has to take 1 and 5 slots of it.
    job = a_chain(source=200.0)
    workload = from_rates("mine", [250.0, 1000.0], step=3600.0)

    assert work_area(job, workload) / 3600 == pytest.approx(1.25 + 5.0)
    assert instant_rescaling_slots(job, workload) / 3600 == 2 + 5
    assert static_peak(job, workload) / 3600 == 5 + 5
    assert oracle(job, workload, OracleParams(bucket=3600.0)).sizes == (2, 6)  # five would not catch up in that hour


def test_area_takes_the_largest_vertex_of_every_slot_sharing_group() -> None:
    together = JobModel.chain([VertexModel(SOURCE, "source", 100.0), VertexModel(MAP, "map", 50.0)])
    apart = JobModel.chain([VertexModel(SOURCE, "source", 100.0), VertexModel(MAP, "map", 50.0, group="own")])
    workload = from_rates("mine", [100.0])

    assert work_area(together, workload) == pytest.approx(2 * MINUTE)
    assert work_area(apart, workload) == pytest.approx(3 * MINUTE)
    assert slots_for(apart, (100.0,)) == 3


@pytest.mark.parametrize(
    ("arrivals", "slots"),
    [
        pytest.param(1000.0, 5, id="just enough"),
        pytest.param(1001.0, 6, id="one record more"),
        pytest.param(0.0, 1, id="an idle job still has a subtask"),
    ],
)
def test_slots_are_the_least_with_which_nothing_waits(arrivals: float, slots: int) -> None:
    assert slots_for(a_chain(), (arrivals,)) == slots


def test_size_follows_the_scalability_of_a_vertex() -> None:
    vertex = VertexModel(SOURCE, "a", 100.0, contention=0.1)

    # Six take 600 / 1.5 = 400, five only 357.
    assert parallelism_for(vertex, 400.0) == 6
    with pytest.raises(ValueError, match="cannot take 1000 records/s"):
        parallelism_for(vertex, 1000.0)


def test_oracle_does_not_rescale_for_a_short_dip() -> None:
    workload = from_rates("dip", [1000.0, 500.0, 1000.0], step=300.0)

    plan = oracle(a_single(), workload, OracleParams(outage=200.0))

    assert (plan.sizes, plan.rescales) == ((10, 10, 10), 0)
    assert plan.cost == 10 * 900


def test_oracle_rescales_for_a_long_dip() -> None:
    # A rescale is done in one minute of the five: 500 records/s need 500 / 80 slots then, 1,000 need 12.5.
    workload = from_rates("dip", [1000.0, *[500.0] * 10, 1000.0], step=300.0)

    plan = oracle(a_single(), workload)

    assert plan.rescales == 2
    assert plan.sizes[1:10] == (7,) * 9
    assert (plan.sizes[0], plan.sizes[-1]) == (10, 10)


def test_oracle_that_minds_lateness_rescales_less() -> None:
    workload = WORKLOADS["week-sine"](seed=0).part(0, 2 * DAY)
    job = a_single(5000.0)

    careless = oracle(job, workload)
    careful = oracle(job, workload, OracleParams(late_weight=150.0))

    assert careful.rescales < careless.rescales
    assert careful.cost > careless.cost


def test_oracle_refuses_jobs_of_several_groups() -> None:
    job = JobModel.chain([VertexModel(SOURCE, "a", 1.0), VertexModel(MAP, "b", 1.0, group="own")])

    with pytest.raises(ValueError, match="one slot-sharing group"):
        oracle(job, from_rates("mine", [1.0]))


def cost_of(sizes: tuple[int, ...], demands: list[float], terms: OracleParams) -> float:
    """Return what a sequence of sizes costs, 100 records/s per slot; infinite where something would wait."""
    total = 0.0
    for number, (size, demand) in enumerate(zip(sizes, demands, strict=True)):
        load = demand / (size * 100.0)
        total += size * terms.bucket
        if number == 0 or sizes[number - 1] == size:
            total += 0.0 if load <= 1 else math.inf
            continue
        if load > (terms.bucket - terms.outage) / terms.bucket:
            return math.inf
        late = late_seconds(load, 1.0, terms.outage + terms.replay, terms.slo_lag)
        total += size * terms.outage + terms.late_weight * late
    return total


@given(
    demands=st.lists(st.integers(0, 6).map(lambda n: n * 50.0), min_size=1, max_size=4),
    outage=st.sampled_from([10.0, 60.0, 120.0]),
    late_weight=st.sampled_from([0.0, 1.0, 20.0]),
)
@settings(max_examples=60)
def test_oracle_finds_what_trying_everything_finds(demands: list[float], outage: float, late_weight: float) -> None:
    terms = OracleParams(bucket=300.0, outage=outage, replay=5.0, late_weight=late_weight)

    plan = oracle(a_single(), from_rates("tiny", demands, step=300.0), terms)

    best = min(cost_of(sizes, demands, terms) for sizes in product(range(1, 7), repeat=len(demands)))
    assert plan.cost == pytest.approx(best)
    assert cost_of(plan.sizes, demands, terms) == pytest.approx(best)
    assert plan.rescales == sum(a != b for a, b in pairwise(plan.sizes))


def test_bounds_of_a_week_have_stayed_where_they_were() -> None:
    """Figures in slot-hours of another program with the same model, and noise of its own."""
    job = JobModel.chain(
        [
            VertexModel(SOURCE, "source", 12_500.0),
            VertexModel(OTHER, "map", 5_000.0),
            VertexModel(MAP, "window", 10_000.0),
        ],
        [1.0, 0.5],
    )
    workload = WORKLOADS["week-sine"](seed=0)
    careless, careful = oracle(job, workload), oracle(job, workload, OracleParams(late_weight=150.0))

    slot_hours = [
        work_area(job, workload),
        instant_rescaling_slots(job, workload),
        careless.cost,
        careful.cost,
        static_peak(job, workload),
    ]

    assert [each / HOUR for each in slot_hours] == pytest.approx([3113, 3197, 3686, 4051, 5544], rel=0.03)
    assert (careless.rescales, careful.rescales) == pytest.approx((125, 42), rel=0.1)


def a_job_for(workload: Workload) -> JobModel:
    """A job of as many sources as the workload has, of some 30 slots at its peak."""
    peak = max(sum(row) for row in workload.rows)
    ids = [SOURCE, OTHER, "f" * 32][: len(workload.rows[0])]
    sources = tuple(VertexModel(each, "source", peak / 12) for each in ids)
    return JobModel((*sources, VertexModel(MAP, "map", peak / 30)), {(each, MAP): 1.0 for each in ids})


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_bound_is_below_the_next(name: str) -> None:
    workload = WORKLOADS[name](seed=0)
    workload = workload.part(0, 14 * DAY)
    job = a_job_for(workload)

    bounds = [
        work_area(job, workload),
        instant_rescaling_slots(job, workload),
        oracle(job, workload).cost,
        static_peak(job, workload),
    ]

    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(bounds))


def test_slots_that_the_work_keeps_busy_add_up_to_the_area() -> None:
    job = JobModel.chain([VertexModel("a", "source", 1000.0), VertexModel("b", "work", 100.0)], [0.5])
    workload = from_rates("mine", [250.0, 1000.0], step=3600.0)

    assert busy_slots(job, workload) == [1.25, 5.0]
    assert work_area(job, workload) == 6.25 * 3600


def test_plan_tells_the_size_in_every_step() -> None:
    plan = oracle(a_single(), from_rates("dip", [1000.0, *[500.0] * 10, 1000.0], step=150.0))

    assert plan.bucket_steps == 2
    assert plan.by_step(12) == [size for size in plan.sizes for _ in range(2)]


WEEK = week_sine()


PREFIX = "job.autoscaler."


BARE = {
    "scaling.parallelism-alignment.mode": "OFF",
    "rescale-filters.enabled": "false",
}


"""The reference has no key groups, budgets or economics."""


def simulated(options: dict[str, str], workload: Workload) -> BacktestResult:
    """Do a coarse backtest: a pass every two minutes."""
    configuration = {PREFIX + key: value for key, value in options.items()}
    terms = RescaleParams(60.0, replay=5.0)
    job = chain(workload)
    return run(Simulation(job, workload, configuration, terms=terms, interval=120.0, dt=20.0, slo_lag=60.0))


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        pytest.param(static_peak, 5544, id="never rescaling"),
        pytest.param(instant_rescaling_slots, 3197, id="rescaling at any instant for nothing"),
        pytest.param(work_area, 3113, id="the work itself"),
    ],
)
def test_bounds_are_those_of_the_reference(bound: Callable[[JobModel, Workload], float], expected: float) -> None:
    assert bound(chain(WEEK), WEEK) / HOUR == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("terms", "expected", "rescales"),
    [
        pytest.param(OracleParams(), 3686, 125, id="slots only"),
        pytest.param(OracleParams(late_weight=150.0), 4051, 42, id="lateness counts"),
    ],
)
def test_the_oracle_plans_as_in_the_reference(terms: OracleParams, expected: float, rescales: int) -> None:
    plan = oracle(chain(WEEK), WEEK, terms)

    assert plan.cost / HOUR == pytest.approx(expected, rel=0.02)
    assert plan.rescales == pytest.approx(rescales, rel=0.1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({"restart.time-source": "option"}, 4888, id="capacity, a restart is thought to take 300 s"),
        pytest.param(
            {"restart.time-source": "option", "restart.time": "60 s"},
            4519,
            id="capacity, it is known to take 60 s",
            marks=pytest.mark.suite(name="long"),
        ),
    ],
)
def test_capacity_holds_the_slots_of_the_reference(options: dict[str, str], expected: float) -> None:
    measures = simulated({**BARE, **options}, WEEK).measures

    assert measures.slot_hours == pytest.approx(expected, rel=0.1)
    assert measures.over_slo / 60 == pytest.approx(9.5, abs=4)
