"""The metric history: what a pass costs, how files are written, compacted and read, and what it takes of the daemon.

Run: ``PYTHONPATH=tests:. python benchmarks/bench_history.py [--jobs 1000] [--vertices 10] [--minutes 1440]
[--daemon-jobs 40] [--daemon-seconds 30]``. A pass a minute is kept, written every few minutes as the daemon does by
default. Compaction and reading run in a process of their own each, so that their greatest memory is theirs alone; once
more the day is compacted through Hadoop, in the heap that Spark's JVM has by default.
A thousand jobs of ten vertices make 14.4 million rows of ``vertices`` a day; ``--daemon-jobs 0`` leaves the daemon out.
"""

from __future__ import annotations

import argparse
import io
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.bench_core import CLUSTER, full_window
from benchmarks.measuring import processes, quiet_logs
from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.tables.buffer import RowBuffer
from flink_autoscaler.pipeline.tables.compact import LARGE_ROWS, MaintenanceTask, run_maintenance
from flink_autoscaler.pipeline.tables.export import Format, write_export
from flink_autoscaler.pipeline.tables.files import LocalFiles, new_id, own_session
from flink_autoscaler.pipeline.tables.rows import NamedRow, rows_of
from flink_autoscaler.pipeline.tables.schema import TABLES, VERTICES
from flink_autoscaler.pipeline.tables.spark_files import HadoopFiles
from flink_autoscaler.pipeline.tables.store import EVERYTHING, HistoryFilter, WriteBatch, append, jobs_like
from testkit.fakes.flink import FakeFlink, chain
from testkit.scenarios.runner.process import DaemonProcess

DAY_MS: Final = 86_400_000
START_MS: Final = 1_769_817_600_000
"""2026-01-31 00:00 UTC."""
MINUTE_MS: Final = 60_000
FLUSH_ROWS: Final = 50_000
WARM_PASSES: Final = 5
MB: Final = 1 << 20
TOTALS: Final = ("records_in_rate", "records_out_rate", "busy", "true_rate", "target_rate", "arrival_rate", "lag")
"""Columns that differ in every row, as measured ones do."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Fleet:
    """Jobs that are all alike but for their names and numbers."""

    jobs: int
    vertices: int
    minutes: int


@dataclass(frozen=True)
class Cost:
    """Of something that a process of its own did: seconds, MB that it took at most, and what it returned."""

    seconds: float
    memory: float
    result: Any


class CountingFiles(LocalFiles):
    """Counts the files and bytes that are read whole."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.files = 0
        self.bytes = 0

    def read(self, path: str, last: int | None = None) -> bytes:
        """Read a file and count it."""
        content = super().read(path, last)
        if last is None:
            self.files += 1
            self.bytes += len(content)
        return content


def a_fleet(fleet: Fleet) -> tuple[list[PassOutcome], list[JobAutoScalerContext]]:
    """Return what a pass found out about every job, and the jobs."""
    request, reading = full_window(fleet.vertices, 16)
    outcome = advance(request, reading, CLUSTER)
    contexts = [
        replace(request.context, cluster="main", job_key=f"main/job-{number:05d}", job_id=f"{number:032x}")
        for number in range(fleet.jobs)
    ]
    return [outcome] * fleet.jobs, contexts


def rows_of_pass(outcomes: Sequence[PassOutcome], contexts: Sequence[JobAutoScalerContext]) -> Iterator[NamedRow]:
    """Yield what the history keeps of a pass."""
    for outcome, context in zip(outcomes, contexts, strict=True):
        yield from rows_of(outcome, context, START_MS, span_ms=60_000)


def conversion(fleet: Fleet) -> list[Sequence[str]]:
    """Return the processor time of turning passes into rows, and of gathering and spilling those."""
    outcomes, contexts = a_fleet(fleet)
    to_rows: list[float] = []
    to_buffer: list[float] = []
    rows: Sequence[NamedRow] = []
    for _ in range(WARM_PASSES):
        with tempfile.TemporaryDirectory() as folder:
            buffer = RowBuffer(flush_seconds=900, flush_rows=FLUSH_ROWS, spill=Path(folder), hand_over=lambda _: None)
            rows, seconds = timed(lambda: list(rows_of_pass(outcomes, contexts)))
            to_rows.append(seconds)
            to_buffer.append(timed(partial(buffer.add, rows, START_MS))[1])
    return [
        (f"a pass of {fleet.jobs:,} jobs to {len(rows):,} rows", f"{median(to_rows):.2f} s cpu", "-"),
        ("gathering and spilling them", f"{median(to_buffer):.2f} s cpu", "-"),
    ]


