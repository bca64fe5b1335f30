"""The parts of a job's state as the texts that the Java process writes and reads.

Its reader refuses additional properties, unknown metrics and bare NaN, so nothing of the kind is ever written. Ours
also takes what other versions write: metrics and properties that this one does not know are left out and named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache, partial
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final, NamedTuple

from flink_autoscaler.core.model.metrics import (
    EvaluatedMetric,
    MetricSample,
    ScalingMetric,
    VertexId,
    VertexMetrics,
    WaitingTime,
)
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
from flink_autoscaler.core.observe.window import VertexTable
from flink_autoscaler.stores.sql.state.instants import (
    instant_text,
    is_instant,
    parse_instant,
    parse_seconds,
    seconds_text,
)
from flink_autoscaler.stores.sql.state.windows import metrics_text, number_text

_LARGEST_INT = (1 << 31) - 1
_NUMBERS = {"NaN": NAN, "Infinity": math.inf, "-Infinity": -math.inf}
"""Numbers that are words in JSON."""
_MAP_LIMIT = 1 << 20

TEXT_LIMIT = 32 << 20
"""Characters of a stored text that are read."""

Unknown = set[str]
"""Names that were met and left out."""


class DocumentError(ValueError):
    """A stored text is not what should be there. The message never holds the text itself."""


def read_json(text: str, *, exact: bool = False) -> Any:
    """Read JSON of at most ``TEXT_LIMIT`` characters; ``exact`` keeps decimal numbers as they are written."""
    if len(text) > TEXT_LIMIT:
        raise DocumentError(f"longer than {TEXT_LIMIT >> 20} Mi characters")
    try:
        return json.loads(text, parse_float=Decimal if exact else None)
    except json.JSONDecodeError as error:
        # Without the text around the place, which may be long or confidential.
        raise DocumentError(f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise DocumentError("not JSON: nested too deeply") from None
    except ValueError:
        raise DocumentError("not JSON: a number is too long") from None


class Shape(NamedTuple):
    """Both directions of a kind of value.

    Attributes:
        write: Returns its JSON.
        read: Makes it of a document. Raises :class:`DocumentError`, or what Python raises for one of another shape.
        is_optional: Whether it may be missing, which reads like null.
    """

    write: Callable[[Any], str]
    read: Callable[[Any, Unknown], Any]
    is_optional: bool = False


class Decoded(NamedTuple):
    """A part of a job's state, and what was left out of it because this version does not know it; None for nothing."""

    part: Any
    problem: str | None = None


