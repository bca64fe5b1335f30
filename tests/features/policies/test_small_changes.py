"""A day that rises and falls slowly, in the simulator: ``slo`` follows it in few steps."""

from __future__ import annotations

from functools import cache

from benchmarks.loads import made
from flink_autoscaler.pipeline.backtest.case import chain
from flink_autoscaler.pipeline.simulator import BacktestResult, Simulation, run
from flink_autoscaler.pipeline.simulator.workloads import DAY

BUDGET = 0.005
AFTER_THE_LAUNCH = 28
"""Slots that the mean of the load takes."""


@cache
def day(rescales: str) -> BacktestResult:
    """Simulate the first day of a job whose load trebles between night and noon."""
    load = made("week-sine", 0, DAY)
    options = {"job.autoscaler.policy": "slo", "job.autoscaler.slo.rescales-per-day": rescales}
    return run(Simulation(chain(load), load, options))


def test_fewer_rescales_a_day_are_made_where_fewer_are_asked_for() -> None:
    few, many = day("4"), day("100")

    assert len(few.rescales) < len(many.rescales)
    assert few.measures.slot_hours <= 1.15 * many.measures.slot_hours


def test_a_launch_is_followed_in_steps_that_leave_little_too_much() -> None:
    load = made("launch", 0, DAY)
    result = run(Simulation(chain(load), load, {"job.autoscaler.policy": "slo"}))

    assert AFTER_THE_LAUNCH <= result.trace.slots[-1] <= 1.25 * AFTER_THE_LAUNCH
    assert result.measures.over_slo <= 3 * BUDGET * DAY  # of a week; nobody knows the first day
