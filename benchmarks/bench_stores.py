"""Save the metric window of many jobs, as every pass does, on each database.

Run: ``PYTHONPATH=tests python benchmarks/bench_stores.py [--jobs 1000] [--passes 5] [--threads 10]``.
Every job has 16
samples of ten vertices; a pass replaces the oldest sample of each and saves, which is one UPDATE in a transaction of
its own. The servers force every commit to disk, as they do by default. "CPU" is this process alone.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.state.codec import StateType, encode
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from testkit.servers.databases import MariadbServer, MissingServerError, PostgresqlServer, create_tables

SAMPLES = 16
VERTICES = 10
METRICS = list(ScalingMetric)[:8]
START_MS = 1_700_000_000_000
INTERVAL_MS = 10_000


class Figures(NamedTuple):
    """Seconds of wall and CPU time for one pass, and of wall time for the first load of all jobs."""

    wall: float
    cpu: float
    load: float


def sample(job: int, number: int) -> MetricSample:
    values = {metric: 1234.567 * (number + index) + job for index, metric in enumerate(METRICS)}
    return MetricSample(
        START_MS + number * INTERVAL_MS, {f"{vertex:032x}": values for vertex in range(VERTICES)}, {METRICS[0]: 0.5}
    )


def databases(parts: ExitStack) -> Iterator[tuple[str, DatabaseSettings]]:
    folder = parts.enter_context(tempfile.TemporaryDirectory())
    yield "SQLite", DatabaseSettings(f"jdbc:sqlite:{folder}/autoscaler.db")
    for name, kind in (("PostgreSQL", PostgresqlServer), ("MariaDB", MariadbServer)):
        try:
            server = parts.enter_context(kind(is_durable=True))
        except MissingServerError as error:
            print(f"{name} is left out: {error}")
            continue
        yield name, server.new_database()


def run_passes(database: Database, jobs: int, passes: int, threads: ThreadPoolExecutor) -> Figures:
    states = [JobState(samples=tuple(sample(job, number) for number in range(SAMPLES))) for job in range(jobs)]
    store = SqlStateStore(database)

    def save(job: int) -> None:
        store.save(f"main/job-{job}", states[job])

    list(threads.map(save, range(jobs)))
    walls, cpus = [], []
    for number in range(SAMPLES, SAMPLES + passes):
        states = [JobState(samples=(*state.samples[1:], sample(job, number))) for job, state in enumerate(states)]
        wall, cpu = time.perf_counter(), time.process_time()
        list(threads.map(save, range(jobs)))
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    fresh, started = SqlStateStore(database), time.perf_counter()
    list(threads.map(lambda job: fresh.load(f"main/job-{job}"), range(jobs)))
    return Figures(median(walls), median(cpus), time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--threads", type=int, default=10)
    arguments = parser.parse_args()
    size = len(encode(StateType.COLLECTED_METRICS, tuple(sample(0, number) for number in range(SAMPLES))) or "")
    table = Table("database", "saves/s", "one pass", "CPU", "first load of all", title=f"{size / 1000:.0f} kB per save")
    with ExitStack() as parts, ThreadPoolExecutor(arguments.threads) as threads:
        for name, settings in databases(parts):
            with closing(Database(settings)) as database:
                create_tables(database)
                found = run_passes(database, arguments.jobs, arguments.passes, threads)
            rate = arguments.jobs / found.wall
            table.add_row(name, f"{rate:,.0f}", f"{found.wall:.2f} s", f"{found.cpu:.2f} s", f"{found.load:.2f} s")
    Console().print(table)


if __name__ == "__main__":
    main()
