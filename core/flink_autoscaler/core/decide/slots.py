"""Slots and TaskManagers that a plan needs, and how far it can go within quotas, headroom and free slots."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.numbers import trunc32
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.state import ScalingSummaries
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.observe.metric_names import SLOTS_AVAILABLE

if TYPE_CHECKING:
    from flink_autoscaler.core.ports.plugins import ResourceRequest
from typing import Final

from flink_autoscaler.core.model.events import Figures
from flink_autoscaler.core.model.job import Headroom


def planned_parallelism(topology: JobTopology, summaries: ScalingSummaries) -> dict[VertexId, int]:
    """Return the parallelism of every vertex after a plan."""
    return {
        vertex_id: summaries[vertex_id].new if vertex_id in summaries else vertex.parallelism
        for vertex_id, vertex in topology.vertices.items()
    }


def slots_after(topology: JobTopology, summaries: ScalingSummaries, slots_used: float) -> int:
    """Estimate the slots a job takes after a plan.

    Slots are taken as shared by all vertices when as many are in use as the widest vertex has subtasks.
    """
    planned = planned_parallelism(topology, summaries).values()
    widest = max(vertex.parallelism for vertex in topology.vertices.values())
    return max(planned) if widest == trunc32(slots_used) else sum(planned)


def taskmanagers_for(slots: int, slots_per_taskmanager: int) -> int:
    """Return how many TaskManagers have that many slots."""
    return math.ceil(slots / slots_per_taskmanager)


@dataclass(frozen=True, slots=True)
class Quota:
    """What a job may take at most; None where there is no limit.

    Attributes:
        cpu: CPUs of all TaskManagers.
        memory: Bytes of all TaskManagers.
        cpu_per_taskmanager: CPUs of one TaskManager, 0 when unknown.
        memory_per_taskmanager: Bytes of one TaskManager, 0 when unknown.
        slots_per_taskmanager: At least 1.
    """

    cpu: float | None
    memory: int | None
    cpu_per_taskmanager: float
    memory_per_taskmanager: int
    slots_per_taskmanager: int

    @property
    def is_unknown(self) -> bool:
        """Whether a limit is set that cannot be checked."""
        needs_cpu, needs_memory = self.cpu is not None, self.memory is not None
        return (needs_cpu and self.cpu_per_taskmanager <= 0) or (needs_memory and self.memory_per_taskmanager <= 0)

    def is_exceeded_by(self, taskmanagers: int) -> bool:
        """Tell whether that many TaskManagers are too many."""
        return (self.cpu is not None and self.cpu_per_taskmanager * taskmanagers > self.cpu) or (
            self.memory is not None and self.memory_per_taskmanager * taskmanagers > self.memory
        )


def group_slots(
    topology: JobTopology, parallelism: Mapping[VertexId, int], among: frozenset[VertexId] | None = None
) -> int:
    """Return the slots that the slot sharing groups take: the widest vertex of each, summed.

    Args:
        topology: The job graph.
        parallelism: Parallelism per vertex.
        among: Only these vertices count; None counts all.
    """
    groups: dict[str, int] = {}
    for vertex_id, vertex in topology.vertices.items():
        group = vertex.slot_sharing_group
        if group is not None and (among is None or vertex_id in among):
            groups[group] = max(groups.get(group, 0), parallelism[vertex_id])
    return sum(groups.values())


def taskmanagers_of(topology: JobTopology, parallelism: Mapping[VertexId, int], slots_per_taskmanager: int) -> int:
    """Return how many TaskManagers a job takes; one slot sharing group where the cluster reports none."""
    return taskmanagers_for(slots_of(topology, parallelism), slots_per_taskmanager)


def slots_of(topology: JobTopology, parallelism: Mapping[VertexId, int]) -> int:
    """Return the slots that a job takes; all vertices share them where the cluster reports no groups."""
    return group_slots(topology, parallelism) or max(parallelism.values())


def more_slots_for(topology: JobTopology, summaries: ScalingSummaries) -> int:
    """Return the slots that a job takes more than now after a plan; negative when fewer."""
    planned, now = planned_parallelism(topology, summaries), planned_parallelism(topology, {})
    return slots_of(topology, planned) - slots_of(topology, now)


def free_slots(cluster: ClusterReading) -> int | None:
    """Return the slots that the cluster reports free; None when their number is unknown."""
    try:
        return int(float(cluster.jobmanager.get(SLOTS_AVAILABLE, "nan")))
    except (ValueError, OverflowError):
        return None


def within_quota(topology: JobTopology, summaries: ScalingSummaries, quota: Quota) -> dict[VertexId, int]:
    """Return how far a plan can go without exceeding a quota.

    Returns:
        See :func:`largest_feasible`; a job that is over its quota already does not grow.
    """
    before = taskmanagers_of(topology, planned_parallelism(topology, {}), quota.slots_per_taskmanager)

    def fits(slots: int) -> bool:
        needed = taskmanagers_for(slots, quota.slots_per_taskmanager)
        return needed <= before or not quota.is_exceeded_by(needed)

    return largest_feasible(topology, summaries, fits)


def largest_feasible(
    topology: JobTopology, summaries: ScalingSummaries, fits: Callable[[int], bool]
) -> dict[VertexId, int]:
    """Return how much of a plan can be carried out within a limit on the slots of the job, see :func:`scale_to_fit`.

    Args:
        topology: The job graph.
        summaries: The plan; not empty.
        fits: Tells whether the job may take that many slots. It is not asked about no more slots than now.
    """
    before = slots_of(topology, planned_parallelism(topology, {}))

    def may_have(vector: Mapping[VertexId, int]) -> bool:
        slots = slots_of(topology, vector)
        return slots <= before or fits(slots)

    return scale_to_fit(topology, summaries, may_have)


def scale_to_fit(
    topology: JobTopology, summaries: ScalingSummaries, fits: Callable[[Mapping[VertexId, int]], bool]
) -> dict[VertexId, int]:
    """Return a plan with its scale-ups shortened, all by the same share, until it fits.

    Args:
        topology: The job graph.
        summaries: The plan; not empty.
        fits: Tells whether the job may have a parallelism per vertex; where it may not, more does not fit either.

    Returns:
        New parallelism of the vertices that still change; the whole plan when it fits, nothing when not even its
        scale-downs do.
    """
    current = planned_parallelism(topology, {})
    steps = max(summary.new - summary.current for summary in summaries.values())

    def is_beyond(step: int) -> bool:
        return not fits({**current, **_scale_share(summaries, step, steps)})

    # What is needed only ever grows with the share, so that the last share that fits can be searched by halves.
    share = bisect_left(range(1, steps + 1), True, key=is_beyond)
    if share == 0 and steps > 0 and is_beyond(0):
        return {}
    return {
        vertex_id: new for vertex_id, new in _scale_share(summaries, share, steps).items() if new != current[vertex_id]
    }


def _scale_share(summaries: ScalingSummaries, step: int, steps: int) -> dict[VertexId, int]:
    """Return the plan with ``step / steps`` of every scale-up, rounded down."""
    return {
        vertex_id: summary.current + (summary.new - summary.current) * step // steps
        if summary.is_scale_up
        else summary.new
        for vertex_id, summary in summaries.items()
    }


def exceeds_quota(topology: JobTopology, summaries: ScalingSummaries, quota: Quota) -> bool:
    """Tell whether a plan needs more than the quota, as the reference counts.

    Only changed vertices count and TaskManagers are rounded down, so that this is a lower bound; a plan that does
    not need more TaskManagers than now is always within.
    """
    if not topology.slot_sharing_groups or (quota.cpu is None and quota.memory is None):
        return False
    changed = frozenset(summaries)
    current, planned = (planned_parallelism(topology, changes) for changes in ({}, summaries))
    before = group_slots(topology, current, changed) // quota.slots_per_taskmanager
    after = group_slots(topology, planned, changed) // quota.slots_per_taskmanager
    return after > before and quota.is_exceeded_by(after)


class FreeSlotsCheck:
    """Holds back plans for which a cluster of fixed size has no free slots; shrinking is always possible."""

    def try_schedule(self, request: ResourceRequest, cluster: ClusterReading) -> bool:
        """Tell whether the free slots suffice; when their number is unknown, only a plan that needs none fits."""
        return request.more_slots <= 0 or request.more_slots <= (free_slots(cluster) or 0)


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
class AvailableCapacity:
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

    def additional_taskmanagers(self, more_slots: int) -> int:
        """Return the TaskManagers that have to be added for more slots."""
        return taskmanagers_for(max(0, more_slots - self.free_slots), self.slots_per_taskmanager)

    def fits(self, more_slots: int) -> bool:
        """Tell whether the job may have so many more slots."""
        return self.taskmanagers is None or self.additional_taskmanagers(more_slots) <= self.taskmanagers


def available_capacity(headroom: Headroom, size: TaskManagerSize, free_slots: int) -> AvailableCapacity:
    """Return what a headroom is worth in TaskManagers.

    Args:
        headroom: What can still be given.
        size: Of a TaskManager.
        free_slots: What the cluster reports free, used where the headroom does not say it.
    """
    by_cpu = _affordable_taskmanagers(headroom.cpu, size.cpu)
    memory = size.memory_in_steps(headroom.memory_step)
    by_memory = None if headroom.memory is None or memory <= 0 else headroom.memory // memory
    known = [limit for limit in (headroom.taskmanagers, by_cpu, by_memory) if limit is not None]
    unchecked = {
        "CPU": headroom.cpu is not None and by_cpu is None,
        "memory": headroom.memory is not None and by_memory is None,
    }
    return AvailableCapacity(
        free_slots=max(0, free_slots if headroom.slots is None else headroom.slots),
        taskmanagers=max(0, min(known)) if known else None,
        slots_per_taskmanager=size.slots,
        unchecked=tuple(name for name, is_unchecked in unchecked.items() if is_unchecked),
    )


def _affordable_taskmanagers(cpu: float | None, of_one: float) -> int | None:
    """Return how many TaskManagers some CPUs are enough for; None where that is not known or cannot be."""
    count = math.nan if cpu is None or of_one <= 0 else cpu / of_one
    return math.floor(count) if math.isfinite(count) else None


def within_capacity(topology: JobTopology, summaries: ScalingSummaries, room: AvailableCapacity) -> dict[VertexId, int]:
    """Return how far a plan can go with what the job may still take; see :func:`largest_feasible`."""
    before = slots_of(topology, planned_parallelism(topology, {}))
    return largest_feasible(topology, summaries, lambda slots: room.fits(slots - before))


def taskmanagers_to_add(topology: JobTopology, summaries: ScalingSummaries, room: AvailableCapacity) -> int:
    """Return how many TaskManagers have to be added for a plan."""
    return room.additional_taskmanagers(more_slots_for(topology, summaries))


def limit_text(
    headroom: Headroom,
    room: AvailableCapacity,
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
    text = f"{_capacity_text(headroom, room)}: {', '.join(texts)}"
    if headroom.total is None:
        return text
    return f"{text}; {missing_text(missing_slots(topology, summaries, allowed), room.slots_per_taskmanager)}"


def missing_slots(topology: JobTopology, summaries: ScalingSummaries, allowed: Mapping[VertexId, int]) -> int:
    """Return the slots that a plan takes more than what is left of it."""
    current = planned_parallelism(topology, {})
    return slots_of(topology, planned_parallelism(topology, summaries)) - slots_of(topology, {**current, **allowed})


def limit_figures(headroom: Headroom, room: AvailableCapacity, missing: int) -> Figures:
    """Return the slots that there are, those that the job may take, and those that are missing; empty where unknown."""
    if headroom.total is None:
        return ()
    return ("slots", headroom.total), ("slots_free", room.free_slots), ("slots_missing", missing)


def _capacity_text(headroom: Headroom, room: AvailableCapacity) -> str:
    if headroom.total is not None:
        return slots_text(headroom, room.free_slots)
    added = "no more TaskManagers" if not room.taskmanagers else _pluralize(room.taskmanagers, "more TaskManager")
    left = [] if headroom.memory is None else [f"{headroom.memory >> 20} MB"]
    left += [] if headroom.cpu is None else [_pluralize(headroom.cpu, "CPU")]
    text = f"{headroom.source} can give {added}"
    if left:
        text += f" ({', '.join(left)} left)"
    if room.free_slots:
        text += f", {_pluralize(room.free_slots, 'slot')} free"
    return text


def slots_text(headroom: Headroom, free: int) -> str:
    """Say how many slots there are, how many of them a job may take, and who has the others."""
    held = f" ({headroom.held_text})" if headroom.holders else ""
    return f"{headroom.source}: {_pluralize(headroom.total or 0, 'slot')}, {free or 'none'} free{held}"


def missing_text(missing: int, slots_per_taskmanager: int) -> str:
    """Say how many slots are missing, and what would help."""
    are_missing = "1 slot is missing" if missing == 1 else f"{missing} slots are missing"
    taskmanagers = _pluralize(taskmanagers_for(missing, slots_per_taskmanager), "more TaskManager")
    size = _pluralize(slots_per_taskmanager, "slot")
    return f"{are_missing}: {taskmanagers} of {size} would do, or slots that other jobs release"


def _pluralize(number: float, noun: str) -> str:
    return f"{number:g} {noun}" if number == 1 else f"{number:g} {noun}s"


def _change_text(topology: JobTopology, vertex_id: VertexId, wanted: int, allowed: int) -> str:
    vertex = topology.vertices[vertex_id]
    name = vertex.name if len(vertex.name) <= _SHOWN_NAME else vertex.name[:_SHOWN_NAME] + "..."
    change = f"stays at {allowed}" if allowed == vertex.parallelism else f"{vertex.parallelism} -> {allowed}"
    return f"{name} {change} instead of {wanted}"
