"""How long a soak is, and what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

DAYS: Final = 7
ROUNDS_PER_DAY: Final = 2
FILLING: Final = 4
"""Rounds, two days, in which everything fills up that is kept for a day; the others are judged."""


@dataclass(frozen=True)
class Plan:
    """How to run.

    Attributes:
        seconds: Of the whole run, which is a week by the clock of the daemon.
        jobs: At any time, on all clusters together.
        clusters: Over which they are spread.
        leaving: Jobs that leave per second.
        interval: Seconds from one pass to the next.
        engine: Of the daemon.
        viewers: People who follow the page.
        samples: Per round, in which everything is measured.
        options: Of the daemon, beyond those of the soak.
        patience: Seconds after which a daemon that has not recovered from what went wrong in a round never will.
    """

    seconds: float = 1400.0
    jobs: int = 200
    clusters: int = 4
    leaving: float = 1.0
    interval: float = 1.0
    engine: str = "inline"
    viewers: int = 2
    samples: int = 10
    options: Mapping[str, str] = field(default_factory=dict)
    patience: float = 120.0

    @property
    def rounds(self) -> int:
        """How often everything goes wrong."""
        return DAYS * ROUNDS_PER_DAY

    @property
    def round_seconds(self) -> float:
        """How long half a day takes."""
        return self.seconds / self.rounds
