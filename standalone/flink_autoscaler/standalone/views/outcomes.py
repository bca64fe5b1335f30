"""What a pass came to in terms of people: names, changes and reasons, and what may happen next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.supervision import SupervisionPhase, describe_change
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.standalone.records.codec import SIZED, desired_parallelism_of, vertices_of


def names_of(outcome: PassOutcome | None) -> Mapping[VertexId, str]:
    """Return what people call the vertices, as far as they were read."""
    return {} if outcome is None else {each.vertex_id: each.name or each.vertex_id for each in vertices_of(outcome)}


def decided_changes(outcome: PassOutcome) -> dict[VertexId, int]:
    """Return what a pass decided to change, parallelism by vertex."""
    decision = outcome.decision
    return {v: summary.new for v, summary in decision.summaries.items()} if isinstance(decision, Rescale) else {}


def rescale_text(outcome: PassOutcome, names: Mapping[VertexId, str]) -> str | None:
    """Return what a pass decided to change, in one line; None where it decided nothing."""
    decision = outcome.decision
    if not isinstance(decision, Rescale):
        return None
    before = {vertex_id: summary.current for vertex_id, summary in decision.summaries.items()}
    return f"rescale: {describe_change(names, before, decided_changes(outcome))}"


def headline_of(outcome: PassOutcome) -> str:
    """Return what a pass did, or why it did nothing, in one line."""
    rescale = rescale_text(outcome, names_of(outcome))
    return rescale or next((reason.text for reason in why(outcome)), outcome.phase.value)


def why(outcome: PassOutcome) -> list[Reason]:
    """Return the reasons of a pass that people read, without the figures of vertices that stay as they are."""
    reasons = outcome.decision.reasons
    return [reason for reason in reasons if reason.code not in SIZED] or list(reasons)


def window_full_ms(reason: Reason, now_ms: int) -> int | None:
    """Return the instant at which a metric window that fills is full; None of any other reason."""
    left = dict(reason.figures).get("left")
    is_known = reason.code == "WINDOW_FILLING" and left is not None and math.isfinite(left)
    return round(now_ms + 1000 * left) if is_known and left is not None else None


def other_parallelism(outcome: PassOutcome) -> dict[VertexId, int]:
    """Return the parallelism of vertices that load, pins or orders want to be another than it is."""
    running = outcome.observation.vertices
    wanted = desired_parallelism_of(outcome.state.supervision, outcome)
    return {v: n for v, n in wanted.items() if v in running and n != running[v].parallelism}


def final_parallelism(outcome: PassOutcome) -> Mapping[VertexId, int]:
    """Return the parallelism that vertices have after a pass: what it decides or wants, else what they run with."""
    running = outcome.observation.vertices
    wanted = {**outcome.target.parallelism, **decided_changes(outcome)}
    return {v: wanted.get(v, vertex.parallelism) for v, vertex in running.items()}


def next_steps(request: PassRequest, outcome: PassOutcome) -> Iterator[tuple[str, int | None]]:
    """Yield what may happen next to a job, and from when on; None where no instant is known."""
    names, supervision = names_of(outcome), outcome.state.supervision
    for reason in outcome.decision.reasons:
        at_ms = window_full_ms(reason, request.now_ms)
        if at_ms is not None:
            yield "the metric window is full, and load decides", at_ms
    current = supervision.under_way
    if current is not None:
        change = describe_change(names, current.before, current.target)
        yield f"the job runs with {change} ({current.stage.value})", None
    if supervision.phase is SupervisionPhase.PROBATION:
        yield "the last rescale is on probation: it is undone where the job does worse", None
    interval = request.context.options.scale_down_interval.exact_seconds
    for vertex_id, delayed in outcome.state.delayed.items():
        yield f"{names.get(vertex_id, vertex_id)} may be scaled down", round(delayed.first_ms + 1000 * interval)
