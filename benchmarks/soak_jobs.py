"""What a daemon's memory and database do while jobs come and go for long: both have to become flat.

A fake cluster has so many jobs at any time; every second some of them leave for good and others, with names never seen
before, take their place. What is kept of those that left counts as long as their grace. Run it for an hour::

    PYTHONPATH=tests/support:. .venv/bin/python benchmarks/soak_jobs.py --seconds 3600 --store jdbc

A shorter run with more jobs that leave per second says the same sooner: gone jobs are what memory could grow with.
Prints a line per minute, and in the end the slopes over the second half: memory, open descriptors, threads.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fake_flink import FakeFlink, chain
from watching.process import DaemonProcess

from benchmarks.measuring import processes

OPTIONS = {
    "autoscaler.standalone.control-loop.interval": "1 s",
    "autoscaler.log.level": "warning",
    "job.autoscaler.metrics.window": "20 s",
    "job.autoscaler.stabilization.interval": "0 s",
    "job.autoscaler.restart.time": "1 s",
}


@dataclass(frozen=True)
class Point:
    """One line: seconds since the start, jobs that left so far, and what the daemon has.

    Attributes:
        resident: MB.
        stored: MB of the database.
        descriptors: Open files and connections.
        threads: Of the daemon.
    """

    seconds: float
    gone: int
    resident: float
    stored: float
    descriptors: int
    threads: int

    def __str__(self) -> str:
        return (
            f"{self.seconds:6.0f} s  {self.gone:7d} gone  {self.resident:7.1f} MB  database {self.stored:7.1f} MB  "
            f"{self.descriptors:4d} descriptors  {self.threads:3d} threads"
        )


def options(store: str, folder: Path, grace: str, max_records: str) -> dict[str, str]:
    """Return the options of the daemon, with the keys of ``DaemonProcess.configure``."""
    values = {**OPTIONS, "autoscaler.jobs-gone.grace": grace, "autoscaler.records.max-size": max_records}
    if store == "jdbc":
        values |= {
            "autoscaler.standalone.state-store.type": "JDBC",
            "autoscaler.standalone.event-handler.type": "JDBC",
            "autoscaler.standalone.jdbc.url": f"jdbc:sqlite:{folder / 'autoscaler.db'}",
        }
    return {key.replace(".", "__"): value for key, value in values.items()}


def come_and_go(flink: FakeFlink, jobs: int, per_second: float, seconds: float) -> Iterator[int]:
    """Let jobs come and go; yields how many have left, about once per minute."""
    names = itertools.count()
    for _ in range(jobs):
        flink.add_job(f"job-{next(names)}", chain(sources=1, vertices=5, parallelism=2))
    start, gone, told = time.monotonic(), 0, 0.0
    while (elapsed := time.monotonic() - start) < seconds:
        while gone < per_second * elapsed:
            del flink.jobs[next(iter(flink.jobs))]
            flink.add_job(f"job-{next(names)}", chain(sources=1, vertices=5, parallelism=2))
            gone += 1
        flink.requests.clear()
        if elapsed >= told:
            told += 60.0
            yield gone
        time.sleep(0.1)
    yield gone


def measured(start: float, gone: int, folder: Path) -> Point:
    """Return what the daemon has now."""
    daemons = {pid: usage for pid, usage in processes().items() if "standalone run" in usage.command}
    resident = sum(usage.resident for usage in daemons.values())
    stored = sum(file.stat().st_size for file in folder.glob("autoscaler.db*")) / 2**20
    descriptors, threads = (sum(len(os.listdir(f"/proc/{pid}/{name}")) for pid in daemons) for name in ("fd", "task"))
    return Point(time.monotonic() - start, gone, resident, stored, descriptors, threads)


def slope(points: list[Point], value: Callable[[Point], float]) -> float:
    """Return the growth of a value over the second half, per hour (least squares)."""
    half = points[len(points) // 2 :]
    middle = sum(point.seconds for point in half) / len(half)
    spread = sum((point.seconds - middle) ** 2 for point in half)
    return 3600.0 * sum((point.seconds - middle) * value(point) for point in half) / spread if spread else 0.0


def main(arguments: list[str]) -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--jobs", type=int, default=30, help="at any time")
    parser.add_argument("--per-second", type=float, default=1.0, help="jobs that leave")
    parser.add_argument("--store", choices=("heap", "jdbc"), default="jdbc")
    parser.add_argument("--grace", default="1 h", help="of autoscaler.jobs-gone.grace")
    parser.add_argument("--max-records", default="64m", help="of autoscaler.records.max-size")
    given = parser.parse_args(arguments)
    points: list[Point] = []
    with tempfile.TemporaryDirectory() as name, FakeFlink() as flink, DaemonProcess(Path(name)) as daemon:
        folder = Path(name)
        daemon.configure({"main": flink.url}, **options(given.store, folder, given.grace, given.max_records))
        daemon.start()
        start = time.monotonic()
        for gone in come_and_go(flink, given.jobs, given.per_second, given.seconds):
            points.append(measured(start, gone, folder))
            print(points[-1], flush=True)
        slopes = {
            "MB": slope(points, lambda point: point.resident),
            "descriptors": slope(points, lambda point: point.descriptors),
            "threads": slope(points, lambda point: point.threads),
        }
        told = ", ".join(f"{number:+.1f} {name}" for name, number in slopes.items())
        print(f"second half, per hour: {told}; {len(daemon.text())} characters of log")


if __name__ == "__main__":
    main(sys.argv[1:])
