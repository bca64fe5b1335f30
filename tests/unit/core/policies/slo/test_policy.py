"""The policy that is to take the place of ``slo``: the contract, and what it does pass after pass."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from flink_autoscaler.core.model.policy_values import Outage, PastRescale, PolicyInput, Proposal, ProposalDirection
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.core.policies.slo.arrivals import ObservedVertex, SloSample
from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.forecasters import ForecastScores, forecast, learn
from flink_autoscaler.core.policies.slo.levels import Level, without_opposite_changes
from flink_autoscaler.core.policies.slo.load_history import DAY, HORIZON, LoadHistory
from flink_autoscaler.core.policies.slo.policy import MEMORY, SloPolicy
from flink_autoscaler.core.policies.testing.contract import ScalingPolicyContract
from flink_autoscaler.core.policies.testing.model_job import Meter, ModelJob, ModelVertex
from flink_autoscaler.core.ports.plugins import ScalingPolicy, confirms_plans, is_streaming_policy

START = 1_700_000_000.0


SOURCE, MAP = "a" * 32, "b" * 32


JOB = ModelJob(
    (ModelVertex(SOURCE, {}, 500.0, 12, greatest=64), ModelVertex(MAP, {SOURCE: 1.0}, 100.0, 12, greatest=64)), 1000.0
)


"""Each of the 12 slots does 100 records/s, and 1000 arrive: 10 slots of work."""


class TestSloPolicy(ScalingPolicyContract):
    interval: ClassVar[float] = 300.0
    patience: ClassVar[int] = 6
    needs: ClassVar[tuple[str, ...]] = ("rate_in",)

    def make_policy(self) -> ScalingPolicy:
        return SloPolicy()


class Passes:
    """One job under the policy, pass after pass; what it proposes is carried out at once."""

    def __init__(self, job: ModelJob = JOB, config: Mapping[str, str] | None = None) -> None:
        self.job, self.vector, self.config = job, job.parallelism, config or {}
        self.meter, self.state, self.now = Meter(), dict[str, Any](), START
        self.rescaled_at: float | None = None
        self.history: tuple[PastRescale, ...] = ()
        self.moves: list[tuple[int, dict[str, int]]] = []

    def given(self) -> PolicyInput:
        obs = self.job.observed(self.vector, self.now, last_rescale_at=self.rescaled_at)
        sample = self.meter.sample(obs)
        return PolicyInput(
            obs, self.history, None, Outage(60.0, 90.0, 0.0, 5.0), self.config, self.state, (sample,), False
        )

    def once(self) -> Proposal:
        proposal = SloPolicy().propose(self.given())
        self.state = json.loads(json.dumps(dict(proposal.state)))
        if proposal.direction is not ProposalDirection.NONE:
            self.vector = {**self.vector, **(proposal.targets or {})}
            self.rescaled_at = self.now
            self.moves.append((round((self.now - START) / 60), self.vector))
        self.now += 60.0
        return proposal

    def passes(self, count: int) -> list[Proposal]:
        return [self.once() for _ in range(count)]


def codes(proposal: Proposal) -> list[str]:
    return [reason.code for reason in proposal.reasons]


def test_it_declares_that_it_needs_no_window() -> None:
    assert is_streaming_policy(SloPolicy())
    assert confirms_plans(SloPolicy())


def test_it_has_no_opinion_before_two_minutes_are_known() -> None:
    first, second, third, fourth = Passes().passes(4)

    assert first.targets is None
    assert second.targets is None
    assert codes(first) == ["SLO_LEARNING"]
    assert third.targets == fourth.targets == JOB.parallelism


def test_a_job_of_the_right_size_is_left_alone_and_mostly_not_compared() -> None:
    passes = Passes()

    proposals = passes.passes(60)

    assert passes.moves == []
    quiet = [proposal for proposal in proposals if "SLO_QUIET" in codes(proposal)]
    assert len(quiet) > 40


def test_an_evaluation_says_what_it_weighed() -> None:
    proposal = Passes().passes(3)[-1]

    assert codes(proposal)[0] in {"SLO_STAYS", "SLO_DOWN_WAITS"}
    assert {"SLO_SIZE", "SLO_FORECAST", "SLO_COST", "SLO_BUDGET"} <= set(codes(proposal))


class UnevenPasses(Passes):
    """The same job, of which one partition lags as if so many records more were waiting."""

    uneven = 0.0

    def given(self) -> PolicyInput:
        given = super().given()
        source = given.obs.vertices[SOURCE]
        lagging = replace(source, lag_to_drain=(source.lag_records or 0.0) + self.uneven)
        return replace(given, obs=replace(given.obs, vertices={**given.obs.vertices, SOURCE: lagging}))


def lag_told(proposal: Proposal) -> float:
    """Return the seconds of lag that a proposal goes by."""
    [figures] = [dict(reason.figures) for reason in proposal.reasons if reason.code == "SLO_SIZE"]
    return figures["lag"]


def test_the_lag_is_that_of_the_slowest_partition() -> None:
    passes = UnevenPasses()
    before = passes.passes(20)[-1]
    passes.uneven = 300_000.0  # 300 s of what arrives

    proposals = passes.passes(5)

    assert lag_told(before) == 0.0
    assert lag_told(proposals[0]) == pytest.approx(300.0, rel=0.01)
    assert passes.moves[0][1][MAP] > JOB.parallelism[MAP]


def test_an_uneven_lag_is_no_arrival() -> None:
    passes, even = UnevenPasses(), Passes()
    passes.passes(20)
    even.passes(20)
    passes.uneven = 30_000.0

    sizes = [reason for reason in passes.once().reasons if reason.code == "SLO_SIZE"]
    others = [reason for reason in even.once().reasons if reason.code == "SLO_SIZE"]

    assert dict(sizes[0].figures)["demand"] == dict(others[0].figures)["demand"]


def test_load_that_triples_is_followed_within_three_minutes_with_both_directions_of_vertices() -> None:
    passes = Passes()
    passes.passes(30)
    passes.job = JOB.under(3.0)

    passes.passes(20)

    (minute, vector), *_ = passes.moves
    assert minute <= 32
    assert 31 <= vector[MAP] <= 52
    assert vector[SOURCE] * 500.0 >= 3000.0


def budget_of(proposal: Proposal) -> dict[str, float]:
    return dict(next(each for each in proposal.reasons if each.code == "SLO_BUDGET").figures)


def test_how_old_a_restored_checkpoint_is_is_measured_by_the_first_rescale() -> None:
    passes = Passes()
    assumed = budget_of(passes.passes(3)[-1])
    passes.passes(30)
    passes.job = JOB.under(3.0)
    following = passes.passes(20)
    measured = budget_of(next(each for each in reversed(following) if "SLO_BUDGET" in codes(each)))

    assert passes.moves
    assert assumed["replay"] == 5.0
    assert measured["replay"] < 2.0  # this job reads nothing again


def test_what_is_too_large_goes_down_once_waiting_has_cost_enough() -> None:
    passes = Passes(JOB.under(0.3))

    passes.passes(60)

    (minute, vector), *_ = passes.moves
    assert 5 <= minute <= 40
    assert vector[MAP] < 6


def test_bounds_that_are_too_small_are_said() -> None:
    vertices = tuple(replace(vertex, greatest=8, parallelism=8) for vertex in JOB.vertices)
    passes = Passes(replace(JOB, vertices=vertices))

    proposals = passes.passes(20)

    assert passes.moves == []
    assert any("SLO_LIMITED" in codes(proposal) for proposal in proposals)


@pytest.mark.parametrize(
    "state", [{"memory": 3}, {"memory": [[], []]}, {"learned": {"format": 1}, "acting": [1.0], "mean": 12.0}]
)
def test_a_damaged_state_is_forgotten(state: dict[str, Any]) -> None:
    given = replace(Passes().given(), state=state)

    assert codes(SloPolicy().propose(given)) == ["SLO_LEARNING"]


def test_state_of_the_policy_before_is_not_read_and_that_is_said() -> None:
    passes = Passes()
    passes.state = {"learned": {"format": 1}, "acting": [1.0], "mean": 12.0}

    first, second = passes.passes(2)

    assert "earlier version" in first.reasons[0].text
    assert "earlier version" not in second.reasons[0].text
    assert set(passes.state) == {"memory"}
    assert passes.passes(20)[-1].targets == JOB.parallelism


def figures_of(proposals: list[Proposal], code: str) -> dict[str, float]:
    """Return the figures of the last reason with a code."""
    return dict([each.figures for proposal in proposals for each in proposal.reasons if each.code == code][-1])


def test_job_that_was_late_holds_more() -> None:
    punctual, late = Passes(JOB.under(0.3)), Passes(JOB.under(0.3))
    late.passes(3)
    texts, memory = late.state["memory"]
    memory[6][1] = 50_000.0  # seconds of the last days above the acceptable lag
    late.state = {"memory": [texts, memory]}

    budgets = [figures_of(each.passes(8), "SLO_BUDGET") for each in (punctual, late)]

    assert budgets[0]["used"] < 1.0 < budgets[1]["used"]
    assert budgets[0]["quantile"] < budgets[1]["quantile"]


def test_rescales_of_the_day_make_a_scale_down_dearer() -> None:
    rested, restless = Passes(JOB.under(0.3)), Passes(JOB.under(0.3))
    restless.history = tuple(PastRescale(START - each, {MAP: 5}, {MAP: 6}) for each in range(16))

    prices = [figures_of(each.passes(6), "SLO_DOWN_WAITS")["price"] for each in (rested, restless)]

    assert prices[1] > 3 * prices[0]


def test_a_decision_up_and_one_down_are_told_with_their_figures() -> None:
    passes = Passes()
    passes.passes(30)
    passes.job = JOB.under(3.0)
    ups = passes.passes(20)
    passes.job = JOB.under(0.3)
    downs = passes.passes(120)

    up = next(each for each in ups if each.direction is ProposalDirection.UP)
    down = next(each for each in downs if each.direction is ProposalDirection.DOWN)
    assert (codes(up)[0], codes(down)[0]) == ("SLO_UP", "SLO_DOWN")
    assert figures_of([up], "SLO_UP")["saved"] > 0.0
    assert figures_of([up], "SLO_COST")["shortage"] >= 0.0
    assert {"low", "high", "beyond", "last weight", "last error"} <= figures_of([up], "SLO_FORECAST").keys()
    assert figures_of([down], "SLO_DOWN")["forgone"] >= figures_of([down], "SLO_DOWN")["price"] > 0.0


def test_outage_beyond_the_acceptable_lag_is_told() -> None:
    proposals = Passes(config={"job.autoscaler.slo.lag": "30 s"}).passes(3)

    [text] = [each.text for each in proposals[-1].reasons if each.code == "SLO_BUDGET"]

    assert "late by 35 s or more" in text


def test_a_setting_that_cannot_be_read_is_an_error() -> None:
    passes = Passes(config={"job.autoscaler.slo.error-budget": "much"})

    with pytest.raises(ValueParseError, match=r"slo\.error-budget"):
        passes.passes(4)


SHARED = SloSample(0.0, 0.0, {SOURCE: ObservedVertex(10, slot_group="g"), MAP: ObservedVertex(10, slot_group="g")})


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        pytest.param(Level(8, 7.0, {SOURCE: 8, MAP: 12}), {SOURCE: 8, MAP: 10}, id="down: none grows"),
        pytest.param(Level(15, 14.0, {SOURCE: 4, MAP: 15}), {SOURCE: 10, MAP: 15}, id="up: none shrinks in its slots"),
        pytest.param(
            Level(9, 11.0, {SOURCE: 4, MAP: 9}), {SOURCE: 9, MAP: 9}, id="better and smaller: within its slots"
        ),
    ],
)
def test_no_vertex_goes_the_other_way_for_nothing(target: Level, kept: dict[str, int]) -> None:
    assert without_opposite_changes(target, Level(10, 10.0, {SOURCE: 10, MAP: 10}), SHARED).parallelism == kept


OUTAGE = Outage(60.0, 90.0, 0.0, 5.0)


def a_job(rate: float, parallelism: int = 12) -> ModelJob:
    """Return a job of which each slot does 100 records/s."""
    source = ModelVertex(SOURCE, {}, 500.0, parallelism, greatest=64)
    return ModelJob((source, ModelVertex(MAP, {SOURCE: 1.0}, 100.0, parallelism, greatest=64)), rate)


class SloPasses:
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
    passes = SloPasses(lambda _: 1000.0)

    assert passes.until(180) == 12
    assert passes.history == ()


def test_size_is_decided_within_five_minutes_of_samples() -> None:
    passes = SloPasses(lambda _: 2000.0)

    assert passes.until(6) >= 20


def test_job_that_is_idle_shrinks() -> None:
    assert SloPasses(lambda minute: 1000.0 if minute < 30 else 0.0).until(90) == 1


def test_job_follows_a_load_that_doubles() -> None:
    passes = SloPasses(lambda minute: 1000.0 if minute < 60 else 2000.0)

    assert passes.until(60) == 12
    assert passes.until(70) >= 20


def test_job_shrinks_when_what_it_forgoes_has_paid_for_it() -> None:
    passes = SloPasses(lambda minute: 1000.0 if minute < 60 else 300.0)

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
    passes = SloPasses(lambda _: 1000.0)
    passes.state = stored

    assert passes.until(30) == 12
