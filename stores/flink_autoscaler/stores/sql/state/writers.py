"""The parts of a job's state as the texts that the Java process reads.

Its reader refuses additional properties, unknown metrics and bare NaN, so nothing of the kind is ever written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring_ascii as quoted

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexMetrics
from flink_autoscaler.core.model.state import (
    ConfigChanges,
    DelayedRecommendation,
    DelayedVertex,
    HistoryEntry,
    ScalingRecord,
    ScalingSummary,
)
from flink_autoscaler.stores.sql.state.instants import instant_text, seconds_text

_KEYS = {metric: f'"{metric.name}":' for metric in ScalingMetric}


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return '"NaN"'
    return '"Infinity"' if value > 0 else '"-Infinity"'


def _object(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join([f"{quoted(key)}:{value}" for key, value in pairs]) + "}"


def _metrics(metrics: VertexMetrics) -> str:
    # Called for every vertex of every sample in every pass, hence without a call per number where possible.
    numbers = [
        _KEYS[metric] + (repr(value) if value - value == 0.0 else _number(value)) for metric, value in metrics.items()
    ]
    return "{" + ",".join(numbers) + "}"


def encode_samples(samples: tuple[MetricSample, ...]) -> str:
    """Write the metric window."""
    return _object(
        (
            instant_text(sample.at_ms),
            '{"vertexMetrics":'
            + _object((vertex, _metrics(metrics)) for vertex, metrics in sample.vertices.items())
            + f',"globalMetrics":{_metrics(sample.globals_)}}}',
        )
        for sample in samples
    )


def encode_history(history: Mapping[str, tuple[HistoryEntry, ...]]) -> str:
    """Write the past decisions per vertex."""
    return _object(
        (vertex, _object((instant_text(entry.at_ms), _summary(entry.summary)) for entry in entries))
        for vertex, entries in history.items()
    )


def _summary(summary: ScalingSummary) -> str:
    metrics = _object(
        (metric, f'{{"current":{_number(values.current)},"average":{_number(values.average)}}}')
        for metric, values in summary.metrics.items()
    )
    return f'{{"currentParallelism":{summary.current},"newParallelism":{summary.new},"metrics":{metrics}}}'


def encode_tracking(records: tuple[ScalingRecord, ...]) -> str:
    """Write the executed decisions of the job."""
    written = _object((instant_text(record.at_ms), f'{{"restartDuration":{_restart(record)}}}') for record in records)
    return f'{{"scalingRecords":{written}}}'


def _restart(record: ScalingRecord) -> str:
    """Write a duration; a negative one, which counts as unknown, would be read back as another one."""
    return "null" if record.restart_ms is None or record.restart_ms < 0 else seconds_text(record.restart_ms)


def encode_overrides(overrides: Mapping[str, int]) -> str:
    """Write the one form that the Java process reads with its old and with its new configuration."""
    return ",".join(f"{vertex}:{parallelism}" for vertex, parallelism in overrides.items())


def encode_config(changes: ConfigChanges) -> str:
    """Write configuration to set and to remove."""
    document = {"overrides": dict(changes.overrides), "removals": list(changes.removals)}
    return json.dumps(document, separators=(",", ":"))


def encode_delayed(delayed: Mapping[str, DelayedVertex]) -> str:
    """Write the scale-downs that wait."""
    vertices = _object(
        (
            vertex,
            f'{{"firstTriggerTime":{seconds_text(pending.first_ms)},"recommendedParallelisms":'
            f"[{','.join(map(_recommendation, pending.queue))}]}}",
        )
        for vertex, pending in delayed.items()
    )
    return f'{{"delayedVertices":{vertices}}}'


def _recommendation(recommendation: DelayedRecommendation) -> str:
    is_outside = "true" if recommendation.is_outside else "false"
    return (
        f'{{"triggerTime":{seconds_text(recommendation.at_ms)},"parallelism":{recommendation.parallelism},'
        f'"outsideUtilizationBound":{is_outside}}}'
    )
