"""What uneven partitions take: ``PYTHONPATH=core:. python benchmarks/bench_partitions.py [--trials 300]``.

For several ways in which lag is spread over partitions: what a source is sized for, by the sum of the lags, by the
slowest partition as often as there are partitions, and as the autoscaler does it. Prints the share of the partitions
that get a subtask of their own, how often the backlog is gone in time, and how long nine of ten take, in times that it
may take. Partitions are dealt out to subtasks at random, as many to each as to any other, as Flink does.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.evaluate.evaluation import partition_skew
from flink_autoscaler.core.model.metrics import EvaluatedMetric, ScalingMetric
from flink_autoscaler.core.model.topology import IoMetrics, Vertex

CATCH_UP: Final = 600.0
UTILIZATION: Final = 0.7
SEED: Final = 3

SPREADS: Final[dict[str, Callable[[random.Random, int], list[float]]]] = {
    "even": lambda _, count: [1000.0] * count,
    "exponential": lambda chance, count: [chance.expovariate(1 / 1000) for _ in range(count)],
    "one has 3 times as much": lambda _, count: [3000.0] + [1000.0] * (count - 1),
    "one has 10 times as much": lambda _, count: [10_000.0] + [1000.0] * (count - 1),
    "two have 10 times as much": lambda _, count: [10_000.0] * 2 + [1000.0] * (count - 2),
    "half have 4 times as much": lambda _, count: [4000.0] * (count // 2) + [1000.0] * (count - count // 2),
}


@dataclass(frozen=True)
class Case:
    """Partitions that get ``arriving`` records/s each, read by subtasks that do ``rate`` each."""

    lags: Sequence[float]
    arriving: float
    rate: float

    def size(self, lag: float) -> int:
        """Return the subtasks that a lag takes besides what arrives."""
        needed = len(self.lags) * self.arriving / UTILIZATION + lag / CATCH_UP
        return max(1, min(len(self.lags), math.ceil(needed / self.rate)))

    def lag_as_decided(self) -> float:
        """Return the lag that the autoscaler sizes a source for."""
        total, count = sum(self.lags), len(self.lags)
        vertex = Vertex("", "", 1, count, {}, {}, IoMetrics(), source_partitions=count)
        metrics = {
            ScalingMetric.LAG: EvaluatedMetric(total, math.nan),
            ScalingMetric.TARGET_DATA_RATE: EvaluatedMetric(math.nan, count * self.arriving),
            ScalingMetric.TRUE_PROCESSING_RATE: EvaluatedMetric(math.nan, self.rate),
        }
        factor = partition_skew(vertex, metrics, max(self.lags), catch_up=CATCH_UP, utilization_target=UTILIZATION)
        return total * factor

    def seconds(self, subtasks: int, chance: random.Random) -> float:
        """Return when the last subtask has caught up, with partitions dealt out at random."""
        dealt = chance.sample(list(self.lags), len(self.lags))
        worst = 0.0
        for number in range(subtasks):
            mine = dealt[number::subtasks]
            spare = self.rate - len(mine) * self.arriving
            worst = max(worst, sum(mine) / spare if spare > 0 else math.inf)
        return worst


WAYS: Final[dict[str, Callable[[Case], float]]] = {
    "sum": lambda case: sum(case.lags),
    "slowest x partitions": lambda case: max(case.lags) * len(case.lags),
    "as decided": Case.lag_as_decided,
}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    trials = parser.parse_args().trials
    print("| lag | partitions |", " | ".join(f"{way}: share, in time, 9 of 10" for way in WAYS), "|")
    print("|---|---|" + "---|" * len(WAYS))
    for name, spread in SPREADS.items():
        for count in (12, 48):
            print(f"| {name} | {count} |", " | ".join(_cells(spread, count, trials)), "|")


def _cells(spread: Callable[[random.Random, int], list[float]], count: int, trials: int) -> list[str]:
    chance = random.Random(SEED)
    cases = []
    for _ in range(trials):
        arriving = chance.uniform(0.1, 0.45)
        scale = chance.uniform(0.1, 0.9) * arriving
        lags = [lag * scale for lag in spread(chance, count)]
        cases.append(Case(lags, arriving, chance.uniform(2, 6)))
    cells = []
    for lag_of in WAYS.values():
        sizes = [case.size(lag_of(case)) for case in cases]
        took = sorted(case.seconds(size, chance) / CATCH_UP for case, size in zip(cases, sizes, strict=True))
        share, in_time = statistics.mean(sizes) / count, sum(each <= 1 for each in took) / trials
        cells.append(f"{share:.2f}, {in_time:.0%}, {took[int(0.9 * trials)]:.2f}")
    return cells


if __name__ == "__main__":
    main()
