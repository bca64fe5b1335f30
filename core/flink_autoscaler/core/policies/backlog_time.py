"""``backlog-time``: how long reading the backlog would take, as Palo Alto Networks scale Beam pipelines on Flink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.policies import BacklogTimeOptions
from flink_autoscaler.core.policies.base.proposals import abstention, missing, not_usable
from flink_autoscaler.core.policies.base.quantities import rounded_up
from flink_autoscaler.core.policies.base.whole_job import (
    Backlog,
    Load,
    backlog_of,
    busiest,
    limit_reason,
    limiting,
    load_of,
    number_of,
    number_reason,
    proposal_under,
    within,
    without_busy_time,
)

_LONGEST: Final = 1e9
"""Seconds; a backlog that takes longer is as good as endless."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """What the policy goes by.

    Attributes:
        size: Parallelism of the job.
        growth: Arriving by read records.
        seconds: That reading the backlog takes.
        utilization: Busy share of the busiest vertex.
        used: Busy subtasks of the vertex that has most of them.
        is_growing: Whether the backlog grows.
    """

    size: int
    growth: float
    seconds: float
    utilization: float
    used: float
    is_growing: bool

    @classmethod
    def of(cls, obs: JobObservation, backlog: Backlog, rate: float) -> Self:
        vertex = busiest(obs)
        return cls(
            size=number_of(obs),
            growth=max(0.0, min(1.0 + backlog.slope / rate, _LONGEST)) if rate > 0 else 1.0,
            seconds=min(backlog.lag / rate, _LONGEST) if rate > 0 else 0.0,
            utilization=(vertex.busy if vertex else None) or 0.0,
            used=max((each.parallelism * (each.busy or 0.0) for each in obs.vertices.values()), default=0.0),
            is_growing=backlog.slope > 0,
        )

    def raised(self, options: BacklogTimeOptions) -> int:
        """Return the size that keeps up, and what reads the backlog in time on top of it; both added is our reading."""
        extra = self.seconds / options.backlog_time_drain.exact_seconds
        return rounded_up(self.size * min(self.growth + extra, options.backlog_time_max_ratio))

    def lowered(self, options: BacklogTimeOptions) -> int:
        """Return the size that brings the utilization to its target, as far as one step may go."""
        least = self.size * (1.0 - options.backlog_time_down_max_factor)
        return rounded_up(max(self.used / options.backlog_time_down_utilization, least))


class BacklogTimePolicy:
    """Adds what reads the backlog in time; takes away what is not used while there is none."""

    name = "backlog-time"

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid.
        """
        obs, options, shared = given.obs, BacklogTimeOptions.of(given.config), AutoscalerOptions.of(given.config)
        backlog = backlog_of(obs)
        if why_not := not_usable(obs) or _lacking(obs, backlog):
            return abstention(self.name, why_not, given.state)
        measured = _Measured.of(obs, backlog, backlog.rate or 0.0)
        is_behind = measured.seconds > options.backlog_time_up_backlog.exact_seconds
        state = {"backlog_at": obs.now if is_behind else _backlog_at(given.state)}
        budget = shared.catch_up_duration.exact_seconds
        load = load_of(obs, backlog, is_behind=is_behind, backlog_at=state["backlog_at"], budget=budget)
        number, reasons = _number(obs, measured, options, load)
        return proposal_under(load, backlog, self.name, obs, number, reasons, state)


def _lacking(obs: JobObservation, backlog: Backlog) -> tuple[Reason, ...]:
    if backlog.rate == 0.0 and backlog.lag > 0:
        return (Reason("NO_THROUGHPUT", "the sources have a backlog and read nothing"),)
    sources = (vertex for vertex in obs.vertices.values() if vertex.is_source and vertex.rate_in is None)
    return (*(missing(vertex, "rate") for vertex in sources), *without_busy_time(obs))


def _backlog_at(state: Mapping[str, object]) -> float | None:
    at = state.get("backlog_at")
    return at if isinstance(at, float) else None


def _number(
    obs: JobObservation, measured: _Measured, options: BacklogTimeOptions, load: Load
) -> tuple[int, tuple[Reason, ...]]:
    size, number = measured.size, measured.size
    why = f"the backlog takes {measured.seconds:.3g} s, utilization is {measured.utilization:.3g}"
    is_busy = measured.utilization > options.backlog_time_up_utilization
    if load is Load.BEHIND or (load is Load.STEADY and is_busy):
        number = max(size, within(obs, measured.raised(options)))
        bottleneck = limiting(obs, options.backlog_time_up_utilization)
        if bottleneck is not None:
            return size, (number_reason(size, size, why), limit_reason(bottleneck))
    elif load is Load.STEADY and _may_lower(measured, options):
        number = min(size, within(obs, measured.lowered(options)))
    return number, (number_reason(size, number, why),)


def _may_lower(measured: _Measured, options: BacklogTimeOptions) -> bool:
    is_short = measured.seconds < options.backlog_time_down_backlog.exact_seconds
    return is_short and not measured.is_growing and measured.utilization < options.backlog_time_down_utilization
