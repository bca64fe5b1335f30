"""Ours beside a reference run of the fluid model over a week of days.

Its seeds are not known, so that a tenth more or less is the same. All rows: ``benchmarks/bench_reference.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flink_autoscaler.pipeline.backtest.case import chain
from flink_autoscaler.pipeline.simulator import BacktestResult, JobModel, RescaleParams, Simulation, run
from flink_autoscaler.pipeline.simulator.bounds import (
    OracleParams,
    instant_rescaling_slots,
    oracle,
    static_peak,
    work_area,
)
from flink_autoscaler.pipeline.simulator.workloads import HOUR, Workload, week_sine

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
