from __future__ import annotations

import pytest
from demo.plan import (
    BASE_RATE,
    COST_MICROS,
    DEFAULT_SECONDS,
    LEAD_IN,
    PEAK_RATE,
    SLOTS,
    PlanError,
    parse_policy,
    parse_seconds,
    plan_for,
)

from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.options.job import AutoscalerOptions

LENGTHS = [120, 150, 180, 239, 240, 300, 600, 900, 1800, 7200]


@pytest.mark.parametrize("seconds", LENGTHS)
def test_curve_rises_to_the_peak_and_is_back_at_the_base_well_before_the_end(seconds: int) -> None:
    curve = plan_for(seconds).curve

    rates = [curve.rate(second) for second in range(-LEAD_IN, seconds + 1)]
    assert max(rates) == PEAK_RATE
    assert min(rates) == BASE_RATE
    back_at_base = max(second for second in range(seconds) if curve.rate(second) > BASE_RATE)
    assert seconds - back_at_base >= 45


@pytest.mark.parametrize("seconds", LENGTHS)
def test_curve_ascends_in_time_and_has_no_arrivals_that_the_job_reads_differently(seconds: int) -> None:
    curve = plan_for(seconds).curve

    instants = [second for second, _ in curve.points]
    assert instants == sorted(set(instants))
    assert type(curve).parse(str(curve)) == curve


@pytest.mark.parametrize("seconds", LENGTHS)
def test_peak_lasts_for_several_metric_windows(seconds: int) -> None:
    plan = plan_for(seconds)

    at_peak = sum(plan.curve.rate(second) == PEAK_RATE for second in range(seconds))
    assert at_peak >= 2 * float(plan.options["job.autoscaler.metrics.window"].removesuffix(" s"))


@pytest.mark.parametrize("policy", ["capacity", "slo"])
@pytest.mark.parametrize("seconds", LENGTHS)
def test_daemon_accepts_the_options(seconds: int, policy: str) -> None:
    options = plan_for(seconds, policy).options

    assert not [key for key in options if key not in {option.key for option in AutoscalerOptions.all_options()}]
    assert validate(AutoscalerOptions(options)) is None


def test_peak_needs_several_subtasks_and_fits_the_slots() -> None:
    per_subtask = 1e6 / COST_MICROS

    assert per_subtask * 0.7 > BASE_RATE
    assert 3 < PEAK_RATE / (per_subtask * 0.7) < SLOTS


def test_drained_lag_is_two_seconds_of_the_last_input() -> None:
    assert plan_for(300).drained_lag == 2 * BASE_RATE


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("", DEFAULT_SECONDS, id="nothing said"),
        pytest.param(" 180 ", 180, id="with blanks"),
        pytest.param("120", 120, id="the shortest"),
    ],
)
def test_parse_seconds_reads_a_length(text: str, seconds: int) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("five", "whole number", id="a word"),
        pytest.param("150.5", "whole number", id="a fraction"),
        pytest.param("60", "between 120 and 7200", id="too short"),
        pytest.param("7201", "between 120 and 7200", id="too long"),
    ],
)
def test_parse_seconds_says_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(PlanError, match=told):
        parse_seconds(text)


@pytest.mark.parametrize(("text", "policy"), [("", "capacity"), ("slo", "slo"), (" capacity ", "capacity")])
def test_parse_policy_reads_a_name(text: str, policy: str) -> None:
    assert parse_policy(text) == policy


def test_parse_policy_says_which_there_are() -> None:
    with pytest.raises(PlanError, match="POLICY is 'ds2'; it must be capacity or slo"):
        parse_policy("ds2")


def test_the_plan_of_slo_names_the_policy() -> None:
    assert plan_for(720, "slo").options["job.autoscaler.policy"] == "slo"
