"""What many clusters cost per pass: discovery alone, and whole passes inline and with Spark.

Run: PYTHONPATH=tests:. python benchmarks/bench_discovery.py [--clusters 200] [--jobs 5] [--passes 5]
    [--only TITLE]
Needs nginx, for Spark also Java. The clusters are path prefixes of one static server. All clusters begin a pass at the
same instant, each in a thread of its own as in the daemon. Processor time is that of the daemon, the JVM and the Python
workers, without nginx.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from benchmarks.measuring import cpu, quiet_logs
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import EngineSettings, Settings
from testkit.builders.pipeline.static_flink import StaticFlink

ENABLED = {"job.autoscaler.enabled": "true", "job.autoscaler.stabilization.interval": "0 s"}


@contextmanager
def wired(flink: StaticFlink, clusters: int, engine: EngineSettings) -> Iterator[tuple[Wiring, Settings]]:
    names = [f"c{number}" for number in range(clusters)]
    settings = Settings(
        clusters=tuple(ClusterSettings(name=name, url=(f"{flink.url}/{name}",)) for name in names),
        dry_run=True,
        engine=engine,
        job_defaults=ENABLED,
    )
    with Wiring(settings, on_fallback=lambda reason: print("FELL BACK", reason)) as wiring:
        yield wiring, settings


def timed(title: str, work: Sequence[Callable[[], object]], repeat: int) -> None:
    """Print wall and processor time of the first round and the median of later ones; a round is one call of each."""
    walls, cpus, single = [], [], []

    def one(call: Callable[[], object]) -> float:
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    with ThreadPoolExecutor(len(work)) as threads:
        for _ in range(repeat + 1):
            before, started = cpu(), time.perf_counter()
            single = list(threads.map(one, work))
            walls.append(time.perf_counter() - started)
            cpus.append(cpu() - before)
    print(
        f"{title:52} {walls[0]:7.3f} {cpus[0]:7.2f} {statistics.median(walls[1:]):7.3f}"
        f" {statistics.median(cpus[1:]):7.2f} {statistics.median(single):7.3f} {max(single):7.3f}",
        flush=True,
    )


def checked(one: ClusterPass, engine: EngineKind) -> Callable[[], object]:
    """Return a pass that has to succeed where it was meant to run."""

    def run() -> None:
        report = one.run()
        if not report.is_clean:
            raise SystemExit(f"{report.cluster}: {report.error or list(report.failures.items())[:3]}")
        if report.engine is None or report.engine.engine != engine.value:
            raise SystemExit(f"{report.cluster}: meant for {engine.value}, evaluated on {report.engine}")

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--only", default="", help="text in the title of what to run")
    options = parser.parse_args()
    quiet_logs()
    inline = EngineSettings(kind=EngineKind.INLINE)
    spark = EngineSettings(kind=EngineKind.SPARK)
    print(f"{'seconds':52} {'first':>15} {'later':>15} {'one cluster':>15}")
    print(f"{'':52} {'wall':>7} {'CPU':>7} {'wall':>7} {'CPU':>7} {'median':>7} {'longest':>7}")

    def row(what: str, clusters: int, jobs: int, vertices: int, engine: EngineSettings) -> None:
        title = f"{what}: {clusters} x {jobs} jobs x {vertices} vertices"
        if options.only not in title:
            return
        with StaticFlink(jobs=jobs, vertices=vertices) as flink, wired(flink, clusters, engine) as (wiring, settings):
            entries = settings.effective_clusters()
            if what == "discovery":
                timed(title, [wiring.fetcher(cluster).fetch for cluster in entries], options.passes)
            else:
                # The engines are not started ahead: the first pass waits for Spark, and all rows are what they say.
                work = [checked(wiring.cluster_pass(cluster), engine.kind) for cluster in entries]
                timed(title, work, options.passes)

    row("discovery", options.clusters, options.jobs, 10, inline)
    row("inline", options.clusters, options.jobs, 10, inline)
    row("spark", options.clusters, options.jobs, 10, spark)
    row("discovery", 1, 5000, 10, inline)
    row("inline", 1, 5000, 10, inline)
    row("spark", 1, 5000, 10, spark)
    row("inline", 1, 1, 300, inline)


if __name__ == "__main__":
    main()
