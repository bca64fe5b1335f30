"""The filters that keep rescales few and safe, and the order in which they are asked; none is asked twice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from flink_autoscaler.core.decide.plan import Plan, filter_event, plan_event
from flink_autoscaler.core.decide.slots import planned_parallelism, scale_to_fit, slots_of
from flink_autoscaler.core.evaluate.downtime import downtime_at, rescales_of
from flink_autoscaler.core.model.events import EventType, Figures, Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId
from flink_autoscaler.core.model.orders import PauseScope
from flink_autoscaler.core.model.state import ScalingSummary
from flink_autoscaler.core.model.supervision import Origin, RescaleRecord, Stage
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy, Vertex
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.options.safety import DOWN_SHARE
from flink_autoscaler.core.ports.passes import EvaluatedJob


def pause_filter(plan: Plan, job: EvaluatedJob) -> Plan:
    """Drop the directions that are paused or switched off."""
    options = job.context.options
    switches = {PauseScope.UP: options.scale_up_enabled, PauseScope.DOWN: options.scale_down_enabled}
    for direction, is_on in switches.items():
        pause = job.orders.pause_for(direction, job.now_ms)
        is_safe = direction is PauseScope.UP or job.context.restriction.may_scale_down
        left = {v: c for v, c in plan.changes.items() if (c.new > c.current) is not (direction is PauseScope.UP)}
        if len(left) == len(plan.changes) or (is_on and is_safe and pause is None):
            continue
        if pause is not None:
            who, why = pause.signed.who, pause.signed.reason
            plan = plan.with_reason(Reason.of(ReasonCode.PAUSED, direction=direction.value, who=who, why=why))
        elif not is_on:
            plan = plan.with_reason(Reason.of(ReasonCode.DIRECTION_OFF, direction=direction.value))
        # Else the reasons of the pass say already what is unknown, and that nothing is scaled down for that.
        plan = replace(plan, changes=left)
    return plan


def quarantine_filter(plan: Plan, job: EvaluatedJob) -> Plan:
    """Keep vertices below a parallelism that failed."""
    failed = {entry.vertex_id: entry for entry in job.state.supervision.quarantine}
    if not failed:
        return plan
    kept = {}
    for vertex_id, change in plan.changes.items():
        entry = failed.get(vertex_id)
        if entry is None or not change.is_scale_up or change.new < entry.parallelism:
            kept[vertex_id] = change.new
            continue
        limit = entry.parallelism - 1
        figures = (("wanted", float(change.new)), ("failed", float(entry.parallelism)), ("limit", float(limit)))
        reason = Reason.of(ReasonCode.QUARANTINED, vertex_id, figures, cause=entry.cause)
        event = filter_event(job.context, "ParallelismQuarantined", reason, f" of vertex {vertex_id}")
        plan = plan.with_reason(reason).with_event(event)
        if limit > change.current:
            kept[vertex_id] = limit
    return plan.with_parallelism(kept, {})


DAY_MS: Final = 86_400_000


def own_rescales(job: EvaluatedJob) -> list[RescaleRecord]:
    """Return the rescales that were the autoscaler's own wish and did something, or may have; oldest first."""
    return [record for record in rescales_of(job.state.supervision) if record.origin is Origin.AUTOSCALER]


def budget_filter(plan: Plan, job: EvaluatedJob) -> Plan:
    """Allow only so many rescales a day; scale-downs leave some of them to scale-ups."""
    budget = job.context.options.rescales_per_day
    if not budget:
        return plan
    used = sum(record.decided_ms > job.now_ms - DAY_MS for record in own_rescales(job))
    is_up = any(change.is_scale_up for change in plan.changes.values())
    limit = budget if is_up else max(1, math.floor(budget * DOWN_SHARE))
    if used < limit:
        return plan
    figures = (("used", float(used)), ("limit", float(limit)), ("budget", float(budget)))
    words = {} if is_up else {"rest": "the rest is kept for scale-ups"}
    reason = Reason.of(ReasonCode.BUDGET_SPENT, figures=figures, **words)
    event = replace(filter_event(job.context, "RescaleBudgetSpent", reason), type=EventType.WARNING)
    return plan.with_reason(reason).with_event(event).without_changes()


LATE_WEIGHT: Final = 5.0
"""What a second above the lag limit costs, in slot-seconds per slot."""

LONGEST_HOLD: Final = 86_400.0
"""Seconds for which the smaller size is assumed to last at most."""

FIRST_HOLD: Final = 3_600.0
"""Seconds for which it is assumed to last, at least, while nothing is known about the job."""

GAP_AGE_MS: Final = 14 * 86_400_000


