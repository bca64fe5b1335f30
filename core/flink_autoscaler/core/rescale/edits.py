"""Changes of resource requirements that somebody else made: noticed, respected, reported, never fought."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import (
    ForeignEdit,
    Requirements,
    Stage,
    Supervision,
    SupervisionPhase,
    Vector,
)
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.rescale.rollback import end_rollback
from flink_autoscaler.core.rescale.transition import (
    SupervisionInput,
    Transition,
    block,
    supersede,
    transition_event,
    with_supervision,
)

_LATE_MS: Final = 600_000
"""How long a request that was given up may still arrive."""


def notice_edit(state: JobState, given: SupervisionInput) -> Transition:
    """Compare the requirements of the job with what they were after our own last change."""
    supervision, found, start_ms = state.supervision, given.facts.requirements, given.facts.initialized_ms
    if found is None or given.is_reactive:
        return Transition(state)
    is_ours = _is_own_request(supervision, given, found)
    if not supervision.seen and state.overrides and not is_ours:
        return Transition(state)  # they are not what we want yet; there is nothing to compare them with
    # A second answer like the last one: it confirms a foreign edit, which may have been a slip of one answer until now.
    if dict(found) == dict(supervision.seen):
        edit = supervision.edit and replace(supervision.edit, before={})
        start_ms = start_ms or supervision.seen_start_ms
        if edit is None and start_ms == supervision.seen_start_ms:
            return Transition(state)
        return with_supervision(state, replace(supervision, seen_start_ms=start_ms, edit=edit))
    if supervision.edit is not None and dict(found) == dict(supervision.edit.before):
        return _forget_unconfirmed_edit(state, found)
    if not supervision.seen or is_ours:
        return with_supervision(state, replace(supervision, seen=dict(found), seen_start_ms=start_ms))
    # A JobManager that began after we last looked has forgotten the request; nobody has changed it.
    if start_ms is not None and supervision.seen_start_ms is not None and start_ms > supervision.seen_start_ms:
        return _restore_lost_request(state, given)
    return _respect_foreign_edit(state, given, found)


def _is_own_request(supervision: Supervision, given: SupervisionInput, found: Requirements) -> bool:
    vectors = _own_vectors(supervision, given)
    return any(_holds(found, vector) and _keeps_others(found, vector, supervision.seen) for vector in vectors)


def _keeps_others(found: Requirements, vector: Vector, seen: Requirements) -> bool:
    """Tell whether vertices that a vector does not name are as they were: a pin alone is no reason to change others."""
    return not seen or all(bounds == seen.get(v) for v, bounds in found.items() if v not in vector)


def has_strayed(supervision: Supervision, given: SupervisionInput) -> bool:
    """Tell whether a request of ours that was given up came true, so that it has to be taken back at once."""
    # A PUT that timed out may be carried out minutes later, after something else was decided.
    found, asked = given.facts.requirements, supervision.asked
    if found is None or not asked or supervision.edit is not None or _holds(found, asked):
        return False
    return any(_holds(found, vector) for vector in _abandoned_vectors(supervision, given))


def _holds(found: Requirements, vector: Vector) -> bool:
    common = vector.keys() & found.keys()
    return bool(common) and all(found[v][1] == vector[v] for v in common)


def _own_vectors(supervision: Supervision, given: SupervisionInput) -> Iterator[Vector]:
    """Yield what we have asked for, given up requests included that may still arrive."""
    # What is sent and not confirmed is ours as well: a PUT may arrive after its answer was lost.
    yield supervision.asked
    if supervision.current is not None:
        yield supervision.current.target
    yield from _abandoned_vectors(supervision, given)


def _abandoned_vectors(supervision: Supervision, given: SupervisionInput) -> Iterator[Vector]:
    """Yield what was asked for and given up, as long as the request may still arrive."""
    present = (given.facts.requirements or {}).keys()
    for record in supervision.past:
        is_given_up = record.reverted or record.accepted_ms is None
        is_recent = given.now_ms - (record.settled_ms or record.decided_ms) <= _LATE_MS
        if is_given_up and is_recent and record.target.keys() == present:
            yield record.target


def _restore_lost_request(state: JobState, given: SupervisionInput) -> Transition:
    """Ask again for what a fail-over of the JobManager made the cluster forget."""
    supervision, current = replace(state.supervision, seen={}, seen_start_ms=None), state.supervision.current
    if current is not None and current.stage is Stage.PENDING:
        again = replace(current, stage=Stage.REQUESTED, accepted_ms=None)
        supervision = replace(supervision, current=again, since_ms=given.now_ms)
    if not state.overrides:
        return with_supervision(state, supervision)
    text = "The JobManager was restarted and has forgotten the requirements; they are sent again"
    return with_supervision(state, supervision, transition_event("RequirementsLost", text))


def _respect_foreign_edit(state: JobState, given: SupervisionInput, found: Requirements) -> Transition:
    """Leave the job to whoever changed it; nothing of ours is followed or wanted any more."""
    respect, before = given.options.edit_respect, state.supervision.seen
    # The order matters: a rollback is ended as one, and its record must be final before it is retired.
    supervision = supersede(state.supervision, given, "somebody else changed the requirements")
    supervision = supervision.without_probation(given.now_ms)
    if supervision.phase is SupervisionPhase.ROLLING_BACK:
        why = "somebody else changed the requirements while a rescale was rolled back"
        supervision = end_rollback(supervision, given, why)
    edit = ForeignEdit(given.now_ms, dict(found), given.now_ms + respect.ms, dict(before))
    supervision = replace(supervision.retire_current(given.now_ms), seen=dict(found), edit=edit, asked={})
    text = (
        f"The resource requirements were changed from outside: {_difference(given, before, found)}."
        f" Scaling is suspended for {respect}."
    )
    return with_supervision(state, supervision, transition_event("RequirementsEdited", text, warns=True), overrides={})


def _forget_unconfirmed_edit(state: JobState, found: Requirements) -> Transition:
    """Forget a change of which one answer alone has told, and the next one nothing any more."""
    supervision = replace(state.supervision, seen=dict(found), edit=None)
    text = "The resource requirements are unchanged after all: a single answer said otherwise. Scaling is resumed"
    return with_supervision(state, supervision, transition_event("RequirementsRestored", text))


def respect_edit(state: JobState, given: SupervisionInput) -> Transition:
    """Let nothing be decided for a while after somebody else's change."""
    edit = state.supervision.edit
    if edit is None:
        return Transition(state)
    left_ms = edit.until_ms - given.now_ms
    if left_ms <= 0:
        return with_supervision(state, replace(state.supervision, edit=None))
    return block(state, ReasonCode.EDITED_BY_OTHERS, left=left_ms // 1000)


def _difference(given: SupervisionInput, before: Requirements, after: Requirements) -> str:
    changed = [
        f"{given.name(vertex_id)} {_text(before.get(vertex_id))} -> {_text(bounds)}"
        for vertex_id, bounds in after.items()
        if before.get(vertex_id) != bounds
    ]
    return ", ".join(changed) or "other vertices"


def _text(bounds: tuple[int, int] | None) -> str:
    return "?" if bounds is None else f"{bounds[0]}..{bounds[1]}"
