"""What the Java process accepts as a stored state; stricter where it reads something else than was meant.

A checker of its own, which shares no code with what is checked.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_INSTANT_KEY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.(\d{3}|\d{6}|\d{9}))?Z")
_SECONDS = re.compile(r"\d+\.\d{9}")
_VERTEX = re.compile(r"[0-9a-f]{32}")
_METRICS = frozenset(
    {
        "LOAD",
        "TRUE_PROCESSING_RATE",
        "OBSERVED_TPR",
        "TARGET_DATA_RATE",
        "CATCH_UP_DATA_RATE",
        "LAG",
        "PARALLELISM",
        "RECOMMENDED_PARALLELISM",
        "MAX_PARALLELISM",
        "NUM_SOURCE_PARTITIONS",
        "SCALE_UP_RATE_THRESHOLD",
        "SCALE_DOWN_RATE_THRESHOLD",
        "EXPECTED_PROCESSING_RATE",
        "NUM_RECORDS_IN",
        "NUM_RECORDS_IN_PER_SECOND",
        "NUM_RECORDS_OUT",
        "ACCUMULATED_BUSY_TIME",
        "GC_PRESSURE",
        "HEAP_MEMORY_USED",
        "MANAGED_MEMORY_USED",
        "METASPACE_MEMORY_USED",
        "HEAP_MAX_USAGE_RATIO",
        "NUM_TASK_SLOTS_USED",
    }
)
_WORDS = ("NaN", "Infinity", "-Infinity")


class _Literal(str):
    """A number as it was written."""

    __slots__ = ()


def check_readable(state_type: str, text: str) -> None:
    """Raise AssertionError unless the Java process would read the text, and read what was meant."""
    assert state_type in _RULES, f"a job with the state type {state_type} could not be processed at all"
    _RULES[state_type](text)


def _document(text: str, *properties: str) -> Any:
    document = json.loads(text, parse_constant=_bare, parse_float=_Literal, object_pairs_hook=_unique)
    if properties:
        _properties(document, *properties)
    return document


def _bare(word: str) -> None:
    raise AssertionError(f"{word} is not quoted")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), "a key occurs twice"
    return dict(pairs)


def _properties(value: Any, *names: str) -> None:
    assert isinstance(value, dict)
    assert set(value) == set(names), f"properties {set(value)}, expected {set(names)}"


def _instants(value: Any) -> Mapping[str, Any]:
    assert isinstance(value, dict)
    assert all(_INSTANT_KEY.fullmatch(key) for key in value)
    return value


def _vertices(value: Any) -> Mapping[str, Any]:
    assert isinstance(value, dict)
    assert all(_VERTEX.fullmatch(key) for key in value), "a vertex id that is none breaks the reader"
    return value


def _number(value: Any) -> None:
    if isinstance(value, _Literal) or (isinstance(value, int) and not isinstance(value, bool)):
        float(value)
    else:
        assert value in _WORDS


def _seconds(value: Any) -> None:
    assert isinstance(value, _Literal), "a whole number or a text is read in another unit or form"
    assert _SECONDS.fullmatch(value), "negative, or not nine digits"


def _whole(value: Any) -> None:
    assert type(value) is int
    assert 0 < value < 1 << 31


def _metrics(value: Any, each: Callable[[Any], None]) -> None:
    assert set(value) <= _METRICS, f"unknown metrics {set(value) - _METRICS}"
    for number in value.values():
        each(number)


def _evaluated(value: Any) -> None:
    _properties(value, "current", "average")
    _number(value["current"])
    _number(value["average"])


def _history(text: str) -> None:
    for entries in _vertices(_document(text)).values():
        for entry in _instants(entries).values():
            _properties(entry, "currentParallelism", "newParallelism", "metrics")
            _whole(entry["currentParallelism"])
            _whole(entry["newParallelism"])
            _metrics(entry["metrics"], _evaluated)


def _tracking(text: str) -> None:
    for record in _instants(_document(text, "scalingRecords")["scalingRecords"]).values():
        _properties(record, "restartDuration")
        if record["restartDuration"] is not None:
            _seconds(record["restartDuration"])


def _collected(text: str) -> None:
    for sample in _instants(_document(text)).values():
        _properties(sample, "vertexMetrics", "globalMetrics")
        _metrics(sample["globalMetrics"], _number)
        for metrics in _vertices(sample["vertexMetrics"]).values():
            _metrics(metrics, _number)


def _overrides(text: str) -> None:
    """Only this form is read with either kind of configuration file."""
    for pair in text.split(",") if text else ():
        vertex, parallelism = pair.split(":")
        assert _VERTEX.fullmatch(vertex)
        assert parallelism.isdigit()


def _config(text: str) -> None:
    document = _document(text, "overrides", "removals")
    assert all(isinstance(value, str) for value in document["overrides"].values())
    assert all(type(value) is str for value in document["removals"])


def _delayed(text: str) -> None:
    for pending in _vertices(_document(text, "delayedVertices")["delayedVertices"]).values():
        _properties(pending, "firstTriggerTime", "recommendedParallelisms")
        _seconds(pending["firstTriggerTime"])
        for advice in pending["recommendedParallelisms"]:
            _properties(advice, "triggerTime", "parallelism", "outsideUtilizationBound")
            _seconds(advice["triggerTime"])
            _whole(advice["parallelism"])
            assert type(advice["outsideUtilizationBound"]) is bool


_RULES: Mapping[str, Callable[[str], None]] = {
    "scalingHistory": _history,
    "scalingTracking": _tracking,
    "collectedMetrics": _collected,
    "parallelismOverrides": _overrides,
    "configOverrides": _config,
    "delayedScaleDown": _delayed,
}
