"""A reference run of the fluid model and its policies, row by row, beside ours.

Run: ``python benchmarks/bench_reference.py [--seeds 3] [--load office]``. The other one is a prototype with
nothing around its policies; ``BARE`` takes from ours what it does not have. Its figures are in ``WEEK_ROWS`` and
``OFFICE_ROWS``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, field
from itertools import product
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.pipeline.backtest.arrivals import QuarterHours, Sample
from flink_autoscaler.pipeline.backtest.case import BacktestCase, chain
from flink_autoscaler.pipeline.backtest.nightly_profiles import nightly_profiles_of
from flink_autoscaler.pipeline.simulator import ReportSettings, RescaleParams, Simulation, run
from flink_autoscaler.pipeline.simulator.bounds import (
    OracleParams,
    instant_rescaling_slots,
    oracle,
    static_peak,
    work_area,
)
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS
from flink_autoscaler.pipeline.simulator.workloads import MINUTE, WEEK, Workload, office, week_sine

HOUR: Final = 3600.0
PREFIX: Final = "job.autoscaler."
LATE_AFTER: Final = 60.0
TOLERANCE: Final = 0.1

Options = Mapping[str, str]

BARE: Final[Options] = {
    "scaling.parallelism-alignment.mode": "OFF",
    "rescale-filters.enabled": "false",
}
"""No key groups, budgets or economics."""

AT_ONCE: Final[Options] = {**BARE, "scale-down.interval": "0", "scale-down.max-factor": "1"}
"""Nor does a scale-down wait, but for what the policy itself waits."""

VARGA: Final[Options] = {**AT_ONCE, "policy": "varga"}
SOONER: Final[Options] = {**BARE, "metrics.window": "5 min", "stabilization.interval": "1 min"}
FORECAST: Final[Options] = {"forecast.enabled": "true"}
WIDER: Final[Options] = {**FORECAST, "forecast.quantile": "0.95"}
"""So that the guard, which asks for at most a fifth above the quantile in a day, is content throughout."""


@dataclass(frozen=True)
class Figures:
    """What comes of a run; lag in seconds, late in minutes above a minute of lag. None where it has no figure."""

    slot_hours: float
    rescales: float | None = None
    lag_95: float | None = None
    lag_99: float | None = None
    late: float | None = None


@dataclass(frozen=True)
class Row:
    """One row: the figures of the reference, and the options of ours that correspond."""

    name: str
    there: Figures
    options: Options = field(default_factory=dict)
    outage: float = 60.0
    feeds_zeros: bool = False


class Piece(NamedTuple):
    """One run."""

    load: str
    row: Row
    seed: int


ASSUMED: Final = {"restart.time-source": "option"}
"""The reference measures no outages."""

_CAPACITY: Final = Figures(4888, 25, 0, 5, 9)
_CAPACITY_60: Final = Figures(4519, 21, 0, 4, 10)
WEEK_ROWS: Final = (
    Row("capacity, as shipped", _CAPACITY, ASSUMED),
    Row("capacity, bare", _CAPACITY, {**BARE, **ASSUMED}),
    Row("capacity T = 60 s, as shipped", _CAPACITY_60, {"restart.time": "60 s"}),
    Row("capacity T = 60 s, bare", _CAPACITY_60, {**BARE, "restart.time": "60 s"}),
    Row("varga, 300 s", Figures(4568, 177, 10, 55, 46), {**VARGA, "varga.scale-down.window": "300 s"}),
    Row(
        "varga, 1 h",
        Figures(4904, 124, 0, 47, 30),
        {**VARGA, "metrics.window": "5 min", "stabilization.interval": "1 min"},
    ),
)


def _office_rows() -> Iterator[Row]:
    reactive = {60: Figures(4245, 20, None, 5, 60), 180: Figures(4333, 20, None, 111, 127)}
    forecast = {60: Figures(3725, 15, None, 0, 2), 180: Figures(3725, 15, None, 0, 54)}
    for outage in (60, 180):
        known, of = {"restart.time": f"{outage} s"}, f"T = {outage} s"
        yield Row(f"capacity {of}, as shipped", reactive[outage], known, outage)
        yield Row(f"capacity {of}, bare", reactive[outage], {**BARE, **known}, outage)
        yield Row(f"capacity {of}, bare, sooner", reactive[outage], {**SOONER, **known}, outage)
        yield Row(f"with forecast {of}, as shipped", forecast[outage], {**FORECAST, **known}, outage)
        yield Row(f"with forecast {of}, bare", forecast[outage], {**AT_ONCE, **WIDER, **known}, outage)


OFFICE_ROWS: Final = tuple(_office_rows())
LOADS: Final[Mapping[str, Sequence[Row]]] = {"week-sine": WEEK_ROWS, "office": OFFICE_ROWS}
ORACLES: Final = {"oracle, slots only": OracleParams(), "oracle, w 150, L 30 s": OracleParams(late_weight=150.0)}
BOUNDS: Final[Mapping[str, Sequence[Figures]]] = {
    "week-sine": (Figures(5544), Figures(3197), Figures(3113), Figures(3686, 125), Figures(4051, 42)),
    "office": (Figures(5376), Figures(2430), Figures(2347), Figures(2765, 51), Figures(2913, 18)),
}


def workload_of(load: str, seed: int) -> Workload:
    """Return the seven days that are simulated."""
    return week_sine(seed=seed) if load == "week-sine" else office(seed=seed).part(4 * WEEK, 5 * WEEK)


def profiles_of(seed: int, configuration: Options) -> list[ProfileResult]:
    """Return what the nightly job makes of the four weeks before the fifth of the office, and of its days."""
    since = MONDAY_MS / 1000 - 4 * WEEK
    rates = (Sample(since + number * MINUTE, MINUTE, row[0]) for number, row in enumerate(office(seed=seed).rows))
    workload = workload_of("office", seed)
    job = chain(workload)
    past = {job.sources[0]: QuarterHours.of(rates)}
    subject = BacktestCase(f"reference/{seed}", job, workload, past=past)
    return [night.result for night in nightly_profiles_of(subject, configuration)]


def measured(piece: Piece) -> Figures:
    """Do one backtest."""
    load, row, seed = piece
    configuration = {PREFIX + key: value for key, value in row.options.items()}
    workload = workload_of(load, seed)
    result = run(
        Simulation(
            chain(workload),
            workload,
            configuration,
            installed_plugins(),
            terms=RescaleParams(row.outage, replay=5.0),
            reports=ReportSettings(feeds_zeros=row.feeds_zeros),
            slo_lag=LATE_AFTER,
            profiles=profiles_of(seed, configuration) if load != "week-sine" else (),
        )
    )
    m = result.measures
    return Figures(m.slot_hours, m.rescales, m.lag_p95, m.lag_p99, m.over_slo / MINUTE)


def bounds_of(load: str, seed: int) -> list[Figures]:
    """Return what nobody can do better than, and what never rescaling costs."""
    workload = workload_of(load, seed)
    job = chain(workload)
    slots = [Figures(bound(job, workload) / HOUR) for bound in (static_peak, instant_rescaling_slots, work_area)]
    plans = [oracle(job, workload, terms) for terms in ORACLES.values()]
    return slots + [Figures(plan.cost / HOUR, plan.rescales) for plan in plans]


def compared(there: float | None, here: Sequence[float | None]) -> str:
    """Return both, and by how much the mean of ours is off where that is more than the tolerance."""
    known = [value for value in here if value is not None]
    if not known:
        return ""
    low, high = (f"{value:.0f}" for value in (min(known), max(known)))
    shown = low if low == high else f"{low}–{high}"
    if there is None:
        return shown
    off = sum(known) / len(known) - there
    verdict = "" if abs(off) <= max(TOLERANCE * there, 0.5) else f" ({off / there:+.0%})" if there else f" ({off:+.0f})"
    return f"{there:.0f} / {shown}{verdict}"


def table_of(title: str, rows: Mapping[str, tuple[Figures, Sequence[Figures]]]) -> Table:
    """Make a table of the reference and of what came of all seeds."""
    columns = ("slot-hours", "rescales", "p95 lag, s", "p99 lag, s", "late, min")
    table = Table("there / here (off by more than 10 %)", *columns, title=title)
    for name, (there, here) in rows.items():
        figures = zip(astuple(there), zip(*map(astuple, here), strict=True), strict=True)
        table.add_row(name, *(compared(one, several) for one, several in figures))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="of the load; each row is run with 0, 1 and so on")
    parser.add_argument("--load", choices=LOADS, action="append", help="one of both alone")
    arguments = parser.parse_args()
    seeds = range(arguments.seeds)
    console = Console(width=140)
    with ProcessPoolExecutor(2) as pool:
        for load in arguments.load or LOADS:
            rows = LOADS[load]
            bounds = list(zip(*(bounds_of(load, seed) for seed in seeds), strict=True))
            names = ("static peak", "instant", "area", *ORACLES)
            limits = dict(zip(names, zip(BOUNDS[load], bounds, strict=True), strict=True))
            console.print(table_of(f"{load}: bounds", limits))
            pieces = [Piece(load, row, seed) for row, seed in product(rows, seeds)]
            found = list(pool.map(measured, pieces))
            by_row = [found[at : at + len(seeds)] for at in range(0, len(found), len(seeds))]
            results = {row.name: (row.there, here) for row, here in zip(rows, by_row, strict=True)}
            console.print(table_of(load, results))


if __name__ == "__main__":
    main()
