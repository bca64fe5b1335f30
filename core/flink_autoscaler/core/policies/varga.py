"""``varga``: utilization and the relative change of the lag, followed by the rule of a HorizontalPodAutoscaler.

The metrics are those of Varga, Balassi and Kiss, "Towards autoscaling of Apache Flink jobs" (Acta Univ. Sapientiae,
Informatica 13(1), 2021): busy time by its target and, where the lag is above a threshold, arriving records by records
read. What the greater of the two advises goes through tolerance, stabilization windows and rate limits as in
autoscaling/v2 (Kubernetes, "Horizontal Pod Autoscaling"); subtasks are the pods.

A rescale stops a Flink job. Therefore nothing is concluded while tasks start and while a backlog is worked off in time,
and a backlog that stands still is sized for: as published, the policy grows with every restart of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Annotated, Any, Final

from flink_autoscaler.core.model.codec import Codec, Key, Via
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.policies import RateLimit, RateUnit, ScalingRules, Select
from flink_autoscaler.core.policies.base.proposals import (
    abstention,
    direction_of,
    lag_unknown,
    missing_metric_reason,
    not_running_reason,
    not_usable,
)
from flink_autoscaler.core.policies.base.quantities import (
    GREATEST,
    ceil_tolerant,
    clamp_parallelism,
    lags_to_drain,
    slope_of,
)

NAME: Final = "varga"
_MAX_RATIO: Final = 3.0
"""By which one evaluation multiplies the parallelism at most: a saturated job does not tell how much it lacks."""
_SLOPE_WINDOW: Final = 60.0
"""Seconds over which the change of the lag is taken, as published, and for which all tasks have to have run."""
_NOISE: Final = 1e-9
_PERCENT: Final = 100
_BEHIND: Final = ReasonCode.BEHIND
_CATCHING_UP: Final = ReasonCode.CATCHING_UP

Timed = tuple[float, int]  # an instant, and a recommended number or a change


@value
class ScalingHistory:
    """The parallelism of a job at the last look, recommendations that can still matter, and what was added or removed.

    Both are ordered, oldest first.
    """

    seen_at: float
    size: int
    recommendations: tuple[Timed, ...]
    changes: tuple[Timed, ...] = ()


def apply_behavior(
    desired: int, current: int, now: float, history: ScalingHistory | None, options: AutoscalerOptions
) -> tuple[int, int, ScalingHistory]:
    """Return what stabilization windows leave of a recommendation, what rate limits leave of that, and the history.

    Args:
        desired: What is recommended, within its bounds.
        current: What there is.
        now: Epoch seconds.
        history: What the last call returned; None for the first.
        options: Windows and limits. Where nobody looked for the longest of the windows, the history begins anew.

    Raises:
        ValueParseError: A setting cannot be read.
    """
    up, down = options.varga_up, options.varga_down
    forget_after = max(up.window, down.window, options.metrics_window.exact_seconds)
    if history is None or not 0 <= now - history.seen_at <= forget_after:
        history = ScalingHistory(now, current, ((now, current),))
    # What has changed since was asked for at the last look; nobody looks while the job restarts.
    change = ((history.seen_at, current - history.size),) if current != history.size else ()
    longest = max(limit.period for limit in (*up.limits, *down.limits))
    history = replace(history, seen_at=now, size=current, changes=_after((*history.changes, *change), now - longest))
    recommendations = (*history.recommendations, (now, desired))
    low = min([desired, *(value for _, value in _after(recommendations, now - up.window))])
    high = max([desired, *(value for _, value in _after(recommendations, now - down.window))])
    stabilized = min(max(current, low), high)
    number = _apply_rate_limits(stabilized, history, up if stabilized > current else down)
    kept = _that_matter(recommendations, now, up.window, down.window)
    return stabilized, number, replace(history, recommendations=kept)


def _after(entries: tuple[Timed, ...], at: float) -> tuple[Timed, ...]:
    return tuple(entry for entry in entries if entry[0] > at)


def _apply_rate_limits(stabilized: int, history: ScalingHistory, rules: ScalingRules) -> int:
    """Move no farther than the rate limits of a direction allow; limits that lie behind mean to stay."""
    current, sign = history.size, 1 if stabilized > history.size else -1
    if rules.select is Select.DISABLED:
        return current
    reaches = [sign * _reach(limit, history, sign) for limit in rules.limits]
    reach = sign * (max(reaches) if rules.select is Select.MAX else min(reaches))
    return min(stabilized, max(current, reach)) if sign > 0 else max(stabilized, min(current, reach))


def _reach(limit: RateLimit, history: ScalingHistory, sign: int) -> int:
    """Return how far a limit lets the parallelism go; what may be added and what may go are both rounded up."""
    moved = sum(max(0, sign * change) for _, change in _after(history.changes, history.seen_at - limit.period))
    start = history.size - sign * moved
    if limit.unit is RateUnit.PODS:
        return start + sign * limit.amount
    percent = start * (_PERCENT + sign * limit.amount)
    return -(-percent // _PERCENT) if sign > 0 else percent // _PERCENT


def _that_matter(recommendations: tuple[Timed, ...], now: float, up: float, down: float) -> tuple[Timed, ...]:
    """Keep what can still be the least or the greatest recommendation of a window."""
    kept: list[Timed] = []
    for at, wanted in reversed(recommendations):
        is_greatest = at > now - down and all(wanted > later for _, later in kept)
        is_least = at > now - up and all(wanted < later for _, later in kept)
        if is_greatest or is_least:
            kept.append((at, wanted))
    return tuple(reversed(kept))


_TRACKS: Final = Via(
    Mapping[str, ScalingHistory],
    lambda history: {} if history is None else {"job": history},
    lambda tracks: tracks.get("job"),
)
"""How the history is stored: version 0.2 could have kept one per vertex."""


@value
class SyncMemory:
    """What is remembered about a job graph.

    Attributes:
        vertices: The ids of the graph.
        backlog_at: When the job was last seen with a backlog.
        synced_at: When it was evaluated last, to ``targets`` and ``blocks_down``.
    """

    vertices: frozenset[VertexId]
    history: Annotated[ScalingHistory | None, Key("tracks"), _TRACKS] = None
    backlog_at: float | None = None
    synced_at: float | None = None
    targets: Mapping[VertexId, int] = field(default_factory=dict)
    blocks_down: bool = False


@value
class VargaMemory:
    """What is remembered about a job; of another job graph only when it stopped, and its lags.

    Attributes:
        stopped_at: When not all tasks were seen running last; None for never.
        lags: Instants and records of lag, of the last minute, oldest first.
    """

    sync: Annotated[SyncMemory, Key("hpa")]
    stopped_at: float | None = None
    lags: tuple[tuple[float, float], ...] = ()

    @classmethod
    def read(cls, state: Mapping[str, Any], obs: JobObservation) -> VargaMemory:
        """Read what :meth:`as_json` wrote; empty for a state that cannot be read."""
        empty = SyncMemory(frozenset(obs.vertices))
        try:
            memory = _MEMORY.read(state)
        except ValueError:
            return cls(empty)
        return memory if memory.sync.vertices == empty.vertices else replace(memory, sync=empty)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        written: dict[str, Any] = _MEMORY.write(self)
        return written

    def with_observation(self, obs: JobObservation, backlog: Backlog, threshold: float) -> VargaMemory:
        """Return what is remembered after a look at the job."""
        # Samples of the future, which a clock that was set left, go.
        recent = ((at, lag) for at, lag in self.lags if obs.now - _SLOPE_WINDOW <= at < obs.now)
        return replace(
            self,
            sync=replace(self.sync, backlog_at=obs.now) if backlog.lag > threshold else self.sync,
            stopped_at=obs.now if not_running_reason(obs) else self.stopped_at,
            lags=(*recent, (obs.now, backlog.lag)) if backlog.is_known else (),
        )


_MEMORY: Final = Codec(VargaMemory)


@value
class Backlog:
    """What the sources of a job have before them: records, their change and what is read, records/s.

    What is not known of a source counts as nothing; ``is_known`` tells whether every source reports its lag.
    """

    lag: float
    slope: float
    rate: float
    is_known: bool


def backlog_of(obs: JobObservation) -> Backlog:
    """Return what all sources of a job have before them together."""
    sources = [vertex for vertex in obs.vertices.values() if vertex.is_source]
    return Backlog(
        lag=min(sum(lags_to_drain(obs).values()), GREATEST),
        slope=max(-GREATEST, min(sum(vertex.lag_slope or 0.0 for vertex in sources), GREATEST)),
        rate=min(sum(vertex.rate_in or 0.0 for vertex in sources), GREATEST),
        is_known=all(vertex.lag_records is not None for vertex in sources),
    )


def advised_parallelism(current: int, ratio: float, tolerance: float) -> int:
    """Return the number, of whatever bounds, at which a metric that is ``ratio`` times its target would be at it."""
    return current if abs(ratio - 1.0) <= tolerance + _NOISE else ceil_tolerant(current * ratio)


@value
class Advice:
    """What metrics advise for a job: a number for all vertices, and whether one of them needs more than it has."""

    number: int
    is_growing: bool
    reasons: tuple[Reason, ...] = ()


def advice_of(obs: JobObservation, backlog: Backlog, options: AutoscalerOptions) -> Advice | tuple[Reason, ...]:
    """Return the greater of what the two metrics advise, or what is missing.

    Without the first, the second can only raise. Up to its threshold the lag advises nothing.
    """
    lag = _by_lag(obs, backlog, options) if backlog.lag > options.varga_lag_threshold else Advice(0, False)
    lacking = tuple(
        missing_metric_reason(vertex, "busy time") for vertex in obs.vertices.values() if vertex.busy is None
    )
    if lacking:
        return Advice(lag.number, True, lacking + lag.reasons) if lag.is_growing else lacking
    use = _by_utilization(obs, options)
    return Advice(max(use.number, lag.number), use.is_growing or lag.is_growing, use.reasons + lag.reasons)


def _by_utilization(obs: JobObservation, options: AutoscalerOptions) -> Advice:
    """Follow the vertex that needs most. Its own bounds count: one that cannot grow asks for nothing."""
    target, highest, number, is_growing = options.varga_utilization_target, 0.0, 0, False
    for vertex in obs.vertices.values():
        ratio = min((vertex.busy or 0.0) / target, _MAX_RATIO)
        wanted = clamp_parallelism(advised_parallelism(vertex.parallelism, ratio, options.varga_tolerance), vertex)
        highest, number = max(highest, ratio), max(number, wanted)
        is_growing = is_growing or wanted > vertex.parallelism
    return Advice(number, is_growing, (_advice_reason("utilization", highest, _job_parallelism(obs), number),))


def _by_lag(obs: JobObservation, backlog: Backlog, options: AutoscalerOptions) -> Advice:
    """Follow the change of the lag, and what it takes to be rid of it."""
    current, vertices = _job_parallelism(obs), obs.vertices.values()
    drain_time = options.catch_up_duration.exact_seconds
    drain_rate = backlog.lag / drain_time if drain_time > 0 else 0.0
    change = 1.0 + (backlog.slope + drain_rate) / backlog.rate
    ratio = max(0.0, min(change / options.varga_lag_rate_target, _MAX_RATIO))
    least, most = min(each.min_parallelism for each in vertices), max(each.max_parallelism for each in vertices)
    number = min(max(least, advised_parallelism(current, ratio, options.varga_tolerance)), most)
    reason = _advice_reason("lag rate", ratio, current, number)
    known = [vertex for vertex in vertices if vertex.busy is not None]
    busiest = max(known, key=lambda vertex: vertex.busy or 0.0, default=None)
    is_limiting = busiest is not None and (busiest.busy or 0.0) >= options.varga_utilization_target
    if number > current and busiest and is_limiting and busiest.parallelism >= busiest.max_parallelism:
        # What the bottleneck cannot feed needs no more.
        limited = Reason.of(
            ReasonCode.SCALING_LIMITED,
            busiest.vertex_id,
            vertex=busiest.name,
            max_parallelism=busiest.max_parallelism,
        )
        return Advice(current, False, (reason, limited))
    return Advice(number, number > current, (reason,))


def _advice_reason(metric: str, ratio: float, current: int, number: int) -> Reason:
    figures = (("ratio", ratio), ("current", float(current)), ("target", float(number)))
    return Reason.of(ReasonCode.VARGA_ADVICE, None, figures, metric=metric)


def _job_parallelism(obs: JobObservation) -> int:
    """Return the parallelism of a job: that of its widest vertex."""
    return max(vertex.parallelism for vertex in obs.vertices.values())


class VargaPolicy:
    """Follows how busy a job is, and how fast its lag changes where that is large."""

    name = NAME

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid.
        """
        obs, options = given.obs, AutoscalerOptions.of(given.config)
        backlog = backlog_of(obs)
        memory = VargaMemory.read(given.state, obs).with_observation(obs, backlog, options.varga_lag_threshold)
        state = memory.as_json()
        if why_not := _why_not(obs, backlog, memory):
            return abstention(NAME, why_not, state)
        sync = memory.sync
        if sync.synced_at is not None and 0 <= obs.now - sync.synced_at < options.varga_sync_period.exact_seconds:
            reason = Reason.of(ReasonCode.BETWEEN_SYNCS, age=obs.now - sync.synced_at)
            targets = {v: clamp_parallelism(sync.targets.get(v, x.parallelism), x) for v, x in obs.vertices.items()}
            return _proposal(obs, targets, (reason,), state, blocks_down=sync.blocks_down)
        slope = slope_of(memory.lags, _SLOPE_WINDOW)
        backlog = backlog if slope is None else replace(backlog, slope=slope)
        phase = _phase(obs, backlog, sync.backlog_at, options)
        is_telling = phase is None or phase.code == _BEHIND
        advice = advice_of(obs, backlog, options) if is_telling else Advice(_job_parallelism(obs), False)
        if not isinstance(advice, Advice):
            return abstention(NAME, advice, state)
        blocks_down = phase is not None and phase.code == _CATCHING_UP
        said = (*lag_unknown(obs), *(() if phase is None else (phase,)), *advice.reasons)
        return _limit_advice(obs, replace(advice, reasons=said), memory, options, blocks_down=blocks_down)