def _object(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join([f"{quoted(key)}:{value}" for key, value in pairs]) + "}"


def _mapping(value: Any, what: str) -> dict[str, Any]:
    """Return a JSON object; a missing one is empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DocumentError(f"{what} is not an object")
    return value


def _float(value: Any, _: Unknown) -> float:
    if value is None:
        return NAN
    if isinstance(value, str) and value in _NUMBERS:
        return _NUMBERS[value]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise DocumentError("a metric is not a number")
    return float(value)


def _parallelism(value: Any, _: Unknown) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise DocumentError("a whole number is something else")
    number = int(value)
    if not 1 <= number <= _LARGEST_INT:
        raise DocumentError(f"a whole number is not in 1..{_LARGEST_INT}")
    return number


def _bool(value: Any, _: Unknown) -> bool:
    if not isinstance(value, bool):
        raise DocumentError("a truth value is something else")
    return value


def _text(value: Any, _: Unknown) -> str:
    if not isinstance(value, str):
        raise DocumentError("a key or value of the configuration is not text")
    return value


def _restart_text(restart_ms: int | None) -> str:
    """Write a duration; a negative one, which counts as unknown, would be read back as another one."""
    return "null" if restart_ms is None or restart_ms < 0 else seconds_text(restart_ms)


_NUMBER = Shape(number_text, _float, is_optional=True)
_PARALLELISM = Shape(str, _parallelism)
_TRUTH = Shape(lambda value: "true" if value else "false", _bool)
_TEXT = Shape(quoted, _text)


def _instant(value: Any, _: Unknown) -> int:
    at_ms = parse_seconds(value)
    if not is_instant(at_ms):
        raise DocumentError("an instant is not in the years 1970 to 9999")
    return at_ms


_INSTANT = Shape(seconds_text, _instant)
_RESTART = Shape(_restart_text, lambda value, _: None if value is None else parse_seconds(value), is_optional=True)


def _properties(what: str, **shapes: tuple[str, Shape]) -> Shape:
    """Return the shape of an object, read as a dictionary by the names of the attributes it is written from.

    Args:
        what: What it is called when it is something else.
        shapes: Name and shape of its properties, by attribute.
    """
    names = {name for name, _ in shapes.values()}

    def write(value: Any) -> str:
        return _object((name, shape.write(getattr(value, attribute))) for attribute, (name, shape) in shapes.items())

    def read(value: Any, unknown: Unknown) -> dict[str, Any]:
        document = _mapping(value, what)
        unknown.update(f"property {name[:40]}" for name in document if name not in names)
        return {
            attribute: shape.read(document.get(name) if shape.is_optional else document[name], unknown)
            for attribute, (name, shape) in shapes.items()
        }

    return Shape(write, read)


def _made(kind: Callable[..., Any], properties: Shape) -> Shape:
    """Return the shape of an object that is read as a value with these attributes."""
    return Shape(properties.write, lambda value, unknown: kind(**properties.read(value, unknown)))


def _only(what: str, name: str, shape: Shape) -> Shape:
    """Return the shape of an object with one property, which is read as the value of that."""
    wrapper = _properties(what, value=(name, shape))
    return Shape(
        lambda value: _object([(name, shape.write(value))]),
        lambda value, unknown: wrapper.read(value, unknown)["value"],
    )


def _mapped(what: str, shape: Shape) -> Shape:
    """Return the shape of a map with keys of any kind."""
    return Shape(
        lambda values: _object((key, shape.write(value)) for key, value in values.items()),
        lambda value, unknown: {key: shape.read(each, unknown) for key, each in _mapping(value, what).items()},
        is_optional=True,
    )


def _by_instant(kind: Callable[..., Any], what: str, properties: Shape) -> Shape:
    """Return the shape of values with an ``at_ms``, which is their key; they are read oldest first."""

    def read(value: Any, unknown: Unknown) -> tuple[Any, ...]:
        found = _mapping(value, what).items()
        made = [kind(at_ms=parse_instant(at), **properties.read(each, unknown)) for at, each in found]
        return tuple(sorted(made, key=lambda each: each.at_ms))

    return Shape(
        lambda values: _object((instant_text(value.at_ms), properties.write(value)) for value in values),
        read,
        is_optional=True,
    )


def _by_metric(shape: Shape) -> Shape:
    """Return the shape of a map with metrics as keys, of which unknown ones are left out."""

    def read(value: Any, unknown: Unknown) -> dict[ScalingMetric, Any]:
        found = _mapping(value, "metrics")
        unknown.update(f"metric {name[:40]}" for name in found if name not in ScalingMetric.__members__)
        known = ((ScalingMetric.__members__.get(name), each) for name, each in found.items())
        return {metric: shape.read(each, unknown) for metric, each in known if metric is not None}

    write = _mapped("metrics", shape).write
    return Shape(write, read, is_optional=True)


def _listed(shape: Shape) -> Shape:
    return Shape(
        lambda values: "[" + ",".join(map(shape.write, values)) + "]",
        lambda value, unknown: tuple(shape.read(each, unknown) for each in value or ()),
        is_optional=True,
    )


def _read_removals(value: Any, unknown: Unknown) -> tuple[str, ...]:
    if not isinstance(value, list | None):
        raise DocumentError("removals is not a list")
    return tuple(_text(each, unknown) for each in value or ())


_METRICS = _by_metric(_NUMBER)._replace(write=metrics_text)
_SAMPLE = _properties(
    "a sample",
    vertices=("vertexMetrics", _mapped("vertexMetrics", _METRICS)),
    globals_=("globalMetrics", _METRICS),
)


def _sample(at_ms: int, vertices: Mapping[VertexId, VertexMetrics], globals_: VertexMetrics) -> MetricSample:
    return MetricSample(at_ms, VertexTable.of(vertices), _shared(tuple(globals_.items())), waited=_NOT_KEPT)


@lru_cache(maxsize=1024)
def _shared(globals_: tuple[tuple[ScalingMetric, float], ...]) -> VertexMetrics:
    """Return cluster-wide metrics: the jobs of a cluster have the same in the samples of one pass."""
    return dict(globals_)


_NOT_KEPT: Final[Mapping[VertexId, WaitingTime]] = {}


_SAMPLES = _by_instant(_sample, "the document", _SAMPLE)
_EVALUATED = _properties("a metric", current=("current", _NUMBER), average=("average", _NUMBER))
_SUMMARY = _made(
    ScalingSummary,
    _properties(
        "a decision",
        current=("currentParallelism", _PARALLELISM),
        new=("newParallelism", _PARALLELISM),
        metrics=("metrics", _by_metric(_made(EvaluatedMetric, _EVALUATED))),
    ),
)
_DECISION = Shape(
    lambda entry: _SUMMARY.write(entry.summary), lambda value, unknown: {"summary": _SUMMARY.read(value, unknown)}
)
_HISTORY = _mapped("the document", _by_instant(HistoryEntry, "a vertex", _DECISION))
_RECORD = _properties("a record", restart_ms=("restartDuration", _RESTART))
_TRACKING = _only("the document", "scalingRecords", _by_instant(ScalingRecord, "scalingRecords", _RECORD))
_CONFIG = _made(
    ConfigChanges,
    _properties(
        "the document",
        overrides=("overrides", _mapped("overrides", _TEXT)),
        removals=("removals", _listed(_TEXT)._replace(read=_read_removals)),
    ),
)
_RECOMMENDATION = _properties(
    "a recommendation",
    at_ms=("triggerTime", _INSTANT),
    parallelism=("parallelism", _PARALLELISM),
    is_outside=("outsideUtilizationBound", _TRUTH),
)
_PENDING = _properties(
    "a delayed vertex",
    first_ms=("firstTriggerTime", _INSTANT),
    queue=("recommendedParallelisms", _listed(_made(DelayedRecommendation, _RECOMMENDATION))),
)


def _pending_text(pending: DelayedVertex) -> str:
    # As the shape above would write it, which takes five times as long; what waits is another thing in every pass.
    queue = [
        f'{{"triggerTime":{seconds_text(at_ms)},"parallelism":{parallelism},'
        f'"outsideUtilizationBound":{"true" if is_outside else "false"}}}'
        for at_ms, parallelism, is_outside in pending.queue
    ]
    return f'{{"firstTriggerTime":{seconds_text(pending.first_ms)},"recommendedParallelisms":[{",".join(queue)}]}}'


_DELAYED_VERTEX = _made(DelayedVertex, _PENDING)._replace(write=_pending_text)
_DELAYED = _only("the document", "delayedVertices", _mapped("delayedVertices", _DELAYED_VERTEX))
_OVERRIDES = Shape(
    # The one form that the Java process reads with its old and with its new configuration.
    lambda overrides: ",".join(f"{vertex}:{parallelism}" for vertex, parallelism in overrides.items()),
    lambda value, unknown: {vertex: _parallelism(number, unknown) for vertex, number in value.items()},
)


def _read_map(text: str) -> dict[str, str]:
    """Read a map in any of Flink's forms."""
    if len(text) > _MAP_LIMIT:
        raise DocumentError(f"longer than {_MAP_LIMIT} characters")
    stripped = text.strip()
    return dict(parse_map(stripped)) if stripped else {}


class StateType(StrEnum):
    """The kinds of state, as in the column ``state_type``."""

    SCALING_HISTORY = "scalingHistory"
    SCALING_TRACKING = "scalingTracking"
    COLLECTED_METRICS = "collectedMetrics"
    PARALLELISM_OVERRIDES = "parallelismOverrides"
    CONFIG_OVERRIDES = "configOverrides"
    DELAYED_SCALE_DOWN = "delayedScaleDown"


class Kind(NamedTuple):
    """One kind of stored state: its field of ``JobState``, its empty value, its shape, and the reader of its texts."""

    name: str
    empty: Any
    shape: Shape
    parse: Callable[[str], Any] = partial(read_json, exact=True)


KINDS: Mapping[StateType, Kind] = {
    StateType.SCALING_HISTORY: Kind("history", {}, _HISTORY, read_json),
    StateType.SCALING_TRACKING: Kind("tracking", (), _TRACKING),
    StateType.COLLECTED_METRICS: Kind("samples", (), _SAMPLES, read_json),
    StateType.PARALLELISM_OVERRIDES: Kind("overrides", {}, _OVERRIDES, _read_map),
    StateType.CONFIG_OVERRIDES: Kind("config_changes", ConfigChanges(), _CONFIG),
    StateType.DELAYED_SCALE_DOWN: Kind("delayed", {}, _DELAYED),
}


def encode(state_type: StateType, part: Any) -> str | None:
    """Write a part of a job's state; None when it is empty and needs no row."""
    kind = KINDS[state_type]
    return None if part == kind.empty else kind.shape.write(part)


def decode(state_type: StateType, text: str) -> Decoded:
    """Read what :func:`encode` or the Java process wrote.

    Raises:
        DocumentError: It cannot be read; nothing of it is used.
    """
    kind = KINDS[state_type]
    unknown: Unknown = set()
    try:
        part = kind.shape.read(kind.parse(text), unknown)
    except DocumentError:
        raise
    except (ValueError, KeyError, TypeError, ArithmeticError, AttributeError) as error:
        # What the shapes above stumble over when a document has another one.
        raise DocumentError(f"unexpected content: {type(error).__name__}: {str(error)[:100]}") from None
    left_out = ", ".join(sorted(unknown))[:200]
    return Decoded(part, f"left out as unknown: {left_out}" if left_out else None)
