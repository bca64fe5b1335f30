"""The filters that keep rescales few and safe: what people forbade, what failed before, and what does not pay.

Each takes a plan and returns it, a smaller one or nothing, and says why. Their order matters; none is asked twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from flink_autoscaler.core.decide.decision_run import DecisionRun
from flink_autoscaler.core.decide.filters.economics import FIRST_HOLD, ScaleDownCase, late_seconds, usual_hold
from flink_autoscaler.core.decide.limits.slots import planned_parallelism, slots_of
from flink_autoscaler.core.decide.memory.network_buffers import SHARE, buffers_needed
from flink_autoscaler.core.evaluate.downtime import DowntimeEstimate, Size, estimate_downtime
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId
from flink_autoscaler.core.model.orders import PauseScope
from flink_autoscaler.core.model.state import ScalingSummaries, ScalingSummary
from flink_autoscaler.core.model.supervision import Mechanism, Origin, RescaleRecord, Stage

Filter = Callable[[DecisionRun, ScalingSummaries], ScalingSummaries]

DAY_MS: Final = 86_400_000
_DOWN_SHARE: Final = 0.75
_MOST_DOUBLINGS: Final = 6


def calmed(run: DecisionRun, summaries: ScalingSummaries) -> ScalingSummaries:
    """Return what is left of a plan after all filters; empty when nothing is."""
    summaries = _allowed(run, summaries)
    if not run.given.options.improves(run.given.options.calm):
        return summaries
    for part in _FILTERS:
        if not summaries:
            return {}
        summaries = part(run, summaries)
    return summaries


def _allowed(run: DecisionRun, summaries: ScalingSummaries) -> ScalingSummaries:
    """Drop the directions that are paused or switched off."""
    options, orders, now_ms = run.given.options, run.given.orders, run.given.now_ms
    switches = {PauseScope.UP: options.scale_up_enabled, PauseScope.DOWN: options.scale_down_enabled}
    for direction, is_on in switches.items():
        pause = orders.paused(direction, now_ms)
        if not any(_direction(summary) is direction for summary in summaries.values()) or (is_on and pause is None):
            continue
        if pause is not None:
            who = pause.signed
            run.explain("PAUSED", f"scaling {direction.value} is paused by {who.who}: {who.reason}")
        else:
            run.explain("DIRECTION_OFF", f"scaling {direction.value} is switched off (scale-{direction.value}.enabled)")
        summaries = {v: summary for v, summary in summaries.items() if _direction(summary) is not direction}
    return summaries


def _outside_quarantine(run: DecisionRun, summaries: ScalingSummaries) -> ScalingSummaries:
    """Keep vertices below a parallelism that failed."""
    failed = {entry.vertex_id: entry for entry in run.given.state.supervision.quarantine}
    kept: dict[VertexId, ScalingSummary] = {}
    for vertex_id, summary in summaries.items():
        entry = failed.get(vertex_id)
        if entry is None or not summary.is_scale_up or summary.new < entry.parallelism:
            kept[vertex_id] = summary
            continue
        limit = entry.parallelism - 1
        text = f"parallelism {entry.parallelism} failed ({entry.cause}); at most {limit} until the cluster has changed"
        run.explain("QUARANTINED", text, vertex_id)
        if limit > summary.current:
            kept[vertex_id] = run.resized(vertex_id, summary, limit)
    return kept


def _within_budget(run: DecisionRun, summaries: ScalingSummaries) -> ScalingSummaries:
    """Allow only so many rescales a day; scale-downs leave some of them to scale-ups."""
    budget = run.given.options.rescales_per_day
    if not budget:
        return summaries
    since_ms = run.given.now_ms - DAY_MS
    used = sum(record.decided_ms > since_ms and _counts(record) for record in _records(run))
    is_up = any(summary.is_scale_up for summary in summaries.values())
    limit = budget if is_up else max(1, math.floor(budget * _DOWN_SHARE))
    if used < limit:
        return summaries
    kind = "rescales" if is_up else "rescales, the rest is kept for scale-ups"
    text = f"{used} rescales within a day; at most {limit} {kind} (rescale.budget.per-day {budget})"
    run.explain("BUDGET_SPENT", text)
    run.tell(EventType.WARNING, "RescaleBudgetSpent", f"Scaling is held back: {text}", "RescaleBudgetSpent")
    return {}


def _without_reversals(run: DecisionRun, summaries: ScalingSummaries) -> ScalingSummaries:
    """Let a job that went down too early before wait longer before it goes down again."""
    window_ms, now_ms = run.given.options.reversal_window.ms, run.given.now_ms
    records = [record for record in _records(run) if _counts(record)]
    if not window_ms or not records:
        return summaries
    reversals = sum(
        not earlier.is_up and later.is_up and later.decided_ms - earlier.decided_ms <= window_ms
        for earlier, later in pairwise(records)
        if later.decided_ms > now_ms - DAY_MS
    )
    wait_ms = window_ms * (2 ** min(reversals, _MOST_DOUBLINGS)) // 2 if reversals else 0
    left_ms = records[-1].decided_ms + wait_ms - now_ms
    if left_ms <= 0:
        return summaries
    text = f"{reversals} scale-downs of the last day were taken back soon; the next waits {left_ms // 1000} s more"
    return _without_downs(run, summaries, "REVERSAL_DAMPED", text)


def _paying(run: DecisionRun, summaries: ScalingSummaries) -> ScalingSummaries:
    """Drop a scale-down that does not pay for its outages. Where something grows as well, the outage is paid anyway."""
    options = run.given.options
    if not options.economics_enabled or any(summary.is_scale_up for summary in summaries.values()):
        return summaries
    case = _case(run, summaries)
    if case.slots_now <= case.slots_new or case.pays(options.economics_factor):
        return summaries
    text = (
        f"it saves {case.saved:.0f} slot-seconds ({case.slots_now - case.slots_new} slots for {case.hold:.0f} s) and "
        f"costs {case.cost:.0f}: outages of {case.outage_down:.0f} s, {case.late:.0f} s above the lag limit; it has to "
        f"save {options.economics_factor:g} times its cost"
    )
    return _without_downs(run, summaries, "DOES_NOT_PAY", text)


def _case(run: DecisionRun, summaries: ScalingSummaries) -> ScaleDownCase:
    topology = run.given.topology
    now = {vertex_id: vertex.parallelism for vertex_id, vertex in topology.vertices.items()}
    planned = planned_parallelism(topology, summaries)
    down, up = (_downtime(run, sum(vector.values())).q90 for vector in (planned, now))
    replay = _replay_seconds(run)
    return ScaleDownCase(
        slots_now=slots_of(topology, now),
        slots_new=slots_of(topology, planned),
        outage_down=down + replay,
        outage_up=up + replay,
        hold=_expected_hold(run, summaries),
        late=max(
            (_late(run, v, summary, (down + replay, up + replay)) for v, summary in summaries.items()), default=0.0
        ),
    )


def _expected_hold(run: DecisionRun, summaries: ScalingSummaries) -> float:
    """Return the seconds that the smaller size is expected to last.

    As long as with the scale-downs before, but at least as long as less has been needed already: else a job whose first
    guess does not pay would never go down, and never learn more.
    """
    usual = usual_hold(_records(run), run.given.now_ms)
    if usual is None:
        usual = max(run.given.options.scale_down_interval.exact_seconds, FIRST_HOLD)
    pending = run.delayed.vertices
    since_ms = max((pending[v].first_ms for v in summaries if v in pending), default=run.given.now_ms)
    return max(usual, (run.given.now_ms - since_ms) / 1000)


def _late(run: DecisionRun, vertex_id: VertexId, summary: ScalingSummary, outages: tuple[float, float]) -> float:
    """Return the seconds above the lag limit that going down and up again with a vertex costs.

    The next scale-up comes when the smaller size is used to the full, as far as the options allow.
    """
    metrics, options = run.vertices[vertex_id], run.given.options
    rate = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average
    arrival = metrics[ScalingMetric.TARGET_DATA_RATE].average
    if not (math.isfinite(rate) and math.isfinite(arrival)):
        return 0.0
    smaller = rate * summary.new / summary.current
    limit = options.slo_lag.exact_seconds
    fullest = smaller * min(1.0, options.utilization_max or options.utilization_target + options.utilization_boundary)
    down = late_seconds(min(arrival, 0.99 * smaller), smaller, outages[0], limit)
    up = late_seconds(min(fullest, 0.99 * rate), rate, outages[1], limit)
    return down + up


def _downtime(run: DecisionRun, subtasks: int) -> DowntimeEstimate:
    records = _records(run)
    known = next((r for r in reversed(records) if r.taskmanagers is not None), None)
    size = Size.of(known.state_bytes if known else None, known.taskmanagers if known else None, subtasks)
    return estimate_downtime(records, Mechanism.IN_PLACE, size, now_ms=run.given.now_ms)


def _replay_seconds(run: DecisionRun) -> float:
    """Return the age of the checkpoint that a rescale goes back to, on average."""
    interval = run.given.context.flink_options.checkpoint_interval
    return 0.0 if interval is None else interval.exact_seconds / 2


def _within_network_memory(run: DecisionRun, summaries: ScalingSummaries) -> ScalingSummaries:
    """Raise vertices only as far as every TaskManager has network buffers for its tasks."""
    capacity, topology = run.given.context.capacity, run.given.topology
    if not run.given.options.network_precheck or capacity is None or not capacity.network_memory:
        return summaries
    slots, segment = capacity.slots_per_taskmanager, run.given.context.flink_options.segment_size
    now = {vertex_id: vertex.parallelism for vertex_id, vertex in topology.vertices.items()}
    # A job that runs with more than the model allows shows that the model is too strict for it.
    limit = max(math.floor(SHARE * capacity.network_memory / segment), buffers_needed(topology, now, slots))
    needed = buffers_needed(topology, planned_parallelism(topology, summaries), slots)
    if needed <= limit:
        return summaries
    fitting = _as_far_as(
        run, summaries, lambda plan: buffers_needed(topology, planned_parallelism(topology, plan), slots) <= limit
    )
    mebibytes = capacity.network_memory / (1 << 20)
    text = f"{needed} network buffers needed on a TaskManager, {limit} of {mebibytes:.0f} MiB may be taken"
    run.explain("NETWORK_MEMORY", text)
    message = f"A scale-up is limited by network memory: {text}; raise taskmanager.memory.network.max or .fraction"
    run.tell(EventType.WARNING, "NetworkMemoryLimited", message, "NetworkMemoryLimited")
    return fitting


def _as_far_as(
    run: DecisionRun, summaries: ScalingSummaries, fits: Callable[[ScalingSummaries], bool]
) -> ScalingSummaries:
    """Return the plan with its scale-ups shortened, all by the same share, until it fits."""
    steps = max(summary.new - summary.current for summary in summaries.values())
    for step in range(steps - 1, -1, -1):
        plan = {}
        for vertex_id, summary in summaries.items():
            grown = summary.current + (summary.new - summary.current) * step // steps
            if not summary.is_scale_up:
                plan[vertex_id] = summary
            elif grown > summary.current:
                plan[vertex_id] = (
                    summary if grown == summary.new else ScalingSummary(summary.current, grown, summary.metrics)
                )
        if fits(plan):
            return {v: run.resized(v, summaries[v], summary.new) for v, summary in plan.items()}
    return {}


def _without_downs(run: DecisionRun, summaries: ScalingSummaries, code: str, text: str) -> ScalingSummaries:
    downs = [vertex_id for vertex_id, summary in summaries.items() if not summary.is_scale_up]
    for vertex_id in downs:
        run.explain(code, text, vertex_id)
    return {vertex_id: summary for vertex_id, summary in summaries.items() if summary.is_scale_up}


def _records(run: DecisionRun) -> tuple[RescaleRecord, ...]:
    supervision = run.given.state.supervision
    return supervision.past if supervision.current is None else (*supervision.past, supervision.current)


def _counts(record: RescaleRecord) -> bool:
    """Tell whether a rescale was the autoscaler's own wish and did something, or may have."""
    return record.origin is Origin.AUTOSCALER and record.stage is not Stage.REFUSED


def _direction(summary: ScalingSummary) -> PauseScope:
    return PauseScope.UP if summary.is_scale_up else PauseScope.DOWN


_FILTERS: Final[tuple[Filter, ...]] = (
    _outside_quarantine,
    _within_budget,
    _without_reversals,
    _paying,
    _within_network_memory,
)
