"""The texts that the Java process, or an earlier version of ours, has written as parts of a job's state.

A reader raises some kind of error, :class:`DocumentError` or what Python raises for a document of another shape,
when nothing of the text can be used. Metrics and properties that this version does not know are left out and named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flink_autoscaler.core.model.metrics import EvaluatedMetric, MetricSample, ScalingMetric
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.state import (
    ConfigChanges,
    DelayedRecommendation,
    DelayedVertex,
    HistoryEntry,
    ScalingRecord,
    ScalingSummary,
)
from flink_autoscaler.core.model.syntax import parse_map
from flink_autoscaler.stores.sql.state.documents import DocumentError, read_document
from flink_autoscaler.stores.sql.state.instants import parse_instant, parse_seconds

_LARGEST_INT = (1 << 31) - 1
_NULLS = (None, "null", "~", "")
_NUMBERS = {"NaN": NAN, "Infinity": math.inf, "-Infinity": -math.inf, ".NaN": NAN, ".inf": math.inf, "-.inf": -math.inf}
"""Numbers that are words: in JSON, and in YAML."""
_MAP_LIMIT = 1 << 20


class Decoded(NamedTuple):
    """A part of a job's state, and what was left out of it because this version does not know it; None for nothing."""

    part: Any
    problem: str | None = None


@dataclass
class _Unknown:
    """Names that were met and left out."""

    names: set[str] = field(default_factory=set)

    @property
    def problem(self) -> str | None:
        if not self.names:
            return None
        return "left out as unknown: " + ", ".join(sorted(self.names))[:200]


def _mapping(value: Any, what: str) -> dict[str, Any]:
    """Return a JSON object; a missing one is empty."""
    if value in _NULLS:
        return {}
    if not isinstance(value, dict):
        raise DocumentError(f"{what} is not an object")
    return value


def _known(value: Any, what: str, names: tuple[str, ...], unknown: _Unknown) -> dict[str, Any]:
    document = _mapping(value, what)
    unknown.names.update(f"property {name[:40]}" for name in document if name not in names)
    return document


def _float(value: Any) -> float:
    if value in _NULLS:
        return NAN
    if isinstance(value, str) and value in _NUMBERS:
        return _NUMBERS[value]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise DocumentError("a metric is not a number")
    return float(value)


