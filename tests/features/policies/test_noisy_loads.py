"""Loads whose noise comes and goes within minutes, in the simulator: what ``slo`` holds for them."""

from __future__ import annotations

from benchmarks.loads import made
from flink_autoscaler.pipeline.backtest.case import chain
from flink_autoscaler.pipeline.simulator import RescaleParams, Simulation, run
from flink_autoscaler.pipeline.simulator.workloads import DAY

HOUR = 3600.0
WORK = 20
"""Slots that the mean of the load takes."""


def test_noise_that_passes_is_not_what_a_size_is_kept_for() -> None:
    load = made("flat-correlated-20", 5, 0.75 * DAY)
    given = Simulation(chain(load), load, {"job.autoscaler.policy": "slo"}, terms=RescaleParams(60.0, replay=5.0))

    then = run(given).trace.part(7 * HOUR, 18 * HOUR)

    assert then.slot_seconds / then.duration <= 1.5 * WORK
    assert then.late_seconds(60) <= 0.005 * then.duration
