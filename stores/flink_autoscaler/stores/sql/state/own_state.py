"""What we remember about a job beyond the Java process: more about samples, followed rescales, policies, forecasts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from flink_autoscaler.core.model.metrics import MetricSample, VertexId, WaitingTime
from flink_autoscaler.core.model.state import EMPTY_STATE, ForecastMemory, JobState, PolicyMemories
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Supervision
from flink_autoscaler.stores.sql.state.instants import is_instant

_INCOMPLETE = "incomplete"
_SUPERVISION = "supervision"
_POLICIES = "policies"
_FORECAST = "forecast"
_WAITED = "waited"
_AT_MS = "at_ms"
_VERTICES = "vertices"

_UNREADABLE = (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, ValidationError)

Column = list[float | None]
"""Milliseconds; None where a sample does not tell."""


class OwnState(NamedTuple):
    """The parts of a job's state that are kept, wholly or in part, as our own JSON."""

    samples: tuple[MetricSample, ...] = ()
    supervision: Supervision = NO_SUPERVISION
    policies: PolicyMemories = EMPTY_STATE.policies
    forecast: ForecastMemory = EMPTY_STATE.forecast


def own_state_text(state: JobState) -> str | None:
    """Write it as JSON; None when there is nothing to keep."""
    kept: dict[str, Any] = {}
    incomplete = {str(sample.at_ms): sorted(sample.incomplete) for sample in state.samples if sample.incomplete}
    if incomplete:
        kept[_INCOMPLETE] = incomplete
    if state.supervision != NO_SUPERVISION:
        kept[_SUPERVISION] = _supervisions().dump_python(state.supervision, mode="json", exclude_defaults=True)
    if state.policies:
        kept[_POLICIES] = {name: dict(memory) for name, memory in state.policies.items()}
    if state.forecast:
        kept[_FORECAST] = dict(state.forecast)
    telling = [sample for sample in state.samples if sample.waited]
    if telling:
        kept[_WAITED] = {_AT_MS: [sample.at_ms for sample in telling], _VERTICES: waited_columns(telling)}
    return json.dumps(kept, separators=(",", ":")) if kept else None


def damage(text: object) -> str | None:
    """Say why a text is not what :func:`own_state_text` wrote; None where it is, or where there is none."""
    if text is None:
        return None
    if not isinstance(text, str):
        return "not a text"
    try:
        _read(json.loads(text))
    except RecursionError:
        return "nested too deeply"
    except _UNREADABLE as error:
        return f"unexpected content: {type(error).__name__}"
    return None


def own_state(text: str | None, samples: tuple[MetricSample, ...]) -> OwnState:
    """Read what :func:`own_state_text` wrote.

    Args:
        text: The JSON; None when there was nothing to keep.
        samples: The samples as the Java process would know them.

    Returns:
        The samples with what is known besides, and the other parts. Of a text, or of parts of it, that cannot be read
        only one thing is sure: that something was incomplete. Then everything is, and no rescale is followed any more.
        Policies, forecasts and waiting times that cannot be read are forgotten.
    """
    if text is None:
        return OwnState(samples)
    known: Any = None
    try:
        known = json.loads(text)
        incomplete, supervision = _read(known)
    except _UNREADABLE:
        incomplete = {sample.at_ms: frozenset(sample.vertices) for sample in samples}
        supervision = NO_SUPERVISION
    waited = _waited(_object(known, _WAITED))
    return OwnState(
        tuple(_completed(sample, incomplete, waited) for sample in samples),
        supervision,
        {name: memory for name, memory in _object(known, _POLICIES).items() if isinstance(memory, dict)},
        _object(known, _FORECAST),
    )


def _read(document: Any) -> tuple[dict[int, frozenset[str]], Supervision]:
    """Return what has to be readable."""
    incomplete = _incomplete(document.get(_INCOMPLETE, {}))
    supervision = _supervisions().validate_python(document.get(_SUPERVISION, {}))
    if not all(map(is_instant, _instants(supervision))):
        raise ValueError("an instant is not in the years 1970 to 9999")
    return incomplete, supervision


def _instants(value: Any) -> Iterator[int]:
    """Yield every number whose field says that it is milliseconds; a duration is none the less one that fits."""
    if isinstance(value, tuple):
        for each in value:
            yield from _instants(each)
    elif is_dataclass(value):
        for field in fields(value):
            each = getattr(value, field.name)
            if not field.name.endswith("_ms"):
                yield from _instants(each)
            elif each is not None:
                yield from map(int, each if isinstance(each, tuple) else (each,))


def _object(document: Any, name: str) -> dict[str, Any]:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _incomplete(entries: Mapping[str, list[str]]) -> dict[int, frozenset[str]]:
    return {int(at_ms): frozenset(map(str, names)) for at_ms, names in entries.items()}


def _waited(document: Mapping[str, Any]) -> Mapping[int, Mapping[VertexId, WaitingTime]]:
    """Return how long vertices had waited, by the instants of samples; nothing where that cannot be read."""
    try:
        instants = [int(at_ms) for at_ms in document.get(_AT_MS, ())]
        return dict(zip(instants, waited_rows(document.get(_VERTICES, {}), len(instants)), strict=True))
    except (ValueError, TypeError, AttributeError):
        return {}


def _completed(
    sample: MetricSample,
    incomplete: Mapping[int, frozenset[str]],
    waited: Mapping[int, Mapping[VertexId, WaitingTime]],
) -> MetricSample:
    at_ms = sample.at_ms
    return replace(
        sample, incomplete=incomplete.get(at_ms, sample.incomplete), waited=waited.get(at_ms) or sample.waited
    )


@cache
def _supervisions() -> TypeAdapter[Supervision]:
    return TypeAdapter(Supervision)


def waited_columns(samples: Sequence[MetricSample]) -> dict[VertexId, list[Column]]:
    """Return two columns per vertex, its idle and its backpressured time; empty when no sample tells anything."""
    vertices = dict.fromkeys(vertex_id for sample in samples for vertex_id in sample.waited)
    return {v: _columns([sample.waited.get(v) for sample in samples]) for v in vertices}


def _columns(times: Sequence[WaitingTime | None]) -> list[Column]:
    return [
        [None if time is None else _short(time.idle_ms) for time in times],
        [None if time is None else _short(time.backpressured_ms) for time in times],
    ]


def _short(milliseconds: float) -> float:
    """Return the same number, without a fraction of 0: Flink counts whole milliseconds."""
    return int(milliseconds) if milliseconds.is_integer() else milliseconds


def waited_rows(columns: Mapping[str, Any], count: int) -> list[dict[VertexId, WaitingTime]]:
    """Return what :func:`waited_columns` made of so many samples, by sample.

    Raises:
        ValueError, TypeError, AttributeError: They are something else.
    """
    rows: list[dict[VertexId, WaitingTime]] = [{} for _ in range(count)]
    for vertex_id, (idle, backpressured) in columns.items():
        for row, *times in zip(rows, idle, backpressured, strict=True):
            if None not in times:
                row[str(vertex_id)] = _waiting_time(*times)
    return rows


def _waiting_time(idle: float, backpressured: float) -> WaitingTime:
    time = WaitingTime(float(idle), float(backpressured))
    if not all(map(math.isfinite, time)):
        raise ValueError("a time is not finite")
    return time
