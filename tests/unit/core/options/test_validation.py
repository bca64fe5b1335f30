import pytest

from flink_autoscaler.core.options.checks import unreadable_options, validate
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import ValueParseError
from testkit.builders.core import a_configuration, options_with

OBSERVED = {"observed-scalability.enabled": "true"}
DETECTION = {"scaling.effectiveness.detection.enabled": "true"}
TUNING = {"memory.tuning.enabled": "true"}

INVALID = [
    pytest.param(
        {"scale-down.max-factor": "-0.1"}, "scale-down.max-factor", "[0.0, +Infinity]", id="scale-down factor"
    ),
    pytest.param({"scale-up.max-factor": "-1"}, "scale-up.max-factor", "[0.0, +Infinity]", id="scale-up factor"),
    pytest.param({"utilization.target": "1.01"}, "utilization.target", "[0.0, 1.0]", id="utilization target"),
    pytest.param(
        {"target.utilization.boundary": "-0.1"}, "target.utilization.boundary", "[0.0, +Infinity]", id="boundary"
    ),
    pytest.param({"utilization.max": "0.69"}, "utilization.max", "[0.7, 1.0]", id="maximum below the target"),
    pytest.param({"utilization.min": "0.71"}, "utilization.min", "[0.0, 0.7]", id="minimum above the target"),
    pytest.param(
        {"memory.gc-pressure.threshold": "1.1"}, "memory.gc-pressure.threshold", "[0.0, 1.0]", id="GC pressure"
    ),
    pytest.param({"memory.heap-usage.threshold": "-1"}, "memory.heap-usage.threshold", "[0.0, 1.0]", id="heap usage"),
    pytest.param(
        {**OBSERVED, "observed-scalability.coefficient-min": "0.009"},
        "observed-scalability.coefficient-min",
        "[0.01, 1.0]",
        id="scalability coefficient",
    ),
    pytest.param(
        {**DETECTION, "scaling.effectiveness.threshold": "2"},
        "scaling.effectiveness.threshold",
        "[0.0, 1.0]",
        id="effectiveness",
    ),
    pytest.param({**TUNING, "memory.tuning.overhead": "1.5"}, "memory.tuning.overhead", "[0.0, 1.0]", id="overhead"),
]


def test_the_defaults_are_valid() -> None:
    assert validate(options_with()) is None


@pytest.mark.parametrize(("options", "key", "permitted"), INVALID)
def test_validate_names_key_and_range(options: dict[str, str], key: str, permitted: str) -> None:
    problem = validate(options_with(options))

    assert problem is not None
    assert f"job.autoscaler.{key}" in problem
    assert permitted in problem


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"utilization.target": "0", "utilization.min": "0"}, id="target 0"),
        pytest.param({"utilization.target": "1", "utilization.max": "1"}, id="target 1"),
        pytest.param({"utilization.max": "0.7", "utilization.min": "0.7"}, id="an empty band"),
        pytest.param({"scale-down.max-factor": "0"}, id="no scale-down at all"),
        pytest.param({**OBSERVED, "observed-scalability.coefficient-min": "0.01"}, id="least coefficient"),
        pytest.param({"observed-scalability.coefficient-min": "7"}, id="scalability is off"),
        pytest.param({"scaling.effectiveness.threshold": "7"}, id="detection is off"),
        pytest.param({"memory.tuning.overhead": "7"}, id="tuning is off"),
        pytest.param({"vertex.min-parallelism": "9", "vertex.max-parallelism": "1"}, id="integers are not checked"),
        pytest.param({"excluded.periods": "9:00-10:00;* * * ? * 2-6 && 9:00-10:00"}, id="periods"),
    ],
)
def test_validate_accepts_bounds_and_what_is_switched_off(options: dict[str, str]) -> None:
    assert validate(options_with(options)) is None


def test_validate_reports_the_first_problem_in_the_documented_order() -> None:
    options: dict[str, str] = {}
    for case in reversed(INVALID):
        assert isinstance(case.values[0], dict)
        options = {**options, **case.values[0]}
    expected = [str(case.values[1]) for case in INVALID]
    found = []

    while (problem := validate(options_with(options))) is not None:
        found.append(next(key for key in expected if f"job.autoscaler.{key} " in problem))
        del options[found[-1]]

    assert found == expected


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