def late_seconds(arrival: float, capacity: float, outage: float, limit: float) -> float:
    """Return how long the lag is above a limit after an outage.

    Args:
        arrival: Records/s that arrive.
        capacity: Records/s that can be processed afterwards.
        outage: Seconds without processing, replay included.
        limit: Lag in seconds that is fine.

    Returns:
        Seconds; infinite where the backlog never shrinks.
    """
    if outage <= limit or arrival <= 0:
        return 0.0
    if capacity <= arrival:
        return math.inf
    return (outage - limit) * capacity / (capacity - arrival)


@dataclass(frozen=True, slots=True)
class ScaleDownCase:
    """What a scale-down would bring and cost.

    Attributes:
        slots_now: Slots before.
        slots_new: Slots after.
        outage_down: Seconds without processing for the scale-down.
        outage_up: The same for the scale-up that will follow.
        hold: Seconds for which the smaller size lasts.
        late: Seconds above the lag limit after both outages.
    """

    slots_now: int
    slots_new: int
    outage_down: float
    outage_up: float
    hold: float
    late: float

    @property
    def savings(self) -> float:
        """Slot-seconds saved."""
        return (self.slots_now - self.slots_new) * min(self.hold, LONGEST_HOLD)

    @property
    def cost(self) -> float:
        """Slot-seconds that the outages cost."""
        outages = self.slots_new * self.outage_down + self.slots_now * self.outage_up
        return outages + LATE_WEIGHT * self.slots_now * self.late

    @property
    def figures(self) -> Figures:
        """What is weighed, in slots, seconds and slot-seconds."""
        return (
            ("saved", self.savings),
            ("cost", self.cost),
            ("slots", float(self.slots_now - self.slots_new)),
            ("hold", self.hold),
            ("outage_down", self.outage_down),
            ("outage_up", self.outage_up),
            ("late", self.late),
        )

    def pays(self, factor: float) -> bool:
        """Tell whether so many times the cost is saved."""
        return self.savings >= factor * self.cost


def usual_duration(past: Sequence[RescaleRecord], now_ms: int) -> float | None:
    """Return the seconds that usually pass between a scale-down and the next scale-up; None without an example."""
    reached = [r for r in past if r.stage is Stage.REACHED and r.decided_ms >= now_ms - GAP_AGE_MS]
    gaps = [
        (later.decided_ms - earlier.decided_ms) / 1000
        for earlier, later in pairwise(reached)
        if not earlier.is_up and later.is_up
    ]
    return median(gaps) if gaps else None


def payback_filter(plan: Plan, job: EvaluatedJob) -> Plan:
    """Drop a scale-down that does not pay for its outages. Where something grows as well, the outage is paid anyway."""
    options = job.context.options
    if not options.economics_enabled or plan.is_weighed or any(change.is_scale_up for change in plan.changes.values()):
        return plan
    case = _case(plan, job)
    if case.slots_now <= case.slots_new or case.pays(options.economics_factor):
        return plan
    reason = Reason.of(ReasonCode.DOES_NOT_PAY, figures=(*case.figures, ("factor", options.economics_factor)))
    return plan.without_scale_downs(reason).with_event(filter_event(job.context, "ScaleDownDoesNotPay", reason))


def _case(plan: Plan, job: EvaluatedJob) -> ScaleDownCase:
    now, planned = (planned_parallelism(job.topology, changes) for changes in ({}, plan.changes))
    outages = (downtime_at(job, sum(vector.values())) for vector in (planned, now))
    down, up = (outage.q90 + outage.replay for outage in outages)
    return ScaleDownCase(
        slots_now=slots_of(job.topology, now),
        slots_new=slots_of(job.topology, planned),
        outage_down=down,
        outage_up=up,
        hold=_expected_duration(plan, job),
        late=max((_late_seconds_of(job, v, change, (down, up)) for v, change in plan.changes.items()), default=0.0),
    )


def _expected_duration(plan: Plan, job: EvaluatedJob) -> float:
    """Return the seconds that the smaller size is expected to last.

    As long as with the scale-downs before, but at least as long as less has been needed already: else a job whose first
    guess does not pay would never go down, and never learn more.
    """
    usual = usual_duration(rescales_of(job.state.supervision), job.now_ms)
    if usual is None:
        usual = max(job.context.options.scale_down_interval.exact_seconds, FIRST_HOLD)
    since_ms = max((plan.delayed[v].first_ms for v in plan.changes if v in plan.delayed), default=job.now_ms)
    return max(usual, (job.now_ms - since_ms) / 1000)


