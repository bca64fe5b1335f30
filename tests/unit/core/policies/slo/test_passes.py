"""The policy that is to take the place of ``slo``: the contract, and what it does pass after pass."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from flink_autoscaler.core.model.policy_values import Outage, PastRescale, PolicyInput, Proposal, ProposalDirection
from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.forecasters import ForecastScores, forecast, learn
from flink_autoscaler.core.policies.slo.load_history import DAY, HORIZON, LoadHistory
from flink_autoscaler.core.policies.slo.policy import MEMORY, SloPolicy
from flink_autoscaler.core.policies.testing.model_job import Meter, ModelJob, ModelVertex

START = 1_700_000_000.0
SOURCE, MAP = "a" * 32, "b" * 32
OUTAGE = Outage(60.0, 90.0, 0.0, 5.0)


def a_job(rate: float, parallelism: int = 12) -> ModelJob:
    """Return a job of which each slot does 100 records/s."""
    source = ModelVertex(SOURCE, {}, 500.0, parallelism, greatest=64)
    return ModelJob((source, ModelVertex(MAP, {SOURCE: 1.0}, 100.0, parallelism, greatest=64)), rate)


class Passes:
    """One job, pass after pass; what is proposed is carried out at once."""

    def __init__(self, rate: Callable[[int], float]) -> None:
        self.rate, self.vector = rate, a_job(0.0).parallelism
        self.meter, self.state, self.minute = Meter(), dict[str, Any](), 0
        self.history: tuple[PastRescale, ...] = ()

    def once(self) -> Proposal:
        now = START + 60.0 * self.minute
        obs = a_job(self.rate(self.minute)).observed(self.vector, now, last_rescale_at=None)
        sample = self.meter.sample(obs)
        given = PolicyInput(obs, self.history, None, OUTAGE, {}, self.state, (sample,), False)
        proposal = SloPolicy().propose(given)
        self.state = json.loads(json.dumps(dict(proposal.state)))
        if proposal.direction is not ProposalDirection.NONE:
            after = {**self.vector, **(proposal.targets or {})}
            self.history = (*self.history, PastRescale(now, self.vector, after, 60.0))
            self.vector = after
        self.minute += 1
        return proposal

    def until(self, minute: int) -> int:
        """Return the slots that the job has after some minutes."""
        while self.minute < minute:
            self.once()
        return max(self.vector.values())


def test_job_that_is_large_enough_is_left_alone() -> None:
    passes = Passes(lambda _: 1000.0)

    assert passes.until(180) == 12
    assert passes.history == ()


def test_size_is_decided_within_five_minutes_of_samples() -> None:
    passes = Passes(lambda _: 2000.0)

    assert passes.until(6) >= 20


def test_job_that_is_idle_shrinks() -> None:
    assert Passes(lambda minute: 1000.0 if minute < 30 else 0.0).until(90) == 1


def test_job_follows_a_load_that_doubles() -> None:
    passes = Passes(lambda minute: 1000.0 if minute < 60 else 2000.0)

    assert passes.until(60) == 12
    assert passes.until(70) >= 20


def test_job_shrinks_when_what_it_forgoes_has_paid_for_it() -> None:
    passes = Passes(lambda minute: 1000.0 if minute < 60 else 300.0)

    assert passes.until(62) == 12
    assert passes.until(150) in {3, 4, 5, 6}


def test_state_of_ten_vertices_and_a_week_has_room_in_12_kb() -> None:
    names = [letter * 32 for letter in "abcdefghij"]
    first = ModelVertex(names[0], {}, 500.0, 12, greatest=64)
    chain = (ModelVertex(name, {before: 1.0}, 100.0, 12, greatest=64) for before, name in pairwise(names))
    job, state = ModelJob((first, *chain), 1000.0), dict[str, Any]()
    meter, history, scores = Meter(), LoadHistory(), ForecastScores()
    for minute in range(10):
        obs = job.under(1.0 + minute / 7).observed(job.parallelism, START + 60.0 * minute, last_rescale_at=None)
        sample = meter.sample(obs)
        state = dict(SloPolicy().propose(PolicyInput(obs, (), None, OUTAGE, {}, state, (sample,), False)).state)
    for place in range(8 * DAY):
        history, scores, _ = learn(history, scores, 10.0 + 5.0 * math.sin(place / 40.0), 5, 60.0)
        if place < DAY or place > 6 * DAY:
            found = forecast(history, scores, [10.0] * (HORIZON + 1))
            scores = scores if found is None else scores.with_forecasts(found.courses, found.blend)
    memory = replace(MEMORY.read(state["memory"]), history=history, scores=scores)

    assert len(scores.said) == 8
    assert len(scores.errors) == 3 * CONSTANTS.errors
    assert len(json.dumps(MEMORY.write(memory), separators=(",", ":"))) <= 12_000


@pytest.mark.parametrize("stored", [{}, {"memory": None}, {"memory": [1, 2]}, {"learned": {"format": 1}}])
def test_state_that_cannot_be_read_is_forgotten(stored: dict[str, Any]) -> None:
    passes = Passes(lambda _: 1000.0)
    passes.state = stored

    assert passes.until(30) == 12
