"""Changes of resource requirements that somebody else made: noticed, respected, reported, never fought."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.supervision import ForeignEdit, RescaleRecord, Stage, SupervisionPhase, Vector
from flink_autoscaler.core.supervise.follow_run import FollowRun
from flink_autoscaler.core.supervise.rollback import abandon_rollback

Requirements = Mapping[VertexId, tuple[int, int]]

_LATE_MS: Final = 600_000
"""How long a request that was given up may still arrive."""


def notice_edit(run: FollowRun) -> None:
    """Compare the requirements of the job with what they were after our own last change."""
    supervision, found = run.supervision, run.facts.requirements
    if found is None or run.is_reactive:
        return
    if not supervision.seen:
        _begin_to_look(run, found)
    elif dict(found) == dict(supervision.seen):
        run.change(seen_start_ms=run.facts.initialized_ms or supervision.seen_start_ms)
    elif _is_ours(run, found):
        run.change(seen=dict(found), seen_start_ms=run.facts.initialized_ms)
    elif _was_restarted(run):
        _lost(run)
    else:
        _edited(run, found)


def _begin_to_look(run: FollowRun, found: Requirements) -> None:
    """Take the requirements for ours where they are what we want, or where we want nothing yet."""
    if not run.overrides or _is_ours(run, found):
        run.change(seen=dict(found), seen_start_ms=run.facts.initialized_ms)


def _is_ours(run: FollowRun, found: Requirements) -> bool:
    seen = run.supervision.seen
    return any(_holds(found, vector) and _keeps_others(found, vector, seen) for vector in _own_vectors(run))


def _keeps_others(found: Requirements, vector: Vector, seen: Requirements) -> bool:
    """Tell whether vertices that a vector does not name are as they were: a pin alone is no reason to change others."""
    return not seen or all(bounds == seen.get(v) for v, bounds in found.items() if v not in vector)


def has_strayed(run: FollowRun) -> bool:
    """Tell whether a request of ours that was given up came true, so that it has to be taken back at once."""
    found, asked = run.facts.requirements, run.supervision.asked
    if found is None or not asked or run.supervision.edit is not None or _holds(found, asked):
        return False
    return any(_holds(found, record.target) for record in run.supervision.past if _may_arrive(run, record))


def _holds(found: Requirements, vector: Vector) -> bool:
    common = vector.keys() & found.keys()
    return bool(common) and all(found[v][1] == vector[v] for v in common)


def _own_vectors(run: FollowRun) -> Iterator[Vector]:
    """Yield what we have asked for, given up requests included that may still arrive."""
    yield run.supervision.asked
    current = run.supervision.current
    if current is not None:
        yield current.target
    yield from (record.target for record in run.supervision.past if _may_arrive(run, record))


def _may_arrive(run: FollowRun, record: RescaleRecord) -> bool:
    is_of_this_graph = record.target.keys() == (run.facts.requirements or {}).keys()
    is_given_up = record.reverted or record.accepted_ms is None
    return is_of_this_graph and is_given_up and run.now_ms - (record.settled_ms or record.decided_ms) <= _LATE_MS


def _was_restarted(run: FollowRun) -> bool:
    """Tell whether the JobMaster began anew since: then its requirements may be lost."""
    began_ms, seen_ms = run.facts.initialized_ms, run.supervision.seen_start_ms
    return began_ms is not None and seen_ms is not None and began_ms > seen_ms


def _lost(run: FollowRun) -> None:
    """Ask again for what a fail-over of the JobManager made the cluster forget."""
    run.change(seen={}, seen_start_ms=None)
    current = run.supervision.current
    if current is not None and current.stage is Stage.PENDING:
        run.update(stage=Stage.REQUESTED, accepted_ms=None)
        run.change(since_ms=run.now_ms)
    if run.overrides:
        run.tell(
            "RequirementsLost", "The JobManager was restarted and has forgotten the requirements; they are sent again"
        )


def _edited(run: FollowRun, found: Requirements) -> None:
    before = run.supervision.seen
    current = run.supervision.current
    if current is not None and not current.stage.is_final:
        run.settle(Stage.SUPERSEDED, "somebody else changed the requirements")
    if run.supervision.phase is SupervisionPhase.PROBATION:
        run.to_phase(SupervisionPhase.STABLE)
    elif run.supervision.phase is SupervisionPhase.ROLLING_BACK:
        abandon_rollback(run, "somebody else changed the requirements while a rescale was rolled back")
    run.retire()
    until_ms = run.now_ms + run.options.edit_respect.ms
    run.change(seen=dict(found), edit=ForeignEdit(run.now_ms, dict(found), until_ms), asked={})
    run.overrides = {}
    text = f"Somebody else changed the resource requirements: {_difference(run, before, found)}"
    respect = run.options.edit_respect
    run.tell("RequirementsEdited", f"{text}. The job is left as it is for {respect}.", warns=True)


def respect_edit(run: FollowRun) -> None:
    """Let nothing be decided for a while after somebody else's change."""
    edit = run.supervision.edit
    if edit is None:
        return
    left_ms = edit.until_ms - run.now_ms
    if left_ms > 0:
        run.hold("EDITED_BY_OTHERS", f"somebody else changed the requirements; left alone for {left_ms // 1000} s more")
    else:
        run.change(edit=None)


def _difference(run: FollowRun, before: Requirements, after: Requirements) -> str:
    changed = [
        f"{run.name(vertex_id)} {_text(before.get(vertex_id))} -> {_text(bounds)}"
        for vertex_id, bounds in after.items()
        if before.get(vertex_id) != bounds
    ]
    return ", ".join(changed) or "other vertices"


def _text(bounds: tuple[int, int] | None) -> str:
    return "?" if bounds is None else f"{bounds[0]}..{bounds[1]}"
