"""What people who look at the page cost a daemon: ten that follow the news, and a thousand connections that hang.

Run it with::

    PYTHONPATH=tests:. .venv/bin/python benchmarks/bench_viewers.py --jobs 1000 --vertices 10

The passes are those of the daemon's own wiring over a fake cluster in this process; viewers are in another one, and
do what the page's script does: they follow the stream, and ask for the page again after every pass. Costs are processor
time of this process, which other programs on the machine do not change much; latencies are wall time, which they do.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx

from flink_autoscaler.standalone.daemon.pass_report import PassReport
from testkit.builders.web import WebSite, hanging
from testkit.fakes.flink import chain
from testkit.fakes.flink.driving import drive

_BETWEEN = 10.0
"""Seconds between two passes, as by default."""

_PASSES = 4
_PROBES = 100


async def view(url: str) -> None:
    """Look at the page as a browser does, until the process ends."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        await client.get("/")
        version = (await client.get("/api/v1/jobs?limit=1")).json()["version"]
        while True:
            async with client.stream("GET", f"/api/v1/news?since={version}") as news:
                async for line in news.aiter_lines():
                    if line.startswith("id: "):
                        version = line.removeprefix("id: ")
                        await client.get("/")


@contextmanager
def viewers(url: str, count: int) -> Iterator[None]:
    """Have so many people look, from another process."""
    child = subprocess.Popen([sys.executable, __file__, "--view", url, "--viewers", str(count)])
    try:
        time.sleep(3.0)
        yield
    finally:
        child.kill()
        child.wait()


def between_passes(web: WebSite, report: PassReport) -> float:
    """Return the share of a core that this process takes while passes end every ten seconds that take no time."""
    begun, cpu = time.perf_counter(), time.process_time()
    for _ in range(_PASSES):
        web.fleet.record_pass(report)
        time.sleep(_BETWEEN)
    return (time.process_time() - cpu) / (time.perf_counter() - begun)


def worked(web: WebSite) -> PassReport:
    """Let all jobs do some work, and do a pass over them."""
    web.now_ms += 1000
    for job in web.flink.jobs.values():
        drive(job, 50.0, 1.0)
    return web.passes.run()


def of_a_pass(web: WebSite, times: int) -> tuple[float, float]:
    """Return the processor time and the wall time of a pass, medians."""
    cpus, walls = [], []
    for _ in range(times):
        begun, cpu = time.perf_counter(), time.process_time()
        web.fleet.record_pass(worked(web))
        cpus.append(time.process_time() - cpu)
        walls.append(time.perf_counter() - begun)
    return statistics.median(cpus), statistics.median(walls)


def probes(web: WebSite) -> str:
    """Return how long ``/healthz`` takes on new connections: median and most."""
    found = []
    for _ in range(_PROBES):
        begun = time.perf_counter()
        assert httpx.get(f"{web.url}/healthz", timeout=30, trust_env=False).text == "ok\n"
        found.append(1000 * (time.perf_counter() - begun))
    return f"{statistics.median(found):.1f} ms, at most {max(found):.1f} ms"


def with_two_hours(report: PassReport) -> Iterator[PassReport]:
    """Yield reports like one, a minute apart, for two hours."""
    for minutes in range(-120, 1):
        shifted = {key: replace(each, now_ms=each.now_ms + 60_000 * minutes) for key, each in report.requests.items()}
        yield replace(report, requests=shifted)


def measure(given: argparse.Namespace) -> None:
    """Measure and print."""
    with WebSite({"autoscaler.log.level": "error"}) as web:
        for number in range(given.jobs):
            web.flink.add_job(f"job-{number}", chain(sources=1, vertices=given.vertices), start_ms=1, running_at_ms=1)
        print(f"{given.jobs} jobs x {given.vertices} vertices", flush=True)
        report = worked(web)
        for each in with_two_hours(report):
            web.fleet.record_pass(each)
        alone, (cpu, wall) = between_passes(web, report), of_a_pass(web, given.passes)
        with viewers(web.url, given.viewers):
            watched, (cpu_seen, wall_seen) = between_passes(web, report), of_a_pass(web, given.passes)
        print(f"between passes: {alone:.2%} of a core alone, {watched:.2%} with {given.viewers} viewers")
        print(
            f"a pass: {cpu:.2f} s of processor time ({wall:.2f} s), with viewers {cpu_seen:.2f} s ({wall_seen:.2f} s)"
        )
        print(f"/healthz: {probes(web)}")
        with hanging(web.url, given.hanging):
            print(f"/healthz with {given.hanging} connections that hang: {probes(web)}")
            cpu_hung, wall_hung = of_a_pass(web, given.passes)
            print(f"a pass: {cpu_hung:.2f} s of processor time ({wall_hung:.2f} s)")


async def _view_all(url: str, count: int) -> None:
    await asyncio.gather(*(view(url) for _ in range(count)))


def main() -> None:
    """Measure, or look at a page as one of the viewers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--vertices", type=int, default=10)
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--hanging", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--view", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.view:
        asyncio.run(_view_all(given.view, given.viewers))
    else:
        measure(given)


if __name__ == "__main__":
    main()
