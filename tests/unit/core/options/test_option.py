import pickle

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.lag import GROUP_PARAMETERS
from flink_autoscaler.core.options.option import ValueParseError, closest_key, option_descriptions
from testkit.builders.core import options_with

LEGACY = "kubernetes.operator.job.autoscaler."


def test_every_option_has_a_key_of_its_own_with_the_prefix() -> None:
    options = AutoscalerOptions.all_options()

    assert all(option.key.startswith("job.autoscaler.") for option in options)
    assert len({option.key for option in options}) == len(options)


def test_what_is_declared_is_described_and_nothing_else() -> None:
    declared = [*AutoscalerOptions.all_options(), *FlinkOptions.all_options()]

    assert sorted(option_descriptions()) == sorted(option.key for option in declared)
    assert [option.key for option in declared if not option.description.endswith(".")] == []


def test_the_description_of_the_consumer_group_names_all_parameters_that_may_tell_it() -> None:
    assert f" {', '.join(GROUP_PARAMETERS)}, " in AutoscalerOptions.lag_kafka_group.description


def test_every_default_text_is_read_as_the_default() -> None:
    options = [option for option in AutoscalerOptions.all_options() if option.default is not None]

    assert [option.parse(option.default_text) for option in options] == [option.default for option in options]


@pytest.mark.parametrize("option", AutoscalerOptions.all_options())
def test_every_option_of_the_reference_accepts_its_legacy_key(option: object) -> None:
    assert isinstance(option, type(AutoscalerOptions.enabled))

    assert f"kubernetes.operator.{option.key}" in option.keys


@pytest.mark.parametrize(
    ("keys", "winner"),
    [
        pytest.param(
            (
                "job.autoscaler.utilization.target",
                LEGACY + "utilization.target",
                LEGACY + "target.utilization",
                "job.autoscaler.target.utilization",
            ),
            0,
            id="canonical first",
        ),
        pytest.param(
            (LEGACY + "utilization.target", LEGACY + "target.utilization", "job.autoscaler.target.utilization"),
            0,
            id="then the legacy new name",
        ),
        pytest.param(
            (LEGACY + "target.utilization", "job.autoscaler.target.utilization"),
            0,
            id="a legacy fallback beats a deprecated key",
        ),
        pytest.param(("job.autoscaler.target.utilization",), 0, id="the deprecated key last"),
    ],
)
def test_utilization_target_is_looked_up_in_order(keys: tuple[str, ...], winner: int) -> None:
    options = AutoscalerOptions({key: f"0.{at + 1}" for at, key in enumerate(keys)})

    assert options.utilization_target == pytest.approx((winner + 1) / 10)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(
            (
                "job.autoscaler.scale-down.interval",
                LEGACY + "scale-up.grace-period",
                LEGACY + "scale-down.interval",
                "job.autoscaler.scale-up.grace-period",
            ),
            id="canonical first",
        ),
        pytest.param(
            (
                LEGACY + "scale-up.grace-period",
                LEGACY + "scale-down.interval",
                "job.autoscaler.scale-up.grace-period",
            ),
            id="the legacy old name beats the legacy new one",
        ),
        pytest.param(
            (LEGACY + "scale-down.interval", "job.autoscaler.scale-up.grace-period"),
            id="the legacy new name beats the deprecated key",
        ),
        pytest.param(("job.autoscaler.scale-up.grace-period",), id="the deprecated key last"),
    ],
)
def test_scale_down_interval_is_looked_up_in_order(keys: tuple[str, ...]) -> None:
    options = AutoscalerOptions({key: f"{at + 1} s" for at, key in enumerate(keys)})

    assert options.scale_down_interval.seconds == 1


def test_is_set_knows_every_key() -> None:
    options = AutoscalerOptions({LEGACY + "scaling.parallelism-alignment.mode": "OFF"})

    assert options.is_set(AutoscalerOptions.alignment_mode)
    assert not options.is_set(AutoscalerOptions.legacy_alignment_mode)


def test_a_value_that_cannot_be_read_names_value_and_key() -> None:
    options = options_with({"metrics.window": "soon"})

    with pytest.raises(ValueParseError, match=r"^Could not parse value 'soon' for key 'job.autoscaler.metrics.window'"):
        _ = options.metrics_window


def test_a_bad_value_does_not_disturb_other_options() -> None:
    options = options_with({"metrics.window": "soon", "restart.time": "9 s"})

    assert options.restart_time.seconds == 9


def test_a_parse_error_is_a_config_error_that_travels() -> None:
    error = ValueParseError("key", "value", "a number")

    travelled: ValueParseError = pickle.loads(pickle.dumps(error))

    assert issubclass(ValueParseError, ConfigError)
    assert (str(travelled), travelled.key, travelled.value) == (str(error), "key", "value")


def test_with_changes_removes_before_it_sets() -> None:
    options = FlinkOptions({"taskmanager.memory.process.size": "1g", "taskmanager.memory.size": "2g"})

    changed = options.with_changes({"taskmanager.memory.size": "3g"}, ["taskmanager.memory.size", "unknown"])

    assert (changed.process_memory, changed.managed_memory) == (1 << 30, 3 << 30)


def test_nearest_names_a_similar_key() -> None:
    assert "metrics.window" in closest_key("metric.window", ["metrics.window", "restart.time"])
    assert closest_key("zzz", ["metrics.window"]) == ""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, True, id="on by default"),
        pytest.param({"compat": "reference"}, False, id="off for the reference"),
        pytest.param({"compat": "REFERENCE", "sample-check.enabled": "true"}, True, id="own option wins when on"),
        pytest.param({"sample-check.enabled": "false"}, False, id="own option wins when off"),
    ],
)
def test_the_check_of_samples_follows_its_own_option_and_then_compat(options: dict[str, str], expected: bool) -> None:
    typed = options_with(options)

    assert typed.checks_samples is expected


def test_one_configuration_has_one_object_of_options() -> None:
    options = AutoscalerOptions.of({"job.autoscaler.utilization.target": "0.5"})

    assert AutoscalerOptions.of({"job.autoscaler.utilization.target": "0.5"}) is options
    assert AutoscalerOptions.of({"job.autoscaler.utilization.target": "0.6"}).utilization_target == 0.6
    assert type(FlinkOptions.of(options.configuration)) is FlinkOptions


def test_options_that_are_kept_do_not_follow_a_configuration_that_is_changed_later() -> None:
    configuration = {"job.autoscaler.utilization.target": "0.55"}
    options = AutoscalerOptions.of(configuration)

    configuration["job.autoscaler.utilization.target"] = "0.65"

    assert options.utilization_target == 0.55
    assert AutoscalerOptions.of(configuration).utilization_target == 0.65


def test_what_is_derived_of_options_is_made_once_and_errors_are_raised_every_time() -> None:
    made = []

    def derive(options: AutoscalerOptions) -> float:
        made.append(options)
        return options.utilization_target / 2

    right, wrong = (options_with({"utilization.target": text}) for text in ("0.5", "half"))

    assert [right.derive(derive) for _ in range(3)] == [0.25] * 3
    for _ in range(2):
        with pytest.raises(ValueParseError, match="half"):
            wrong.derive(derive)
    assert made == [right, wrong, wrong]
