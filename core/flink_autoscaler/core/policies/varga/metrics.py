"""The two metrics of ``varga``, how busy a job is and how its input compares with what it reads, and their advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.model.policy_values import JobObservation
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.policies.base.catch_up import Backlog
from flink_autoscaler.core.policies.base.one_number import limit_reason, limiting, number_of, within, without_busy_time
from flink_autoscaler.core.policies.base.proposals import missing
from flink_autoscaler.core.policies.base.quantities import subtasks
from flink_autoscaler.core.policies.hpa.metrics import advised
from flink_autoscaler.core.policies.varga.settings import VargaSettings

_NO_RATE: Final = 1.0
"""Stands for a rate of 0 under the change of the lag, as in published queries: so a restart looks like a flood."""

_GREATEST_SHOWN: Final = 1e6


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
