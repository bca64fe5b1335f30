"""How fast a number may follow what is recommended for it: stabilisation first, then rate limits.

After the behaviour of the Kubernetes HorizontalPodAutoscaler, autoscaling/v2. Pure, and about one number at a time,
so that a policy can use it for what it recommends and a filter for what all policies together came to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Self


class RateUnit(StrEnum):
    """What a rate limit counts: subtasks, or a share of those at the start of its period."""

    PERCENT = "Percent"
    PODS = "Pods"


class Select(StrEnum):
    """Which of several rate limits counts: that of the largest change, of the smallest, or none may change."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most so much change within a period of seconds."""

    unit: RateUnit
    amount: int
    period: float


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds in one direction.

    Attributes:
        window: Seconds of recommendations that have to agree.
        limits: At least one.
    """

    window: float
    limits: tuple[RateLimit, ...]
    select: Select = Select.MAX


@dataclass(frozen=True, slots=True)
class Behavior:
    """What holds in both directions.

    Attributes:
        forget_after: Seconds without a look after which nothing of what was remembered counts any more.
    """

    up: Rules
    down: Rules
    forget_after: float


_WHOLE: Final = 100
"""Percent."""

Timed = tuple[float, int]
"""An instant, and a recommended number or a change."""


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
