"""``varga``: idleness and the relative change of the lag, with the behaviour of a HorizontalPodAutoscaler.

After Varga, Balassi and Kiss, "Towards autoscaling of Apache Flink jobs" (Acta Univ. Sapientiae, Informatica 13(1),
2021). The formulas and constants are those with which "Evaluating Stream Processing Autoscalers" (DEBS 2024) compares
this policy with others. What makes it safe for jobs that stop for every rescale is ours; without ``varga.hardened`` it
is left out, and a restart, whose metrics read 0, then looks like a flood.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.options.hpa import Behavior, HpaOptions, behavior_of
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.varga import UtilizationAgg, VargaOptions
from flink_autoscaler.core.policies.base.proposals import NOT_RUNNING, abstention, missing, not_usable
from flink_autoscaler.core.policies.base.quantities import subtasks
from flink_autoscaler.core.policies.base.whole_job import (
    JOB,
    Backlog,
    Load,
    Sample,
    backlog_of,
    limit_reason,
    limiting,
    load_of,
    load_reasons,
    not_running,
    number_of,
    number_reason,
    proposal_of,
    slope_of,
    spread,
    with_sample,
    within,
    without_busy_time,
)
from flink_autoscaler.core.policies.hpa.behavior import HpaMemory, behavior_reasons
from flink_autoscaler.core.policies.hpa.policy import Tolerance, advised

_MAX_RATIO: Final = 3.0


@quick
@dataclass(frozen=True, slots=True)
class VargaSettings:
    """The settings by their options' names, those that are unset filled in; durations in seconds."""

    mask_rescale: bool
    catch_up_hold: bool
    drain_term: bool
    is_mean: bool
    max_ratio: float
    utilization_target: float
    lag_rate_target: float
    lag_threshold: float
    deriv_window: float
    budget: float
    sync_period: float
    tolerance: Tolerance
    behavior: Behavior

    @classmethod
    def read(cls, configuration: Mapping[str, str]) -> Self:
        """Read them.

        Raises:
            ValueParseError: A setting cannot be read.
        """
        own, hpa, shared = (
            VargaOptions.of(configuration),
            HpaOptions.of(configuration),
            AutoscalerOptions.of(configuration),
        )
        is_hard = own.varga_hardened
        agg = own.varga_utilization_agg or (UtilizationAgg.MAX if is_hard else UtilizationAgg.MEAN)
        return cls(
            mask_rescale=_either(own.varga_mask_rescale, is_hard),
            catch_up_hold=_either(own.varga_catch_up_hold, is_hard),
            drain_term=_either(own.varga_drain_term, is_hard),
            is_mean=agg is UtilizationAgg.MEAN,
            max_ratio=own.varga_max_ratio or (_MAX_RATIO if is_hard else math.inf),
            utilization_target=own.varga_utilization_target,
            lag_rate_target=own.varga_lag_rate_target,
            lag_threshold=own.varga_lag_threshold,
            deriv_window=own.varga_deriv_window.exact_seconds,
            budget=shared.catch_up_duration.exact_seconds,
            sync_period=hpa.hpa_sync_period.exact_seconds,
            tolerance=Tolerance.of(hpa),
            behavior=behavior_of(hpa, shared.metrics_window.exact_seconds),
        )


def _either(own: bool | None, default: bool) -> bool:
    return default if own is None else own


@quick
@dataclass(frozen=True, slots=True)
class VargaMemory:
    """What is remembered about a job graph.

    Attributes:
        hpa: What ``hpa`` would remember.
        stopped_at: When not all tasks were seen running last; None for never.
        lags: Of ``varga.deriv-window``, oldest first.
    """

    hpa: HpaMemory
    stopped_at: float | None = None
    lags: tuple[Sample, ...] = ()

    @classmethod
    def read(cls, state: Mapping[str, Any], obs: JobObservation) -> VargaMemory:
        """Read what :meth:`as_json` wrote; empty for a state that cannot be read."""
        try:
            lags = tuple((float(at), float(lag)) for at, lag in state["lags"])
            return cls(HpaMemory.read(state["hpa"], obs), state["stopped_at"], lags)
        except (KeyError, TypeError, ValueError):
            return cls(HpaMemory.read({}, obs))

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"hpa": self.hpa.as_json(), "stopped_at": self.stopped_at, "lags": [list(each) for each in self.lags]}

    def noticed(self, obs: JobObservation, backlog: Backlog, settings: VargaSettings) -> VargaMemory:
        """Return what is remembered after a look at the job."""
        window = settings.deriv_window
        return VargaMemory(
            hpa=self.hpa.noticed(obs, is_behind=backlog.lag > settings.lag_threshold),
            stopped_at=obs.now if not_running(obs) else self.stopped_at,
            lags=with_sample(self.lags, obs.now, backlog.lag, window) if backlog.is_known else (),
        )

    def ran_for(self, obs: JobObservation) -> float:
        """Return for how many seconds all tasks have been running, as far as is known."""
        starts = [at for at in (self.stopped_at, obs.last_restart_at) if at is not None and at <= obs.now]
        return obs.now - max(starts, default=0.0)


