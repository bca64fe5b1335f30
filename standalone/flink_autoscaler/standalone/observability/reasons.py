"""The reasons of a decision as the log has them: sentences for people, codes with their figures for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.numbers import plain
from flink_autoscaler.core.model.supervision import Origin
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.supervise.tracking import WANTED_BEFORE, WANTED_BY_PERSON
from flink_autoscaler.standalone.views.outcomes import names_of

_DIGITS: Final = 6
"""Significant digits of a figure."""


def identity_of(outcome: PassOutcome) -> str:
    """Return what has to change for the reasons to be news: phase, decision, codes and their vertices.

    Texts and figures are left out: they are others in every pass.
    """
    codes = sorted({f"{reason.code} {reason.vertex_id or ''}" for reason in outcome.decision.reasons})
    return "; ".join((outcome.phase.value, outcome.decision.kind, *codes))


def sentences(outcome: PassOutcome) -> list[str]:
    """Return the reasons as sentences, those about a vertex with its name in front."""
    names = names_of(outcome)
    return [
        reason.text if reason.vertex_id is None else f"{names.get(reason.vertex_id, reason.vertex_id)}: {reason.text}"
        for reason in outcome.decision.reasons
    ]


def codes(outcome: PassOutcome) -> list[dict[str, object]]:
    """Return one entry per reason: ``code``, ``vertex`` where it is about one, and its figures by name."""
    names = names_of(outcome)
    return [dict(_entry(reason, names)) for reason in outcome.decision.reasons]


def request_facts(outcome: PassOutcome, requested: Mapping[VertexId, int]) -> dict[str, object]:
    """Return what a request for another parallelism is about, for people and for programs.

    Returns:
        ``text`` such as ``work 4 → 7``, ``cause`` (see :func:`cause_of`), ``changes`` with one entry per vertex that
        gets another parallelism (``vertex``, ``vertex_id``, ``from``, null where not known, and ``to``), and
        ``parallelism``, everything that was asked for by vertex id.
    """
    names, before = names_of(outcome), _before(outcome)
    changes = [
        {"vertex": names.get(v, v), "vertex_id": v, "from": before.get(v), "to": parallelism}
        for v, parallelism in requested.items()
        if before.get(v) != parallelism
    ]
    text = ", ".join(f"{each['vertex']} {_known(each['from'])} → {each['to']}" for each in changes)
    return {
        "cause": cause_of(outcome),
        "text": text or "the same parallelism with other bounds",
        "changes": changes,
        "parallelism": dict(requested),
    }


def cause_of(outcome: PassOutcome) -> str:
    """Return why another parallelism is asked for.

    Returns:
        ``load``, ``plan`` for a scheduled time, ``share`` for slots that other jobs need, ``pin``, ``order`` for what
        a person ordered besides, ``rollback``, or ``earlier`` where something that was decided or set before is asked
        for again.
    """
    current = outcome.state.supervision.current
    origin = None if current is None else current.origin
    if outcome.is_repair or origin is Origin.ROLLBACK:
        return "rollback"
    if isinstance(outcome.decision, Rescale):
        return "plan" if any(reason.code == "PLANNED" for reason in outcome.decision.reasons) else "load"
    if any(reason.code == "GIVES_SLOTS" for reason in outcome.decision.reasons):
        return "share"
    if current is None or origin is Origin.AUTOSCALER:
        return "earlier"
    return {WANTED_BY_PERSON: "pin", WANTED_BEFORE: "earlier"}.get(current.reason, "order")


def _before(outcome: PassOutcome) -> Mapping[VertexId, int]:
    """Return the parallelism before: as it runs, or as the rescale that is followed found it."""
    current = outcome.state.supervision.current
    running = {} if outcome.topology is None else outcome.topology.vertices
    return {
        **({} if current is None else current.before),
        **{vertex_id: vertex.parallelism for vertex_id, vertex in running.items()},
    }


def _known(parallelism: object) -> str:
    return "?" if parallelism is None else str(parallelism)


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
