"""Workloads that other evaluations of autoscalers have used. The same seed gives the same rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from flink_autoscaler.pipeline.simulator.workloads.workload import (
    HOUR,
    MINUTE,
    Row,
    Workload,
    autoregressive,
    chance_of,
    recorded,
    shaped,
)

# Nexmark at the rates for which "Three steps is all you need" (OSDI 2018) gives the best parallelism on Flink.

NEXMARK_RATES: Final[Mapping[str, Row]] = {
    "q1": (4e6,),
    "q2": (4e6,),
    "q3": (5e5, 1e5),
    "q5": (5e5,),
    "q8": (4.2e5, 1.2e5),
    "q11": (1e6,),
}
"""Bids; for q3 auctions and persons, for q8 the same."""


def nexmark(query: str = "q1", *, seed: int = 0, duration: float = HOUR) -> Workload:  # noqa: ARG001 - has no chance
    """Return constant rates of one query's sources; the seed does nothing."""
    count = max(1, round(duration / MINUTE))
    return Workload(f"nexmark-{query}", MINUTE, (NEXMARK_RATES[query],) * count)


# The shapes of "Evaluating Stream Processing Autoscalers" (DEBS 2024).

_RUN: Final = 140 * MINUTE
COSINES: Final[Mapping[str, tuple[float, float]]] = {"q1": (150e3, 100e3), "q3": (50e3, 25e3), "q11": (30e3, 15e3)}
"""Mean and amplitude, records/s, by query."""

_NOISE_SHARE: Final = 1 / 15


def cosine(query: str = "q1", *, seed: int = 0, duration: float = _RUN) -> Workload:
    """Return a cosine with a period of an hour and even noise of up to a fifteenth of its mean."""
    mean, amplitude = COSINES[query]
    chance = chance_of(seed)

    def shape(t: float) -> float:
        wave = amplitude * math.cos(2 * math.pi * t / HOUR)
        return mean + wave + chance.uniform(-1, 1) * mean * _NOISE_SHARE

    return shaped(f"cosine-{query}", shape, duration)


def spikes(query: str = "q1", *, seed: int = 0, count: int = 6, duration: float = _RUN) -> Workload:
    """Return the cosine with spikes of at most three minutes, half to all of its amplitude high."""
    amplitude, chance = COSINES[query][1], chance_of(seed)
    base = cosine(query, seed=seed, duration=duration)
    rates = [row[0] for row in base.rows]
    for _ in range(count):
        begin, length = chance.randrange(len(rates)), chance.randint(1, 3)
        height = chance.uniform(0.5, 1.0) * amplitude
        rates[begin : begin + length] = [rate + height for rate in rates[begin : begin + length]]
    return recorded(f"spikes-{query}", rates)


def ramps(*, peak: float = 2.5e6, duration: float = _RUN) -> Workload:
    """Return a rise from nothing to a peak, and the way back."""
    return shaped("ramps", lambda t: peak * (1 - abs(2 * t / duration - 1)), duration)


def random_walk(*, seed: int = 0, hold: float = 10 * MINUTE, duration: float = _RUN) -> Workload:
    """Return a random walk that begins at 1.25 M, goes at most 500 k at once, and stays within 0 and 2.5 M."""
    chance, rates = chance_of(seed), [1.25e6]
    while len(rates) * hold < duration:
        rates.append(min(max(0.0, rates[-1] + chance.uniform(-5e5, 5e5)), 2.5e6))
    return shaped("random", lambda t: rates[int(t / hold)], duration)


def steps(*, height: float = 1e6, duration: float = _RUN) -> Workload:
    """Return nothing, one height, two and one again, over 1, 2, 2 and 2 sevenths of the time."""
    levels = (0.0, 1.0, 1.0, 2.0, 2.0, 1.0, 1.0)
    return shaped("steps", lambda t: height * levels[min(6, int(7 * t / duration))], duration)


# The shapes of the evaluation of Daedalus (2024).


def sine(*, peak: float = 60e3, cycles: int = 3, duration: float = 6 * HOUR) -> Workload:
    """Return a sine that swings between nothing and a peak."""
    return shaped("sine", lambda t: peak / 2 * (1 - math.cos(2 * math.pi * cycles * t / duration)), duration)


def traffic(*, seed: int = 0, peak: float = 100e3, duration: float = 6 * HOUR) -> Workload:
    """Return a day of road traffic in less time: quiet at both ends, a rush hour at a third and at three quarters."""
    noise = autoregressive(seed, 0.03)

    def shape(t: float) -> float:
        x = t / duration
        rush = math.exp(-(((x - 1 / 3) / 0.07) ** 2)) + 0.9 * math.exp(-(((x - 3 / 4) / 0.1) ** 2))
        return (0.15 + 0.35 * math.sin(math.pi * x) ** 2 + 0.5 * rush) * next(noise)

    return shaped("traffic", shape, duration).scaled_to(peak)
