"""Options are chosen on the first days and judged on those after."""

from __future__ import annotations

import pytest

from flink_autoscaler.pipeline.backtest.case import BacktestCase
from flink_autoscaler.pipeline.backtest.compare import compare_outcomes
from flink_autoscaler.pipeline.backtest.plan import (
    BacktestPlan,
    Candidate,
    RunSettings,
    SimulationResult,
    SimulationTask,
)
from flink_autoscaler.pipeline.backtest.simulate_case import simulate_task, training_seconds
from flink_autoscaler.pipeline.backtest.tune import PRESENT, Recommendation, basis_of, recommend, tuning_candidates
from flink_autoscaler.pipeline.reports.pages import backtest_page
from flink_autoscaler.pipeline.simulator.measures import Measures
from flink_autoscaler.pipeline.simulator.model import JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.workloads import DAY, HOUR, from_rates
from flink_autoscaler.pipeline.spark.codec import decode, encode
from testkit.builders.backtests import SOURCE, WORK

TARGET = "job.autoscaler.utilization.target"
JOB = JobModel.chain([VertexModel(SOURCE, "orders", 1000.0), VertexModel(WORK, "work", 100.0)])
LOAD = from_rates("mine", [400.0] * 12 + [1200.0] * 12 + [500.0] * 24 + [800.0] * 6, step=HOUR)
"""54 hours."""

PLAN = BacktestPlan([BacktestCase("main/orders", JOB, LOAD)], [])


@pytest.mark.parametrize(
    ("days", "seen"),
    [
        pytest.param(1.9, None, id="too short"),
        pytest.param(2, 1, id="a day each"),
        pytest.param(2.5, 1.5, id="what is no whole day is for choosing"),
        pytest.param(7, 5, id="a week"),
        pytest.param(13, 9, id="a third"),
        pytest.param(14, 7, id="a week each"),
        pytest.param(30, 20, id="a month"),
    ],
)
def test_last_third_is_kept(days: float, seen: float | None) -> None:
    assert training_seconds(days * DAY) == (None if seen is None else seen * DAY)


def run(*, is_divided: bool) -> SimulationResult:
    settings = RunSettings(dt=10.0, interval=300.0, is_divided=is_divided)
    options = {"job.autoscaler.metrics.window": "30 min", "job.autoscaler.stabilization.interval": "1 min"}
    return simulate_task(SimulationTask(PLAN.subjects[0], "a", options, settings))


def test_parts_of_a_run_make_up_the_whole() -> None:
    outcome = run(is_divided=True)
    assert outcome.parts is not None
    assert outcome.figures is not None
    first, second = outcome.parts

    assert (first.duration, second.duration) == pytest.approx((30 * HOUR, 24 * HOUR))
    for name in ("slot_hours", "ups", "downs", "over_slo", "replayed"):
        assert getattr(first, name) + getattr(second, name) == pytest.approx(getattr(outcome.figures, name)), name
    assert first.ups > 0
    assert max(first.lag_max, second.lag_max) == outcome.figures.lag_max
    work = sum(part.efficiency * part.slot_hours for part in outcome.parts)
    assert work == pytest.approx(outcome.figures.efficiency * outcome.figures.slot_hours)
    assert decode(encode(outcome), SimulationResult) == outcome


def test_run_is_not_divided_unless_that_is_asked_for() -> None:
    assert run(is_divided=False).parts is None


def figures(score: float, days: float) -> Measures:
    return Measures(days * DAY, score, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, score)


def outcome_of(name: str, *scores: float) -> SimulationResult:
    """Make the outcome of a configuration: with two scores of five days and two after those, with one of a day."""
    if len(scores) == 1:
        return SimulationResult("main/orders", name, figures(scores[0], 1))
    parts = (figures(scores[0], 5), figures(scores[1], 2))
    return SimulationResult("main/orders", name, figures(sum(scores), 7), parts=parts)


def chosen(**scores: tuple[float, ...]) -> Recommendation:
    """Return what is recommended to a job that has these scores, by target, as it is now and with two others."""
    trials = tuning_candidates(Candidate("a.yaml", {TARGET: "0.5"}), {TARGET: ("0.6", "0.7")})
    names = dict(zip(("now", "bold", "bolder"), trials, strict=True))
    plan = BacktestPlan(PLAN.subjects, [trial.candidate for trial in trials.values()])
    outcomes = [outcome_of(names[name], *each) for name, each in scores.items()]
    (found,) = recommend(compare_outcomes(plan, outcomes), trials)
    assert names["now"] == PRESENT
    return found


def score_of(figures: Measures | None) -> float:
    assert figures is not None
    return figures.score


def test_choice_is_made_on_the_first_days_and_judged_on_the_others() -> None:
    found = chosen(now=(100.0, 50.0), bold=(80.0, 45.0), bolder=(90.0, 20.0))

    assert found.changes == {TARGET: "0.6"}
    assert (score_of(found.present), score_of(found.expected)) == (50.0, 45.0)
    assert (found.chosen_on, found.judged_on, found.is_unseen) == (5 * DAY, 2 * DAY, True)


def test_change_that_is_not_better_on_the_other_days_is_not_recommended() -> None:
    found = chosen(now=(100.0, 50.0), bold=(80.0, 51.0), bolder=(90.0, 20.0))

    assert (found.changes, found.rejected) == ({}, {TARGET: "0.6"})
    assert found.expected == found.present
    assert basis_of([found]) == [
        "1 job: chosen on the first 5.0 days, judged on the 2.0 days after those.",
        "main/orders: utilization.target=0.6 was better on the first days, but not on those after.",
    ]


def test_small_gain_is_none() -> None:
    found = chosen(now=(100.0, 50.0), bold=(99.0, 20.0), bolder=(99.5, 20.0))

    assert (found.changes, found.rejected, score_of(found.expected)) == ({}, {}, 50.0)


def test_short_period_is_judged_on_what_was_chosen_on_and_that_is_said() -> None:
    found = chosen(now=(100.0,), bold=(80.0,), bolder=(90.0,))

    assert (found.changes, found.is_unseen, score_of(found.expected)) == ({TARGET: "0.6"}, False, 80.0)
    assert basis_of([found, found]) == [
        "2 jobs: chosen and judged on the same 1.0 days, which flatters the choice; "
        "from 2 days on some are kept to judge it."
    ]


def test_present_configuration_without_a_result_is_not_compared_with() -> None:
    found = chosen(bold=(80.0, 45.0), bolder=(90.0, 20.0))

    assert (found.changes, found.present, score_of(found.expected)) == ({TARGET: "0.6"}, None, 45.0)


def test_page_says_what_recommendations_rest_on() -> None:
    found = chosen(now=(100.0, 50.0), bold=(80.0, 45.0))

    assert "judged on the 2.0 days after those" in backtest_page(compare_outcomes(PLAN, []), [found])
