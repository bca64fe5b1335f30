"""The reasons of a decision as the log has them: sentences for people, codes with their figures for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.numbers import plain
from flink_autoscaler.core.ports.passes import PassOutcome

_DIGITS: Final = 6
"""Significant digits of a figure."""


def decision_of(outcome: PassOutcome) -> str:
    """Return ``rescale`` or ``hold``."""
    return "rescale" if isinstance(outcome.decision, Rescale) else "hold"


def identity_of(outcome: PassOutcome) -> str:
    """Return what has to change for the reasons to be news: phase, decision, codes and their vertices.

    Texts and figures are left out: they are others in every pass.
    """
    codes = sorted({f"{reason.code} {reason.vertex_id or ''}" for reason in outcome.decision.reasons})
    return "; ".join((outcome.phase.value, decision_of(outcome), *codes))


def sentences(outcome: PassOutcome) -> list[str]:
    """Return the reasons as sentences, those about a vertex with its name in front."""
    names = _names(outcome)
    return [
        reason.text if reason.vertex_id is None else f"{names.get(reason.vertex_id, reason.vertex_id)}: {reason.text}"
        for reason in outcome.decision.reasons
    ]


def codes(outcome: PassOutcome) -> list[dict[str, object]]:
    """Return one entry per reason: ``code``, ``vertex`` where it is about one, and its figures by name."""
    names = _names(outcome)
    return [dict(_entry(reason, names)) for reason in outcome.decision.reasons]


def _entry(reason: Reason, names: Mapping[VertexId, str]) -> Iterator[tuple[str, object]]:
    yield "code", reason.code
    if reason.vertex_id is not None:
        yield "vertex", names.get(reason.vertex_id, reason.vertex_id)
    for name, value in reason.figures:
        yield name, _figure(value)


def _figure(value: float) -> float | str | None:
    """Make a number that any JSON parser reads: unknown is null, an infinity is its name."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return plain(value)
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _names(outcome: PassOutcome) -> dict[VertexId, str]:
    vertices = outcome.topology.vertices if outcome.topology is not None else {}
    return {vertex_id: vertex.name or vertex_id for vertex_id, vertex in vertices.items()}
