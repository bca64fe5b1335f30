"""A load that swings, in the simulator: ``slo`` waits where going in five minutes is cheaper than going now."""

from __future__ import annotations

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.backtest.subject import chain
from flink_autoscaler.pipeline.simulator import Simulation, run
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS
from flink_autoscaler.pipeline.simulator.workloads import HOUR, made


def test_a_job_that_is_cheaper_to_rescale_in_five_minutes_stays_and_says_what_it_costs_now() -> None:
    passes: set[float] = set()
    waits: dict[float, Reason] = {}

    def watch(outcome: PassOutcome, _context: JobAutoScalerContext, at: int) -> None:
        instant = (at - MONDAY_MS) / 1000
        passes.add(instant)
        waits.update((instant, each) for each in outcome.decision.reasons if each.code == "SLO_WAITS")

    load = made("sine", 0, 4 * HOUR)
    result = run(Simulation(chain(load), load, {"job.autoscaler.policy": "slo"}), watch)
    rescaled = {each.instant for each in result.decisions}
    figures = [dict(each.figures) for each in waits.values()]

    assert len(waits) >= 5
    assert rescaled
    assert rescaled <= passes - waits.keys()
    assert all(each["later"] < each["now"] and each["target"] != each["slots"] for each in figures)
