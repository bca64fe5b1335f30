"""What page and API of a daemon cost with many jobs: times, also in a browser, sizes, what-ifs, memory over many views.

Run it with::

    PYTHONPATH=tests:. .venv/bin/python benchmarks/bench_page.py --jobs 1000 --vertices 10 --views 1000

The passes are those of the daemon's own wiring over a fake cluster in this process, the requests go over loopback.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import httpx
from pictures.browser import chromium

from benchmarks.bench_viewers import with_two_hours, worked
from testkit.builders.web import WebSite
from testkit.clusters.flink.errors import HarnessError
from testkit.fakes.flink import chain

_PATHS = ("/", "/?search=job-77", "/job?job=main/job-7", "/pass?job=main/job-7", "/api/v1/jobs?limit=1000")


def resident_mb() -> float:
    """Return the memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def first_byte(client: httpx.Client, path: str, headers: dict[str, str]) -> tuple[float, float, int, int]:
    """Return seconds to the first byte and to the last, bytes, and the status."""
    begun = time.perf_counter()
    with client.stream("GET", path, headers=headers) as answer:
        first = time.perf_counter() - begun
        size = len(answer.read())
        return first, time.perf_counter() - begun, size, answer.status_code


def repeated(measure: Callable[[], tuple[float, float, int, int]], times: int) -> str:
    """Return the median and the greatest of both times, and the size."""
    found = [measure() for _ in range(times)]
    first, whole = ([each[index] * 1000 for each in found] for index in (0, 1))
    return (
        f"{statistics.median(first):8.1f} {max(first):8.1f} {statistics.median(whole):8.1f} {max(whole):8.1f} "
        f"{found[-1][2] / 1000:9.1f} {found[-1][3]:6d}"
    )


def what_if(client: httpx.Client) -> tuple[float, float, int, int]:
    """Ask what another option would have come to; return seconds, twice, bytes, and the status."""
    begun = time.perf_counter()
    asked = {"job_key": "main/job-7", "options": {"utilization.target": "0.3"}}
    answer = client.post("/api/v1/what-if", json=asked)
    took = time.perf_counter() - begun
    return took, took, len(answer.content), answer.status_code


def in_chromium(url: str, times: int) -> str:
    """Return when the first byte of the fleet page came and when all of it was there, medians of a real browser."""
    try:
        with chromium() as page:
            found = []
            for _ in range(times):
                page.get(url)
                timing = (
                    "const t = performance.getEntriesByType('navigation')[0]; return [t.responseStart, t.loadEventEnd]"
                )
                found.append(page.execute_script(timing))
    except HarnessError as error:
        return str(error)
    first, whole = ([each[index] for each in found] for index in (0, 1))
    most = f"at most {max(whole):.0f} ms"
    return f"first byte {statistics.median(first):.0f} ms, whole {statistics.median(whole):.0f} ms, {most}"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--vertices", type=int, default=10)
    parser.add_argument("--views", type=int, default=1000)
    given = parser.parse_args()
    with WebSite({"autoscaler.log.level": "error"}) as web:
        for number in range(given.jobs):
            web.flink.add_job(f"job-{number}", chain(sources=1, vertices=given.vertices), start_ms=1, running_at_ms=1)
        print(f"{given.jobs} jobs x {given.vertices} vertices: passes ...", flush=True)
        for _ in range(3):
            begun = time.perf_counter()
            web.fleet.record_pass(report := worked(web))
            print(f"  a pass: {time.perf_counter() - begun:.1f} s, {resident_mb():.0f} MB", flush=True)
        recorder = web.wiring.storage.recorder
        assert recorder is not None
        print(f"  recorded: {recorder.flush(120.0)}, {resident_mb():.0f} MB")
        print(f"{'path':40} {'first ms':>8} {'most':>8} {'whole ms':>8} {'most':>8} {'kB':>9} {'status':>6}")
        for path in _PATHS:
            print(f"{path:40} {repeated(lambda p=path: first_byte(web.client, p, {}), 20)}")  # type: ignore[misc]
        tag = web.client.get("/api/v1/jobs").headers["etag"]
        print(f"{'/api/v1/jobs, unchanged':40} ", end="")
        print(repeated(lambda: first_byte(web.client, "/api/v1/jobs", {"If-None-Match": tag}), 20))
        print(f"{'POST /api/v1/what-if':40} {repeated(lambda: what_if(web.client), 20)}")
        web.fleet.forget("main")
        for each in with_two_hours(report):
            web.fleet.record_pass(each)
        print(f"{'/, two hours, the first view':40} {repeated(lambda: first_byte(web.client, '/', {}), 1)}")
        print(f"{'/, two hours':40} {repeated(lambda: first_byte(web.client, '/', {}), 20)}")
        print(f"in chromium: {in_chromium(web.url, 10)}", flush=True)
        before = resident_mb()
        for _ in range(given.views):
            web.client.get("/")
        print(f"{given.views} views of /: {before:.0f} -> {resident_mb():.0f} MB")


if __name__ == "__main__":
    main()
