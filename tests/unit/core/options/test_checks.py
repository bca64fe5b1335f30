"""What is wrong with options; which values of single ones are permitted is in the behaviour vectors."""

import pytest

from flink_autoscaler.core.options.checks import unreadable_options, validate
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import ValueParseError
from testkit.builders.core import a_configuration, options_with

INVALID = {
    "scale-down.max-factor": "-0.1",
    "scale-up.max-factor": "-1",
    "utilization.target": "1.01",
    "target.utilization.boundary": "-0.1",
    "utilization.max": "0.69",
    "utilization.min": "0.71",
    "memory.gc-pressure.threshold": "1.1",
    "memory.heap-usage.threshold": "-1",
    "observed-scalability.coefficient-min": "0.009",
    "scaling.effectiveness.threshold": "2",
    "memory.tuning.overhead": "1.5",
}
SWITCHES = ("observed-scalability.enabled", "scaling.effectiveness.detection.enabled", "memory.tuning.enabled")


def test_validate_reports_the_first_problem_in_the_documented_order() -> None:
    options, found = {**dict.fromkeys(SWITCHES, "true"), **INVALID}, []

    while (problem := validate(options_with(options))) is not None:
        found.append(next(key for key in INVALID if f"job.autoscaler.{key} " in problem))
        del options[found[-1]]

    assert found == list(INVALID)


def test_nothing_is_wrong_with_a_job_that_is_not_looked_after() -> None:
    configuration = a_configuration({"enabled": "false", "utilization.target": "7", "excluded.periods": "never"})

    assert validate(AutoscalerOptions(configuration)) is None


def test_an_unreadable_value_is_an_invalid_value_that_names_the_key() -> None:
    problem = validate(options_with({"memory.gc-pressure.threshold": "a lot"}))

    assert problem is not None
    assert "nvalid value" in problem
    assert "job.autoscaler.memory.gc-pressure.threshold" in problem


@pytest.mark.parametrize(
    "key",
    [
        "enabled",
        "utilization.target",
        "observed-scalability.enabled",
        "scaling.effectiveness.detection.enabled",
        "memory.tuning.enabled",
    ],
)
def test_an_unreadable_switch_or_target_raises(key: str) -> None:
    options = options_with({key: "maybe"})

    with pytest.raises(ValueParseError, match=key):
        validate(options)


@pytest.mark.parametrize("period", ["10:00-25:00", "9:00-10:00 && 11:00-12:00", "* * * * *"])
def test_an_invalid_period_is_named_with_its_key(period: str) -> None:
    problem = validate(options_with({"excluded.periods": f"'{period}'"}))

    assert problem is not None
    assert f"'{period}'" in problem
    assert "job.autoscaler.excluded.periods" in problem


def test_unreadable_options_finds_also_what_no_check_covers() -> None:
    errors = unreadable_options(options_with({"metrics.window": "soon", "history.max.count": "many"}))

    assert [error.key for error in errors] == ["job.autoscaler.metrics.window", "job.autoscaler.history.max.count"]
