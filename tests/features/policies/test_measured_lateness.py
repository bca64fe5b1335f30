"""How late ``slo`` takes a job to have been, in the simulator, which knows."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.pipeline.simulator import JobModel, RescaleParams, Simulation, run
from flink_autoscaler.pipeline.simulator.model import VertexModel
from flink_autoscaler.pipeline.simulator.workloads import Workload

LIMIT = 60.0


def test_lateness_between_two_samples_is_measured() -> None:
    vertices = (
        VertexModel("a" * 32, "source", 100_000.0),
        VertexModel("b" * 32, "work", 100.0, ship=ShipStrategy.REBALANCE),
    )
    load = ([1_000.0] * 115 + [1_900.0] * 65) * 4  # every step takes a rescale
    workload = Workload("steps", 60.0, tuple((rate,) for rate in load))
    terms = RescaleParams(60.0, replay=5.0)

    result = run(Simulation(JobModel.chain(vertices), workload, {"job.autoscaler.policy": "slo"}, terms=terms))

    last = result.decisions[-1]
    (budget,) = (each for each in last.decision.reasons if each.code == "SLO_BUDGET")
    measured = dict(budget.figures)["late_share"] * last.instant
    assert len(result.decisions) > 5
    assert measured == pytest.approx(result.trace.part(0.0, last.instant).late_seconds(LIMIT), rel=0.3)
