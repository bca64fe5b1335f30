"""Checks of the options of a job before a pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.numbers import plain
from flink_autoscaler.core.model.syntax import shortened
from flink_autoscaler.core.options.calendar import invalid_period
from flink_autoscaler.core.options.forecast import ForecastOptions, forecast_settings
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import Option, ValueParseError
from flink_autoscaler.core.options.policies import OPTIONS_OF

_O = AutoscalerOptions
_Check = Callable[[AutoscalerOptions], str | None]


def validate(options: AutoscalerOptions) -> str | None:
    """Return the first thing that is wrong with the options of a job, None when nothing is.

    Nothing is wrong with a job that is not looked after. Every text names the key and what is permitted.

    Raises:
        ValueParseError: A switch or the utilization target cannot be read.
    """
    return options.derived(_problem) if options.enabled else None


def _problem(options: AutoscalerOptions) -> str | None:
    checks = _checks(options)
    return next((problem for check in checks if (problem := check(options)) is not None), None)


def _checks(options: AutoscalerOptions) -> list[_Check]:
    """List the checks in their order; reads the switches and the target, which may raise."""
    target = options.utilization_target
    checks = [
        _within(_O.scale_down_max_factor, 0.0, None),
        _within(_O.scale_up_max_factor, 0.0, None),
        _within(_O.utilization_target, 0.0, 1.0),
        _within(_O.utilization_boundary, 0.0, None),
        _within(_O.utilization_max, target, 1.0),
        _within(_O.utilization_min, 0.0, target),
        _within(_O.gc_pressure_threshold, 0.0, 1.0),
        _within(_O.heap_usage_threshold, 0.0, 1.0),
    ]
    if options.observed_scalability:
        checks.append(_within(_O.observed_scalability_min, 0.01, 1.0))
    if options.effectiveness_detection:
        checks.append(_within(_O.effectiveness_threshold, 0.0, 1.0))
    if options.memory_tuning:
        checks.append(_within(_O.memory_tuning_overhead, 0.0, 1.0))
    return [*checks, _check_periods, _check_policies, _check_forecast]


def _within(option: Option[Any], low: float | None, high: float | None) -> _Check:
    def check(options: AutoscalerOptions) -> str | None:
        try:
            value = getattr(options, option.name)  # read once, here or by whoever needs it first
        except ValueParseError as error:
            return f"Invalid value in the autoscaler config {option.key}: {error}"
        if value is None or _is_within(value, low, high):
            return None
        permitted = f"[{plain(-math.inf if low is None else low)}, {'+Infinity' if high is None else plain(high)}]"
        return f"The option {option.key} is {plain(value)}, but has to be within the range {permitted}"

    return check


def _is_within(value: float, low: float | None, high: float | None) -> bool:
    return not ((low is not None and value < low) or (high is not None and value > high))


def _check_periods(options: AutoscalerOptions) -> str | None:
    try:
        periods = options.excluded_periods
    except ValueParseError as error:
        return str(error)
    for expression in periods:
        problem = invalid_period(expression, is_reference=not options.is_improved)
        if problem is not None:
            shown = shortened(expression)
            return f"Invalid value '{shown}' in the autoscaler config {_O.excluded_periods.key}: {problem}"
    return None


def _check_policies(options: AutoscalerOptions) -> str | None:
    """Check the choice of a policy, and that what it and schedules go by can be read."""
    try:
        name = options.policy
    except ValueParseError as error:
        return str(error)
    used = [part for kind in OPTIONS_OF.get(name, ()) for part in kind.declared()]
    parts: list[Option[Any]] = [_O.schedule_plans, *used]
    checks = (_within(part, None, None) for part in parts)
    return next((problem for check in checks if (problem := check(options)) is not None), None)


def _check_forecast(options: AutoscalerOptions) -> str | None:
    """Check what forecasts go by, of a job that has them."""
    problem = _within(_O.forecast_enabled, None, None)(options)
    if problem is not None or not options.forecast_enabled:
        return problem
    checks = (_within(part, None, None) for part in ForecastOptions.declared())
    problem = next((problem for check in checks if (problem := check(options)) is not None), None)
    return problem or _forecast_contradiction(options)


def _forecast_contradiction(options: AutoscalerOptions) -> str | None:
    try:
        forecast_settings(options)
    except ConfigError as error:
        return str(error)
    return None


def unreadable_options(options: AutoscalerOptions) -> list[ValueParseError]:
    """Return an error for every option whose value cannot be read, also those that no check covers."""
    errors = []
    for option in _O.declared():
        try:
            option.read(options.configuration)
        except ValueParseError as error:
            errors.append(error)
    return errors
