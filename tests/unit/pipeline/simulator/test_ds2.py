"""DS2 on the fluid model: the word count of its paper, with vertices that scale linearly and with some that do not."""

from __future__ import annotations

import pytest
from policy_setup import given, observation, vertex

from flink_autoscaler.core.policies.ds2.policy import Ds2Policy
from flink_autoscaler.pipeline.simulator.meters import Meters
from flink_autoscaler.pipeline.simulator.model import FluidJob, JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.rescales import RescaleTerms, RescalingJob

SOURCE, MAP, FILTER, WINDOW = "source", "map", "filter", "window"
FIRST = {SOURCE: 1, MAP: 4, FILTER: 6, WINDOW: 2}
ARRIVALS = (100_000.0,)
OPTIONS = {
    "ds2.scaling-factor": "0",
    "ds2.add-catch-up": "false",
    "ds2.activation-intervals": "1",
    "ds2.warm-up-intervals": "0",
    "ds2.min-change-down": "1",
}


def a_word_count(contention: float) -> JobModel:
    """Every vertex but the source is as fast at its first parallelism as in the paper's example."""
    rates = {MAP: 20_000.0, FILTER: 27_778.0, WINDOW: 25_000.0}
    scaled = (
        VertexModel(v, v, rate * (1 + contention * (FIRST[v] - 1)), contention=contention) for v, rate in rates.items()
    )
    return JobModel.chain([VertexModel(SOURCE, SOURCE, 150_000.0), *scaled], [1.0, 2.5, 0.1])


def proposed(model: JobModel, parallelism: dict[str, int]) -> dict[str, int]:
    """Let the job run at a parallelism and ask the policy about it."""
    job = RescalingJob(FluidJob(model, parallelism), RescaleTerms(1.0))
    meters = Meters(job)
    job.flow(60.0, ARRIVALS)
    flows = meters.read()
    assert flows is not None
    demand = model.demand(ARRIVALS)
    seen = (
        vertex(v, parallelism=parallelism[v], rate_in=flow.rate, busy=flow.busy, target_rate=demand[v])
        for v, flow in flows.items()
    )
    proposal = Ds2Policy().propose(given(observation(*seen, edges=model.edges), OPTIONS))
    assert proposal.targets is not None
    return dict(proposal.targets)


@pytest.mark.parametrize(
    ("contention", "sizes"),
    [
        pytest.param(0.0, [(5, 9, 1)], id="linear: one step"),
        pytest.param(0.01, [(5, 9, 1), (6, 10, 1)], id="a hundredth of the work is serial: two steps"),
    ],
)
def test_ds2_reaches_its_size_in_few_steps_and_stays(contention: float, sizes: list[tuple[int, ...]]) -> None:
    model, parallelism = a_word_count(contention), FIRST
    steps = []

    while (targets := proposed(model, parallelism)) != parallelism:
        parallelism = targets
        steps.append(tuple(targets[v] for v in (MAP, FILTER, WINDOW)))

    assert steps == sizes