def _why_not(obs: JobObservation, backlog: Backlog, memory: VargaMemory) -> tuple[Reason, ...]:
    """Return why nothing can be said about a job; empty when something can."""
    sources = (vertex for vertex in obs.vertices.values() if vertex.is_source)
    lacking = tuple(missing_metric_reason(vertex, "rate") for vertex in sources if vertex.rate_in is None)
    reasons = not_usable(obs) + lacking
    starts = [at for at in (memory.stopped_at, obs.last_restart_at) if at is not None and at <= obs.now]
    if obs.now - max(starts, default=0.0) < _SLOPE_WINDOW:
        reasons += (Reason.of(ReasonCode.WARM_UP),)
    if backlog.rate == 0.0 and not lacking:
        reasons += (Reason.of(ReasonCode.NO_THROUGHPUT),)
    return reasons


def _phase(
    obs: JobObservation, backlog: Backlog, backlog_at: float | None, options: AutoscalerOptions
) -> Reason | None:
    """Return what the backlog makes of the metrics; None where they say how large the job has to be.

    With a backlog that is not worked off in time they may be a reason to grow. While it is, and while the window
    still has samples of that, they say nothing.
    """
    figures = (("lag", backlog.lag), ("lag_slope", backlog.slope))
    if backlog.lag > options.varga_lag_threshold:
        if backlog.slope < 0 and backlog.lag <= -backlog.slope * options.catch_up_duration.exact_seconds:
            return Reason.of(_CATCHING_UP, None, figures)
        return Reason.of(_BEHIND, None, figures)
    window = max(obs.window[1] - obs.window[0], 1.0)
    if backlog_at is None or abs(obs.now - backlog_at) >= window:
        return None
    return Reason.of(ReasonCode.SETTLING, None, figures)