def _int(value: Any, lowest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise DocumentError("a whole number is something else")
    number = int(value)
    if not lowest <= number <= _LARGEST_INT:
        raise DocumentError(f"a whole number is not in {lowest}..{_LARGEST_INT}")
    return number


def _bool(value: Any) -> bool:
    if value in (True, "true"):
        return True
    if value in (False, "false"):
        return False
    raise DocumentError("a truth value is something else")


def _decode_metrics(value: Any, unknown: _Unknown) -> dict[ScalingMetric, float]:
    metrics = {}
    for name, number in _mapping(value, "metrics").items():
        metric = ScalingMetric.__members__.get(name)
        if metric is None:
            unknown.names.add(f"metric {name[:40]}")
        else:
            metrics[metric] = _float(number)
    return metrics


def decode_samples(text: str) -> Decoded:
    """Read the metric window, oldest first."""
    unknown = _Unknown()
    samples = [
        _sample(parse_instant(at), value, unknown)
        for at, value in _mapping(read_document(text), "the document").items()
    ]
    return Decoded(tuple(sorted(samples, key=lambda sample: sample.at_ms)), unknown.problem)


def _sample(at_ms: int, value: Any, unknown: _Unknown) -> MetricSample:
    parts = _known(value, "a sample", ("vertexMetrics", "globalMetrics"), unknown)
    vertices = _mapping(parts.get("vertexMetrics"), "vertexMetrics")
    return MetricSample(
        at_ms,
        {vertex: _decode_metrics(metrics, unknown) for vertex, metrics in vertices.items()},
        _decode_metrics(parts.get("globalMetrics"), unknown),
    )


def decode_history(text: str) -> Decoded:
    """Read the past decisions per vertex."""
    unknown = _Unknown()
    history = {}
    for vertex, entries in _mapping(read_document(text), "the document").items():
        read = [HistoryEntry(parse_instant(at), _decode_summary(value, unknown)) for at, value in entries.items()]
        history[vertex] = tuple(sorted(read, key=lambda entry: entry.at_ms))
    return Decoded(history, unknown.problem)


def _decode_summary(value: Any, unknown: _Unknown) -> ScalingSummary:
    names = ("currentParallelism", "newParallelism", "metrics")
    parts = _known(value, "a decision", names, unknown)
    metrics = {}
    for name, evaluated in _mapping(parts.get("metrics"), "metrics").items():
        metric = ScalingMetric.__members__.get(name)
        if metric is None:
            unknown.names.add(f"metric {name[:40]}")
            continue
        values = _known(evaluated, "a metric", ("current", "average"), unknown)
        metrics[metric] = EvaluatedMetric(_float(values.get("current")), _float(values.get("average")))
    return ScalingSummary(_int(parts["currentParallelism"], 1), _int(parts["newParallelism"], 1), metrics)


def decode_tracking(text: str) -> Decoded:
    """Read the executed decisions of the job."""
    unknown = _Unknown()
    document = _known(read_document(text, exact=True), "the document", ("scalingRecords",), unknown)
    records = []
    for at, value in _mapping(document.get("scalingRecords"), "scalingRecords").items():
        duration = _known(value, "a record", ("restartDuration",), unknown).get("restartDuration")
        records.append(ScalingRecord(parse_instant(at), None if duration in _NULLS else parse_seconds(duration)))
    return Decoded(tuple(sorted(records, key=lambda record: record.at_ms)), unknown.problem)


def decode_overrides(text: str) -> Decoded:
    """Read the parallelism per vertex, in any of the forms of Flink's maps."""
    if len(text) > _MAP_LIMIT:
        raise DocumentError(f"longer than {_MAP_LIMIT} characters")
    stripped = text.strip()
    return Decoded({vertex: _int(number, 1) for vertex, number in parse_map(stripped).items()} if stripped else {})


def decode_config(text: str) -> Decoded:
    """Read configuration to set and to remove."""
    unknown = _Unknown()
    document = _known(read_document(text, exact=True), "the document", ("overrides", "removals"), unknown)
    overrides = {key: _text(value) for key, value in _mapping(document.get("overrides"), "overrides").items()}
    removals = document.get("removals")
    if not isinstance(removals, list | None):
        raise DocumentError("removals is not a list")
    return Decoded(ConfigChanges(overrides, tuple(map(_text, removals or ()))), unknown.problem)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DocumentError("a key or value of the configuration is not text")
    return value


def decode_delayed(text: str) -> Decoded:
    """Read the scale-downs that wait."""
    unknown = _Unknown()
    document = _known(read_document(text, exact=True), "the document", ("delayedVertices",), unknown)
    delayed = {
        vertex: _decode_pending(value, unknown)
        for vertex, value in _mapping(document.get("delayedVertices"), "delayedVertices").items()
    }
    return Decoded(delayed, unknown.problem)


def _decode_pending(value: Any, unknown: _Unknown) -> DelayedVertex:
    parts = _known(value, "a delayed vertex", ("firstTriggerTime", "recommendedParallelisms"), unknown)
    queue = []
    for entry in parts.get("recommendedParallelisms") or ():
        names = ("triggerTime", "parallelism", "outsideUtilizationBound")
        advice = _known(entry, "a recommendation", names, unknown)
        queue.append(
            DelayedRecommendation(
                parse_seconds(advice["triggerTime"]),
                _int(advice["parallelism"], 1),
                _bool(advice["outsideUtilizationBound"]),
            )
        )
    return DelayedVertex(parse_seconds(parts["firstTriggerTime"]), tuple(queue))
