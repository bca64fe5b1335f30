"""Built-in workloads as long as is wanted, and what arrived before them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from flink_autoscaler.pipeline.simulator.workloads import WEEK, WORKLOADS, Workload, office, week_sine

_OTHER_NOISE: Final = 1_000_003
"""Added to the seed: what was random before must not be what is random now."""

_WEEKLY: Final[Mapping[str, Callable[..., Workload]]] = {"week-sine": week_sine, "office": office}
"""Workloads that know what week it is, and so what was before."""


def made(name: str, seed: int, seconds: float) -> Workload:
    """Make a built-in workload for so long; the beginning is that of the workload as it is by itself."""
    if name in _WEEKLY:
        return _WEEKLY[name](seed=seed, weeks=seconds / WEEK)
    return lasting(WORKLOADS[name](seed), seconds)


def lasting(workload: Workload, seconds: float) -> Workload:
    """Return a workload for so long: its beginning, or itself again and again."""
    count = max(1, round(seconds / workload.step))
    return Workload(workload.name, workload.step, _again(workload, count)[:count])


def earlier(name: str, seed: int, weeks: int) -> Workload:
    """Return what arrived in the weeks before a built-in workload: the same shape with other noise.

    Workloads that are shorter than a week were there again and again, up to where the workload begins.

    Args:
        name: Of the workload.
        seed: Of the workload.
        weeks: How many.
    """
    if name in _WEEKLY:
        return _WEEKLY[name](seed=seed + _OTHER_NOISE, weeks=weeks, since=-weeks * WEEK)
    once = WORKLOADS[name](seed + _OTHER_NOISE)
    count = round(weeks * WEEK / once.step)
    return Workload(once.name, once.step, _again(once, count)[-count:])


def _again(workload: Workload, count: int) -> tuple[tuple[float, ...], ...]:
    """Return the rows of a workload again and again, at least so many."""
    return workload.rows * math.ceil(count / len(workload.rows))
