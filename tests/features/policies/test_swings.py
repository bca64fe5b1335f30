"""A load that swings, in the simulator: ``slo`` follows it, and better once it knows it."""

from __future__ import annotations

from flink_autoscaler.pipeline.backtest.case import chain
from flink_autoscaler.pipeline.simulator import Simulation, run
from flink_autoscaler.pipeline.simulator.workloads import HOUR, make_workload

KNOWN, HOURS = 24, 48
PEAK = 30
"""Slots of work at the top of the swing."""


def test_swing_is_followed_and_what_was_late_at_first_is_hardly_so_the_next_day() -> None:
    load = make_workload("swing", 0, HOURS * HOUR)

    result = run(Simulation(chain(load), load, {"job.autoscaler.policy": "slo"}))

    first, then = result.trace.part(0, KNOWN * HOUR), result.trace.part(KNOWN * HOUR, HOURS * HOUR)
    assert min(then.slots) <= PEAK / 2
    assert PEAK <= max(then.slots) <= 1.5 * PEAK
    assert then.late_seconds(60) <= first.late_seconds(60)
    assert then.late_seconds(60) <= 0.01 * then.duration
