"""Workloads by name: as they are by themselves, as long as is wanted, and what arrived before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from flink_autoscaler.pipeline.simulator.workloads import chancy, events, published, weekly
from flink_autoscaler.pipeline.simulator.workloads.workload import WEEK, Workload, again, lasting

_WEEKLY: Final[Mapping[str, Callable[..., Workload]]] = {
    "week-sine": weekly.week_sine,
    "office": weekly.office,
    "holiday": weekly.holiday,
    "growth": weekly.growth,
    "swing": weekly.swing,
}
"""Made of weeks, and of an instant at which they begin, so that it is known what was before."""

_EVENTFUL: Final[Mapping[str, Callable[..., Workload]]] = {
    "step": events.step,
    "launch": events.launch,
    "spikes": events.short_spikes,
    "bursts": events.bursts,
    "upstream-outage": events.upstream_outage,
    "opposite": events.opposite,
    "three-sources": events.three_sources,
}
"""The same, made of seconds."""

_CHANCY: Final[Mapping[str, Callable[..., Workload]]] = {
    "flat-white-10": partial(chancy.flat, deviation=0.1),
    "flat-white-20": partial(chancy.flat, deviation=0.2),
    "flat-correlated-10": partial(chancy.flat, deviation=0.1, is_correlated=True),
    "flat-correlated-20": partial(chancy.flat, deviation=0.2, is_correlated=True),
    "walk": chancy.walk,
    "counts": chancy.counts,
    "sparse": chancy.sparse,
}
"""Made of seconds; what was before has nothing to do with it."""


def _by_query(make: Callable[..., Workload], queries: Iterable[str]) -> dict[str, Callable[[int], Workload]]:
    return {f"{make.__name__}-{query}": _seeded(partial(make, query)) for query in queries}


def _seeded(make: Callable[..., Workload]) -> Callable[[int], Workload]:
    return lambda seed: make(seed=seed)


WORKLOADS: Final[Mapping[str, Callable[[int], Workload]]] = {
    **_by_query(published.nexmark, published.NEXMARK_RATES),
    **_by_query(published.cosine, published.COSINES),
    **_by_query(published.spikes, published.COSINES),
    "ramps": lambda _: published.ramps(),
    "random": lambda seed: published.random_walk(seed=seed),
    "steps": lambda _: published.steps(),
    "sine": lambda _: published.sine(),
    "ysb": lambda _: replace(published.sine(peak=550e3), name="ysb"),
    "traffic": lambda seed: published.traffic(seed=seed),
    **{name: _seeded(make) for name, make in {**_WEEKLY, **_EVENTFUL, **_CHANCY}.items()},
}
"""From a seed to a workload, by name."""

_OTHER_NOISE: Final = 1_000_003
"""Added to the seed: what was random before must not be what is random now."""


def made(name: str, seed: int, seconds: float) -> Workload:
    """Make a built-in workload for so long; the beginning is that of the workload as it is by itself."""
    if name in _WEEKLY:
        return _WEEKLY[name](seed=seed, weeks=seconds / WEEK)
    if make := _EVENTFUL.get(name, _CHANCY.get(name)):
        return make(seed=seed, duration=seconds)
    return lasting(WORKLOADS[name](seed), seconds)


def earlier(name: str, seed: int, weeks: int) -> Workload:
    """Return what arrived in the weeks before a built-in workload: the same shape with other noise.

    What happens once had not happened. Workloads that are shorter than a week were there again and again, up to where
    the workload begins.
    """
    if name in _WEEKLY:
        return _WEEKLY[name](seed=seed + _OTHER_NOISE, weeks=weeks, since=-weeks * WEEK)
    if name in _EVENTFUL:
        return _EVENTFUL[name](seed=seed + _OTHER_NOISE, duration=weeks * WEEK, since=-weeks * WEEK)
    if name in _CHANCY:
        return _CHANCY[name](seed=seed + _OTHER_NOISE, duration=weeks * WEEK)
    once = WORKLOADS[name](seed + _OTHER_NOISE)
    count = round(weeks * WEEK / once.step)
    return Workload(once.name, once.step, again(once, count)[-count:])
