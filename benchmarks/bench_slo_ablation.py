"""What each part of the policy ``slo`` is good for: it is left out, and a few loads are simulated without it.

Run: ``python benchmarks/bench_slo_ablation.py [--shapes office:2 swing:1] [--only "no echo"] [--jobs-in-parallel 2]``.
Prints slot-hours / minutes late / rescales of every load by part. One run each, with outages of 60 s: differences
below 3 % or 3 minutes are noise. A part is left out in the process that simulates, which ends afterwards.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks import bench_policies
from benchmarks.bench_policies import Case, simulated
from flink_autoscaler.core.policies.slo import acting, lateness, learning, policy
from flink_autoscaler.core.policies.slo.budget import Budget
from flink_autoscaler.core.policies.slo.experts import forecasts
from flink_autoscaler.core.policies.slo.lateness import Spread
from flink_autoscaler.core.policies.slo.model import Forecasts, Noise
from flink_autoscaler.core.policies.slo.programme import choices, grid, value
from flink_autoscaler.core.policies.slo.replayed import HEADROOMS, Followed, Replayed
from flink_autoscaler.core.policies.slo.restarts import Restarts

SHAPES: Final = ("office:2", "week-sine:1", "swing:1", "bursts:1", "spikes:1", "flat-correlated-10:1")
OUTAGE: Final = 60.0
_STAGES: Final = choices.stages


def _instead(owner: object, name: str, part: object) -> Callable[[], None]:
    """Return what puts a part in the place of another one."""
    return lambda: setattr(owner, name, part)


def _experts(keeps: Callable[[str], bool]) -> Callable[[], None]:
    """Return what leaves experts out."""

    def some(*given: Any, **named: Any) -> dict[str, tuple[float, ...]]:
        return {name: path for name, path in forecasts.paths(*given, **named).items() if keeps(name)}

    return _instead(learning, "paths", some)


def _without_noise(_noise: Noise, deviation: float, replayed: tuple[float, ...] = ()) -> Spread:
    return Spread(1e-4, 1e-6, deviation, replayed)


def _on_the_mean(found: Forecasts, step: float) -> tuple[choices.Course, ...]:
    return (choices._course(found.mixed, 1.0, step),)


def _nothing_replayed() -> None:
    _instead(Replayed, "shares", (0.0,) * len(HEADROOMS))()
    _instead(Replayed, "capacity_kept", lambda *_: 0.0)()


def _with_the_worst(followed: Followed) -> tuple[float, ...]:
    return tuple(map(sum, zip(followed.others, followed.spell, followed.worst, strict=True)))


def _near(path: Sequence[float]) -> list[float]:
    return list(_STAGES(path))[: choices.COMMIT + 1]


def _nothing_lasts(costs: grid.CostGrid, place: int, _seconds: float) -> list[float]:
    return [0.0] * len(costs.bucket(place)[0])


def _at_once() -> None:
    for module in (acting, policy):
        _instead(module, "UPS", 1)()


@dataclass(frozen=True)
class Variant:
    """The policy without a part: by options, or by what is changed in the process that simulates."""

    options: Mapping[str, str] = field(default_factory=dict)
    apply: Callable[[], None] = lambda: None


VARIANTS: Final[Mapping[str, Variant]] = {
    "full": Variant(),
    "no day, week": Variant(apply=_experts(lambda name: name not in {forecasts.OF_DAY, forecasts.OF_WEEK})),
    "last and slow only": Variant(apply=_experts(lambda name: name in {forecasts.LAST, forecasts.SLOW})),
    "no mean": Variant(apply=_experts(lambda name: name != forecasts.MEAN)),
    "no echo": Variant(apply=_experts(lambda name: name != forecasts.ECHO)),
    "nothing replayed": Variant(apply=_nothing_replayed),
    "single events count": Variant(apply=_instead(Followed, "late", property(_with_the_worst))),
    "replay as assumed": Variant(apply=_instead(Restarts, "age", lambda _, assumed: assumed)),
    "no noise": Variant(apply=_instead(Spread, "of", _without_noise)),
    "noise counts whole": Variant(apply=_instead(grid, "NOISE_COUNTS", 1.0)),
    "lag absorbs nothing": Variant(apply=_instead(lateness, "LAG_SHARE", 0.0)),
    "no error budget": Variant(apply=_instead(Budget, "factor", lambda *_: 1.0)),
    "patience 0": Variant({"slo.patience": "0"}),
    "one programme on the mean": Variant(apply=_instead(value, "courses", _on_the_mean)),
    "rescales at one price": Variant({"slo.rescales-per-day": "1000000"}),
    "horizon 75 min": Variant(apply=_instead(choices, "stages", _near)),
    "nothing beyond it": Variant(apply=_instead(grid.CostGrid, "lasting", _nothing_lasts)),
    "late-weight 16": Variant({"slo.late-weight": "16"}),
    "late-weight 64": Variant({"slo.late-weight": "64"}),
    "own lateness apart": Variant(apply=_instead(Budget, "is_short", False)),
    "small rescales not dear": Variant({"slo.small-rescales": "0"}),
    "rescale-price 450 s": Variant({"slo.rescale-price": "450 s"}),
    "rescale-price 1800 s": Variant({"slo.rescale-price": "1800 s"}),
    "rescale-price-up 60 s": Variant({"slo.rescale-price-up": "60 s"}),
    "up at once": Variant(apply=_at_once),
}


def lived(name: str, shape: str) -> str:
    """Simulate a load without a part; slot-hours / minutes late / rescales."""
    variant, (load, _, days) = VARIANTS[name], shape.rpartition(":")
    variant.apply()
    _instead(bench_policies, "POLICIES", {name: {"policy": "slo", **variant.options}})()
    row = simulated(Case(load, 0, float(days), OUTAGE, 0), name).rows[name]
    return f"{row.slot_hours:.0f} / {row.late_minutes:.0f} / {row.rescales:.0f}"


def main() -> None:
    """Print the table, row by row as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="NAME:DAYS")
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="PART")
    parser.add_argument("--jobs-in-parallel", type=int, default=1)
    given = parser.parse_args()
    table = Table("left out", *given.shapes)
    with ProcessPoolExecutor(given.jobs_in_parallel, max_tasks_per_child=1) as pool:
        rows = {name: [pool.submit(lived, name, shape) for shape in given.shapes] for name in given.only}
        for name, found in rows.items():
            cells = [each.result() for each in found]
            print(name, *cells, sep=" | ", flush=True)
            table.add_row(name, *cells)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
