"""What we remember about a job beyond the Java process: more about samples, followed rescales, policies, forecasts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from flink_autoscaler.core.model.metrics import MetricSample
from flink_autoscaler.core.model.state import ForecastMemory, JobState, PolicyMemories
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Supervision
from flink_autoscaler.stores.sql.state.waited_columns import waited_columns, waited_rows

_INCOMPLETE = "incomplete"
_SUPERVISION = "supervision"
_POLICIES = "policies"
_FORECAST = "forecast"
_WAITED = "waited"
_AT_MS = "at_ms"
_VERTICES = "vertices"


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


def own_state(text: str | None, samples: tuple[MetricSample, ...]) -> tuple[tuple[MetricSample, ...], Supervision]:
    """Read what :func:`own_state_text` wrote.

    Args:
        text: The JSON; None when there was nothing to keep.
        samples: The samples as the Java process would know them.

    Returns:
        The samples with their incomplete vertices, and the supervision. Of a text that cannot be read only one thing is
        sure: that something was incomplete. Then everything is, and no rescale is followed any more.
    """
    if text is None:
        return samples, NO_SUPERVISION
    try:
        kept = json.loads(text)
        incomplete = _incomplete(kept.get(_INCOMPLETE, {}))
        supervision = _supervisions().validate_python(kept.get(_SUPERVISION, {}))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        return tuple(replace(sample, incomplete=frozenset(sample.vertices)) for sample in samples), NO_SUPERVISION
    return _marked(samples, incomplete), supervision


def own_policies(text: str | None) -> PolicyMemories:
    """Read what policies remember from what :func:`own_state_text` wrote; nothing from a text that cannot be read."""
    return {name: memory for name, memory in _object(text, _POLICIES).items() if isinstance(memory, dict)}


def own_forecast(text: str | None) -> ForecastMemory:
    """Read what forecasts remember from what :func:`own_state_text` wrote; nothing from a text that cannot be read."""
    return _object(text, _FORECAST)


def own_waited(text: str | None, samples: tuple[MetricSample, ...]) -> tuple[MetricSample, ...]:
    """Add to samples how long vertices had waited, from what :func:`own_state_text` wrote.

    Samples of other instants, such as those of the Java process, and of a text that cannot be read, tell nothing.
    """
    document = _object(text, _WAITED)
    try:
        instants = [int(at_ms) for at_ms in document.get(_AT_MS, ())]
        waited = dict(zip(instants, waited_rows(document.get(_VERTICES, {}), len(instants)), strict=True))
    except (ValueError, TypeError, AttributeError):
        return samples
    return tuple(replace(s, waited=waited[s.at_ms]) if waited.get(s.at_ms) else s for s in samples)


def _object(text: str | None, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}").get(name)
    except (ValueError, AttributeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _incomplete(entries: Mapping[str, list[str]]) -> dict[int, frozenset[str]]:
    return {int(at_ms): frozenset(map(str, names)) for at_ms, names in entries.items()}


def _marked(samples: tuple[MetricSample, ...], incomplete: Mapping[int, frozenset[str]]) -> tuple[MetricSample, ...]:
    return tuple(
        replace(sample, incomplete=incomplete[sample.at_ms]) if sample.at_ms in incomplete else sample
        for sample in samples
    )


@cache
def _supervisions() -> TypeAdapter[Supervision]:
    return TypeAdapter(Supervision)
