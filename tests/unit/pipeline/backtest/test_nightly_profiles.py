"""Profiles of every night of a backtest: what had arrived by then is in them, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.pipeline.backtest.arrivals import QuarterHours, Sample
from flink_autoscaler.pipeline.backtest.case import BacktestCase, builtin_case
from flink_autoscaler.pipeline.backtest.fitting import FitParams, fit_case
from flink_autoscaler.pipeline.backtest.inline import BacktestFilter, InlineRunner
from flink_autoscaler.pipeline.backtest.nightly_profiles import NightlyProfile, nightly_profiles_of, profile_remarks
from flink_autoscaler.pipeline.backtest.plan import RunSettings, SimulationResult, SimulationTask
from flink_autoscaler.pipeline.backtest.simulate_case import simulate_task
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS
from flink_autoscaler.pipeline.simulator.workloads import HOUR, MINUTE, Workload
from flink_autoscaler.pipeline.spark.codec import decode, encode
from flink_autoscaler.pipeline.tables.rows import NamedRow
from flink_autoscaler.pipeline.tables.store import HistoryFilter
from testkit.builders.backtests import LATER, NOON, SOURCE, a_history, arrival_rows, job_rows, records

DAY_MINUTES, HOUR_MINUTES = 1440, 60
MONDAY_MIDNIGHT = 36 * HOUR_MINUTES
"""Minutes from the noon of a Saturday."""

SINCE = MONDAY_MIDNIGHT + 6 * HOUR_MINUTES
OPENING = 9 * HOUR_MINUTES
PREFIX = "job.autoscaler."
REACTIVE = {
    PREFIX + "metrics.window": "5 min",
    PREFIX + "stabilization.interval": "1 min",
    PREFIX + "catch-up.duration": "15 min",
    PREFIX + "scaling.parallelism-alignment.mode": "OFF",
}
AHEAD = {**REACTIVE, PREFIX + "forecast.enabled": "true"}


def office(minute: int) -> float:
    """Give the records/s of a minute after noon of a Saturday: fourfold from Monday to Friday, 9 to 18 h."""
    day, of_day = divmod(minute - MONDAY_MIDNIGHT, DAY_MINUTES)
    opened = min(max(0, of_day - OPENING + 10), 10, max(0, 18 * HOUR_MINUTES + 10 - of_day)) / 10
    return 400.0 + (1200.0 * opened if day % 7 < 5 else 0.0)


def rows_of(days: int, *, hours: int = 5, rate: Callable[[int], float] = office) -> list[NamedRow]:
    """Make some hours of a job from ``SINCE`` on, and what arrived in the days before."""
    before = range(SINCE - days * DAY_MINUTES, SINCE)
    return [*arrival_rows(before, rate), *job_rows(minutes=hours * 60, first=SINCE, rate=rate)]


def subject_of(rows: list[NamedRow]) -> BacktestCase:
    subject = fit_case(records(rows), FitParams(LATER, NOON + SINCE * 60, with_past=True))
    assert isinstance(subject, BacktestCase), subject
    return subject


@cache
def office_job() -> BacktestCase:
    return subject_of(rows_of(28))


@cache
def outcome(*, looks_ahead: bool) -> SimulationResult:
    return simulate_task(SimulationTask(office_job(), "a", AHEAD if looks_ahead else REACTIVE, RunSettings(dt=10.0)))


def first_up(outcome: SimulationResult) -> float:
    """Return the minute of the day in which the job grew for the first time."""
    slots = outcome.curves.slots
    grew = next(number for number, (before, now) in enumerate(pairwise(slots), start=1) if now > before)
    return 6 * 60 + grew / len(slots) * 300


def test_job_grows_before_the_ramp_with_a_forecast_and_after_it_without() -> None:
    assert first_up(outcome(looks_ahead=True)) < OPENING - 10 < first_up(outcome(looks_ahead=False))


def test_forecast_keeps_the_lag_low() -> None:
    ahead, reactive = outcome(looks_ahead=True).figures, outcome(looks_ahead=False).figures

    assert ahead is not None
    assert reactive is not None
    assert ahead.lag_max < reactive.lag_max
    assert "FORECAST_DISABLED" not in outcome(looks_ahead=True).holds


def test_outcome_says_what_profiles_are_made_of() -> None:
    assert outcome(looks_ahead=True).notes == (
        "Forecasts of Source: orders: 1 nightly profile, made of 28.0 days of arrivals.",
    )
    assert outcome(looks_ahead=False).notes == ()


def test_simulated_time_begins_with_the_selection_whatever_came_before() -> None:
    assert office_job().start_ms == (NOON + SINCE * 60) * 1000
    assert office_job().workload.duration == 5 * HOUR


def results(subject: BacktestCase, options: dict[str, str] = AHEAD) -> dict[float, ProfileResult]:
    return {night.result.asof: night.result for night in nightly_profiles_of(subject, options)}


def job_of(days: int, rate: Callable[[int], float], span: float = MINUTE) -> BacktestCase:
    """Return five days of the job after some days; a sample per span is taken, five minutes after its multiples."""
    minutes = range(SINCE - days * DAY_MINUTES, SINCE + 5 * DAY_MINUTES)
    step = round(span / MINUTE)
    rates = (Sample(NOON + (minute + 1) * 60, span, rate(minute)) for minute in minutes if minute % step == 5 % step)
    workload = Workload("office", MINUTE, ((400.0,),) * 5 * DAY_MINUTES)
    return replace(office_job(), workload=workload, past={SOURCE: QuarterHours.of(rates)})


@pytest.mark.parametrize("span", [60.0, 600.0])
def test_nothing_that_arrives_later_changes_a_profile(span: float) -> None:
    change = SINCE + 2 * DAY_MINUTES

    usual = results(job_of(15, office, span))
    changed = results(job_of(15, lambda minute: office(minute) * (7.0 if minute >= change else 1.0), span))

    # A sample is taken at the end of its minute.
    known = [asof for asof in usual if asof <= NOON + change * 60]
    assert (len(known), len(usual)) == (3, 5)
    assert {asof: usual[asof] for asof in known} == {asof: changed[asof] for asof in known}
    assert all(usual[asof] != changed[asof] for asof in usual if asof not in known)


def test_nights_come_daily_from_the_beginning_on() -> None:
    start = NOON + SINCE * 60

    assert list(results(job_of(4, office))) == [start + day * 86_400 for day in range(5)]


def test_profiles_are_made_once_for_all_configurations_that_agree_on_forecasts() -> None:
    others = {**AHEAD, PREFIX + "utilization.target": "0.5"}

    assert nightly_profiles_of(office_job(), others) is nightly_profiles_of(office_job(), AHEAD)
    assert results(office_job(), {**AHEAD, PREFIX + "forecast.quantile": "0.5"}) != results(office_job())
    assert nightly_profiles_of(office_job(), REACTIVE) == ()


def test_too_little_history_is_said() -> None:
    outcome = simulate_task(SimulationTask(subject_of(rows_of(1)), "a", AHEAD, RunSettings(dt=10.0)))

    assert outcome.notes == (
        "Forecasts of Source: orders: no profile in 1 of 1 nights: too little history: 96 of the 288 quarter hours "
        "within seven days that a profile needs.",
    )
    assert outcome.holds["FORECAST_DISABLED"] > 0


def test_source_whose_arrivals_are_not_known_has_no_profile() -> None:
    rows = [(name, {**row, "arrival_rate": None} if name == "samples" else row) for name, row in rows_of(4)]

    (result,) = results(subject_of(rows)).values()

    assert result.profile is None
    assert (result.problem or "").startswith("too little history: 0 of the 288")


def test_remarks_tell_apart_nights_with_and_without_a_profile() -> None:
    without = NightlyProfile(ProfileResult("main/orders", SOURCE, 0.0, problem="too little"), 2.0)
    profile = next(iter(results(office_job()).values()))
    made = [NightlyProfile(replace(profile, asof=float(day)), day) for day in (3, 4)]

    assert list(profile_remarks([without, *made], {SOURCE: "orders"})) == [
        "Forecasts of orders: 2 nightly profiles, made of 3.0 to 4.0 days of arrivals.",
        "Forecasts of orders: no profile in 1 of 3 nights: too little.",
    ]


def test_quarter_hours_need_ten_minutes_and_samples_count_for_what_they_cover() -> None:
    every_minute = [Sample(at, 60.0, 1.0) for at in range(0, 540, 60)]
    one_more = [Sample(540, None, 11.0)]
    ten_minutes = [Sample(900 + 899, 600.0, 5.0)]
    over_the_edge = [Sample(1800 + 60, 300.0, 8.0)]

    assert QuarterHours.of(every_minute) == QuarterHours()
    assert QuarterHours.of([*every_minute, *one_more]) == QuarterHours((0,), (2.0,))
    # 3 of the 5 minutes of the last one are in the quarter hour before it, and were not known at its end.
    assert QuarterHours.of([*ten_minutes, *over_the_edge]) == QuarterHours((1,), ((50 + 24) / 13,), late=(1,))


def test_days_that_are_excluded_are_not_learned_from() -> None:
    settings = ProfileSettings(asof=10 * 86_400, timezone="Europe/Berlin", excluded=(date(1970, 1, 2),))
    quarters = QuarterHours(tuple(range(96 * 3)), (1.0,) * (96 * 3))

    series = quarters.series(settings)

    # The second day of Berlin begins an hour before that of UTC; the first of January 1970 is a Thursday.
    assert [index for index in quarters.index if index not in series.index] == list(range(92, 92 + 96))
    assert series.slot[0] == 3 * 96 + 4


def test_arrivals_before_the_selection_are_read_where_profiles_are_wanted(tmp_path: Path) -> None:
    root = str(a_history(tmp_path / "history", rows_of(4, hours=2)))
    since_ms = round((NOON + SINCE * 60) * 1000)
    wanted = BacktestFilter(HistoryFilter(since_ms=since_ms), past=3 * 86_400.0)

    (plain,) = InlineRunner().fleet(root, replace(wanted, past=None), LATER).subjects
    (subject,) = InlineRunner().fleet(root, wanted, LATER).subjects

    assert plain.past == {}
    assert replace(subject, past={}) == plain
    # Three days, the two hours, and the instant at the end of them.
    assert len(subject.past[SOURCE].index) == 3 * 96 + 8
    assert decode(encode(subject), BacktestCase) == subject


def mean(workload: Workload) -> float:
    return sum(row[0] for row in workload.rows) / len(workload.rows)


def test_past_of_a_made_up_workload_changes_nothing_of_it() -> None:
    plain, subject = (builtin_case("office", days=0.5, seed=3, with_past=past) for past in (False, True))

    (quarters,) = subject.past.values()
    start = MONDAY_MS // 1000 // 900
    assert (plain.past, replace(subject, past={})) == ({}, plain)
    assert (quarters.index[0], quarters.index[-1]) == (start - 4 * 672, start + 47)
    assert len(quarters.index) == 4 * 672 + 48


def test_past_of_a_made_up_workload_is_like_it_with_other_noise() -> None:
    subject = builtin_case("office", days=1, seed=3, with_past=True)
    (quarters,) = subject.past.values()
    weeks_ago = [quarters.rate[week * 672 : week * 672 + 96] for week in range(5)]

    daily = [sum(rates) / 96 for rates in weeks_ago]

    # It grows by 3 % a week up to now.
    assert [now / before for before, now in pairwise(daily)] == pytest.approx([1.03] * 4, abs=0.02)
    assert daily[4] == pytest.approx(mean(subject.workload))
    # The noise of the first week is not that of the workload, with which it would begin anew.
    assert max(abs(a * 1.03**4 / b - 1) for a, b in zip(weeks_ago[0], weeks_ago[4], strict=True)) > 0.02


@pytest.mark.parametrize("name", ["traffic", "random"])
def test_short_workload_was_there_before_again_and_again(name: str) -> None:
    subject = builtin_case(name, days=0.5, with_past=True)

    assert list(subject.past) == list(subject.model.sources)
    assert all(len(quarters.index) == 4 * 672 + 48 for quarters in subject.past.values())
