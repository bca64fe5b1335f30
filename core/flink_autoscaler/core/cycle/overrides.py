"""What is asked of the cluster in a pass: what was decided, the user's own overrides, pins, and slots for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flink_autoscaler.core.decide.decision import Decision
from flink_autoscaler.core.decide.slot_sharing import is_preemptible, shrink_to, slots_in_groups
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Supervision, SupervisionPhase, Vector
from flink_autoscaler.core.model.topology import JobDetails
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.observation import floors_of
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassRequest

_BEFORE_PINS: Final = (SupervisionPhase.ROLLING_BACK, SupervisionPhase.PAUSED)
"""In these a job has what it survives, whatever is pinned."""

GIVES_SLOTS: Final = ReasonCode.GIVES_SLOTS


def is_dry(request: PassRequest) -> bool:
    """Tell whether nothing is to be realized, whatever is decided."""
    return request.orders.dry_run is not None or request.context.options.dry_run


def wanted_parallelism(
    context: JobAutoScalerContext, overrides: Mapping[VertexId, int], excluded: frozenset[VertexId]
) -> dict[VertexId, int]:
    """Merge what was decided with the user's own overrides.

    Args:
        context: For the user's overrides and excluded vertices.
        overrides: Decided parallelism; empty before the first decision, and then nothing is wanted.
        excluded: Vertices excluded during this pass; for them the user's value wins, where there is one.

    Raises:
        ConfigError: A user's override is not a number.
    """
    if not overrides:
        return {}
    wanted = {v: _number(v, text) for v, text in context.flink_options.parallelism_overrides.items()}
    excluded = excluded | frozenset(context.options.vertex_exclude_ids) | context.restriction.fixed
    for vertex_id, parallelism in overrides.items():
        if vertex_id not in excluded or vertex_id not in wanted:
            wanted[vertex_id] = parallelism
    return wanted


def _number(vertex_id: VertexId, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(
            f"pipeline.jobvertex-parallelism-overrides: {vertex_id} has {text!r}, not a number"
        ) from error


def effective_overrides(
    wanted: Vector, supervision: Supervision, request: PassRequest, reading: JobReading, *, is_repair: bool
) -> Vector:
    """Return what is wanted with the pins applied, without what the job does not have or could not run with.

    Args:
        wanted: What was decided, and the user's own overrides.
        supervision: Of the job after the pass.
        request: Of the pass.
        reading: The job as it is. Where there are pins and it could not be read, nothing is wanted: without them the
            job would go back to what was decided, and forth again in the next pass.
        is_repair: Whether a failed rescale is undone.
    """
    options, details = request.context.options, reading.details
    if wanted and not is_repair:  # the first decision about a job may come before its requirements were read
        floors = floors_of(reading, options)
        wanted = {v: max(parallelism, floors.get(v, 1)) for v, parallelism in wanted.items()}
    if details is None or not details.vertices:
        has_pins = bool(request.orders.pins or supervision.pinned)
        return {} if has_pins and not is_repair else wanted
    if not is_dry(request):
        wanted = {**wanted, **_pinned_parallelism(supervision, request, details)}
    if not options.supervises_rescales:
        return wanted
    possible = {}
    for vertex in details.vertices:
        if (parallelism := wanted.get(vertex.vertex_id)) is not None:
            # No vertex runs with more than its max parallelism: one that says so says nothing.
            is_bound = vertex.max_parallelism >= max(1, vertex.parallelism)
            possible[vertex.vertex_id] = min(parallelism, vertex.max_parallelism) if is_bound else parallelism
    return {v: possible[v] for v in wanted if v in possible}


def apply_pins(state: JobState, request: PassRequest, details: JobDetails | None) -> JobState:
    """Return the state without what was decided about pinned vertices; one that is free again stays as it is.

    A rollback that is under way, and the pause after it, go before pins, and somebody else's change is left as it is.
    """
    supervision = state.supervision
    if details is None or not details.vertices or not (request.orders.pins or supervision.pinned):
        return state
    held = frozenset(_pinned_parallelism(supervision, request, details))
    kept = {vertex_id: parallelism for vertex_id, parallelism in state.overrides.items() if vertex_id not in held}
    if supervision.edit is None and supervision.phase not in _BEFORE_PINS:
        kept |= _parallelism_of_freed(supervision, supervision.pinned - held, details)
    return replace(state, overrides=kept, supervision=replace(supervision, pinned=held))


def _parallelism_of_freed(
    supervision: Supervision, freed: frozenset[VertexId], details: JobDetails
) -> dict[VertexId, int]:
    """Return the parallelism of vertices that are free again: what is under way is followed to its end."""
    under_way = {} if supervision.under_way is None else supervision.under_way.target
    running = {vertex.vertex_id: vertex.parallelism for vertex in details.vertices}
    return {v: under_way.get(v, parallelism) for v, parallelism in running.items() if v in freed}


def _pinned_parallelism(supervision: Supervision, request: PassRequest, details: JobDetails) -> dict[VertexId, int]:
    """Return the parallelism of every pinned vertex; nothing while a failed rescale is undone and after that.

    Pins that somebody else's change of the requirements came after count no more; the others are held below a
    parallelism that failed since they were given.
    """
    if not request.orders.pins or supervision.phase in _BEFORE_PINS:
        return {}
    edit, pinned = supervision.edit, {}
    for vertex_id, pin in request.orders.pins_by_vertex(details.vertices).items():
        if edit is None or pin.signed.at_ms > edit.at_ms:
            failed = (
                max(1, entry.parallelism - 1)
                for entry in supervision.quarantine
                if entry.vertex_id == vertex_id and entry.since_ms >= pin.signed.at_ms
            )
            pinned[vertex_id] = min((pin.parallelism, *failed))
    return pinned


def release_slots(decision: Decision, request: PassRequest, reading: JobReading) -> Decision:
    """Return the decision by which a job that has more than its share is asked down to it, whatever its load is.

    What the pass decided besides is not carried out, and a rescale that is under way is not waited for, unless that
    leaves the job with no more than its share.
    """
    share, details, action = request.context.share, reading.details, decision.action
    if share is None or details is None or not details.is_settled or not is_preemptible(request):
        return decision
    running = {vertex.vertex_id: vertex.parallelism for vertex in details.vertices}
    under_way = decision.state.supervision.under_way
    decided = {v: change.new for v, change in action.summaries.items()} if isinstance(action, Rescale) else {}
    soon = (running, {**running, **(under_way.target if under_way else {})}, {**running, **decided})
    if min(slots_in_groups(details.vertices, vector) for vector in soon) <= share.slots:
        return decision
    target = shrink_to(details.vertices, request, share.slots)
    if target == running:
        return decision
    before, after = (slots_in_groups(details.vertices, vector) for vector in (running, target))
    figures = (("slots", float(before)), ("share", float(share.slots)), ("gives", float(before - after)))
    reason = Reason.of(GIVES_SLOTS, figures=figures, claimants=share.claimants)
    event = Event(EventType.NORMAL, "GivesSlots", f"Other jobs have too few slots: {reason.text}", figures=figures)
    return replace(
        decision,
        action=Hold((*action.reasons, reason)),
        state=replace(decision.undecided or decision.state, overrides=target, delayed={}),
        events=(*decision.events, event),
        report=None,
        undecided=None,
        releases_slots=True,
    )
