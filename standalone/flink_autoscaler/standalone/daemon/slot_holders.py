"""Who has the slots of a cluster, and which jobs wait for some: for the words that people read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import nsmallest
from typing import Final

from flink_autoscaler.core.border import attempted
from flink_autoscaler.core.decide.plan import plan_event
from flink_autoscaler.core.decide.slot_sharing import slots_in_groups
from flink_autoscaler.core.decide.slots import slots_text
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import Capacity, Headroom, JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest

_SHOWN: Final = 4
"""Jobs that are named; the others are counted."""


class SlotHolders:
    """Remembers how many slots each job of a cluster had when it was last seen to run."""

    def __init__(self) -> None:
        self._held: dict[JobKey, int] = {}
        self._names: dict[JobKey, str] = {}
        self._most: tuple[tuple[str, int], ...] = ()

    def note(self, requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome]) -> None:
        """Take note of a pass; jobs that it does not know any more have no slots."""
        self._names = {request.context.job_key: name_of(request.context) for request in requests}
        seen = {outcome.job_key: attempted(partial(held_slots, outcome)) for outcome in outcomes}
        before = {job_key: slots for job_key, slots in self._held.items() if job_key in self._names}
        self._held = {**before, **{job_key: slots for job_key, slots in seen.items() if isinstance(slots, int)}}
        holding = ((slots, self._names[key]) for key, slots in self._held.items() if slots)
        self._most = tuple((name, slots) for slots, name in nsmallest(_SHOWN, holding, key=_most_first))

    def among(self, capacity: Capacity) -> tuple[tuple[str, int], ...]:
        """Return who has the slots that are taken: the names of a few jobs, most slots first, and all others."""
        others = capacity.slots - capacity.free_slots - sum(slots for _, slots in self._most)
        return (*self._most, ("others", others)) if others > 0 else self._most


def _most_first(entry: tuple[int, str]) -> tuple[int, str]:
    return -entry[0], entry[1]


def name_of(context: JobAutoScalerContext) -> str:
    """Return what people call a job."""
    return context.job_name or context.job_key


def held_slots(outcome: PassOutcome) -> int | None:
    """Return the slots that a job has; None where this pass did not see it run, 0 where it waits for some."""
    if outcome.topology is None:
        return None if outcome.waits_for is None else 0
    vertices = outcome.topology.vertices
    return slots_in_groups(vertices.values(), {v: vertex.parallelism for v, vertex in vertices.items()})


@dataclass(frozen=True, slots=True)
class SlotPromise:
    """Slots that a job is about to have: others may not take them meanwhile.

    Attributes:
        because: Why it gets them, for people.
    """

    job_key: JobKey
    slots: int
    because: str


@dataclass(frozen=True, slots=True)
class SlotLack:
    """What a job lacks.

    Attributes:
        held: Slots that it has.
        least: Slots that it needs.
        missing: Slots that are not free for it.
        help_text: What is done about it, for people.
    """

    held: int
    least: int
    missing: int
    help_text: str

    @property
    def text(self) -> str:
        """What is missing, for people."""
        are_missing = f"{self.missing} {'is' if self.missing == 1 else 'are'} missing"
        needs = f"needs {self.least} slot{'' if self.least == 1 else 's'} at least"
        return f"it runs with {self.held}, {needs}, {are_missing}" if self.held else f"it {needs} to run, {are_missing}"


def told_missing(
    request: PassRequest, outcome: PassOutcome, lack: SlotLack, headroom: Headroom, *, is_news: bool
) -> PassOutcome:
    """Return the outcome of a job that has too few slots with how many it lacks, and who has them.

    Args:
        request: Of the job.
        outcome: Of the job.
        lack: What it lacks.
        headroom: The slots of the cluster, and who has them.
        is_news: Whether an event tells it, too.
    """
    text = f"{lack.text}; {slots_text(headroom, headroom.slots or 0)}; {lack.help_text}"
    figures = (
        ("slots_held", lack.held),
        ("slots_needed", lack.least),
        ("slots_free", headroom.slots or 0),
        ("slots_missing", lack.missing),
    )
    reason = Reason("SLOTS_MISSING", text, figures=figures)
    decision = replace(outcome.decision, reasons=(*outcome.decision.reasons, reason))
    if not is_news:
        return replace(outcome, decision=decision)
    event = plan_event(request.context, "SlotsMissing", f"The job has too few slots: {text}", "SlotsMissing")
    return replace(outcome, decision=decision, events=(*outcome.events, replace(event, figures=figures)))
