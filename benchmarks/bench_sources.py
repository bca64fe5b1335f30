"""What a warm pass costs by source: ``PYTHONPATH=tests:. python benchmarks/bench_sources.py [--jobs 100]``.

Prints, for jobs whose metric windows are full, over REST and by Prometheus: requests to the JobManager and to
Prometheus, processor and wall time of the daemon's pass, and its resident memory. Both servers are fakes in a process
of their own, whose time is not the daemon's: wall times, above all those over REST, have waiting for it in them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Final

from benchmarks.measuring import Peak, quiet_logs
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from testkit.fakes.flink import Canned, FakeFlink, FakeRequest, Fault, chain
from testkit.fakes.prometheus import FakePrometheus

WINDOW: Final = 16
STEP_MS: Final = 60_000
BUDGET: Final = "budget for 1,000 jobs × 10 by Prometheus: 1.0 s CPU, 1.0 s wall, 15 requests"


class Remembering(FakePrometheus):
    """Answers a question as it did before, so that answering costs next to nothing."""

    def __init__(self, flink: FakeFlink) -> None:
        super().__init__(flink)
        self._known: dict[str, Canned] = {}

    def _respond(self, request: FakeRequest) -> tuple[Canned | Fault, Canned]:
        assert isinstance(request.body, dict)
        expression = request.body["query"]
        if "time()" in expression:
            return super()._respond(request)
        self.queries.append(expression)
        if expression not in self._known:
            self._known[expression] = super()._respond(request)[1]
            self.queries.pop()
        return self._known[expression], self._known[expression]


def serve(jobs: int, vertices: int, pipe: Connection) -> None:
    """Serve until told to end; answers with the numbers of requests since the last time."""
    start_ms = time.time_ns() // 1_000_000 - 7_200_000
    with FakeFlink() as flink, Remembering(flink) as prometheus:
        for number in range(jobs):
            job = flink.add_job(f"job {number}", chain(sources=2, vertices=vertices, parallelism=4), start_ms=start_ms)
            for vertex in job.vertices:
                vertex.waited_ms = 3.6e6
        pipe.send((flink.url, prometheus.url))
        while pipe.recv():
            pipe.send((len(flink.requests), len(prometheus.queries)))
            flink.requests.clear()
            prometheus.queries.clear()


@contextmanager
def servers(jobs: int, vertices: int) -> Iterator[tuple[str, str, Connection]]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(jobs, vertices, theirs))
    process.start()
    flink, prometheus = ours.recv()
    yield flink, prometheus, ours
    ours.send(False)
    process.join(10)


def measured(flink: str, prometheus: str | None, pipe: Connection, passes: int, *, full: bool) -> str:
    """Return a line about the warm passes of a daemon."""
    values = {
        "autoscaler.clusters.0.name": "main",
        "autoscaler.clusters.0.url": flink,
        "autoscaler.clusters.0.timeout": "120 s",
        "autoscaler.clusters.0.max-response-bytes": "64m",
        "autoscaler.engine.kind": "inline",
        "autoscaler.engine.job-deadline": "120 s",
        "autoscaler.standalone.state-store.type": "heap",
        "autoscaler.standalone.event-handler.type": "logging",
        "autoscaler.records.enabled": "false",
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "0 s",
        "job.autoscaler.vertex.exclude.names": ".*",
    }
    if prometheus is not None:
        section = "autoscaler.clusters.0.metrics."
        values |= {f"{section}source": "prometheus", f"{section}prometheus.url": prometheus}
        values |= {f"{section}prometheus.max-age": "1 h", f"{section}prometheus.timeout": "120 s"}
    overrides = [f"{key}={value}" for key, value in values.items()]
    settings = SettingsLoader(overrides=overrides, environment={}).read()
    now = iter(range(time.time_ns() // 1_000_000 - 3_600_000, 1 << 62, STEP_MS))
    walls, processors, requests = [], [], (0, 0)
    with Peak() as peak, Wiring(settings) as wiring:
        run = wiring.cluster_pass(settings.effective_clusters()[0], now_ms=lambda: next(now))
        for number in range((WINDOW if full else 2) + passes):
            pipe.send(True)
            pipe.recv()
            wall, processor = time.perf_counter(), time.process_time()
            report = run.run()
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            pipe.send(True)
            requests = pipe.recv()
            if number >= (WINDOW if full else 2):
                walls.append(wall)
                processors.append(processor)
    samples = sum(each.outcome.observation.sample is not None for each in report.reports.values())
    return (
        f"{requests[0]:>8} {requests[1]:>10} {statistics.median(processors):>8.2f} {statistics.median(walls):>8.2f} "
        f"{peak.resident:>8.0f} {samples:>8}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--vertices", type=int, default=10)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--short", action="store_true", help="windows of two samples instead of 16")
    parser.add_argument("--source", choices=["rest", "prometheus", "both"], default="both")
    given = parser.parse_args()
    quiet_logs()
    heads = ("flink", "prometheus", "CPU, s", "wall, s", "MB", "sampled")
    print(f"{'jobs':>6} {'source':>10} {heads[0]:>8} {heads[1]:>10} " + " ".join(f"{each:>8}" for each in heads[2:]))
    for jobs in given.jobs:
        with servers(jobs, given.vertices) as (flink, prometheus, pipe):
            for source, url in (("rest", None), ("prometheus", prometheus)):
                if given.source in (source, "both"):
                    line = measured(flink, url, pipe, given.passes, full=not given.short)
                    print(f"{jobs:>6} {source:>10} {line}", flush=True)
    print(BUDGET)


if __name__ == "__main__":
    main()
