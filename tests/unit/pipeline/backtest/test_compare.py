"""Plans, what comes of them, and how that is set side by side, searched and shown."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.backtest.case import USUAL_PEAK, BacktestCase, SkippedJob, builtin_case
from flink_autoscaler.pipeline.backtest.compare import Comparison, compare_outcomes
from flink_autoscaler.pipeline.backtest.inline import InlineRunner
from flink_autoscaler.pipeline.backtest.plan import (
    BacktestPlan,
    Candidate,
    RunSettings,
    SimulationResult,
    SimulationTask,
)
from flink_autoscaler.pipeline.backtest.simulate_case import POINTS
from flink_autoscaler.pipeline.backtest.tune import (
    DEFAULT_GRID,
    PRESENT,
    Grid,
    Recommendation,
    recommend,
    tuning_candidates,
)
from flink_autoscaler.pipeline.reports.pages import GENERATOR, backtest_page
from flink_autoscaler.pipeline.simulator.bounds import static_peak
from flink_autoscaler.pipeline.simulator.measures import Measures
from flink_autoscaler.pipeline.simulator.model import JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.workloads import HOUR, MINUTE, WORKLOADS, fit_duration, from_rates
from flink_autoscaler.pipeline.spark.codec import decode, encode
from testkit.builders.backtests import SOURCE, WORK

TARGET = "job.autoscaler.utilization.target"
JOB = JobModel.chain([VertexModel(SOURCE, "Source: <orders>", 1000.0), VertexModel(WORK, "work", 100.0)])
LOAD = from_rates("mine", [400.0, 400.0, 1200.0, 1200.0, 500.0, 500.0] * 2, step=15 * MINUTE)
SUBJECTS = (
    BacktestCase("main/orders", JOB, LOAD, cluster="main"),
    BacktestCase("other/<clicks>", JOB, LOAD.scaled(0.5), cluster="other", notes=("Something had to be assumed.",)),
)
HASTY = {
    "job.autoscaler.metrics.window": "3 min",
    "job.autoscaler.stabilization.interval": "1 min",
    "job.autoscaler.scale-down.interval": "0",
    "job.autoscaler.scale-down.economics.enabled": "false",
    "job.autoscaler.catch-up.duration": "0",
}
"""Decides within minutes."""

CANDIDATES = (
    Candidate("usual", HASTY),
    Candidate("bold", {**HASTY, TARGET: "0.9"}, {"other": {**HASTY, TARGET: "0.4"}}),
)
PLAN = BacktestPlan(SUBJECTS, CANDIDATES, (SkippedJob("main/new", "3 minutes are recorded"),), RunSettings(dt=10.0))


@cache
def outcomes() -> tuple[SimulationResult, ...]:
    return tuple(InlineRunner().outcomes(PLAN))


def figures_of(outcome: SimulationResult | None) -> Measures:
    assert outcome is not None
    assert outcome.figures is not None
    return outcome.figures


def test_plan_runs_every_job_with_every_configuration() -> None:
    pieces = list(PLAN.pieces())

    assert [(piece.subject.job_key, piece.configuration, dict(piece.options)) for piece in pieces] == [
        ("main/orders", "usual", HASTY),
        ("main/orders", "bold", {**HASTY, TARGET: "0.9"}),
        ("main/orders", None, {}),
        ("other/<clicks>", "usual", HASTY),
        ("other/<clicks>", "bold", {**HASTY, TARGET: "0.4"}),
        ("other/<clicks>", None, {}),
    ]
    assert PLAN.size == len(pieces)


def test_pieces_and_outcomes_travel() -> None:
    pieces = list(PLAN.pieces())

    assert [decode(encode(piece), SimulationTask) for piece in pieces] == pieces
    assert [decode(encode(outcome), SimulationResult) for outcome in outcomes()] == list(outcomes())


def test_higher_target_takes_fewer_slots() -> None:
    comparison = compare_outcomes(PLAN, outcomes())
    first, second = comparison.jobs

    assert figures_of(first.runs["bold"]).slot_hours < figures_of(first.runs["usual"]).slot_hours
    assert figures_of(second.runs["bold"]).slot_hours > figures_of(second.runs["usual"]).slot_hours


def test_totals_are_sums_over_the_jobs() -> None:
    comparison = compare_outcomes(PLAN, outcomes())

    usual = comparison.totals[0]
    runs = [figures_of(job.runs["usual"]) for job in comparison.jobs]
    assert (usual.name, usual.jobs) == ("usual", 2)
    assert usual.slot_hours == pytest.approx(sum(run.slot_hours for run in runs))
    assert usual.rescales == sum(run.rescales for run in runs)
    assert usual.lag_max == max(run.lag_max for run in runs)
    assert comparison.bounds is not None
    assert comparison.bounds.static == pytest.approx(sum(static_peak(JOB, s.workload) for s in SUBJECTS) / HOUR)


def test_bounds_are_in_order() -> None:
    comparison = compare_outcomes(PLAN, outcomes())

    for job in comparison.jobs:
        assert job.bounds is not None
        bounds = job.bounds.bounds
        assert bounds is not None
        assert None not in (bounds.instant, bounds.oracle, bounds.static)
        ordered = [bounds.area, bounds.instant, bounds.oracle, bounds.static]
        assert all(lower <= upper for lower, upper in pairwise(ordered) if lower is not None and upper is not None)


def test_order_of_outcomes_does_not_matter() -> None:
    mixed = list(outcomes())
    random.Random(3).shuffle(mixed)

    assert compare_outcomes(PLAN, mixed).document() == compare_outcomes(PLAN, outcomes()).document()


def test_what_is_not_finished_is_left_out_of_the_totals() -> None:
    comparison = compare_outcomes(PLAN, outcomes()[:4])

    assert (comparison.totals[0].jobs, comparison.pending) == (1, 2)
    assert list(comparison.jobs[1].runs) == ["usual"]
    assert compare_outcomes(PLAN, []).totals == []


def test_run_that_fails_says_why_and_stops_no_other() -> None:
    plan = replace(PLAN, candidates=(CANDIDATES[0], Candidate("broken", {TARGET: "much"})))

    comparison = compare_outcomes(plan, InlineRunner().outcomes(plan))

    assert comparison.totals == []
    assert comparison.jobs[0].best == "usual"
    assert len(comparison.problems) == 2
    assert comparison.problems[0].startswith("main/orders, broken: ValueParseError: Could not parse value 'much'")


def test_configuration_that_does_nothing_is_a_problem() -> None:
    plan = replace(PLAN, candidates=(Candidate("typo", {"job.autoscaler.policy": "capacitor"}),))

    comparison = compare_outcomes(plan, InlineRunner().outcomes(plan))

    assert len(comparison.problems) == 2
    assert "names 'capacitor', but the policies are capacity" in comparison.problems[0]


def test_run_whose_passes_fail_is_a_problem() -> None:
    run = replace(outcomes()[0], passes=100, errors={"no such metric": 51})

    comparison = compare_outcomes(replace(PLAN, subjects=SUBJECTS[:1]), [run, *outcomes()[1:3]])

    assert comparison.problems == (
        "main/orders, usual: errors ended 51 of 100 passes, so this says little: no such metric",
    )


def test_document_is_json() -> None:
    document = compare_outcomes(PLAN, outcomes()).document()

    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["left_out"] == [{"job_key": "main/new", "reason": "3 minutes are recorded"}]


def test_curves_keep_the_greatest_lag_and_are_short() -> None:
    for outcome in outcomes():
        if outcome.figures is not None:
            assert max(outcome.curves.lags) == outcome.figures.lag_max
            assert 1 < len(outcome.curves.slots) <= POINTS


def test_tune_recommends_what_has_the_best_score() -> None:
    trials = tuning_candidates(Candidate("a.yaml", {**HASTY, TARGET: "0.3"}), {TARGET: ("0.3", "0.7")})
    plan = replace(PLAN, candidates=[trial.candidate for trial in trials.values()])

    found = recommend(compare_outcomes(plan, InlineRunner().outcomes(plan)), trials)

    assert [each.changes for each in found] == [{TARGET: "0.7"}] * 2
    assert all(figures.score < before.score for figures, before in _pairs(found))


def _pairs(found: list[Recommendation]) -> list[tuple[Measures, Measures]]:
    return [(each.expected, each.present) for each in found if each.expected and each.present]


def test_tune_leaves_jobs_alone_that_gain_nothing() -> None:
    trials = tuning_candidates(Candidate("a.yaml", HASTY), {TARGET: ("0.7", "0.3")})
    plan = replace(PLAN, candidates=[trial.candidate for trial in trials.values()])

    found = recommend(compare_outcomes(plan, InlineRunner().outcomes(plan)), trials)

    assert [each.changes for each in found] == [{}, {}]
    assert found[0].present == found[0].expected


def test_trials_are_the_present_and_all_combinations() -> None:
    trials = tuning_candidates(Candidate("a.yaml", {TARGET: "0.5", "x": "y"}), DEFAULT_GRID)

    assert len(trials) == 19
    assert trials[PRESENT].candidate.of(None) == {TARGET: "0.5", "x": "y"}
    name = "utilization.target=0.6, metrics.window=5 min, scale-down.interval=30 min"
    assert trials[name].candidate.of(None)[TARGET] == "0.6"


def test_combinations_that_are_not_allowed_are_not_tried() -> None:
    present = Candidate("a.yaml", {"job.autoscaler.utilization.max": "0.75"})

    assert list(tuning_candidates(present, {TARGET: ("0.6", "0.8")})) == [PRESENT, "utilization.target=0.6"]
    with pytest.raises(ConfigError, match=r"no combination of the grid is allowed: The option job.autoscaler.utili"):
        tuning_candidates(present, {TARGET: ("0.8", "0.9")})


@pytest.mark.parametrize(
    "grid",
    [
        pytest.param({}, id="nothing"),
        pytest.param({TARGET: ("0.7",)}, id="one value"),
        pytest.param({TARGET: ("1",) * 15, "other": ("1",) * 15}, id="too many"),
    ],
)
def test_grid_that_is_empty_or_too_large_is_refused(grid: Grid) -> None:
    with pytest.raises(ConfigError, match="2 to 200 can be tried"):
        tuning_candidates(Candidate("a.yaml", {}), grid)


class Tags(HTMLParser):
    """Gathers what a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str | None] = []
        self.curves = 0
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        look = dict(attrs).get("class") or ""
        self.curves += tag == "path" and look.startswith("c")
        if tag not in ("meta", "br", "link", "path"):
            self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "action")]

    def handle_endtag(self, tag: str) -> None:
        assert tag == "path" or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(comparison: Comparison) -> Tags:
    tags = Tags()
    tags.feed(backtest_page(comparison))
    tags.close()
    return tags


