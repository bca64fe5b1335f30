"""Whether a scale-down pays: slots saved against the outages that it and the next scale-up cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from flink_autoscaler.core.decide.limits.slots import planned_parallelism, slots_of
from flink_autoscaler.core.decide.plan import Plan, held_back_event
from flink_autoscaler.core.evaluate.downtime import downtime_at, replay_seconds, rescales_of
from flink_autoscaler.core.model.events import Figures
from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId
from flink_autoscaler.core.model.state import ScalingSummary
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage
from flink_autoscaler.core.ports.passes import EvaluatedJob

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
    def saved(self) -> float:
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
            ("saved", self.saved),
            ("cost", self.cost),
            ("slots", float(self.slots_now - self.slots_new)),
            ("hold", self.hold),
            ("outage_down", self.outage_down),
            ("outage_up", self.outage_up),
            ("late", self.late),
        )

    def pays(self, factor: float) -> bool:
        """Tell whether so many times the cost is saved."""
        return self.saved >= factor * self.cost


def usual_hold(past: Sequence[RescaleRecord], now_ms: int) -> float | None:
    """Return the seconds that usually pass between a scale-down and the next scale-up; None without an example."""
    reached = [r for r in past if r.stage is Stage.REACHED and r.decided_ms >= now_ms - GAP_AGE_MS]
    gaps = [
        (later.decided_ms - earlier.decided_ms) / 1000
        for earlier, later in pairwise(reached)
        if not earlier.is_up and later.is_up
    ]
    return median(gaps) if gaps else None


def paying(plan: Plan, job: EvaluatedJob) -> Plan:
    """Drop a scale-down that does not pay for its outages. Where something grows as well, the outage is paid anyway."""
    options = job.context.options
    if not options.economics_enabled or plan.is_weighed or any(change.is_scale_up for change in plan.changes.values()):
        return plan
    case = _case(plan, job)
    if case.slots_now <= case.slots_new or case.pays(options.economics_factor):
        return plan
    text = (
        f"it saves {case.saved:.0f} slot-seconds ({case.slots_now - case.slots_new} slots for {case.hold:.0f} s) and "
        f"costs {case.cost:.0f}: outages of {case.outage_down:.0f} s, {case.late:.0f} s above the lag limit; it has to "
        f"save {options.economics_factor:g} times its cost"
    )
    figures = (*case.figures, ("factor", options.economics_factor))
    return plan.without_downs("DOES_NOT_PAY", text, figures).told(
        held_back_event(job.context, "ScaleDownDoesNotPay", text, figures)
    )


def _case(plan: Plan, job: EvaluatedJob) -> ScaleDownCase:
    now, planned = (planned_parallelism(job.topology, changes) for changes in ({}, plan.changes))
    replay = replay_seconds(job)
    down, up = (downtime_at(job, sum(vector.values())).q90 + replay for vector in (planned, now))
    return ScaleDownCase(
        slots_now=slots_of(job.topology, now),
        slots_new=slots_of(job.topology, planned),
        outage_down=down,
        outage_up=up,
        hold=_expected_hold(plan, job),
        late=max((_late(job, v, change, (down, up)) for v, change in plan.changes.items()), default=0.0),
    )


def _expected_hold(plan: Plan, job: EvaluatedJob) -> float:
    """Return the seconds that the smaller size is expected to last.

    As long as with the scale-downs before, but at least as long as less has been needed already: else a job whose first
    guess does not pay would never go down, and never learn more.
    """
    usual = usual_hold(rescales_of(job.state.supervision), job.now_ms)
    if usual is None:
        usual = max(job.context.options.scale_down_interval.exact_seconds, FIRST_HOLD)
    since_ms = max((plan.delayed[v].first_ms for v in plan.changes if v in plan.delayed), default=job.now_ms)
    return max(usual, (job.now_ms - since_ms) / 1000)


def _late(job: EvaluatedJob, vertex_id: VertexId, change: ScalingSummary, outages: tuple[float, float]) -> float:
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
