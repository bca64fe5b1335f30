"""Loads that jump out of nothing, in the simulator: what ``slo`` makes of jumps that it has seen before."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from statistics import fmean

import pytest

from benchmarks.loads import made
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.pipeline.backtest.subject import chain
from flink_autoscaler.pipeline.simulator import BacktestResult, JobModel, RescaleTerms, Simulation, run
from flink_autoscaler.pipeline.simulator.model import VertexModel
from flink_autoscaler.pipeline.simulator.workloads import DAY, HOUR, Workload

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


@pytest.mark.suite(name="long")
def test_a_load_out_of_nothing_is_held_and_not_followed_once_it_is_known() -> None:
    load = made("sparse", 0, 1.5 * DAY)
    result = run(Simulation(chain(load), load, {"job.autoscaler.policy": "slo"}))
    then = result.trace.part(0.5 * DAY, 1.5 * DAY)

    assert len([each for each in result.decisions if each.instant > 0.5 * DAY]) <= 3
    assert then.late_seconds(60) <= 0.005 * DAY


@pytest.mark.suite(name="long")
def test_a_day_whose_scale_downs_lasted_makes_the_next_ones_sooner() -> None:
    level, burst, rounds = [14_000.0] * 270, [26_600.0] * 30, 7
    load = Workload("bursts", 60.0, tuple((rate,) for rate in (level + burst) * rounds + level))
    result = run(Simulation(chain(load), load, {"job.autoscaler.policy": "slo"}))
    sizes = [(each.instant / 60, sum(each.wanted.values())) for each in result.decisions]
    downs = [at for (_, before), (at, after) in pairwise(sizes) if after < before]
    ends = [turn * (len(level) + len(burst)) for turn in range(1, rounds + 1)]
    waited = [min(at - end for at in downs if at >= end) for end in ends]

    assert waited[1] >= 11, "minutes, as long as few have lasted"
    assert fmean(waited[2:]) <= 13, "once they have"


@pytest.mark.suite(name="long")
def test_a_job_whose_error_budget_pays_for_no_further_rescales_is_kept_as_large_as_its_bursts_are() -> None:
    level, burst, rounds, known = [14_000.0] * 450, [26_600.0] * 30, 4, 20 * HOUR
    load = Workload("bursts", 60.0, tuple((rate,) for rate in (level + burst) * rounds))
    result = run(Simulation(chain(load), load, {"job.autoscaler.policy": "slo"}, terms=RescaleTerms(420.0, replay=5.0)))
    sizes = [(each.instant, max(each.wanted.values())) for each in result.decisions]
    first_days, then = result.trace.part(0.0, known), result.trace.part(known, load.duration)

    assert first_days.late_seconds(60) >= 0.005 * 3 * DAY, "bursts and rescales of seven minutes used it up"
    ((grown, size),) = sizes
    assert grown < known, "once, and it stays as it is"
    assert size >= 60, "slots that such a burst takes"
    assert then.late_seconds(60) == 0.0
