"""Our own state of a job beyond the Java process: more about samples, followed rescales, policies, forecasts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, NamedTuple

from flink_autoscaler.core.model.codec import Codec, Via
from flink_autoscaler.core.model.metrics import MetricSample, VertexId, WaitingTime
from flink_autoscaler.core.model.state import EMPTY_STATE, ForecastMemory, JobState, PolicyMemories
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Supervision

_POLICIES = "policies"
_FORECAST = "forecast"
_WAITED = "waited"
_AT_MS = "at_ms"
_VERTICES = "vertices"


Column = list[float | None]
"""Milliseconds; None where a sample does not tell."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """Fields that have to be readable.

    Attributes:
        incomplete: The incomplete vertices of samples, by the instants of these.
    """

    incomplete: Annotated[
        Mapping[int, frozenset[VertexId]],
        Via(
            Mapping[str, frozenset[VertexId]],
            lambda incomplete: {str(at_ms): names for at_ms, names in incomplete.items()},
            lambda stored: {int(at_ms): names for at_ms, names in stored.items()},
        ),
    ] = field(default_factory=dict)
    supervision: Supervision = NO_SUPERVISION


_KEPT: Final = Codec(_Kept, omits_defaults=True)


class OwnState(NamedTuple):
    """The parts of a job's state that are kept, wholly or in part, as our own JSON."""

    samples: tuple[MetricSample, ...] = ()
    supervision: Supervision = NO_SUPERVISION
    policies: PolicyMemories = EMPTY_STATE.policies
    forecast: ForecastMemory = EMPTY_STATE.forecast


def own_state_text(state: JobState) -> str | None:
    """Write it as JSON; None when there is nothing to keep."""
    incomplete = {sample.at_ms: sample.incomplete for sample in state.samples if sample.incomplete}
    kept: dict[str, Any] = _KEPT.write(_Kept(incomplete, state.supervision))
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
        _KEPT.read(json.loads(text))
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:
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
        kept = _KEPT.read(known)
    except (ValueError, RecursionError):
        kept = _Kept({sample.at_ms: frozenset(sample.vertices) for sample in samples})
    waited = _waited(_object(known, _WAITED))
    return OwnState(
        tuple(_completed(sample, kept.incomplete, waited) for sample in samples),
        kept.supervision,
        {name: memory for name, memory in _object(known, _POLICIES).items() if isinstance(memory, dict)},
        _object(known, _FORECAST),
    )


def _object(document: Any, name: str) -> dict[str, Any]:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


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
