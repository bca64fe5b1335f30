"""Time, processor time and memory of passes: Spark and inline side by side.

Run: PYTHONPATH=tests:. python benchmarks/bench_engines.py [--jobs 10 100 1000 3000] [--passes 5] [--samples 0]
Needs nginx and Java. Processor time is that of the daemon, the JVM and the Python workers, without nginx.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.measuring import cpu, processes, quiet_logs
from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.deployment import EvaluationEngine
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.engine.inline import InlineEngine
from flink_autoscaler.pipeline.spark.live import SparkEngine
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from testkit.builders.pipeline import a_request, next_pass
from testkit.builders.pipeline.static_flink import StaticFlink


def following(requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome], samples: int) -> list[PassRequest]:
    """Return the requests of the next pass, with windows of at most so many samples."""
    result = [next_pass(request, outcome) for request, outcome in zip(requests, outcomes, strict=True)]
    return [replace(r, state=replace(r.state, samples=r.state.samples[-samples:])) for r in result]


def measure(engine: EvaluationEngine, requests: Sequence[PassRequest], *, passes: int, samples: int) -> str:
    """Return median wall and processor time of warm passes; the windows are filled first."""
    for _ in range(max(samples, 2)):
        requests = following(requests, engine.evaluate(requests), max(samples, 1))
    walls, cpus = [], []
    for _ in range(passes):
        before, started = cpu(), time.perf_counter()
        outcomes = engine.evaluate(requests)
        walls.append(time.perf_counter() - started)
        cpus.append(cpu() - before)
        assert all(outcome.observation.sample is not None for outcome in outcomes), outcomes[0].error
        requests = following(requests, outcomes, max(samples, 1))
    return f"{statistics.median(walls):8.3f} s wall {statistics.median(cpus):8.2f} s cpu"


def fallen_back(reason: str) -> None:
    """End the benchmark: a row named Spark would be of the inline engine."""
    print("FELL BACK", reason, flush=True)
    os._exit(1)  # from whatever thread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[10, 100, 1000, 3000])
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--samples", type=int, default=2, help="length of the metric windows")
    options = parser.parse_args()
    quiet_logs()
    loop = EventLoopThread()
    clients = ClientCache(loop)
    inline = InlineEngine(job_deadline=30.0, loop=loop, clients=clients)
    spark = SparkEngine(SparkSettings(), inline, job_deadline=30.0, on_fallback=fallen_back)
    with StaticFlink() as flink:
        endpoint = Endpoint(flink.url)
        started = time.perf_counter()
        spark.evaluate([a_request(endpoint, "first")])
        print(f"start to first sample, Spark: {time.perf_counter() - started:.1f} s")
        for count in options.jobs:
            requests = [a_request(endpoint, f"job {n}", job_id=f"{n:032x}") for n in range(count)]
            for name, engine in (("inline", inline), ("spark", spark)):
                figures = measure(engine, requests, passes=options.passes, samples=options.samples)
                print(f"{count:5d} jobs {name:7s} {figures}", flush=True)
        for usage in processes().values():
            print(f"{usage.resident:6.0f} MB resident  {usage.cpu:6.1f} s cpu  {usage.command[:70]}")
        spark.close()
        clients.close()
    loop.close()


if __name__ == "__main__":
    main()