def timed(call: Callable[[], _T]) -> tuple[_T, float]:
    """Return what a call returns, and its processor time."""
    began = time.process_time()
    result = call()
    return result, time.process_time() - began


def minutes_of(fleet: Fleet) -> Iterator[dict[str, pa.Table]]:
    """Yield the rows of every minute: those of one pass with other instants and other numbers."""
    outcomes, contexts = a_fleet(fleet)
    listed: dict[str, list[Any]] = {name: [] for name in TABLES}
    for outcome, context in zip(outcomes, contexts, strict=True):
        for name, row in rows_of(outcome, context, START_MS, span_ms=MINUTE_MS):
            listed[name].append(row)
    first = {n: pa.Table.from_pylist(rows, schema=TABLES[n].schema) for n, rows in listed.items() if rows}
    chance = random.Random(1)
    for minute in range(fleet.minutes):
        yield {name: at_minute(rows, minute, chance) for name, rows in first.items()}


def at_minute(rows: pa.Table, minute: int, chance: random.Random) -> pa.Table:
    """Return rows as a later pass would have made them."""
    instant = pa.scalar((START_MS + minute * MINUTE_MS) * 1000, pa.timestamp("us", "UTC"))
    columns = {"ts": pa.array([instant.value] * len(rows), pa.int64()).cast(instant.type)}
    columns |= {
        name: pa.array([chance.random() for _ in range(len(rows))]) for name in TOTALS if name in rows.schema.names
    }
    for name, column in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
    return rows


def write_day(root: str, fleet: Fleet) -> tuple[int, float]:
    """Write all minutes in batches as large as the daemon's; return their number and the seconds of writing alone."""
    waiting: list[dict[str, pa.Table]] = []
    seconds, count, batches = 0.0, 0, 0
    for minute, tables in enumerate(minutes_of(fleet), start=1):
        waiting.append(tables)
        count += sum(map(len, tables.values()))
        if count >= FLUSH_ROWS or minute == fleet.minutes:
            merged = {name: pa.concat_tables([each[name] for each in waiting]) for name in waiting[0]}
            began = time.perf_counter()
            append(LocalFiles(root), WriteBatch(new_id(START_MS + minute), merged))
            seconds += time.perf_counter() - began
            waiting, count, batches = [], 0, batches + 1
    return batches, seconds


def compact_day(root: str, large_rows: int) -> tuple[int, int]:
    """Compact the day as the daemon does; return the files before and after."""
    done = run_maintenance(LocalFiles(root), MaintenanceTask(START_MS + 2 * DAY_MS, large_rows=large_rows))
    return done.before, done.after


def compact_through_hadoop(root: str, large_rows: int) -> tuple[int, int]:
    """Compact the day through Hadoop's file system, as on HDFS; return the files before and after."""
    with own_session(SparkSettings()) as spark:
        files = HadoopFiles(f"file://{root}", spark)
        done = run_maintenance(files, MaintenanceTask(START_MS + 2 * DAY_MS, large_rows=large_rows))
    return done.before, done.after


def read_part(root: str, wanted: HistoryFilter) -> tuple[int, int, int]:
    """Read rows of vertices; return rows, files and bytes."""
    files = CountingFiles(root)
    rows = write_export(files, VERTICES, wanted, io.BytesIO(), Format.PARQUET, [])
    return rows, files.files, files.bytes


