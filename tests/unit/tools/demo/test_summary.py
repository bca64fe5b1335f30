from __future__ import annotations

import io

import pytest
from demo.daemon_log import Change, Decision
from demo.plan import plan_for
from demo.story import Look, Story, shortfalls
from demo.summary import engine_shortfalls, late_shortfalls, print_summary, rescale_rows, verdict
from rich.console import Console

UP = Decision(110.0, (Change("work", 1, 4, 500.0, 1300.0),))
DOWN = Decision(150.0, (Change("work", 4, 2, 2000.0, 150.0),))


def story_of(*parts: Look | Decision) -> Story:
    story = Story({"b": "work"})
    story.see(Look(100.0, {"work": 1}))
    for part in parts:
        if isinstance(part, Look):
            story.see(part)
        else:
            story.hear(part)
    return story


def running(at: float, work: int) -> Look:
    return Look(at, {"work": work}, 12.0, at * 10)


def test_decision_and_its_confirmation_are_one_row() -> None:
    rows = rescale_rows(story_of(UP, running(112.5, 4), DOWN, running(153.0, 2)))

    assert [(row.at, row.before, row.after, row.confirmed) for row in rows] == [(110.0, 1, 4, 2.5), (150.0, 4, 2, 3.0)]


def test_decision_that_flink_never_showed_is_not_confirmed() -> None:
    (row,) = rescale_rows(story_of(UP, running(112.0, 1)))

    assert row.confirmed is None


def test_rescale_on_the_way_has_a_row_of_its_own() -> None:
    rows = rescale_rows(story_of(UP, running(112.0, 2), running(114.0, 4)))

    assert [(row.before, row.after, row.confirmed, row.reason) for row in rows] == [
        (1, 4, 4.0, "input 1,300/s, capacity 500/s with 1"),
        (1, 2, 0.0, "on the way to 4"),
    ]


def test_rescale_by_somebody_else_is_shown_as_such() -> None:
    (row,) = rescale_rows(story_of(running(112.0, 3)))

    assert row.reason == "not by the daemon"


def test_verdict_counts_what_was_confirmed() -> None:
    story = story_of(UP, running(112.0, 4), DOWN, running(153.0, 2))

    assert verdict(story, []) == "PASSED: Flink confirmed 1 scale-up and 1 scale-down, and the lag drained"


def test_verdict_says_what_is_missing() -> None:
    story = story_of(UP, running(112.0, 4))

    line = verdict(story, shortfalls(story, drained_lag=300.0))

    assert line == "FAILED: no scale-down by the daemon was confirmed by Flink"


def test_summary_shows_rescales_and_numbers() -> None:
    console = Console(width=140, record=True, file=io.StringIO())
    totals = {
        "flink_autoscaler_passes_total": 43.0,
        "flink_autoscaler_passes_total on spark": 38.0,
        "flink_autoscaler_spark_fallbacks_total": 0.0,
    }

    print_summary(console, story_of(UP, running(112.5, 4)), start=100.0, totals=totals)

    text = " ".join(console.export_text().split())
    assert "10 s │ work │ 1 -> 4 │ yes, after 2.5 s │ input 1,300/s, capacity 500/s with 1" in text
    assert "peak lag 12 records final lag 12 records processed 1,125 records" in text
    assert "43 passes, 38 on Spark, 0 fell back" in text


@pytest.mark.parametrize(
    ("engine", "totals", "missing"),
    [
        pytest.param("spark", {"flink_autoscaler_passes_total on spark": 1.0}, [], id="on Spark"),
        pytest.param(
            "spark",
            {"flink_autoscaler_passes_total on inline": 43.0},
            ["no pass ran on Spark"],
            id="all of them inline",
        ),
        pytest.param("spark", {}, ["the daemon did not tell what its passes ran on"], id="not told"),
        pytest.param("inline", {"flink_autoscaler_passes_total on inline": 43.0}, [], id="inline was asked for"),
    ],
)
def test_demo_on_spark_fails_without_a_pass_on_spark(engine: str, totals: dict[str, float], missing: list[str]) -> None:
    assert engine_shortfalls(engine, totals) == missing


def test_summary_of_a_demo_without_rescales_says_so() -> None:
    console = Console(width=140, record=True, file=io.StringIO())

    print_summary(console, story_of(), start=100.0, totals={})

    assert "no rescale was decided" in console.export_text()


@pytest.mark.parametrize(
    ("lags", "missing"),
    [
        pytest.param([0.0, 9e4, 9e4, None, 9e4], ["the lag was above 60 s for 45 s in a row"], id="late"),
        pytest.param([0.0, 9e4, 9e4, 100.0, 9e4], [], id="above it twice, each time shortly"),
    ],
)
def test_lag_that_is_promised_is_kept_but_for_one_rescale(lags: list[float | None], missing: list[str]) -> None:
    story = Story(looks=[Look(15.0 * number, lag=lag) for number, lag in enumerate(lags)])

    assert late_shortfalls(story, plan_for(720, "slo"), start=0.0) == missing
    assert late_shortfalls(story, plan_for(300), start=0.0) == []
