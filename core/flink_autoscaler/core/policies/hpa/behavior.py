"""How fast a number may follow what is recommended for it: stabilisation first, then rate limits.

After the behaviour of the Kubernetes HorizontalPodAutoscaler, autoscaling/v2. Pure, and about one number at a time, so
that a policy can use it for what it recommends and a filter for what all policies together came to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, Proposal
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.options.hpa import Behavior, RateLimit, RateUnit, Select
from flink_autoscaler.core.policies.base.quantities import subtasks
from flink_autoscaler.core.policies.base.whole_job import proposal_of

_WHOLE: Final = 100
"""Percent."""

Timed = tuple[float, int]
"""An instant, and a recommended number or a change."""


@quick
@dataclass(frozen=True, slots=True)
class Track:
    """What is remembered about one number.

    Attributes:
        seen_at: When it was looked at last.
        size: What it was then.
        recommendations: Those that can still matter, oldest first.
        changes: What was added or removed, and when, oldest first.
    """

    seen_at: float
    size: int
    recommendations: tuple[Timed, ...]
    changes: tuple[Timed, ...] = ()

    @classmethod
    def begun(cls, size: int, now: float) -> Self:
        """Return the track of a number that nothing is known about but what it is now."""
        return cls(now, size, ((now, size),))

    @classmethod
    def read(cls, saved: object) -> Self | None:
        """Return what :meth:`saved` gave; None when it is something else."""
        match saved:
            case {
                "seen_at": float(seen_at),
                "size": int(size),
                "recommendations": [*recommendations],
                "changes": [*changes],
            }:
                timed = _timed(recommendations), _timed(changes)
                return None if timed[0] is None or timed[1] is None else cls(seen_at, size, timed[0], timed[1])
        return None

    def saved(self) -> Mapping[str, Any]:
        """Return it as a JSON value."""
        return {
            "seen_at": float(self.seen_at),
            "size": self.size,
            "recommendations": [[float(at), number] for at, number in self.recommendations],
            "changes": [[float(at), change] for at, change in self.changes],
        }


def _timed(entries: list[Any]) -> tuple[Timed, ...] | None:
    """Read instants with numbers; None when there is anything else among them."""
    read = []
    for entry in entries:
        match entry:
            case [float(at), int(value)]:
                read.append((at, value))
            case _:
                return None
    return tuple(read)


@quick
@dataclass(frozen=True, slots=True)
class Behaved:
    """What became of a recommendation.

    Attributes:
        stabilized: After the first step.
        number: After both steps.
        track: To be handed in next time.
    """

    stabilized: int
    number: int
    track: Track


def behave(desired: int, current: int, now: float, track: Track | None, behavior: Behavior) -> Behaved:
    """Return how far a number may go now.

    Args:
        desired: What is recommended, within its bounds.
        current: What it is.
        now: Epoch seconds.
        track: What the last call returned; None for the first.
        behavior: Windows and limits.
    """
    track = _continued(track, current, now, behavior)
    stabilized = _stabilized(desired, current, now, track, behavior)
    number = _limited(stabilized, current, now, track, behavior)
    recommendations = _mattering((*track.recommendations, (now, desired)), now, behavior)
    return Behaved(stabilized, number, replace(track, recommendations=recommendations))


def _continued(track: Track | None, current: int, now: float, behavior: Behavior) -> Track:
    """Return the track up to now: begun anew where it is of no use, with the change since the last look.

    What has changed was asked for at the last look at the size before; while the job was away nobody looked.
    """
    if track is None or not 0 <= now - track.seen_at <= behavior.forget_after:
        return Track.begun(current, now)
    change = current - track.size
    changes = track.changes if change == 0 else (*track.changes, (track.seen_at, change))
    longest = max(limit.period for rules in (behavior.up, behavior.down) for limit in rules.limits)
    return Track(now, current, track.recommendations, _after(changes, now - longest))


def _after(entries: tuple[Timed, ...], at: float) -> tuple[Timed, ...]:
    return tuple(entry for entry in entries if entry[0] > at)


def _stabilized(desired: int, current: int, now: float, track: Track, behavior: Behavior) -> int:
    """Move no further up than the least, and no further down than the greatest recommendation of the windows."""
    low = min([desired, *(value for _, value in _after(track.recommendations, now - behavior.up.window))])
    high = max([desired, *(value for _, value in _after(track.recommendations, now - behavior.down.window))])
    return min(max(current, low), high)


def _limited(stabilized: int, current: int, now: float, track: Track, behavior: Behavior) -> int:
    """Move no farther than the rate limits of the direction allow; limits that lie behind mean to stay."""
    if stabilized > current:
        limits = [_most(limit, current, now, track) for limit in behavior.up.limits]
        return min(stabilized, max(current, _selected(behavior.up.select, limits, current)))
    limits = [-_least(limit, current, now, track) for limit in behavior.down.limits]
    return max(stabilized, min(current, -_selected(behavior.down.select, limits, -current)))


def _selected(select: Select, limits: list[int], current: int) -> int:
    if select is Select.DISABLED:
        return current
    return max(limits) if select is Select.MAX else min(limits)


def _most(limit: RateLimit, current: int, now: float, track: Track) -> int:
    """Return the most that a limit allows; shares are rounded up."""
    start = current - sum(max(0, change) for _, change in _after(track.changes, now - limit.period))
    if limit.unit is RateUnit.PODS:
        return start + limit.amount
    return -(-start * (_WHOLE + limit.amount) // _WHOLE)


def _least(limit: RateLimit, current: int, now: float, track: Track) -> int:
    """Return the least that a limit allows; what is left is rounded down, so what goes is rounded up."""
    start = current + sum(max(0, -change) for _, change in _after(track.changes, now - limit.period))
    if limit.unit is RateUnit.PODS:
        return start - limit.amount
    return start * (_WHOLE - limit.amount) // _WHOLE


def _mattering(recommendations: tuple[Timed, ...], now: float, behavior: Behavior) -> tuple[Timed, ...]:
    """Keep what can still be the greatest or the least recommendation of a window."""
    kept: list[Timed] = []
    for at, value in reversed(recommendations):
        is_greatest = at > now - behavior.down.window and all(value > later for _, later in kept)
        is_least = at > now - behavior.up.window and all(value < later for _, later in kept)
        if is_greatest or is_least:
            kept.append((at, value))
    return tuple(reversed(kept))


@quick
@dataclass(frozen=True, slots=True)
class HpaMemory:
    """What is remembered about a job graph; another graph begins anew.

    Attributes:
        vertices: The ids of the graph.
        tracks: Of the numbers, by vertex or other name.
        backlog_at: When the job was last seen with a backlog.
        synced_at: When it was evaluated last.
        targets: What that came to.
        blocks_down: The same.
    """

    vertices: frozenset[VertexId]
    tracks: Mapping[str, Track] = field(default_factory=dict)
    backlog_at: float | None = None
    synced_at: float | None = None
    targets: Mapping[VertexId, int] = field(default_factory=dict)
    blocks_down: bool = False

    @classmethod
    def read(cls, state: Mapping[str, Any], obs: JobObservation) -> HpaMemory:
        """Read what :meth:`as_json` wrote; empty for another graph and for a state that cannot be read."""
        empty = cls(frozenset(obs.vertices))
        try:
            memory = cls(
                vertices=frozenset(state["vertices"]),
                tracks={name: track for name, saved in state["tracks"].items() if (track := Track.read(saved))},
                backlog_at=state["backlog_at"],
                synced_at=state["synced_at"],
                targets=dict(state["targets"]),
                blocks_down=state["blocks_down"],
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return empty
        return memory if memory.vertices == empty.vertices else empty

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "vertices": sorted(self.vertices),
            "tracks": {name: track.saved() for name, track in self.tracks.items()},
            "backlog_at": self.backlog_at,
            "synced_at": self.synced_at,
            "targets": dict(self.targets),
            "blocks_down": self.blocks_down,
        }

    def noticed(self, obs: JobObservation, *, is_behind: bool) -> HpaMemory:
        """Return what is remembered after a look at the backlog."""
        return replace(self, backlog_at=obs.now if is_behind else self.backlog_at)

    def behaved(self, name: str, desired: int, current: int, now: float, behavior: Behavior) -> Behaved:
        """Return how far one of the numbers may go now."""
        return behave(desired, current, now, self.tracks.get(name), behavior)

    def decided(
        self, now: float, tracks: Mapping[str, Track], targets: Mapping[VertexId, int], *, blocks_down: bool
    ) -> HpaMemory:
        """Return what is remembered after an evaluation."""
        return replace(self, tracks=tracks, synced_at=now, targets=targets, blocks_down=blocks_down)

    def repeated(
        self, policy: str, obs: JobObservation, sync_period: float, state: Mapping[str, Any]
    ) -> Proposal | None:
        """Return once more what the last evaluation came to; None when the next one is due."""
        if self.synced_at is None or not 0 <= obs.now - self.synced_at < sync_period:
            return None
        targets = {v: subtasks(self.targets.get(v, vertex.parallelism), vertex) for v, vertex in obs.vertices.items()}
        reason = Reason("BETWEEN_SYNCS", f"as {obs.now - self.synced_at:.0f} s ago (hpa.sync-period)")
        return proposal_of(policy, obs, targets, (reason,), state, blocks_down=self.blocks_down)


def behavior_reasons(desired: int, behaved: Behaved, vertex_id: VertexId | None = None) -> tuple[Reason, ...]:
    """Return what windows and rate limits made of a recommendation; nothing when they left it as it was."""
    reasons = []
    if behaved.stabilized != desired:
        text = f"{desired} is advised; recommendations of the window make it {behaved.stabilized}"
        reasons.append(Reason("STABILIZED", text, vertex_id))
    if behaved.number != behaved.stabilized:
        text = f"{behaved.stabilized} is advised; rate limits allow {behaved.number} now"
        reasons.append(Reason("RATE_LIMITED", text, vertex_id))
    return tuple(reasons)
