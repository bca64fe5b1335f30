"""The way of one sample through the core: files, functions and changes of file of one rescaling pass.

Run: ``PYTHONPATH=tests python benchmarks/trace_pass.py [--list]``. A job of three vertices has a full window,
and its source needs more. A change of file is a call into, or a return to, another file of the core. ``--list`` adds
the pairs of files between which most calls go.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

from flink_autoscaler import core
from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import JobDriver, a_context, a_reading, a_vertex, operator_answers, source_answers, vertex_id

ROOT = str(Path(core.__file__).parent)
MINUTE_MS = 60_000
OPTIONS = {"stabilization.interval": "1 min", "metrics.window": "2 min"}


def reading_at(minute: int) -> JobReading:
    """Make what a cluster says about a source that falls behind, a map and a sink."""
    vertices = [
        a_vertex(1, parallelism=4, partitions=24),
        a_vertex(2, parallelism=6, inputs={1: ShipStrategy.HASH}, io=IoMetrics(records_in=60_000 * minute)),
        a_vertex(3, parallelism=2, inputs={2: ShipStrategy.REBALANCE}, io=IoMetrics(records_in=180_000 * minute)),
    ]
    source = source_answers(
        busy_ms=960.0, rate=2000.0, records_in=120_000.0 * minute, pending=94_000.0 + 6_000.0 * minute
    )
    answers = {
        vertex_id(1): source,
        vertex_id(2): operator_answers(busy_ms=550.0, rate=1000.0),
        vertex_id(3): operator_answers(busy_ms=300.0, rate=3000.0),
    }
    return a_reading(vertices, answers)


class Tracer:
    """Counts while it is the profile function of the interpreter."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.functions: set[tuple[str, int]] = set()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.changes = 0
        self._last = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Take in a call or a return."""
        name = frame.f_code.co_filename
        if event not in ("call", "return") or not name.startswith(ROOT):
            return
        caller = frame.f_back.f_code.co_filename if frame.f_back else ""
        if event == "call":
            self.files[name] += 1
            self.functions.add((name, frame.f_code.co_firstlineno))
            if caller != name and caller.startswith(ROOT):
                self.calls[caller, name] += 1
        here = caller if event == "return" and caller.startswith(ROOT) else name
        self.changes += self._last not in ("", here)
        self._last = here


def traced_pass(tracer: Tracer | None) -> PassOutcome:
    """Run three passes, the last one under the tracer."""
    driver = JobDriver(a_context(OPTIONS), plugins=installed_plugins())
    for minute in (1, 2):
        driver.run(minute * MINUTE_MS, reading_at(minute))
    reading = reading_at(3)
    sys.setprofile(tracer)
    outcome = driver.run(3 * MINUTE_MS, reading)
    sys.setprofile(None)
    return outcome


def main() -> None:
    """Trace one pass and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="also the pairs of files with the most calls")
    arguments = parser.parse_args()
    traced_pass(None)  # what is made once per process is there
    tracer = Tracer()
    outcome = traced_pass(tracer)
    table = Table("decision", "files", "functions", "calls into another file", "changes of file")
    counts = (len(tracer.files), len(tracer.functions), tracer.calls.total(), tracer.changes)
    table.add_row(type(outcome.decision).__name__, *map(str, counts))
    Console().print(table)
    if arguments.list:
        for (caller, called), count in tracer.calls.most_common(60):
            print(f"{count:5} {caller.removeprefix(ROOT)} -> {called.removeprefix(ROOT)}")


if __name__ == "__main__":
    main()
