"""Policies compared: rescales, slot-hours, lag and time over the limit of every policy on load shapes, with the bounds.

Run: ``python benchmarks/bench_policies.py [--days 7] [--outage 60] [--only office]``. Every row is one backtest: the
production pass once a minute over a simulated chain of three vertices.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

from rich.console import Console
from rich.table import Table

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.pipeline.backtest.subject import builtin, chain
from flink_autoscaler.pipeline.simulator import BacktestResult, RescaleTerms, Simulation, run
from flink_autoscaler.pipeline.simulator.bounds import OracleTerms, area, instant, oracle, static_peak
from flink_autoscaler.pipeline.simulator.workloads import DAY, WEEK, Workload, office, sine, week_sine

HOUR: Final = 3600.0
PREFIX: Final = "job.autoscaler."
LATE_AFTER: Final = 60.0
PUBLISHED: Final = ("cosine-q1", "random", "ysb")
"""A cosine of an hour and a random walk (Delft), and a sine of two hours (Daedalus)."""

POLICIES: Final[Mapping[str, Mapping[str, str]]] = {
    "capacity": {},
    "capacity, restart.time 5 min": {"restart.time-source": "option"},
    "capacity, restart.time 60 s": {"restart.time-source": "option", "restart.time": "60 s"},
    "capacity, integral": {"capacity.mode": "integral"},
    "hpa": {"policies": "hpa"},
    "varga (hardened)": {"policies": "varga"},
    "ds2": {"policies": "ds2"},
    "backlog-time": {"policies": "backlog-time"},
    "threshold": {"policies": "threshold"},
    "capacity; backlog-time": {"policies": "capacity;backlog-time"},
}


def workloads(days: float) -> dict[str, Workload]:
    """Return the load shapes.

    A week of days, a week of office hours and a fast swing that goes down to nothing are as long as asked. Those that
    other comparisons of autoscalers have used come again and again for a day at most.
    """
    last_week = office(seed=0).part(4 * WEEK, 4 * WEEK + days * DAY)
    swing = sine(peak=150e3, cycles=round(4 * days), duration=days * DAY)
    ours = {"week-sine": week_sine().part(0, days * DAY), "office": last_week, "sine, 6 h": swing}
    return ours | {name: builtin(name, days=min(days, 1.0)).workload for name in PUBLISHED}


def simulated(workload: Workload, options: Mapping[str, str], outage: float) -> BacktestResult:
    """Run one backtest."""
    terms = RescaleTerms(outage, replay=5.0)
    configuration = {PREFIX + key: value for key, value in options.items()}
    return run(
        Simulation(chain(workload), workload, configuration, installed_plugins(), terms=terms, slo_lag=LATE_AFTER)
    )


def add_bounds(table: Table, workload: Workload, outage: float) -> None:
    """Add what nobody can do better than, and what never rescaling costs."""
    job = chain(workload)
    plain = oracle(job, workload, OracleTerms(outage=outage))
    bounds = {"static peak": static_peak(job, workload), "instant": instant(job, workload), "area": area(job, workload)}
    for name, slot_seconds in bounds.items():
        table.add_row(name, f"{slot_seconds / HOUR:.0f}", "", "", "", "", "", "")
    table.add_row("oracle", f"{plain.cost / HOUR:.0f}", str(plain.rescales), "", "", "", "", "")


def add_policies(table: Table, workload: Workload, outage: float, pool: ProcessPoolExecutor) -> None:
    """Add a row for every policy."""
    results = pool.map(partial(simulated, workload, outage=outage), POLICIES.values())
    for name, result in zip(POLICIES, results, strict=True):
        m = result.measures
        lags = [f"{lag:.0f}" for lag in (m.lag_p95, m.lag_p99)]
        figures = [f"{m.slot_hours:.0f}", str(m.rescales), str(m.reversals), *lags, f"{m.over_slo / 60:.0f}"]
        table.add_row(name, *figures, f"{m.score:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=7.0, help="days of every load shape")
    parser.add_argument("--only", default="", help="text in the name of a load shape")
    parser.add_argument("--outage", type=float, default=60.0, help="seconds that a rescale takes")
    arguments = parser.parse_args()
    columns = ("slot-h", "rescales", "reversals", "p95 lag s", "p99 lag s", "min over 60 s", "score")
    with ProcessPoolExecutor(2) as pool:
        chosen = {name: each for name, each in workloads(arguments.days).items() if arguments.only in name}
        for name, workload in chosen.items():
            title = f"{name}, {workload.duration / DAY:g} days, outages of {arguments.outage:g} s"
            table = Table("policy", *columns, title=title)
            add_bounds(table, workload, arguments.outage)
            add_policies(table, workload, arguments.outage, pool)
            Console(width=120).print(table)


if __name__ == "__main__":
    main()
