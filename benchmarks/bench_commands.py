"""Processor time of commands that show a table: a fresh interpreter each, on a database without jobs.

    python benchmarks/bench_commands.py [runs]

Prints the median of user and system time per command in seconds. What it is meant to be: at most 0.6 s.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = ("orders", "events", "jobs")
PROGRAM = (sys.executable, "-m", "flink_autoscaler.standalone")


def seconds(*arguments: str) -> float:
    """Run a command, and return the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*PROGRAM, *arguments], check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main(runs: int) -> None:
    """Measure every command; the first run, which may have to compile modules, does not count."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"jdbc:sqlite:{Path(folder) / 'autoscaler.db'}"
        values = {
            "autoscaler.clusters.0.name": "main",
            "autoscaler.clusters.0.url": "http://127.0.0.1:9",
            "autoscaler.standalone.jdbc.url": url,
            "autoscaler.standalone.state-store.type": "JDBC",
            "autoscaler.standalone.event-handler.type": "JDBC",
        }
        options = [part for key, text in values.items() for part in ("--set", f"{key}={text}")]
        seconds("db", "upgrade", *options)
        for command in COMMANDS:
            found = [seconds(command, *options) for _ in range(runs + 1)][1:]
            print(f"{command:<8} {statistics.median(found):.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
