"""Outputs of our code for behaviour vectors, in their format: of passes, and of single calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from enum import Enum
from typing import Any, Final

from flink_autoscaler.core.decide.alignment import AlignmentSettings, alignment_limited_event
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.model.job import effective_status
from flink_autoscaler.core.model.metrics import EvaluatedMetric, EvaluatedMetrics, ScalingMetric
from flink_autoscaler.core.model.policy_values import VertexLimits
from flink_autoscaler.core.model.state import DelayedVertex, HistoryEntry, JobState, ScalingSummary
from flink_autoscaler.core.model.syntax import Duration, parse_duration
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.options.calendar import is_excluded
from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import Option
from flink_autoscaler.core.policies.base.scalability import scalability_coefficient
from flink_autoscaler.core.policies.base.sizing import ceil_int32
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import AlignmentRequest

Json = dict[str, Any]

_EVALUATED = frozenset(
    {
        ScalingMetric.LOAD,
        ScalingMetric.TRUE_PROCESSING_RATE,
        ScalingMetric.TARGET_DATA_RATE,
        ScalingMetric.CATCH_UP_DATA_RATE,
        ScalingMetric.LAG,
        ScalingMetric.PARALLELISM,
        ScalingMetric.MAX_PARALLELISM,
        ScalingMetric.NUM_SOURCE_PARTITIONS,
        ScalingMetric.SCALE_UP_RATE_THRESHOLD,
        ScalingMetric.SCALE_DOWN_RATE_THRESHOLD,
        ScalingMetric.RECOMMENDED_PARALLELISM,
        ScalingMetric.EXPECTED_PROCESSING_RATE,
    }
)

_CONTROL_LOOP_INTERVAL: Final = Option(
    "autoscaler.standalone.control-loop.interval",
    parse_duration,
    parse_duration("10 s"),
    "10 s",
    deprecated_keys=("scalingInterval",),
)
"""As the vectors have it, which ask for options of the daemon as for those of jobs."""


def number(value: float) -> float | str | None:
    """Write a number: null for NaN, a text for the infinities."""
    if math.isnan(value):
        return None
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else value


def pass_output(outcome: PassOutcome, events: Iterable[Event | ScalingReport]) -> Json:
    """Write what a pass collected, evaluated, decided and told, without the state after it."""
    written: Json = {"phase": outcome.phase.value}
    told = [event_document(event) for event in events]
    if told:
        written["ev"] = told
    if outcome.observation.sample is not None:
        written["col"] = _collected_document(outcome)
    if outcome.restart is not None:
        written["restart_s"] = outcome.restart.seconds
    if outcome.metrics is not None:
        written["eval"] = _evaluated_document(outcome.metrics)
    if outcome.phase == "executed":
        written["scaled"] = isinstance(outcome.decision, Rescale)
        if written["scaled"]:
            written["hist"] = _history(outcome.state)
    return written


def _collected_document(outcome: PassOutcome) -> Json:
    sample, topology = outcome.observation.sample, outcome.observation.topology
    if sample is None or topology is None:
        return {}
    partitions = {v.vertex_id: v.source_partitions for v in topology.vertices.values() if v.source_partitions}
    written: Json = {
        "n": outcome.observation.sample_count,
        "full": outcome.observation.is_window_full,
        "v": {vertex_id: _numbers(values) for vertex_id, values in sample.vertices.items()},
        "g": _numbers(sample.globals_),
    }
    return {**written, "parts": partitions} if partitions else written


def _numbers(values: Mapping[ScalingMetric, float]) -> Json:
    return {metric.value: number(value) for metric, value in values.items()}


def _evaluated_document(metrics: EvaluatedMetrics) -> Json:
    return {
        "v": {vertex_id: _pairs(vertex) for vertex_id, vertex in metrics.vertices.items()},
        "g": {m.value: [number(e.current), number(e.average)] for m, e in metrics.globals_.items()},
    }


def _pairs(metrics: Mapping[ScalingMetric, EvaluatedMetric]) -> Json:
    return {m.value: [number(e.current), number(e.average)] for m, e in metrics.items() if m in _EVALUATED}


def event_document(event: Event | ScalingReport) -> Json:
    """Write an event or a scaling report."""
    if isinstance(event, ScalingReport):
        return {
            "type": "Normal",
            "reason": "ScalingReport",
            "msg": event.header,
            "key": "ScalingExecutor",
            "interval_s": event.interval.seconds,
            "report": {
                vertex_id: [v.current, v.new, number(v.capacity), number(v.expected_capacity), number(v.target_rate)]
                for vertex_id, v in event.vertices.items()
            },
        }
    written: Json = {"type": event.type.value, "reason": event.reason, "msg": event.message[:400]}
    if event.key is not None:
        written["key"] = event.key
    return written if event.interval is None else {**written, "interval_s": event.interval.seconds}


def _history(state: JobState) -> Json:
    return {
        vertex_id: [[entry.at_ms, *_summary(entry.summary)] for entry in entries]
        for vertex_id, entries in state.history.items()
    }


def _summary(summary: ScalingSummary) -> list[float | str | None]:
    unknown = EvaluatedMetric(math.nan, math.nan)
    metrics = summary.metrics
    return [
        summary.current,
        summary.new,
        number(metrics.get(ScalingMetric.TRUE_PROCESSING_RATE, unknown).average),
        number(metrics.get(ScalingMetric.EXPECTED_PROCESSING_RATE, unknown).current),
        number(metrics.get(ScalingMetric.TARGET_DATA_RATE, unknown).average),
    ]


def state_output(state: JobState) -> Json:
    """Write the parts of a state that the vectors show when they change."""
    changes = state.config_changes
    return {
        "trk": [[record.at_ms, record.restart_ms] for record in state.tracking],
        "dsd": {vertex_id: _delayed_document(vertex) for vertex_id, vertex in state.delayed.items()},
        "cfg": {**changes.overrides, **dict.fromkeys(changes.removals)},
    }


def _delayed_document(vertex: DelayedVertex) -> Json:
    return {"first": vertex.first_ms, "rec": [[r.at_ms, r.parallelism, r.is_outside] for r in vertex.queue]}


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
    target = limits.clamp(ceil_int32(float(given["factor"]) * current))
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
    aligned = AlignmentSettings.of(options).mode(request)
    events: list[Event] = [alignment_limited_event(request, aligned, options)] if aligned.is_limited else []
    return {"result": aligned.parallelism, "ev": [event_document(event) for event in events]}


def _calendar(given: Json) -> Json:
    options = _reference_options({AutoscalerOptions.enabled.key: "true", **given["conf"]})
    problem = validate(options)
    if problem is not None:
        return {"invalid": problem}
    periods = options.excluded_periods
    return {"result": [int(is_excluded(periods, at_ms, UTC, is_reference=True)) for at_ms in given["times"]]}


def _option(given: Json) -> Json:
    configuration = given["conf"]
    declared = (*AutoscalerOptions.all_options(), *FlinkOptions.all_options(), _CONTROL_LOOP_INTERVAL)
    option = next(option for option in declared if option.key == given["option"])
    return {"set": option.find(configuration) is not None, "value": _value(option.read(configuration))}


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


_FUNCTIONS: Final[dict[str, Callable[[Json], Json]]] = {
    "align": _align,
    "calendar": _calendar,
    "option": _option,
    "scalability": _scalability,
    "validate": lambda given: {"invalid": validate(_reference_options(given["conf"]))},
    "status": lambda given: {"result": effective_status(given["job"]["state"], given["job"]["tasks"]).value},
}