_NO_RATE: Final = 1.0
"""Stands for a rate of 0 under the change of the lag, as in published queries: so a restart looks like a flood."""

_GREATEST_SHOWN: Final = 1e6


@quick
@dataclass(frozen=True, slots=True)
class MetricAdvice:
    """What metrics advise for a job.

    Attributes:
        number: For all vertices.
        is_growing: Whether a vertex needs more than it has.
    """

    number: int
    is_growing: bool
    reasons: tuple[Reason, ...] = ()


def lag_rate(backlog: Backlog, threshold: float) -> float:
    """Return arriving records by records read, negative where the lag is not above the threshold."""
    ratio = 1.0 + backlog.slope / (backlog.rate or _NO_RATE)
    return ratio if backlog.lag > threshold else -ratio


def drain_rate(backlog: Backlog, budget: float) -> float:
    """Return by what a job has to grow to keep up and to be rid of its backlog within ``budget`` seconds.

    Without a budget, by what it has to grow to keep up.
    """
    extra = backlog.lag / budget if budget > 0 else 0.0
    return 1.0 + (backlog.slope + extra) / (backlog.rate or _NO_RATE)


def wish_of(obs: JobObservation, backlog: Backlog, settings: VargaSettings) -> MetricAdvice | tuple[Reason, ...]:
    """Return the greater of what the two metrics advise, or what is missing.

    Without the first, the second can only raise.
    """
    use = _use(obs, settings)
    lag = _lag(obs, backlog, settings)
    if isinstance(use, MetricAdvice):
        return MetricAdvice(max(use.number, lag.number), use.is_growing or lag.is_growing, use.reasons + lag.reasons)
    return MetricAdvice(lag.number, True, use + lag.reasons) if lag.is_growing else use


def _use(obs: JobObservation, settings: VargaSettings) -> MetricAdvice | tuple[Reason, ...]:
    return _mean_use(obs, settings) if settings.is_mean else _greatest_use(obs, settings)


def _mean_use(obs: JobObservation, settings: VargaSettings) -> MetricAdvice | tuple[Reason, ...]:
    """Follow the share of time that all subtasks of all vertices together are not idle."""
    lacking = tuple(missing(vertex, "idle time") for vertex in obs.vertices.values() if vertex.idle is None)
    if lacking:
        return lacking
    idle = sum(vertex.parallelism * (vertex.idle or 0.0) for vertex in obs.vertices.values())
    use = 1.0 - idle / sum(vertex.parallelism for vertex in obs.vertices.values())
    return _followed(obs, use / settings.utilization_target, settings, "utilization")


def _greatest_use(obs: JobObservation, settings: VargaSettings) -> MetricAdvice | tuple[Reason, ...]:
    """Follow the vertex that needs most. Its own bounds count: one that cannot grow asks for nothing."""
    if lacking := without_busy_time(obs):
        return lacking
    busy = {v: vertex.busy or 0.0 for v, vertex in obs.vertices.items()}
    ratios = {v: min(share / settings.utilization_target, settings.max_ratio) for v, share in busy.items()}
    wishes = {
        v: subtasks(advised(vertex.parallelism, ratios[v], settings.tolerance), vertex)
        for v, vertex in obs.vertices.items()
    }
    return MetricAdvice(
        number=max(wishes.values()),
        is_growing=any(wish > obs.vertices[v].parallelism for v, wish in wishes.items()),
        reasons=(_reason("utilization", max(ratios.values()), number_of(obs), max(wishes.values())),),
    )


def _lag(obs: JobObservation, backlog: Backlog, settings: VargaSettings) -> MetricAdvice:
    """Follow the change of the lag, and where told so what it takes to be rid of it."""
    is_drained = settings.drain_term and backlog.lag > settings.lag_threshold
    rate = drain_rate(backlog, settings.budget) if is_drained else lag_rate(backlog, settings.lag_threshold)
    wish = _followed(obs, rate / settings.lag_rate_target, settings, "lag rate")
    bottleneck = None if settings.is_mean else limiting(obs, settings.utilization_target)
    if wish.is_growing and bottleneck is not None:
        return MetricAdvice(number_of(obs), False, (*wish.reasons, limit_reason(bottleneck)))
    return wish


