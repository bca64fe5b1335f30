"""One parallelism for a whole job: whether its use says anything, what the number is, what it means for vertices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, Proposal, VertexObs
from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.base.proposals import NOT_RUNNING, direction_of, lag_unknown, missing, not_usable
from flink_autoscaler.core.policies.base.quantities import GREATEST, Memory, lags_to_drain, subtasks


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


@quick
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
        lag=min(sum(lags_to_drain(obs).values()), GREATEST),
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


Sample = tuple[float, float]
"""An instant and the records of lag then."""

_LEAST_SHARE: Final = 0.5
"""Of the window that samples have to span before their slope is taken for that of the window."""


def with_sample(samples: Sequence[Sample], now: float, lag: float, window: float) -> tuple[Sample, ...]:
    """Return the samples of the window with one more; those of the future, which a clock that was set left, go."""
    return (*((at, value) for at, value in samples if now - window <= at < now), (now, lag))


def slope_of(samples: Sequence[Sample], window: float) -> float | None:
    """Return the least-squares slope, records/s; None where the samples span less than half of the window."""
    if not samples or samples[-1][0] - samples[0][0] < _LEAST_SHARE * window:
        return None
    middle = sum(at for at, _ in samples) / len(samples)
    spread = sum((at - middle) ** 2 for at, _ in samples)
    return sum((at - middle) / spread * lag for at, lag in samples)


JOB = "job"
"""What the number of a whole job is remembered by."""


def number_of(obs: JobObservation) -> int:
    """Return the parallelism of a job: that of its widest vertex; 1 without vertices."""
    return max((vertex.parallelism for vertex in obs.vertices.values()), default=1)


def within(obs: JobObservation, number: int) -> int:
    """Return the number within what any of the vertices may have."""
    least = min(vertex.min_parallelism for vertex in obs.vertices.values())
    return min(max(least, number), max(vertex.max_parallelism for vertex in obs.vertices.values()))


def spread(obs: JobObservation, number: int, *, is_growing: bool) -> dict[VertexId, int]:
    """Return what a number means for the vertices.

    Args:
        obs: The job.
        number: For the whole job.
        is_growing: Whether a vertex needs more than it has. Else none is raised: those that are wider go down to it.
    """
    return {
        v: subtasks(number if is_growing else min(number, vertex.parallelism), vertex)
        for v, vertex in obs.vertices.items()
    }


def without_busy_time(obs: JobObservation) -> tuple[Reason, ...]:
    """Return a reason for every vertex of which it is not known how busy it is."""
    return tuple(missing(vertex, "busy time") for vertex in obs.vertices.values() if vertex.busy is None)


def busiest(obs: JobObservation) -> VertexObs | None:
    """Return the vertex with the greatest busy share; None when none is known."""
    known = [vertex for vertex in obs.vertices.values() if vertex.busy is not None]
    return max(known, key=lambda vertex: vertex.busy or 0.0, default=None)


def limiting(obs: JobObservation, threshold: float) -> VertexObs | None:
    """Return the busiest vertex where it is at least that busy and cannot grow: what it cannot feed needs no more."""
    vertex = busiest(obs)
    if vertex is None or (vertex.busy or 0.0) < threshold or vertex.parallelism < vertex.max_parallelism:
        return None
    return vertex


def limit_reason(vertex: VertexObs) -> Reason:
    """Return the reason for not scaling up a job whose bottleneck cannot grow."""
    text = f"{vertex.name} is the bottleneck at its greatest parallelism {vertex.max_parallelism}"
    return Reason("SCALING_LIMITED", text, vertex.vertex_id)


def proposal_of(
    policy: str,
    obs: JobObservation,
    targets: Mapping[VertexId, int],
    reasons: Iterable[Reason],
    state: Mapping[str, Any],
    *,
    blocks_down: bool = False,
) -> Proposal:
    """Make a proposal; the capacity of a vertex is what its subtasks do now, times their number."""
    sized = {v: _capacity(obs.vertices[v], target) for v, target in targets.items()}
    capacity = {v: rate for v, rate in sized.items() if rate is not None and math.isfinite(rate)}
    return Proposal(
        policy, targets, direction_of(obs, targets), capacity, 1.0, tuple(reasons), blocks_down=blocks_down, state=state
    )


def proposal_under(
    load: Load,
    backlog: Backlog,
    policy: str,
    obs: JobObservation,
    number: int,
    reasons: Iterable[Reason],
    state: Mapping[str, Any],
) -> Proposal:
    """Make the proposal of one number under a load; while the job catches up, nothing is to go down."""
    targets = spread(obs, number, is_growing=number > number_of(obs))
    said = (*reasons, *load_reasons(obs, load, backlog))
    return proposal_of(policy, obs, targets, said, state, blocks_down=load is Load.CATCHING_UP)


def _capacity(vertex: VertexObs, target: int) -> float | None:
    return None if vertex.true_rate is None else vertex.true_rate / vertex.parallelism * target


def number_reason(before: int, after: int, why: str) -> Reason:
    """Return the reason for the number of a job, which may be what it was."""
    figures = (("current", float(before)), ("target", float(after)))
    if before == after:
        return Reason("NO_CHANGE", f"parallelism stays {before}: {why}", None, figures)
    return Reason("SCALE_UP" if after > before else "SCALE_DOWN", f"{before} -> {after}: {why}", None, figures)
