"""What speaks against a pin: names that no vertex has, bounds of its vertices, the quota of the job, and free slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from flink_autoscaler.core.decide.limits.headroom import TaskManagerSize, room_in
from flink_autoscaler.core.decide.limits.needs import AnyVertex, slots_in_groups
from flink_autoscaler.core.decide.limits.slots import Quota, free_slots, taskmanagers_for
from flink_autoscaler.core.model.job import Headroom
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.orders import Orders, Pin
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.vertex_patterns import matches
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.option import nearest


@dataclass(frozen=True, slots=True)
class PinnedJob:
    """A job as a pass saw it.

    Attributes:
        vertices: At least one.
    """

    context: JobAutoScalerContext
    vertices: Sequence[AnyVertex]
    cluster: ClusterReading
    seen_ms: int


def pin_problems(before: Orders, after: Orders, job: PinnedJob) -> list[str]:
    """Return what speaks against the pins that are new, with the figures, for people; empty when nothing does."""
    new = [pin for pin in after.pins if pin not in before.pins]
    problems = [text for pin in new for text in _of_vertices(pin, job)]
    return [*problems, *_of_slots(after, job)]


def _of_vertices(pin: Pin, job: PinnedJob) -> Iterator[str]:
    fitting = [vertex for vertex in job.vertices if matches(vertex, pin.pattern)]
    if not fitting:
        names = [vertex.name for vertex in job.vertices]
        shown = ", ".join(f"'{name}'" for name in names)
        yield f"no vertex is called '{pin.pattern}'{nearest(pin.pattern, names) or '.'} The job has {shown}"
    for vertex in fitting:
        least, most, why = _bounds(vertex, job.context)
        if not least <= pin.parallelism <= most:
            yield f"'{vertex.name}' may have {least} to {most} ({why}), not {pin.parallelism}"


def _bounds(vertex: AnyVertex, context: JobAutoScalerContext) -> tuple[int, int, str]:
    """Return the least and the greatest parallelism of a vertex, and what says so."""
    options = context.options
    least, most, why = options.min_parallelism, options.max_parallelism, "vertex.max-parallelism"
    own = next((each for each in options.vertex_bounds if matches(vertex, each.pattern)), None)
    if own is not None:
        least, most, why = own.least or least, own.greatest or most, "vertex.bounds"
    if 0 < vertex.max_parallelism < most:
        most, why = vertex.max_parallelism, "its max parallelism in Flink"
    return min(least, most), most, why


def _of_slots(after: Orders, job: PinnedJob) -> Iterator[str]:
    """Yield the quota and the free slots where all pins together take more than there is."""
    running = {vertex.vertex_id: vertex.parallelism for vertex in job.vertices}
    pinned = {vertex_id: pin.parallelism for vertex_id, pin in after.pinned(job.vertices).items()}
    now, then = _slots(job, running), _slots(job, {**running, **pinned})
    if then <= now:
        return
    context = job.context
    options, flink = context.options, context.flink_options
    memory = flink.process_memory or context.taskmanager_memory or 0
    per_taskmanager = max(1, flink.task_slots)
    quota = Quota(options.quota_cpu, options.quota_memory, context.taskmanager_cpu or 0.0, memory, per_taskmanager)
    taskmanagers = taskmanagers_for(then, per_taskmanager)
    if quota.is_exceeded_by(taskmanagers):
        yield f"the job would take {taskmanagers} TaskManagers for {then} slots, more than its quota"
    room_for = _headroom(context)
    if room_for is None:
        return
    room = room_in(room_for, TaskManagerSize(per_taskmanager, context.taskmanager_cpu or 0.0, memory), _free(job))
    if not room.holds(then - now):
        added = f" and {room.taskmanagers} more TaskManagers can be had" if room.taskmanagers else ""
        yield (
            f"the job has {now} {'slot' if now == 1 else 'slots'} and would take {then}, {then - now} more; "
            f"{room.free_slots} are free in {room_for.source}{added}"
        )


def _headroom(context: JobAutoScalerContext) -> Headroom | None:
    """Return what the cluster can still give; None where it can grow as far as is known."""
    if context.headroom is not None:
        return context.headroom
    capacity = context.capacity
    if capacity is None or not capacity.is_fixed:
        return None
    return Headroom(f"cluster {context.cluster}", taskmanagers=0, slots=capacity.free_slots)


def _free(job: PinnedJob) -> int:
    return free_slots(job.cluster) or 0


def _slots(job: PinnedJob, parallelism: Mapping[VertexId, int]) -> int:
    return slots_in_groups(job.vertices, parallelism)
