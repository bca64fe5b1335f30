"""Checks of the options of a job before a pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.numbers import plain
from flink_autoscaler.core.model.syntax import abbreviate
from flink_autoscaler.core.options.calendar import parse_period
from flink_autoscaler.core.options.forecast import ForecastOptions, forecast_settings
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import Option, ValueParseError
from flink_autoscaler.core.options.policies import OPTIONS_OF

_O = AutoscalerOptions


def validate(options: AutoscalerOptions) -> str | None:
    """Return the first thing that is wrong with the options of a job, None when nothing is.

    Nothing is wrong with a job that is not managed. Every text names the key and what is permitted.

    Raises:
        ValueParseError: A switch or the utilization target cannot be read.
    """
    return options.derive(_problem) if options.enabled else None


def _problem(options: AutoscalerOptions) -> str | None:
    return next((text for _, text in option_problems(options)), None)


def option_problems(options: AutoscalerOptions) -> Iterator[tuple[Option[Any], str]]:
    """Yield everything that is wrong with options, in the order of the checks, and the option that it is about.

    Raises:
        ValueParseError: A switch or the utilization target cannot be read; or, where one goes on after what is wrong
            with them, the name of the policy or whether there are forecasts.
    """
    return ((option, text) for option, text in _check_all(options) if text is not None)


def _check_all(options: AutoscalerOptions) -> Iterator[tuple[Option[Any], str | None]]:
    target = options.utilization_target
    ranges: list[tuple[Option[Any], float, float]] = [
        (_O.scale_down_max_factor, 0.0, math.inf),
        (_O.scale_up_max_factor, 0.0, math.inf),
        (_O.utilization_target, 0.0, 1.0),
        (_O.utilization_boundary, 0.0, math.inf),
        (_O.utilization_max, target, 1.0),
        (_O.utilization_min, 0.0, target),
        (_O.gc_pressure_threshold, 0.0, 1.0),
        (_O.heap_usage_threshold, 0.0, 1.0),
    ]
    if options.observed_scalability:
        ranges.append((_O.observed_scalability_min, 0.01, 1.0))
    if options.effectiveness_detection:
        ranges.append((_O.effectiveness_threshold, 0.0, 1.0))
    if options.memory_tuning:
        ranges.append((_O.memory_tuning_overhead, 0.0, 1.0))
    for option, low, high in ranges:
        yield option, _unreadable_problem(options, option) or _range_problem(options, option, low, high)
    yield _O.excluded_periods, _unreadable_problem(options, _O.excluded_periods, prefix="") or _wrong_period(options)
    yield _O.policy, _unreadable_problem(options, _O.policy, prefix="")
    used = [part for kind in OPTIONS_OF.get(options.policy, ()) for part in kind.all_options()]
    yield from ((part, _unreadable_problem(options, part)) for part in (_O.schedule_plans, *used, _O.forecast_enabled))
    if options.forecast_enabled:
        yield from ((part, _unreadable_problem(options, part)) for part in ForecastOptions.all_options())
        yield _O.forecast_wape_disable, _forecast_contradiction(options)


def _unreadable_problem(
    options: AutoscalerOptions, option: Option[Any], prefix: str = "Invalid value in the autoscaler config {}: "
) -> str | None:
    try:
        getattr(options, option.name)  # read once, here or by whoever needs it first
    except ValueParseError as error:
        return f"{prefix.format(option.key)}{error}"
    return None


def _range_problem(options: AutoscalerOptions, option: Option[Any], low: float, high: float) -> str | None:
    value = getattr(options, option.name)
    # Asked this way round, NaN passes, as it does with the Java program.
    if value is None or not (value < low or value > high):
        return None
    permitted = f"[{plain(low)}, {'+Infinity' if high == math.inf else plain(high)}]"
    return f"The option {option.key} is {plain(value)}, but has to be within the range {permitted}"


def _wrong_period(options: AutoscalerOptions) -> str | None:
    for expression in options.excluded_periods:
        try:
            parse_period(expression, is_reference=not options.is_improved)
        except ValueError as error:
            shown = abbreviate(expression)
            return f"Invalid value '{shown}' in the autoscaler config {_O.excluded_periods.key}: {error}"
    return None


def _forecast_contradiction(options: AutoscalerOptions) -> str | None:
    try:
        forecast_settings(options)
    except ConfigError as error:
        return str(error)
    return None


def unreadable_options(options: AutoscalerOptions) -> list[ValueParseError]:
    """Return an error for every option whose value cannot be read, also those that no check covers."""
    errors = []
    for option in _O.all_options():
        try:
            option.read(options.configuration)
        except ValueParseError as error:
            errors.append(error)
    return errors