def _limit_advice(
    obs: JobObservation, advice: Advice, memory: VargaMemory, options: AutoscalerOptions, *, blocks_down: bool
) -> Proposal:
    """Go as far toward an advice as windows and rate limits allow."""
    current = _job_parallelism(obs)
    stabilized, number, history = apply_behavior(advice.number, current, obs.now, memory.sync.history, options)
    targets = {
        v: clamp_parallelism(number if advice.is_growing else min(number, vertex.parallelism), vertex)
        for v, vertex in obs.vertices.items()
    }
    sync = replace(memory.sync, history=history, synced_at=obs.now, targets=targets, blocks_down=blocks_down)
    code = ReasonCode.SCALE_UP if number > current else ReasonCode.SCALE_DOWN
    code = ReasonCode.NO_CHANGE if number == current else code
    figures = (("current", float(current)), ("target", float(number)))
    reasons = [Reason.of(code, None, figures), *advice.reasons]
    if stabilized != advice.number:
        reasons.append(Reason.of(ReasonCode.STABILIZED, advised=advice.number, stabilized=stabilized))
    if number != stabilized:
        reasons.append(Reason.of(ReasonCode.RATE_LIMITED, advised=stabilized, allowed=number))
    return _proposal(obs, targets, reasons, replace(memory, sync=sync).as_json(), blocks_down=blocks_down)


def _proposal(
    obs: JobObservation,
    targets: Mapping[VertexId, int],
    reasons: Iterable[Reason],
    state: Mapping[str, Any],
    *,
    blocks_down: bool,
) -> Proposal:
    """Make a proposal; the capacity of a vertex is what its subtasks do now, times their number."""
    rates = {v: obs.vertices[v].true_rate for v in targets}
    sized = {v: rate / obs.vertices[v].parallelism * targets[v] for v, rate in rates.items() if rate is not None}
    capacity = {v: rate for v, rate in sized.items() if math.isfinite(rate)}
    direction = direction_of(obs, targets)
    return Proposal(NAME, targets, direction, capacity, 1.0, tuple(reasons), blocks_down=blocks_down, state=state)
