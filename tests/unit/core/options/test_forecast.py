from __future__ import annotations

from datetime import date

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.forecast import ForecastOptions, ForecastParams, forecast_settings
from flink_autoscaler.core.options.option import ValueParseError

PREFIX = "job.autoscaler.forecast."


def options(**values: str) -> ForecastOptions:
    return ForecastOptions({PREFIX + key.replace("_", "."): value for key, value in values.items()})


def test_defaults_are_those_of_the_settings() -> None:
    assert forecast_settings(options()) == ForecastParams()
    assert not options().forecast_enabled
    assert options().forecast_growth_bounds == (0.8, 1.25)
    assert options().forecast_weeks == 8


def test_dates_and_zone_are_read() -> None:
    found = options(exclude="2026-12-24;2026-12-25", timezone="Europe/Berlin")

    assert found.forecast_exclude == (date(2026, 12, 24), date(2026, 12, 25))
    assert found.forecast_timezone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("quantile", "1"),
        ("quantile", "0.4"),
        ("quantile", "NaN"),
        ("weeks", "1"),
        ("weeks", "53"),
        ("decay-time", "0 s"),
        ("correction-bounds", "[0.5]"),
        ("correction-bounds", "[1.1, 2]"),
        ("growth-bounds", "[0, 2]"),
        ("growth-bounds", "[0.5, Infinity]"),
        ("wape.enable", "-0.1"),
        ("timezone", "Mars/Base"),
        ("timezone", "../etc/passwd"),
        ("exclude", "24.12.2026"),
    ],
)
def test_value_out_of_range_is_refused(key: str, value: str) -> None:
    found = ForecastOptions({PREFIX + key: value})
    [option] = [each for each in ForecastOptions.all_options() if each.key == PREFIX + key]

    with pytest.raises(ValueParseError, match=f"for key '{PREFIX}{key}': expected"):
        option.read(found.configuration)


def test_limits_of_the_error_must_not_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match=r"has to be at least job\.autoscaler\.forecast\.wape\.enable"):
        forecast_settings(options(wape_enable="0.3"))
