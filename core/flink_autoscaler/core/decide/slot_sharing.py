"""The slots that jobs of one cluster share: what each needs, what it can release, how they are divided, and pins."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flink_autoscaler.core.decide.slots import (
    Quota,
    TaskManagerSize,
    available_capacity,
    free_slots,
    planned_parallelism,
    slots_of,
    taskmanagers_for,
)
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import Headroom, JobKey, JobStatus, SlotDemand
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.orders import Orders, PauseScope, Pin
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.supervision import Requirements, SupervisionPhase
from flink_autoscaler.core.model.topology import Vertex, VertexDetails
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.model.vertex_patterns import matches
from flink_autoscaler.core.options import calendar
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import closest_key
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest

AnyVertex = Vertex | VertexDetails


def slot_demand(request: PassRequest, reading: JobReading) -> SlotDemand | None:
    """Return what a job needs that waits for slots; None where it does not, or that is not known.

    A job whose tasks are just being started counts as not running yet, but has its slots.
    """
    details, facts = reading.details, reading.facts
    if details is None or details.state != JobStatus.CREATED or not details.vertices:
        return None
    return slots_needed(details.vertices, (facts.requirements if facts else None) or {}, request.context.options)


def slots_needed(
    vertices: Iterable[AnyVertex], requirements: Requirements, options: AutoscalerOptions
) -> SlotDemand | None:
    """Return the least slots that a job starts with and the most that it takes; None for one without vertices.

    Args:
        vertices: As they are, or are to be.
        requirements: What the job asks for; a vertex that is missing there wants what it has, and one to start with.
        options: For the least parallelism of the vertices.
    """
    known = list(vertices)
    bounds = {v.vertex_id: requirements.get(v.vertex_id, (1, v.parallelism)) for v in known}
    least = {v.vertex_id: max(bounds[v.vertex_id][0], min_parallelism_of(v, options)) for v in known}
    most = {vertex_id: upper for vertex_id, (_, upper) in bounds.items()}
    least = {vertex_id: min(parallelism, most[vertex_id]) for vertex_id, parallelism in least.items()}
    return SlotDemand(slots_in_groups(known, least), slots_in_groups(known, most)) if known else None


def min_parallelism_of(vertex: AnyVertex, options: AutoscalerOptions) -> int:
    """Return the least parallelism that the options allow for a vertex."""
    own = next((each for each in options.vertex_bounds if matches(vertex, each.pattern)), None)
    return options.min_parallelism if own is None or own.minimum is None else own.minimum


def slots_in_groups(vertices: Iterable[AnyVertex], parallelism: Mapping[VertexId, int]) -> int:
    """Return the slots that a job takes: the widest vertex of every slot sharing group."""
    return sum(parallelism_by_group(vertices, parallelism).values())


def parallelism_by_group(vertices: Iterable[AnyVertex], parallelism: Mapping[VertexId, int]) -> dict[str | None, int]:
    """Return the greatest parallelism within each slot sharing group; one group where the cluster reports none."""
    groups: dict[str | None, int] = {}
    for vertex in vertices:
        group = vertex.slot_sharing_group
        groups[group] = max(groups.get(group, 0), parallelism[vertex.vertex_id])
    return groups


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
        yield f"no vertex is called '{pin.pattern}'{closest_key(pin.pattern, names) or '.'} The job has {shown}"
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
        least, most, why = own.minimum or least, own.maximum or most, "vertex.bounds"
    # Key groups bound a vertex whatever anybody configures.
    if 0 < vertex.max_parallelism < most:
        most, why = vertex.max_parallelism, "its max parallelism in Flink"
    return min(least, most), most, why


def _of_slots(after: Orders, job: PinnedJob) -> Iterator[str]:
    """Yield the quota and the free slots where all pins together take more than there is."""
    running = {vertex.vertex_id: vertex.parallelism for vertex in job.vertices}
    pinned = {vertex_id: pin.parallelism for vertex_id, pin in after.pins_by_vertex(job.vertices).items()}
    now, then = _slots(job, running), _slots(job, {**running, **pinned})
    # Pins that make the job smaller need no room.
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
    room = available_capacity(
        room_for, TaskManagerSize(per_taskmanager, context.taskmanager_cpu or 0.0, memory), _free(job)
    )
    if not room.fits(then - now):
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


def is_preemptible(request: PassRequest) -> bool:
    """Tell whether a job can be asked for slots: it runs, Flink can rescale it, and nobody wants it left as it is."""
    options, supervision = request.context.options, request.state.supervision
    is_dry = options.dry_run or request.orders.dry_run is not None
    is_allowed = (
        options.enabled
        and options.scaling_enabled
        and options.scale_down_enabled
        and not is_dry
        and request.context.restriction.may_scale_down
    )
    if not is_allowed or not options.supervises_rescales:
        return False
    # No other scheduler can be asked for fewer slots.
    if request.context.flink_options.scheduler.strip().lower() != "adaptive":
        return False
    if request.context.status is not JobStatus.RUNNING or supervision.edit is not None:
        return False
    # It has to get back what it survives before anybody asks it for more.
    if supervision.phase in (SupervisionPhase.ROLLING_BACK, SupervisionPhase.PAUSED):
        return False
    is_paused = request.orders.pause_for(PauseScope.DOWN, request.now_ms) is not None
    is_reference = not options.is_improved
    return not (is_paused or calendar.is_excluded(options.excluded_periods, request.now_ms, is_reference=is_reference))


def min_slots_of(vertices: Iterable[AnyVertex], request: PassRequest) -> int:
    """Return the slots that a job keeps whatever it gives: bounds, pins and excluded vertices hold."""
    known = list(vertices)
    return slots_in_groups(known, _floors(known, request))


def shrink_to(vertices: Iterable[AnyVertex], request: PassRequest, slots: int) -> dict[VertexId, int]:
    """Return the parallelism of all vertices within so many slots, or as near to that as may be.

    Slot after slot is taken from the widest slot sharing group that has any to give.
    """
    known = list(vertices)
    floors = _floors(known, request)
    # By group, not by vertex: a slot is free only when no vertex of its group needs it.
    groups, least = (
        parallelism_by_group(known, {v.vertex_id: v.parallelism for v in known}),
        parallelism_by_group(known, floors),
    )
    while sum(groups.values()) > slots:
        givers = [group for group, width in groups.items() if width > least[group]]
        if not givers:
            break
        groups[max(givers, key=lambda group: groups[group])] -= 1
    return {v.vertex_id: max(floors[v.vertex_id], min(v.parallelism, groups[v.slot_sharing_group])) for v in known}


def _floors(vertices: list[AnyVertex], request: PassRequest) -> dict[VertexId, int]:
    """Return the parallelism below which no vertex goes."""
    options, pinned = request.context.options, request.orders.pins_by_vertex(vertices)
    restriction = request.context.restriction

    # A vertex that nobody may change has nothing to give.
    def is_fixed(vertex: AnyVertex) -> bool:
        is_excluded = vertex.vertex_id in options.vertex_exclude_ids or vertex.vertex_id in restriction.fixed
        names = options.vertex_exclude_names
        return is_excluded or vertex.vertex_id in pinned or any(matches(vertex, name) for name in names)

    least = {
        v.vertex_id: max(1, min_parallelism_of(v, options), restriction.floors.get(v.vertex_id, 0)) for v in vertices
    }
    return {v.vertex_id: v.parallelism if is_fixed(v) else min(v.parallelism, least[v.vertex_id]) for v in vertices}


@dataclass(frozen=True, slots=True)
class Claim:
    """What one job wants.

    Attributes:
        held: Slots that it has.
        wanted: Slots that it wants to have, more than ``held``.
        priority: Jobs with a higher number come first.
        weight: Share relative to jobs of the same priority; more than 0.
        minimum: Slots that it needs to run as it should; who holds fewer is starving.
    """

    job_key: JobKey
    held: int
    wanted: int
    priority: int = 0
    weight: float = 1.0
    minimum: int = 0

    @property
    def deficit(self) -> int:
        """The slots that it needs and does not hold; 0 for a job that is not starving."""
        return max(0, self.minimum - self.held)


def fair_shares(claims: Iterable[Claim], free: int) -> dict[JobKey, int]:
    """Deal free slots out: weighted max-min within a priority, higher priorities first.

    Returns:
        Slots that each job gets in addition to those it holds, at most what it wants, together at most ``free``.
    """
    granted = {claim.job_key: 0 for claim in claims}
    by_priority: dict[int, list[Claim]] = {}
    for claim in claims:
        by_priority.setdefault(claim.priority, []).append(claim)
    for priority in sorted(by_priority, reverse=True):
        free -= _fill(by_priority[priority], free, granted)
    return granted


def redistribute(claims: Sequence[Claim], free: int) -> dict[JobKey, int]:
    """Deal out anew what jobs hold and what is free, where some of them are starving.

    A starving job gets its least from what is free, and from what jobs of the same or a lower priority hold beyond
    their least; where that is not enough, it gets nothing. What is left goes by :func:`fair_shares`.

    Args:
        claims: Those that are not starving want no more than they hold.
        free: Slots that nobody holds.

    Returns:
        Slots that each job is to have: at least its least, unless it is starving and cannot be helped; at most what it
        wants; together at most what they hold and what is free.
    """
    served = _select_recipients(claims, free)
    if not served:
        return {claim.job_key: claim.held for claim in claims}
    floors = {claim.job_key: claim.minimum if claim in served or not claim.deficit else claim.held for claim in claims}
    # The minima come first; only what is beyond them is shared by weight.
    rest = free + sum(claim.held for claim in claims) - sum(floors.values())
    open_claims = [
        replace(claim, held=floors[claim.job_key])
        for claim in claims
        if claim.wanted > floors[claim.job_key] and (claim in served or not claim.deficit)
    ]
    more = fair_shares(open_claims, rest)
    return {job_key: floor + more.get(job_key, 0) for job_key, floor in floors.items()}


def _select_recipients(claims: Sequence[Claim], free: int) -> list[Claim]:
    """Return the starving jobs that can be helped, by priority; of equal ones those that lack the least."""
    # Whoever lacks least first, so that as many jobs as possible get to run.
    served, taken = list[Claim](), 0
    for claim in sorted(claims, key=lambda each: (-each.priority, each.deficit, each.job_key)):
        # Who is as important gives as well, but nobody above.
        spare = sum(max(0, each.held - each.minimum) for each in claims if each.priority <= claim.priority)
        if claim.deficit and taken + claim.deficit <= free + spare:
            served.append(claim)
            taken += claim.deficit
    return served


def _fill(claims: Sequence[Claim], free: int, granted: dict[JobKey, int]) -> int:
    """Give slot after slot to the job that has the least for its weight; return how many were given."""
    queue = [(claim.held / claim.weight, position) for position, claim in enumerate(claims)]
    # Of equal ones the first: the same claims are always dealt alike.
    heapq.heapify(queue)
    given = 0
    while queue and given < free:
        _, position = heapq.heappop(queue)
        claim = claims[position]
        granted[claim.job_key] += 1
        given += 1
        total = claim.held + granted[claim.job_key]
        if total < claim.wanted:
            heapq.heappush(queue, (total / claim.weight, position))
    return given


def more_slots(outcome: PassOutcome) -> tuple[int, int] | None:
    """Return the slots that a job has and those that its new decision wants; None where it decided nothing."""
    topology = outcome.observation.topology
    if not isinstance(outcome.decision, Rescale) or topology is None:
        return None
    now, planned = (planned_parallelism(topology, changes) for changes in ({}, outcome.decision.summaries))
    return slots_of(topology, now), slots_of(topology, planned)


def defer(outcome: PassOutcome, reason: Reason) -> PassOutcome:
    """Return the outcome as if the job had not decided anything in this pass."""
    # Nothing was decided: there is nothing to take back.
    if outcome.undecided is None:
        return outcome
    decision = Hold((*outcome.decision.reasons, reason))
    # State and target both: a target that is left would be realized although nothing remembers it.
    target = replace(outcome.target, parallelism={}, min_parallelism={})
    return replace(outcome, decision=decision, state=outcome.undecided, undecided=None, target=target, report=None)
