"""The single calls of the behaviour vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC
from enum import Enum
from typing import Any, Final

from flink_autoscaler.core.decide.sizing.alignment import built_in_mode, limited_event
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.events import Event
from flink_autoscaler.core.model.job import effective_status
from flink_autoscaler.core.model.metrics import EvaluatedMetric, ScalingMetric
from flink_autoscaler.core.model.policy_values import VertexLimits
from flink_autoscaler.core.model.state import HistoryEntry, ScalingSummary
from flink_autoscaler.core.model.syntax import Duration, parse_duration
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.options.calendar import is_excluded
from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import Option
from flink_autoscaler.core.policies.base.sizing import rounded_up, scalability_coefficient
from flink_autoscaler.core.ports.plugins import AlignmentRequest
from flink_autoscaler.standalone.records.vector_format import number, written_event

Json = dict[str, Any]

_STANDALONE: Final = "autoscaler.standalone."


def _reference_options(conf: Json) -> AutoscalerOptions:
    return AutoscalerOptions({AutoscalerOptions.compat.key: "reference", **conf})


def call_function(name: str, given: Json) -> Json:
    """Return the output of one case; an error is part of it."""
    try:
        return _FUNCTIONS[name](given)
    except (AutoscalerError, ValueError, ArithmeticError) as error:
        return {"error": type(error).__name__, "msg": str(error)}


def _align(given: Json) -> Json:
    options = _reference_options(given["conf"])
    current, lower, upper = given["current"], given["lower"], given["upper"]
    maximum = given["max_parallelism"]
    limits = VertexLimits(lower, upper, min(maximum, upper))
    target = limits.clamp(rounded_up(float(given["factor"]) * current))
    if target == current:
        return {"result": current}
    request = AlignmentRequest(
        vertex_id=given["vertex"],
        current=current,
        target=target,
        partitions=given["partitions"],
        max_parallelism=maximum,
        lower=limits.lower,
        upper=limits.upper,
        strategies=frozenset(ShipStrategy.of(text) for text in given["strategies"]),
    )
    aligned = built_in_mode(options)(request)
    events: list[Event] = [limited_event(request, aligned, options)] if aligned.is_limited else []
    return {"result": aligned.parallelism, "ev": [written_event(event) for event in events]}


def _calendar(given: Json) -> Json:
    options = _reference_options({AutoscalerOptions.enabled.key: "true", **given["conf"]})
    problem = validate(options)
    if problem is not None:
        return {"invalid": problem}
    periods = options.excluded_periods
    return {"result": [int(is_excluded(periods, at_ms, UTC)) for at_ms in given["times"]]}


def _option(given: Json) -> Json:
    configuration = given["conf"]
    option = _declared(given["option"])
    return {"set": option.find(configuration) is not None, "value": _value(option.read(configuration))}


def _declared(key: str) -> Option[Any]:
    declared = (*AutoscalerOptions.declared(), *FlinkOptions.declared(), *_DAEMON_OPTIONS)
    return next(option for option in declared if option.key == key)


_DAEMON_OPTIONS: Final = (
    Option(
        f"{_STANDALONE}control-loop.interval",
        parse_duration,
        parse_duration("10 s"),
        "10 s",
        "Pause between passes.",
        deprecated_keys=("scalingInterval",),
    ),
)


def _value(value: object) -> object:
    if isinstance(value, Duration):
        return value.nanoseconds / 1e6
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return number(value)
    return list(value) if isinstance(value, tuple) else value


def _scalability(given: Json) -> Json:
    entries = [
        HistoryEntry(at_ms, ScalingSummary(parallelism, parallelism + 1, _rate(rate)))
        for at_ms, parallelism, rate in given["history"]
    ]
    return {"result": number(scalability_coefficient(entries, _reference_options(given["conf"])))}


def _rate(rate: float | str | None) -> dict[ScalingMetric, EvaluatedMetric]:
    value = math.nan if rate is None else float(rate)
    return {ScalingMetric.TRUE_PROCESSING_RATE: EvaluatedMetric(math.nan, value)}


def _validate(given: Json) -> Json:
    return {"invalid": validate(_reference_options(given["conf"]))}


def _status(given: Json) -> Json:
    job = given["job"]
    return {"result": effective_status(job["state"], job["tasks"]).value}


_FUNCTIONS: Final[dict[str, Callable[[Json], Json]]] = {
    "align": _align,
    "calendar": _calendar,
    "option": _option,
    "scalability": _scalability,
    "validate": _validate,
    "status": _status,
}
