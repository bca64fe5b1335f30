"""Loads that jump out of nothing, in the simulator: what ``slo`` makes of jumps that it has seen before."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.pipeline.simulator import BacktestResult, JobModel, Simulation, run
from flink_autoscaler.pipeline.simulator.model import VertexModel
from flink_autoscaler.pipeline.simulator.workloads import Workload

HOURS = 24
KNOWN = 14
"""Hours after which such spikes are known, and their lateness is beyond the error budget."""
SPIKE, CALM = 3, 57
"""Minutes of a spike and after it."""
SPIKE_SLOTS = 18
"""Of work in a spike; 10 after it."""


@cache
def spiky(hours: int = HOURS) -> BacktestResult:
    """Simulate a load with a spike every hour that is over before a rescale is."""
    vertices = (
        VertexModel("a" * 32, "source", 100_000.0),
        VertexModel("b" * 32, "work", 100.0, ship=ShipStrategy.REBALANCE),
    )
    hour = [1_000.0] * CALM + [1_800.0] * SPIKE
    workload = Workload("spiky", 60.0, tuple((rate,) for rate in hour * hours))
    return run(Simulation(JobModel.chain(vertices), workload, {"job.autoscaler.policy": "slo"}))


def test_spikes_that_come_again_are_no_longer_answered_once_they_are_known() -> None:
    sizes = [(each.instant, sum(each.wanted.values())) for each in spiky().decisions]

    assert [at for (_, before), (at, after) in pairwise(sizes) if after > before and at > KNOWN * 3600] == []


def test_the_job_keeps_its_error_budget_then_with_half_more_than_the_spikes_take_at_most() -> None:
    result = spiky()
    then = result.trace.part(KNOWN * 3600.0, HOURS * 3600.0)

    assert then.late_seconds(60) <= 0.005 * (HOURS - KNOWN) * 3600
    assert result.measures.slot_hours <= 1.5 * SPIKE_SLOTS * HOURS


@pytest.mark.suite(name="long")
def test_a_job_that_was_late_with_a_size_does_not_try_it_again_and_again() -> None:
    result = spiky(36)

    assert len([each for each in result.decisions if each.instant > HOURS * 3600]) <= 4
    assert result.trace.part(HOURS * 3600.0, 36 * 3600.0).late_seconds(60) <= 360
