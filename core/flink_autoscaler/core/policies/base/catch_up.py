"""Whether the use of a job says anything: one that works off a backlog is as busy as it can be, whatever its size."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from flink_autoscaler.core.model.policy_values import JobObservation
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.policies.base.memory import Memory
from flink_autoscaler.core.policies.base.proposals import NOT_RUNNING, lag_unknown, not_usable
from flink_autoscaler.core.policies.base.quantities import GREATEST, lags


def not_running(obs: JobObservation) -> tuple[Reason, ...]:
    """Return the reason where the job does not run with all its tasks; empty when it does."""
    return tuple(reason for reason in not_usable(obs) if reason.code == NOT_RUNNING)


class Load(StrEnum):
    """What the use of a job can be taken for.

    STEADY says how large the job has to be. BEHIND, with a backlog that is not worked off in time, may be a reason to
    grow. CATCHING_UP and SETTLING, while the window still has samples of catching up, say nothing.
    """

    STEADY = "steady"
    BEHIND = "behind"
    CATCHING_UP = "catching up"
    SETTLING = "settling"

    @property
    def is_telling(self) -> bool:
        """Whether anything can be concluded."""
        return self in (Load.STEADY, Load.BEHIND)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the sources of a job have before them.

    Attributes:
        lag: Records.
        slope: Change of the lag, records/s.
        rate: Records/s that the sources read; None when that is not known of one of them.
        is_known: Whether every source tells its lag; one that does not counts as having none.
    """

    lag: float
    slope: float
    rate: float | None
    is_known: bool

    def drains_within(self, budget: float) -> bool:
        """Tell whether it shrinks fast enough to be gone within so many seconds."""
        return self.slope < 0 and self.lag <= -self.slope * budget


def backlog_of(obs: JobObservation) -> Backlog:
    """Return what all sources of a job have before them together."""
    sources = [vertex for vertex in obs.vertices.values() if vertex.is_source]
    rates = [vertex.rate_in for vertex in sources if vertex.rate_in is not None]
    return Backlog(
        lag=min(sum(lags(obs).values()), GREATEST),
        slope=max(-GREATEST, min(sum(vertex.lag_slope or 0.0 for vertex in sources), GREATEST)),
        rate=min(sum(rates), GREATEST) if len(rates) == len(sources) else None,
        is_known=all(vertex.lag_records is not None for vertex in sources),
    )


def load_of(obs: JobObservation, backlog: Backlog, *, is_behind: bool, backlog_at: float | None, budget: float) -> Load:
    """Return what the use of a job can be taken for.

    Args:
        obs: The job.
        backlog: Of its sources.
        is_behind: Whether the backlog is above the threshold.
        backlog_at: When it was last seen to be; None for never.
        budget: Seconds in which it should be gone; 0 for no such plan.
    """
    if is_behind:
        return Load.CATCHING_UP if backlog.drains_within(budget) else Load.BEHIND
    is_blind = Memory(frozenset(obs.vertices), backlog_at=backlog_at).is_blind(obs)
    return Load.SETTLING if is_blind else Load.STEADY


_TEXTS: Final = {
    Load.CATCHING_UP: ("CATCHING_UP", "the job works off its backlog in time; how busy it is says nothing meanwhile"),
    Load.SETTLING: ("SETTLING", "the metric window still has samples of working off a backlog"),
    Load.BEHIND: ("BEHIND", "the backlog is not worked off in time; nothing is scaled down meanwhile"),
}


def load_reasons(obs: JobObservation, load: Load, backlog: Backlog) -> tuple[Reason, ...]:
    """Return what there is to say about a load and a backlog; nothing about a steady one that is known."""
    unknown = lag_unknown(obs)
    if load is Load.STEADY:
        return unknown
    code, text = _TEXTS[load]
    return (*unknown, Reason(code, text, None, (("lag", backlog.lag), ("lag_slope", backlog.slope))))
