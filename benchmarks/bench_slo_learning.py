"""What the policy ``slo`` learns in a pass: processor time and size of what it remembers, ten vertices and eight days.

Run: ``python benchmarks/bench_slo_learning.py [--repeats 300]``. Prints the median and the least processor time in
milliseconds: of a quiet pass (read, learn, write), of a pass that completes five minutes (experts are scored and say
what they expect next), of what a full evaluation asks for besides, and of a pass with one.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import median

from rich.console import Console
from rich.table import Table

from flink_autoscaler.core.options.policies import SloOptions
from flink_autoscaler.core.policies.slo.history import KEPT
from flink_autoscaler.core.policies.slo.lateness import LagTerms, Spread
from flink_autoscaler.core.policies.slo.learning import Learned, expected, learn
from flink_autoscaler.core.policies.slo.levels import levels, present
from flink_autoscaler.core.policies.slo.model import Levels, Seen, SeenVertex
from flink_autoscaler.core.policies.slo.price import Prices
from flink_autoscaler.core.policies.slo.programme.value import Outlook, valued
from flink_autoscaler.core.policies.slo.state import Graph, SloState

IDS = tuple(f"{number:032x}" for number in range(10))
EDGES = tuple(pairwise(IDS))
RATE = 1000.0
PARALLELISM = 20


def a_pass(at: float, total: float, load: float) -> Seen:
    """Make a sample of a chain whose last vertices are the busiest and have key groups."""
    vertices = {
        key: SeenVertex(
            PARALLELISM,
            total,
            total,
            min(load / PARALLELISM * (0.5 + 0.05 * place), 1.0),
            greatest=200,
            groups=None if place < 3 else 128,
            pending=0.0 if place == 0 else None,
            is_source=place == 0,
        )
        for place, key in enumerate(IDS)
    }
    return Seen(at, 0.0, vertices, EDGES)


def passes(interval: float, start: float = 0.0, total: float = 0.0) -> Iterator[Seen]:
    """Give the samples of a load that swings by the day and is a bit noisy."""
    at = start
    while True:
        at += interval
        load = 12.0 + 9.0 * math.sin(2.0 * math.pi * at / 86400.0) + math.sin(at * 1.7)
        total += load * RATE * interval
        yield a_pass(at, total, load)


def eight_days() -> tuple[SloState, Iterator[Seen]]:
    """Return what is remembered after eight days, and the samples that follow."""
    state = SloState(Graph.of(a_pass(0.0, 0.0, 1.0)))
    for _, seen in zip(range(KEPT + 10), passes(300.0), strict=False):
        state = learn(state, seen).state
    total = seen.vertices[IDS[0]].records_in or 0.0
    return state, passes(60.0, seen.at, total)


def timed(call: Callable[[], object]) -> float:
    """Return the processor time of a call, milliseconds."""
    began = time.process_time()
    call()
    return (time.process_time() - began) * 1000.0


def measured(repeats: int) -> tuple[dict[str, list[float]], SloState]:
    """Measure pass after pass."""
    state, following = eight_days()
    times: dict[str, list[float]] = {}
    for _, seen in zip(range(repeats), following, strict=False):
        stored, known = json.loads(json.dumps(state.as_json())), learn(state, seen)
        kind = "five minutes" if known.is_bucket else "minute"
        parts: dict[str, Callable[[], object]] = {
            "read": partial(SloState.read, stored, state.graph),
            f"learn, {kind}": partial(learn, state, seen),
            "write": known.state.as_json,
            "forecasts": partial(expected, replace(known, forecasts=None)),
            "levels": partial(_levels, expected(known)),
            "noise": partial(_noise, known),
            "programme": partial(valued, _outlook(expected(known))),
        }
        for name, call in parts.items():
            times.setdefault(name, []).append(timed(call))
        state = known.state
    return times, state


def _noise(known: Learned) -> object:
    return known.noise


def _levels(known: Learned) -> Levels:
    assert known.forecasts is not None
    mixed = known.forecasts.mixed
    found = levels(known.seen.vertices, known.strengths, (0.5 * min(mixed), 2.0 * max(mixed)))
    assert found is not None
    return found


def _outlook(known: Learned) -> Outlook:
    assert known.forecasts is not None
    prices = Prices.of(SloOptions({}), PARALLELISM, known.forecasts.mixed, 4)
    size, spread = present(known.seen.vertices, known.strengths), Spread.of(known.noise, 0.01)
    return Outlook(_levels(known), size, known.forecasts, spread, LagTerms(60.0, 60.0, 5.0), prices)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=300)
    times, state = measured(parser.parse_args().repeats)
    table = Table("part", "median ms", "least ms", title="policy slo, 10 vertices, 8 days")
    for name, each in times.items():
        table.add_row(name, f"{median(each):.3f}", f"{min(each):.3f}")
    quiet = [times[name] for name in ("read", "learn, minute", "write")]
    table.add_row("quiet pass", f"{sum(map(median, quiet)):.3f}", f"{sum(map(min, quiet)):.3f}")
    full = [*quiet, *(times[name] for name in ("forecasts", "levels", "noise", "programme"))]
    table.add_row("pass with an evaluation", f"{sum(map(median, full)):.3f}", f"{sum(map(min, full)):.3f}")
    table.add_row("state, bytes", str(len(json.dumps(state.as_json(), separators=(",", ":")))))
    Console().print(table)


if __name__ == "__main__":
    main()
