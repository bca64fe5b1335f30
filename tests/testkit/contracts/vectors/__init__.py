"""Comparing replayed behaviour vectors with what was measured."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]

SECTIONS = ("phase", "ev", "col", "restart_s", "eval", "scaled", "hist", "ovr", "put", "trk", "dsd", "cfg")
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, None: math.nan}


def scenario_differences(case: Json, replayed: Json) -> Iterator[str]:
    """Yield where a replayed scenario first differs; it is compared up to a tick with a known defect."""
    for index, (tick, actual) in enumerate(zip(case["ticks"], replayed["ticks"], strict=True)):
        expected = tick["out"]
        if expected.get("fault") or expected.get("quirk"):
            return
        for section in SECTIONS:
            if not _same_section(section, expected, actual):
                yield f"{case['id']} tick {index} {section}: {expected.get(section)} != {actual.get(section)}"
                return


def function_difference(case: Json, replayed: Json) -> str | None:
    """Return how the result of a single call differs, None when it does not."""
    expected, actual = case["out"], replayed["out"]
    if "error" in expected:
        is_same = "error" in actual
    elif expected.get("invalid"):
        is_same = bool(actual.get("invalid"))
    else:
        is_same = _same(_without_events(expected), _without_events(actual)) and _same_events(expected, actual)
    return None if is_same else f"{case['fn']} {case['in']}: {expected} != {actual}"


def _without_events(output: Json) -> Json:
    return {name: value for name, value in output.items() if name != "ev"}


def _same_section(section: str, expected: Json, actual: Json) -> bool:
    if section == "ev":
        return _same_events(expected, actual)
    if section == "scaled":
        return bool(expected.get(section)) == bool(actual.get(section))
    return (section in expected) == (section in actual) and _same(expected.get(section), actual.get(section))


def _same_events(expected: Json, actual: Json) -> bool:
    return Counter(map(_identity, expected.get("ev", ()))) == Counter(map(_identity, actual.get("ev", ())))


def _identity(event: Json) -> tuple[object, ...]:
    """Return what identifies an event; the wording of messages is our own."""
    identity = (event["type"], event["reason"])
    if event["reason"] == "AutoscalerError":
        return identity
    report = {vertex_id: entry[:2] for vertex_id, entry in sorted(event.get("report", {}).items())}
    return (*identity, event.get("key"), event.get("interval_s"), json.dumps(report))


def _same(expected: object, actual: object) -> bool:
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and all(_same(expected[key], actual[key]) for key in expected)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(_same, expected, actual))
    left, right = _number(expected), _number(actual)
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right)) or _is_close(left, right)
    return left == right


def _is_close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=0.001)


def _number(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return float(value)
    return _NON_FINITE.get(value, value) if value is None or isinstance(value, str) else value
