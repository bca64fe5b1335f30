"""What the rescales of the last day tell of a load: how often it has turned, and whether a smaller size has lasted.

Who waits before a scale-down fears that the load comes back at once. A day in which it hardly did leaves less to fear.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from flink_autoscaler.core.model.policy_values import PastRescale
from flink_autoscaler.core.policies.slo.budget import DAY

LASTING: Final = 3600.0
"""Seconds: a smaller size that is kept for as long has paid for the two rescales, or nearly. Two hours gain half of
what one does on bursts of half an hour."""

_LEAST: Final = 3
"""Scale-downs of a day that tell something; a load that goes by days has fewer large ones."""
_EXCEPTIONS: Final = 1
"""Of them that may have been too early. With none, one burst right after another one is remembered for a day."""
_TRUSTING: Final = 0.5
"""Of the patience that is usual, where they have lasted. A third gains no more."""


def reversals(rescales: Sequence[PastRescale], now: float) -> int:
    """Return how often a job has changed its direction within the last day.

    Args:
        rescales: In any order.
        now: Epoch seconds.
    """
    directions = [change > 0 for _, change in _changes(rescales, now)]
    return sum(1 for before, after in pairwise(directions) if before is not after)


def patience(usual: float, rescales: Sequence[PastRescale], now: float) -> float:
    """Return the share of its price that has to be forgone before a scale-down.

    Half the usual one where at least three scale-downs within the last day were followed by a scale-up, at most one of
    them within an hour. Steps down that follow each other are one scale-down.

    Args:
        usual: The share for other loads.
        rescales: In any order.
        now: Epoch seconds.
    """
    turns = pairwise(_changes(rescales, now))
    stays = [after - at for (at, change), (after, next_change) in turns if change < 0 < next_change]
    early = sum(1 for stay in stays if stay < LASTING)
    return _TRUSTING * usual if len(stays) >= _LEAST and early <= _EXCEPTIONS else usual


def _changes(rescales: Sequence[PastRescale], now: float) -> list[tuple[float, int]]:
    """Return when the size changed within the last day, and by how many subtasks, oldest first."""
    found = sorted((each.at, _subtasks(each)) for each in rescales if now - DAY < each.at <= now)
    return [(at, change) for at, change in found if change]


def _subtasks(rescale: PastRescale) -> int:
    return sum(rescale.after.values()) - sum(rescale.before.values())