def test_page_is_whole_and_needs_nothing_else() -> None:
    tags = page(compare_outcomes(PLAN, outcomes()))

    assert (tags.open, tags.links) == ([], ["data:,"])
    # Of each job: arrivals, slots and lag of two configurations, two bounds.
    assert tags.curves == 2 * (1 + 2 * 2 + 2)
    for text in ("other/<clicks>", "Something had to be assumed.", "main/new", "3 minutes are recorded", "bold"):
        assert text in tags.text


def test_page_is_not_taken_for_a_fleet_report_that_may_be_replaced() -> None:
    text = backtest_page(compare_outcomes(PLAN, []))

    assert 'content="flink-autoscaler backtest"' in text
    assert GENERATOR not in text


def test_page_of_nothing_says_so() -> None:
    tags = page(compare_outcomes(replace(PLAN, subjects=()), []))

    assert "No job could be simulated." in tags.text
    assert tags.open == []


@pytest.mark.parametrize("name", WORKLOADS)
def test_built_in_job_is_large_enough_for_every_workload(name: str) -> None:
    subject = builtin_case(name, days=0.05)

    peak = max(sum(row) for row in WORKLOADS[name](seed=0).rows)
    work = subject.model.vertices[-2]
    assert work.name == "map"
    # Within half a power of ten of what the job is made for.
    assert 5 < peak / work.rate < USUAL_PEAK / 5000 * 4


def test_short_workload_is_repeated() -> None:
    assert fit_duration(from_rates("mine", [1.0, 2.0]), 5 * MINUTE).rows == ((1.0,), (2.0,), (1.0,), (2.0,), (1.0,))


def test_unknown_workload_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'week-sine'"):
        builtin_case("weeksine")