def _followed(obs: JobObservation, ratio: float, settings: VargaSettings, metric: str) -> MetricAdvice:
    current, ratio = number_of(obs), min(ratio, settings.max_ratio)
    number = within(obs, advised(current, ratio, settings.tolerance))
    return MetricAdvice(number, number > current, (_reason(metric, ratio, current, number),))


def _reason(metric: str, ratio: float, current: int, number: int) -> Reason:
    shown = max(-_GREATEST_SHOWN, min(ratio, _GREATEST_SHOWN))
    text = f"{metric} is {shown:.3g} times its target, which advises {number} instead of {current}"
    figures = (("ratio", shown), ("current", float(current)), ("target", float(number)))
    return Reason("VARGA_ADVICE", text, None, figures)


class VargaPolicy:
    """Follows how busy a job is, and how fast its lag changes where that is large."""

    name = "varga"

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid.
        """
        obs, settings = given.obs, VargaSettings.read(given.config)
        backlog = backlog_of(obs)
        memory = VargaMemory.read(given.state, obs).noticed(obs, backlog, settings)
        state = memory.as_json()
        if why_not := _why_not(obs, backlog, memory, settings):
            return abstention(self.name, why_not, state)
        if again := memory.hpa.repeated(self.name, obs, settings.sync_period, state):
            return again
        slope = slope_of(memory.lags, settings.deriv_window)
        backlog = backlog if slope is None else replace(backlog, slope=slope)
        load = _load(obs, backlog, memory.hpa, settings)
        wish = wish_of(obs, backlog, settings) if load.is_telling else MetricAdvice(number_of(obs), is_growing=False)
        if not isinstance(wish, MetricAdvice):
            return abstention(self.name, wish, state)
        wish = replace(wish, reasons=(*load_reasons(obs, load, backlog), *wish.reasons))
        return self._decided(obs, wish, memory, settings, blocks_down=load is Load.CATCHING_UP)

    def _decided(
        self,
        obs: JobObservation,
        wish: MetricAdvice,
        memory: VargaMemory,
        settings: VargaSettings,
        *,
        blocks_down: bool,
    ) -> Proposal:
        """Go as far toward a wish as windows and rate limits allow."""
        current = number_of(obs)
        behaved = memory.hpa.behaved(JOB, wish.number, current, obs.now, settings.behavior)
        targets = spread(obs, behaved.number, is_growing=wish.is_growing)
        hpa = memory.hpa.decided(obs.now, {JOB: behaved.track}, targets, blocks_down=blocks_down)
        summary = number_reason(current, behaved.number, "utilization and change of the lag")
        reasons = (summary, *wish.reasons, *behavior_reasons(wish.number, behaved))
        state = replace(memory, hpa=hpa).as_json()
        return proposal_of(self.name, obs, targets, reasons, state, blocks_down=blocks_down)


def _why_not(obs: JobObservation, backlog: Backlog, memory: VargaMemory, settings: VargaSettings) -> tuple[Reason, ...]:
    """Return why nothing can be said about a job; empty when something can. As published, a restart is no reason."""
    is_masked = settings.mask_rescale
    reasons = tuple(reason for reason in not_usable(obs) if is_masked or reason.code != NOT_RUNNING)
    sources = (vertex for vertex in obs.vertices.values() if vertex.is_source)
    reasons += tuple(missing(vertex, "rate") for vertex in sources if vertex.rate_in is None)
    if is_masked and memory.ran_for(obs) < settings.deriv_window:
        reasons += (Reason("WARM_UP", "not all tasks have been running for varga.deriv-window"),)
    if is_masked and backlog.rate == 0.0:
        reasons += (Reason("NO_THROUGHPUT", "the sources read nothing"),)
    return reasons


def _load(obs: JobObservation, backlog: Backlog, memory: HpaMemory, settings: VargaSettings) -> Load:
    """Return what the use of the job can be taken for; as published, it is always taken for steady."""
    if not settings.catch_up_hold:
        return Load.STEADY
    is_behind = backlog.lag > settings.lag_threshold
    return load_of(obs, backlog, is_behind=is_behind, backlog_at=memory.backlog_at, budget=settings.budget)