def _late_seconds_of(
    job: EvaluatedJob, vertex_id: VertexId, change: ScalingSummary, outages: tuple[float, float]
) -> float:
    """Return the seconds above the lag limit that going down and up again with a vertex costs.

    The next scale-up comes when the smaller size is used to the full, as far as the options allow.
    """
    metrics, options = job.metrics.vertices[vertex_id], job.context.options
    rate = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average
    arrival = metrics[ScalingMetric.TARGET_DATA_RATE].average
    if not (math.isfinite(rate) and math.isfinite(arrival)):
        return 0.0
    smaller = rate * change.new / change.current
    limit = options.slo_lag.exact_seconds
    fullest = smaller * min(1.0, options.utilization_max or options.utilization_target + options.utilization_boundary)
    down = late_seconds(min(arrival, 0.99 * smaller), smaller, outages[0], limit)
    up = late_seconds(min(fullest, 0.99 * rate), rate, outages[1], limit)
    return down + up


SHARE: Final = 0.95
"""Part of the network memory that a plan may need; a little is taken by others."""

_ONE_TO_ONE: Final = frozenset({ShipStrategy.FORWARD})
_NEIGHBOURS: Final = frozenset({ShipStrategy.RESCALE})


def network_memory_filter(plan: Plan, job: EvaluatedJob) -> Plan:
    """Raise vertices only as far as every TaskManager has network buffers for its tasks."""
    capacity, topology = job.context.capacity, job.topology
    if capacity is None or not capacity.network_memory or not job.context.options.network_precheck:
        return plan
    slots, segment = capacity.slots_per_taskmanager, job.context.flink_options.segment_size
    now, planned = (planned_parallelism(topology, changes) for changes in ({}, plan.changes))
    # A job that runs with more than the model allows shows that the model is too strict for it.
    limit = max(math.floor(SHARE * capacity.network_memory / segment), required_buffers(topology, now, slots))
    needed = required_buffers(topology, planned, slots)
    if needed <= limit:
        return plan
    fitting = scale_to_fit(topology, plan.changes, lambda vector: required_buffers(topology, vector, slots) <= limit)
    mebibytes = capacity.network_memory / (1 << 20)
    reason = Reason.of(ReasonCode.NETWORK_MEMORY, needed=needed, limit=limit, mebibytes=mebibytes)
    message = (
        f"A scale-up is limited by network memory: {reason.text}; raise taskmanager.memory.network.max or .fraction"
    )
    event = plan_event(job.context, "NetworkMemoryLimited", message, "NetworkMemoryLimited")
    return plan.with_parallelism(fitting, now).with_reason(reason).with_event(event)


def required_buffers(topology: JobTopology, parallelism: Mapping[VertexId, int], slots_per_taskmanager: int) -> int:
    """Return the buffers that the fullest TaskManager needs at least.

    An input needs two buffers per channel and one more, an output one per subpartition and one more. A TaskManager may
    host one subtask of every vertex of a slot sharing group in each of its slots.
    """
    groups: dict[str | None, int] = {}
    for vertex_id, vertex in topology.vertices.items():
        if vertex.is_finished:
            continue
        subtasks = min(parallelism[vertex_id], slots_per_taskmanager)
        group = vertex.slot_sharing_group
        groups[group] = groups.get(group, 0) + subtasks * _buffers_of_subtask(vertex, parallelism)
    return max(groups.values(), default=0)


def _buffers_of_subtask(vertex: Vertex, parallelism: Mapping[VertexId, int]) -> int:
    own = parallelism[vertex.vertex_id]
    inputs = sum(2 * _fan_out(strategy, parallelism[v], own) + 1 for v, strategy in vertex.inputs.items())
    outputs = sum(_fan_out(strategy, parallelism[v], own) + 1 for v, strategy in vertex.outputs.items())
    return inputs + outputs


def _fan_out(strategy: ShipStrategy, other: int, own: int) -> int:
    """Return with how many subtasks at the other end of an edge one subtask is connected."""
    if strategy in _ONE_TO_ONE and other == own:
        return 1
    return math.ceil(other / own) if strategy in _ONE_TO_ONE | _NEIGHBOURS else other


Filter = Callable[[Plan, EvaluatedJob], Plan]
"""Takes a plan that is not empty, and returns it, a smaller one or an empty one, and says why."""

FILTERS: Final[tuple[Filter, ...]] = (
    pause_filter,
    quarantine_filter,
    budget_filter,
    payback_filter,
    network_memory_filter,
)


def apply_filters(plan: Plan, job: EvaluatedJob) -> Plan:
    """Return what is left of a plan; the reference knows none of the filters but what people forbid."""
    options = job.context.options
    for part in FILTERS if options.filters_rescales else FILTERS[:1]:
        if not plan.changes:
            break
        plan = part(plan, job)
    return plan