def alone(function: Callable[..., Any], *arguments: Any) -> Cost:
    """Run a function of this module in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_measured, function, arguments).result()


def _measured(function: Callable[..., Any], arguments: Sequence[Any]) -> Cost:
    before, began = _memory("VmRSS"), time.perf_counter()
    result = function(*arguments)
    return Cost(time.perf_counter() - began, _memory("VmHWM") - before, result)


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def a_day(fleet: Fleet, large_rows: int) -> list[Sequence[str]]:
    """Write, compact and read a day."""
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as copy:
        written = alone(write_day, root, fleet)
        batches, seconds = written.result
        shutil.copytree(root, copy, dirs_exist_ok=True)
        return [
            (f"writing {batches} batches", f"{seconds:.1f} s", f"{written.memory:.0f} MB with making them up"),
            compacting("", alone(compact_day, root, large_rows)),
            compacting(" through Hadoop, with the start of Spark", alone(compact_through_hadoop, copy, large_rows)),
            *(reading(root, what, wanted) for what, wanted in parts_of_day(fleet)),
        ]


def compacting(where: str, cost: Cost) -> Sequence[str]:
    """Return the row of the table about a compaction; the memory is that of Python."""
    before, after = cost.result
    return f"compacting {before} files to {after}{where}", f"{cost.seconds:.1f} s", f"{cost.memory:.0f} MB"


def parts_of_day(fleet: Fleet) -> Iterator[tuple[str, HistoryFilter]]:
    """Yield what is read back."""
    hour = HistoryFilter(START_MS, START_MS + DAY_MS // 24)
    job = jobs_like(f"main/job-{fleet.jobs // 2:05d}")
    yield "all", EVERYTHING
    yield "one job", HistoryFilter(jobs=job)
    yield "one hour of one job", replace(hour, jobs=job)
    yield "another day", HistoryFilter(START_MS + DAY_MS, START_MS + 2 * DAY_MS)


def reading(root: str, what: str, wanted: HistoryFilter) -> Sequence[str]:
    """Return the row of the table about one way to read."""
    cost = alone(read_part, root, wanted)
    rows, files, size = cost.result
    label = f"reading {what}: {rows:,} rows of {files} files, {size / MB:.1f} MB"
    return label, f"{cost.seconds:.1f} s", f"{cost.memory:.0f} MB"


def daemon_memory(jobs: int, seconds: float) -> Iterator[Sequence[str]]:
    """Yield the resident memory of a daemon without and with a history."""
    with FakeFlink() as flink, tempfile.TemporaryDirectory() as folder:
        for number in range(jobs):
            flink.add_job(f"job {number}", chain(sources=2, vertices=10))
        for is_kept in ("false", "true"):
            resident = _daemon(Path(folder), flink.url, is_kept, seconds)
            yield f"daemon with {jobs} jobs, history {is_kept}", "-", f"{resident:.0f} MB"


def _daemon(folder: Path, url: str, is_kept: str, seconds: float) -> float:
    with DaemonProcess(folder, f"daemon-{is_kept}") as daemon:
        options = {"enabled": is_kept, "path": str(folder / "history"), "interval": "1 s", "flush-interval": "5 s"}
        daemon.configure({"main": url}, **{f"autoscaler__history__{name}": text for name, text in options.items()})
        daemon.start()
        time.sleep(seconds)
        found = [usage.resident for usage in processes().values() if str(daemon.file) in usage.command]
        assert daemon.stop() == 0
    return max(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--vertices", type=int, default=10)
    parser.add_argument("--minutes", type=int, default=1440)
    parser.add_argument("--large-rows", type=int, default=LARGE_ROWS, help="rows of a compacted file")
    parser.add_argument("--daemon-jobs", type=int, default=40, help="0 leaves the daemon out")
    parser.add_argument("--daemon-seconds", type=float, default=30.0)
    options = parser.parse_args()
    quiet_logs()
    fleet = Fleet(options.jobs, options.vertices, options.minutes)
    table = Table(
        "what", "time", "memory", title=f"{fleet.jobs:,} jobs, {fleet.vertices} vertices, {fleet.minutes} min"
    )
    for row in (*conversion(fleet), *a_day(fleet, options.large_rows)):
        table.add_row(*row)
    for row in daemon_memory(options.daemon_jobs, options.daemon_seconds) if options.daemon_jobs else ():
        table.add_row(*row)
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
