"""``threshold``: twice as much when busy for a while, half as much when idle for long.

After the automatic scaling of Amazon Managed Service for Apache Flink. It does not know how much is needed, so it is
one to compare others with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.policies import ThresholdOptions
from flink_autoscaler.core.policies.base.proposals import abstention, not_usable
from flink_autoscaler.core.policies.base.quantities import has_backlog
from flink_autoscaler.core.policies.base.whole_job import (
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


class _Use(StrEnum):
    BUSY = "busy"
    MIDDLE = "middle"
    IDLE = "idle"


@quick
@dataclass(frozen=True, slots=True)
class _Memory:
    """Since when a job of some size has been how busy, and when it was last seen with a backlog."""

    use: _Use
    since: float
    seen_at: float
    size: int
    backlog_at: float | None

    @classmethod
    def read(cls, state: Mapping[str, Any]) -> _Memory | None:
        match state:
            case {
                "use": ("busy" | "middle" | "idle") as use,
                "since": float(since),
                "seen_at": float(seen_at),
                "size": int(size),
                "backlog_at": float() | None as backlog_at,
            }:
                return cls(_Use(use), since, seen_at, size, backlog_at)
        return None

    def as_json(self) -> dict[str, Any]:
        return {
            "use": self.use.value,
            "since": float(self.since),
            "seen_at": float(self.seen_at),
            "size": self.size,
            "backlog_at": self.backlog_at,
        }

    def continued(self, before: _Memory | None, obs: JobObservation, gap: float) -> _Memory:
        """Return it with the beginning of the time for which the job has been that busy at that size."""
        if before is None or (before.use, before.size) != (self.use, self.size):
            return self
        if not 0 <= obs.now - before.seen_at <= gap or (obs.last_restart_at or 0.0) > before.since:
            return self
        return replace(self, since=before.since)


class ThresholdPolicy:
    """Doubles and halves the parallelism of a job by how busy its busiest vertex has been."""

    name = "threshold"

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid.
        """
        obs, options, shared = given.obs, ThresholdOptions.of(given.config), AutoscalerOptions.of(given.config)
        if why_not := not_usable(obs) or without_busy_time(obs):
            return abstention(self.name, why_not, given.state)
        before, current, backlog = _Memory.read(given.state), number_of(obs), backlog_of(obs)
        is_behind = has_backlog(obs, shared.backlog_lag_threshold.exact_seconds)
        backlog_at = obs.now if is_behind else (before.backlog_at if before else None)
        budget = shared.catch_up_duration.exact_seconds
        load = load_of(obs, backlog, is_behind=is_behind, backlog_at=backlog_at, budget=budget)
        memory = _Memory(_use(obs, options, load), obs.now, obs.now, current, backlog_at)
        memory = memory.continued(before, obs, shared.metrics_window.exact_seconds)
        number, reasons = _number(obs, memory, options)
        return proposal_under(load, backlog, self.name, obs, number, reasons, memory.as_json())


def _use(obs: JobObservation, options: ThresholdOptions, load: Load) -> _Use:
    """Return how busy a job is, as far as that tells anything."""
    vertex = busiest(obs)
    share = (vertex.busy if vertex else None) or 0.0
    if load.is_telling and share >= options.threshold_up_utilization:
        return _Use.BUSY
    return _Use.IDLE if load is Load.STEADY and share < options.threshold_down_utilization else _Use.MIDDLE


def _number(obs: JobObservation, memory: _Memory, options: ThresholdOptions) -> tuple[int, tuple[Reason, ...]]:
    lasted, current = obs.now - memory.since, memory.size
    why = f"{memory.use.value} for {lasted:.0f} s"
    number = current
    if memory.use is _Use.BUSY and lasted >= options.threshold_up_duration.exact_seconds:
        number = within(obs, 2 * current)
        bottleneck = limiting(obs, options.threshold_up_utilization)
        if bottleneck is not None:
            return current, (number_reason(current, current, why), limit_reason(bottleneck))
    elif memory.use is _Use.IDLE and lasted >= options.threshold_down_duration.exact_seconds:
        number = within(obs, (current + 1) // 2)
    return number, (number_reason(current, number, why),)
