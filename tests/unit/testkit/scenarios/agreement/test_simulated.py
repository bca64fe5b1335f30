"""What is simulated: the script of the real jobs, with what the history says about them."""

from __future__ import annotations

import pytest

from flink_autoscaler.pipeline.backtest.fitting import FittedModel, Windows
from flink_autoscaler.pipeline.backtest.simulate_case import configuration_problem
from flink_autoscaler.pipeline.simulator import JobModel, VertexModel, run
from testkit.scenarios.agreement import plan
from testkit.scenarios.agreement.simulated import simulation, workload

SOURCE, WORK = "a" * 32, "b" * 32
EACH = pytest.mark.parametrize("policy", plan.POLICIES)


def a_model() -> FittedModel:
    vertices = [
        VertexModel(SOURCE, "Source: orders", 3000.0, max_parallelism=plan.MAX_PARALLELISM),
        VertexModel(WORK, "work", 48.0, max_parallelism=plan.MAX_PARALLELISM),
    ]
    return FittedModel(JobModel.chain(vertices), Windows([], {}, {}), (0.3, 1.5), ())


@EACH
def test_options_of_both_jobs_are_right(policy: str) -> None:
    assert configuration_problem(plan.options(policy)) is None


def test_arrivals_are_those_of_the_curve() -> None:
    arrivals = workload(-10.0)

    assert arrivals.duration == plan.SECONDS + 10.0
    assert sum(rate * arrivals.step for (rate,) in arrivals.rows[2:]) == pytest.approx(
        plan.CURVE.arrived(plan.SECONDS) - plan.CURVE.arrived(0.0), rel=1e-3
    )


@EACH
def test_the_simulated_job_goes_up_and_down_and_is_late(policy: str) -> None:
    found = run(simulation(a_model(), policy, -10.0))

    assert found.errors == {}
    assert [round(each.running - each.stopped, 3) for each in found.rescales[:3]] == [0.3, 1.5, 0.3]
    assert found.measures.ups >= 3
    assert found.measures.downs >= 1
    assert 30.0 < found.measures.over_slo < 600.0
