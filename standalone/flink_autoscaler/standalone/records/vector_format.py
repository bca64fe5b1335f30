"""The output of a replayed pass in the format of the behaviour vectors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from flink_autoscaler.core.model.decision import Evaluation, PassOutcome, Rescale
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.model.metrics import EvaluatedMetric, ScalingMetric
from flink_autoscaler.core.model.state import ConfigChanges, DelayedVertex, JobState, ScalingSummary

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


def number(value: float) -> float | str | None:
    """Write a number: null for NaN, a text for the infinities."""
    if math.isnan(value):
        return None
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else value


def pass_output(outcome: PassOutcome, events: Iterable[Event | ScalingReport]) -> Json:
    """Write what a pass collected, evaluated, decided and told, without the state after it."""
    written: Json = {"phase": outcome.phase.value}
    told = [written_event(event) for event in events]
    if told:
        written["ev"] = told
    if outcome.sample is not None:
        written["col"] = _collected(outcome)
    if outcome.restart_time is not None:
        written["restart_s"] = outcome.restart_time
    if outcome.evaluation is not None:
        written["eval"] = _evaluated(outcome.evaluation)
    if outcome.phase == "executed":
        written["scaled"] = isinstance(outcome.decision, Rescale)
        if written["scaled"]:
            written["hist"] = _history(outcome.state)
    return written


def _collected(outcome: PassOutcome) -> Json:
    sample, topology = outcome.sample, outcome.topology
    if sample is None or topology is None:
        return {}
    partitions = {v.vertex_id: v.source_partitions for v in topology.vertices.values() if v.source_partitions}
    written: Json = {
        "n": outcome.sample_count,
        "full": outcome.is_window_full,
        "v": {vertex_id: _numbers(values) for vertex_id, values in sample.vertices.items()},
        "g": _numbers(sample.globals_),
    }
    return {**written, "parts": partitions} if partitions else written


def _numbers(values: Mapping[ScalingMetric, float]) -> Json:
    return {metric.value: number(value) for metric, value in values.items()}


def _evaluated(evaluation: Evaluation) -> Json:
    return {
        "v": {vertex_id: _pairs(metrics) for vertex_id, metrics in evaluation.metrics.vertices.items()},
        "g": {m.value: [number(e.current), number(e.average)] for m, e in evaluation.metrics.globals_.items()},
    }


def _pairs(metrics: Mapping[ScalingMetric, EvaluatedMetric]) -> Json:
    return {m.value: [number(e.current), number(e.average)] for m, e in metrics.items() if m in _EVALUATED}


def written_event(event: Event | ScalingReport) -> Json:
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
    return {
        "trk": [[record.at_ms, record.restart_ms] for record in state.tracking],
        "dsd": {vertex_id: _delayed(vertex) for vertex_id, vertex in state.delayed.items()},
        "cfg": _config(state.config_changes),
    }


def _delayed(vertex: DelayedVertex) -> Json:
    return {"first": vertex.first_ms, "rec": [[r.at_ms, r.parallelism, r.is_outside] for r in vertex.queue]}


def _config(changes: ConfigChanges) -> Json:
    return {**dict(changes.overrides), **dict.fromkeys(changes.removals)}
