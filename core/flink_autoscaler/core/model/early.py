"""Passes that come before their time: what policies ask for, and how much of that is granted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flink_autoscaler.core.model.job import JobKey

HOUR_MS: Final = 3_600_000
_NAMED: Final = 3
"""Jobs that are named where many have asked."""


@dataclass(frozen=True, slots=True)
class LookAgain:
    """That a job is to be looked at again before its next pass is due.

    Attributes:
        at_ms: When, epoch milliseconds; new samples can be there by then.
        policy: Which of its policies asks for that.
        per_hour: Early passes that the job may ask for within an hour.
    """

    at_ms: int
    policy: str
    per_hour: int


@dataclass(frozen=True, slots=True)
class EarlyPass:
    """A pass over a cluster between two that are due.

    Attributes:
        at_ms: When, epoch milliseconds.
        wishes: Of the jobs for which it is made; at least one.
    """

    at_ms: int
    wishes: Mapping[JobKey, LookAgain]

    @property
    def asked_by(self) -> str:
        """Who has asked for it, for people."""
        named = [f"{self.wishes[key].policy} of {key}" for key in sorted(self.wishes)[:_NAMED]]
        rest = len(self.wishes) - len(named)
        return ", ".join(named) + (f" and {rest} more" if rest else "")


class Granted(NamedTuple):
    """The early pass that is granted, None where none is, and the early passes from now on."""

    early: EarlyPass | None
    passes: EarlyPasses


@dataclass(frozen=True, slots=True)
class EarlyPasses:
    """The early passes of one cluster that were granted lately.

    Attributes:
        granted: Their instants by job, epoch milliseconds, ascending.
    """

    granted: Mapping[JobKey, tuple[int, ...]] = field(default_factory=dict)

    def after(self, wishes: Mapping[JobKey, LookAgain], *, now_ms: int, due_ms: int, took_ms: int = 0) -> Granted:
        """Grant at most one early pass before the next one that is due.

        It has to end before that, if it takes as long as the last one. An early pass is to be followed by the one that
        is due, whatever is asked for in it: that way a cluster never has more than twice as many passes.

        Args:
            wishes: What the policies of jobs ask for after a pass that was due, by job.
            now_ms: Epoch milliseconds.
            due_ms: When the next pass is due.
            took_ms: How long the last pass took.
        """
        hourly = {key: [each for each in self.granted.get(key, ()) if abs(now_ms - each) < HOUR_MS] for key in wishes}
        allowed = {key: wish for key, wish in wishes.items() if len(hourly[key]) < wish.per_hour}
        at_ms = max(min((wish.at_ms for wish in allowed.values()), default=due_ms), now_ms)
        if at_ms + took_ms >= due_ms:
            return Granted(None, self)
        served = {key: wish for key, wish in allowed.items() if wish.at_ms <= at_ms}
        kept = {key: each for key, each in self.granted.items() if abs(now_ms - each[-1]) < HOUR_MS}
        kept |= {key: (*hourly[key], at_ms) for key in served}
        return Granted(EarlyPass(at_ms, served), EarlyPasses(kept))
