"""How far a plan can go with what a resource manager can still give to a job."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.decide.limits.slots import (
    as_far_as,
    more_slots_for,
    planned_parallelism,
    slots_of,
    taskmanagers_for,
)
from flink_autoscaler.core.model.events import Figures
from flink_autoscaler.core.model.job import Headroom
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ScalingSummaries
from flink_autoscaler.core.model.topology import JobTopology

_SHOWN_VERTICES: Final = 5
_SHOWN_NAME: Final = 60


@dataclass(frozen=True, slots=True)
class TaskManagerSize:
    """What one TaskManager brings and takes.

    Attributes:
        slots: At least 1.
        cpu: CPUs, 0 when unknown.
        memory: Bytes, 0 when unknown.
    """

    slots: int
    cpu: float = 0.0
    memory: int = 0

    def memory_in_steps(self, step: int) -> int:
        """Return the memory rounded up to a multiple of a step."""
        return -(-self.memory // step) * step


@dataclass(frozen=True, slots=True)
class Room:
    """What a job may take beyond what it has.

    Attributes:
        free_slots: Slots of TaskManagers that are there.
        taskmanagers: TaskManagers that may be added; None where no limit on them is known.
        slots_per_taskmanager: At least 1.
        unchecked: Limits that cannot be checked because that size of a TaskManager is not known: CPU, memory.
    """

    free_slots: int
    taskmanagers: int | None
    slots_per_taskmanager: int
    unchecked: tuple[str, ...] = ()

    def added_for(self, more_slots: int) -> int:
        """Return the TaskManagers that have to be added for more slots."""
        return taskmanagers_for(max(0, more_slots - self.free_slots), self.slots_per_taskmanager)

    def holds(self, more_slots: int) -> bool:
        """Tell whether the job may have so many more slots."""
        return self.taskmanagers is None or self.added_for(more_slots) <= self.taskmanagers


def room_in(headroom: Headroom, size: TaskManagerSize, free_slots: int) -> Room:
    """Return what a headroom is worth in TaskManagers.

    Args:
        headroom: What can still be given.
        size: Of a TaskManager.
        free_slots: What the cluster reports free, used where the headroom does not say it.
    """
    by_cpu = _whole(headroom.cpu, size.cpu)
    memory = size.memory_in_steps(headroom.memory_step)
    by_memory = None if headroom.memory is None or memory <= 0 else headroom.memory // memory
    known = [limit for limit in (headroom.taskmanagers, by_cpu, by_memory) if limit is not None]
    unchecked = {
        "CPU": headroom.cpu is not None and by_cpu is None,
        "memory": headroom.memory is not None and by_memory is None,
    }
    return Room(
        free_slots=max(0, free_slots if headroom.slots is None else headroom.slots),
        taskmanagers=max(0, min(known)) if known else None,
        slots_per_taskmanager=size.slots,
        unchecked=tuple(name for name, is_unchecked in unchecked.items() if is_unchecked),
    )


def _whole(cpu: float | None, of_one: float) -> int | None:
    """Return how many TaskManagers some CPUs are enough for; None where that is not known or cannot be."""
    count = math.nan if cpu is None or of_one <= 0 else cpu / of_one
    return math.floor(count) if math.isfinite(count) else None


def within_room(topology: JobTopology, summaries: ScalingSummaries, room: Room) -> dict[VertexId, int]:
    """Return how far a plan can go with what the job may still take; see :func:`as_far_as`."""
    before = slots_of(topology, planned_parallelism(topology, {}))
    return as_far_as(topology, summaries, lambda slots: room.holds(slots - before))


def taskmanagers_to_add(topology: JobTopology, summaries: ScalingSummaries, room: Room) -> int:
    """Return how many TaskManagers have to be added for a plan."""
    return room.added_for(more_slots_for(topology, summaries))


def limit_text(
    headroom: Headroom,
    room: Room,
    *,
    topology: JobTopology,
    summaries: ScalingSummaries,
    allowed: Mapping[VertexId, int],
) -> str:
    """Say what limits a plan and what becomes of it.

    Args:
        headroom: What can still be given.
        room: The same, in TaskManagers.
        topology: For the names of the vertices.
        summaries: The plan.
        allowed: What is left of it.
    """
    texts = [
        _change_text(topology, vertex_id, summary.new, allowed.get(vertex_id, summary.current))
        for vertex_id, summary in summaries.items()
        if allowed.get(vertex_id, summary.current) != summary.new
    ]
    more = len(texts) - _SHOWN_VERTICES
    if more > 0:
        texts[_SHOWN_VERTICES:] = [f"{more} more vertices likewise"]
    text = f"{_room_text(headroom, room)}: {', '.join(texts)}"
    if headroom.total is None:
        return text
    return f"{text}; {missing_text(missing_slots(topology, summaries, allowed), room.slots_per_taskmanager)}"


def missing_slots(topology: JobTopology, summaries: ScalingSummaries, allowed: Mapping[VertexId, int]) -> int:
    """Return the slots that a plan takes more than what is left of it."""
    current = planned_parallelism(topology, {})
    return slots_of(topology, planned_parallelism(topology, summaries)) - slots_of(topology, {**current, **allowed})


def limit_figures(headroom: Headroom, room: Room, missing: int) -> Figures:
    """Return the slots that there are, those that the job may take, and those that are missing; empty where unknown."""
    if headroom.total is None:
        return ()
    return ("slots", headroom.total), ("slots_free", room.free_slots), ("slots_missing", missing)


def _room_text(headroom: Headroom, room: Room) -> str:
    if headroom.total is not None:
        return slots_text(headroom, room.free_slots)
    added = "no more TaskManagers" if not room.taskmanagers else _counted(room.taskmanagers, "more TaskManager")
    left = [] if headroom.memory is None else [f"{headroom.memory >> 20} MB"]
    left += [] if headroom.cpu is None else [_counted(headroom.cpu, "CPU")]
    text = f"{headroom.source} can give {added}"
    if left:
        text += f" ({', '.join(left)} left)"
    if room.free_slots:
        text += f", {_counted(room.free_slots, 'slot')} free"
    return text


def slots_text(headroom: Headroom, free: int) -> str:
    """Say how many slots there are, how many of them a job may take, and who has the others."""
    held = f" ({headroom.held_text})" if headroom.holders else ""
    return f"{headroom.source}: {_counted(headroom.total or 0, 'slot')}, {free or 'none'} free{held}"


def missing_text(missing: int, slots_per_taskmanager: int) -> str:
    """Say how many slots are missing, and what would help."""
    are_missing = "1 slot is missing" if missing == 1 else f"{missing} slots are missing"
    taskmanagers = _counted(taskmanagers_for(missing, slots_per_taskmanager), "more TaskManager")
    size = _counted(slots_per_taskmanager, "slot")
    return f"{are_missing}: {taskmanagers} of {size} would do, or other jobs that give slots back"


def _counted(number: float, noun: str) -> str:
    return f"{number:g} {noun}" if number == 1 else f"{number:g} {noun}s"


def _change_text(topology: JobTopology, vertex_id: VertexId, wanted: int, allowed: int) -> str:
    vertex = topology.vertices[vertex_id]
    name = vertex.name if len(vertex.name) <= _SHOWN_NAME else vertex.name[:_SHOWN_NAME] + "..."
    change = f"stays at {allowed}" if allowed == vertex.parallelism else f"{vertex.parallelism} -> {allowed}"
    return f"{name} {change} instead of {wanted}"
