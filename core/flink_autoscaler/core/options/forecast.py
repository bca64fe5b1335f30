"""The options of forecasts; part of the autoscaler's options."""

from __future__ import annotations

import math
from datetime import date

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.load_profile import MIN_WEEKS
from flink_autoscaler.core.model.value import value
from flink_autoscaler.core.options.declare import limits_text, number_from, option, positive_duration, time_zone
from flink_autoscaler.core.options.option import OptionSet


@value
class ForecastParams:
    """How forecasts are made and when they are trusted.

    Attributes:
        decay_time: Seconds in which the correction fades to 1/e.
        correction_bounds: Least and greatest correction.
        wape_enable: Error up to which a forecast is (again) trusted.
        wape_disable: Error above which it is not any more.
    """

    decay_time: float = 7200.0
    correction_bounds: tuple[float, float] = (0.5, 2.0)
    wape_enable: float = 0.20
    wape_disable: float = 0.25


_MAX_WEEKS = 52


def _quantile(text: str) -> float:
    value = syntax.parse_double(text)
    if not 0.5 <= value < 1.0:  # noqa: PLR2004 - the median
        raise ValueError("a number from 0.5 to below 1.0")
    return value


def _weeks(text: str) -> int:
    value = syntax.parse_int(text)
    if not MIN_WEEKS <= value <= _MAX_WEEKS:
        raise ValueError(f"a whole number from {MIN_WEEKS} to {_MAX_WEEKS}")
    return value


def _around_one(text: str) -> tuple[float, float]:
    """Read the least and the greatest value of a factor."""
    expected = "two numbers such as [0.5, 2], the first above 0 and at most 1, the second at least 1"
    values = [syntax.parse_double(part) for part in syntax.parse_list(text)]
    if len(values) != 2 or not 0.0 < values[0] <= 1.0 <= values[1] < math.inf:  # noqa: PLR2004 - least and greatest
        raise ValueError(expected)
    return values[0], values[1]


def _dates(text: str) -> tuple[date, ...]:
    try:
        return tuple(date.fromisoformat(part) for part in syntax.parse_list(text))
    except ValueError as error:
        raise ValueError("dates such as 2026-12-24, separated by semicolons") from error


class ForecastOptions(OptionSet):
    """How profiles are made, how they are corrected, and when they are trusted."""

    forecast_enabled = option("forecast.enabled", syntax.parse_bool, "false")
    forecast_cap_factor = option("forecast.cap-factor", number_from(1.0), "3.0")
    forecast_quantile = option("forecast.quantile", _quantile, "0.9", allowed="[0.5, 1.0)")
    forecast_weeks = option("forecast.weeks", _weeks, "8", allowed=limits_text(MIN_WEEKS, _MAX_WEEKS))
    forecast_decay_time = option("forecast.decay-time", positive_duration, "2 h")
    forecast_correction_bounds = option(
        "forecast.correction-bounds", _around_one, "[0.5, 2]", allowed="[minimum, maximum] with 1 in between"
    )
    forecast_growth_bounds = option(
        "forecast.growth-bounds", _around_one, "[0.8, 1.25]", allowed="[minimum, maximum] with 1 in between"
    )
    forecast_wape_enable = option("forecast.wape.enable", number_from(0.0), "0.20")
    forecast_wape_disable = option(
        "forecast.wape.disable", number_from(0.0), "0.25", allowed="[forecast.wape.enable, +Infinity]"
    )
    forecast_timezone = option("forecast.timezone", time_zone, "UTC", allowed="the IANA names, such as Europe/Berlin")
    forecast_exclude = option(
        "forecast.exclude",
        _dates,
        "",
        allowed="the days of the calendar, such as 2026-12-24, or several of them separated by semicolons",
    )


def forecast_settings(options: ForecastOptions) -> ForecastParams:
    """Return what a pass needs of the options.

    Raises:
        ValueParseError: An option cannot be read.
        ConfigError: The two limits of the error contradict each other.
    """
    enable, disable = options.forecast_wape_enable, options.forecast_wape_disable
    if disable < enable:
        keys = ForecastOptions.forecast_wape_disable.key, ForecastOptions.forecast_wape_enable.key
        raise ConfigError(f"{keys[0]} is {disable:g}, but has to be at least {keys[1]}, which is {enable:g}")
    return ForecastParams(
        options.forecast_decay_time.exact_seconds, options.forecast_correction_bounds, enable, disable
    )
