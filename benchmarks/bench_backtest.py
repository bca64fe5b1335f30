"""Backtests: job-days per minute of a process, and of runs as the command makes them, on one core and on two.

Run: ``PYTHONPATH=tests:. python benchmarks/bench_backtest.py [--days 2] [--jobs 16] [--only-policies]``. One
production pass per simulated minute is included, and where a policy has forecasts the profiles of every night. The two
first tables go by processor time. ``--only-policies`` leaves out jobs of other shapes and the runs, which need Java.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from benchmarks.measuring import Peak, quiet_logs
from flink_autoscaler.pipeline.backtest.case import builtin_case
from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, Candidate, RunSettings, SimulationTask
from flink_autoscaler.pipeline.backtest.runner import NO_SPARK, open_runner
from flink_autoscaler.pipeline.backtest.simulate_case import simulate_task
from flink_autoscaler.pipeline.simulator import JobModel, RescaleParams, Simulation, VertexModel, run
from flink_autoscaler.pipeline.simulator.workloads import DAY, Workload, week_sine
from flink_autoscaler.pipeline.spark.settings import SparkSettings

POLICIES: Mapping[str, Mapping[str, str]] = {
    "capacity": {},
    "varga": {"policy": "varga"},
    "slo": {"policy": "slo"},
    "capacity, nightly profiles": {"forecast.enabled": "true"},
    "slo, nightly profiles": {"policy": "slo", "forecast.enabled": "true"},
}
"""With the options of the autoscaler that each is made of."""

TERMS = RescaleParams(replay=5.0)
NOT_FOLLOWED = {"job.autoscaler.supervised-rescales.enabled": "false"}


def chain(count: int) -> JobModel:
    """Make a chain whose second vertex is the slowest."""
    rates = [12_500.0, 5_000.0, *([10_000.0] * (count - 2))]
    vertices = [VertexModel(f"{n:032x}", f"vertex {n}", rate, max_parallelism=720) for n, rate in enumerate(rates)]
    return JobModel.chain(vertices, [1.0, 0.5])


def join() -> JobModel:
    """Make two sources and what joins them."""
    left, right, joined = (VertexModel(f"{n:032x}", f"vertex {n}", 10_000.0, max_parallelism=720) for n in range(3))
    edges = {(left.vertex_id, joined.vertex_id): 1.0, (right.vertex_id, joined.vertex_id): 1.0}
    return JobModel((left, right, joined), edges)


def row(table: Table, name: str, backtest: Simulation) -> None:
    """Run a backtest and add its figures to the table."""
    started = time.process_time()
    result = run(backtest)
    seconds = time.process_time() - started
    days = backtest.workload.duration / DAY
    table.add_row(name, f"{seconds / days:.2f}", f"{days / seconds * 60:.0f}", str(result.measures.rescales))


def add_policy(table: Table, name: str, options: Mapping[str, str], days: float) -> None:
    """Run a backtest of a policy as the command does it, nights included, and add its figures to the table."""
    configuration = {f"job.autoscaler.{key}": value for key, value in options.items()}
    has_forecasts = "forecast.enabled" in options
    subject = builtin_case("office" if has_forecasts else "week-sine", days=days, with_past=has_forecasts)
    started = time.process_time()
    outcome = simulate_task(SimulationTask(subject, name, configuration))
    seconds = time.process_time() - started
    assert outcome.figures is not None, outcome.problem
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = (f"{seconds / days:.2f}", f"{days / seconds * 60:.0f}", str(outcome.figures.rescales), f"{megabytes:.0f}")
    table.add_row(name, *figures)


def plan_of(jobs: int, days: float) -> BacktestPlan:
    """Make a plan of so many jobs with two configurations."""
    subjects = [replace(builtin_case("week-sine", days=days, seed=n), job_key=f"main/job-{n}") for n in range(jobs)]
    bold = {"job.autoscaler.utilization.target": "0.8"}
    return BacktestPlan(subjects, [Candidate("usual", {}), Candidate("bold", bold)], (), RunSettings(with_bounds=False))


def add_run(table: Table, name: str, master: str, plan: BacktestPlan, days: float) -> None:
    """Run a plan on a master; what it takes to start Spark is told apart."""
    started = time.perf_counter()
    with Peak() as peak, open_runner(SparkSettings(master=master)) as runner:
        opened = time.perf_counter()
        outcomes = list(runner.outcomes(plan))
        seconds = time.perf_counter() - opened
    assert len(outcomes) == plan.size
    assert not any(outcome.problem for outcome in outcomes)
    speed = plan.size * days / seconds * 60
    table.add_row(name, f"{opened - started:.1f}", f"{seconds:.1f}", f"{speed:.0f}", f"{peak.resident:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=2.0, help="days that every figure is taken over")
    parser.add_argument("--jobs", type=int, default=16, help="jobs of the runs on one core and on two")
    parser.add_argument("--only-policies", action="store_true", help="the table of policies alone")
    arguments = parser.parse_args()
    quiet_logs()
    days = arguments.days
    policies = Table("policy", "CPU s per job-day", "job-days per minute", "rescales", "MB at most so far")
    for name, options in POLICIES.items():
        add_policy(policies, name, options, days)
    Console().print(policies)
    if not arguments.only_policies:
        print_shapes(days)
        print_runs(plan_of(arguments.jobs, days), days)


def print_shapes(days: float) -> None:
    """Print the table of jobs of several shapes."""
    one = week_sine().part(0, days * DAY)
    two = Workload("two", one.step, tuple((rate, rate / 2) for (rate,) in one.rows))
    cases: Mapping[str, tuple[JobModel, Workload, dict[str, str], float]] = {
        "chain of 3, dt 5 s": (chain(3), one, {}, 5.0),
        "chain of 3, dt 1 s": (chain(3), one, {}, 1.0),
        "chain of 3, rescales not followed": (chain(3), one, NOT_FOLLOWED, 5.0),
        "chain of 10": (chain(10), one, {}, 5.0),
        "join of 2 sources": (join(), two, {}, 5.0),
    }
    table = Table("job", "CPU s per job-day", "job-days per minute", "rescales")
    for name, (job, workload, options, dt) in cases.items():
        row(table, name, Simulation(job, workload, options, terms=TERMS, dt=dt))
    Console().print(table)


def print_runs(plan: BacktestPlan, days: float) -> None:
    """Print the table of runs as the command makes them."""
    runs = Table("master", "start s", "run s", "job-days per minute", "MB at most")
    runs.title = f"{plan.size} runs of {days:g} days"
    for name, master in {"none (this process)": NO_SPARK, "one core": "local[1]", "two cores": "local[2]"}.items():
        add_run(runs, name, master, plan, days)
    Console().print(runs)


if __name__ == "__main__":
    main()
