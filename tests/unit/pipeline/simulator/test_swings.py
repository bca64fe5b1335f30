"""A load that swings every two hours, in the simulator: ``slo`` sees it come once it knows it."""

from __future__ import annotations

from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.backtest.subject import chain
from flink_autoscaler.pipeline.simulator import Simulation, run
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS
from flink_autoscaler.pipeline.simulator.workloads import HOUR, made

KNOWN, HOURS = 12, 30
PEAK = 12
"""Slots of work at the top of the swing."""


def test_a_swing_that_is_known_is_no_surprise_and_is_followed_in_time() -> None:
    surprised: list[float] = []

    def watch(outcome: PassOutcome, _context: JobAutoScalerContext, at: int) -> None:
        forecasts = [reason for reason in outcome.decision.reasons if reason.code == "SLO_FORECAST"]
        if any("ramp" in reason.text for reason in forecasts):
            surprised.append((at - MONDAY_MS) / 1000 / HOUR)

    load = made("sine", 0, HOURS * HOUR)
    result = run(Simulation(chain(load), load, {"job.autoscaler.policy": "slo"}), watch)
    sizes = [max(each.wanted.values()) for each in result.decisions if each.instant > KNOWN * HOUR]
    then = result.trace.part(KNOWN * HOUR, HOURS * HOUR)

    assert min(surprised) < 2.0, "nobody knows the first one"
    assert [hour for hour in surprised if hour > KNOWN] == []
    assert sizes[-1] <= PEAK / 3, "it is followed"
    assert max(sizes) <= PEAK + 2
    assert then.late_seconds(60) <= 0.005 * then.duration
