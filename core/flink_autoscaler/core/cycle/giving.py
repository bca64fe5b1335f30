"""Where a job gives slots to others that have too few: whatever its load is, and whether its window is full or not."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.cycle.ending import PassEnd
from flink_autoscaler.core.cycle.wanted import wanted_now
from flink_autoscaler.core.decide.limits.needs import can_give, shrunk, slots_in_groups
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.supervision import Vector
from flink_autoscaler.core.ports.passes import PassRequest

CODE: Final = "GIVES_SLOTS"


def giving(end: PassEnd, request: PassRequest, reading: JobReading) -> PassEnd:
    """Return the end of a pass in which a job that has more than its share is asked down to it.

    What the pass decided besides is not carried out, and a rescale that is under way is not waited for, unless that
    leaves the job with no more than its share.
    """
    share, details = request.context.share, reading.details
    if share is None or details is None or not details.is_settled or not can_give(request):
        return end
    running = {vertex.vertex_id: vertex.parallelism for vertex in details.vertices}
    soon = (running, _under_way(end, running), _decided(end, running))
    if min(slots_in_groups(details.vertices, vector) for vector in soon) <= share.slots:
        return end
    target = shrunk(details.vertices, request, share.slots)
    if target == running:
        return end
    before, after = (slots_in_groups(details.vertices, vector) for vector in (running, target))
    text = f"it gives {before - after} of its {before} slots to {share.claimants}"
    figures = (("slots", float(before)), ("share", float(share.slots)), ("gives", float(before - after)))
    event = Event(EventType.NORMAL, "GivesSlots", f"Other jobs have too few slots: {text}", figures=figures)
    return replace(
        end,
        decision=Hold((*end.decision.reasons, Reason(CODE, text, figures=figures))),
        state=replace(end.undecided or end.state, overrides=target, delayed={}),
        wanted=wanted_now(request, target, end.excluded),
        events=(*end.events, event),
        report=None,
        undecided=None,
        gives=True,
    )


def _under_way(end: PassEnd, running: Vector) -> Vector:
    """Return the parallelism that a rescale leads to that is followed; as it is where there is none."""
    current = end.state.supervision.under_way
    return running if current is None else {**running, **current.target}


def _decided(end: PassEnd, running: Vector) -> Vector:
    """Return the parallelism that a decision of the pass leads to; as it is where there is none."""
    if not isinstance(end.decision, Rescale):
        return running
    return {**running, **{vertex_id: change.new for vertex_id, change in end.decision.summaries.items()}}
