"""What one GET costs beside aiohttp alone: ``python benchmarks/bench_get.py [--count 2000] [--rounds 7] [--uvloop]``.

Asks for the metrics of a vertex, sixteen requests at once, through ``HttpTransport``, by aiohttp's client and by
that of httpx, each with the same decoding of JSON and in turns, so that what else the machine does concerns them alike.
Prints the processor time per GET, the median of the rounds, and its ratio to aiohttp; with ``--limit`` it fails above
a ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / part) for part in (".", "core", "clients", "tests")]

from benchmarks.bench_collect import fake_cluster, nginx  # noqa: E402 - the paths come first
from flink_autoscaler.clients import FlinkRestClient, HttpTransport  # noqa: E402
from flink_autoscaler.clients.http.event_loop import new_event_loop  # noqa: E402
from flink_autoscaler.core.model.job import Endpoint  # noqa: E402

AT_ONCE = 16
NAMES = ("busyTimeMsPerSecond", "numRecordsInPerSecond")

Get = Callable[[str], Awaitable[object]]


async def paths_of(url: str) -> list[str]:
    """Return the paths of the metrics of all vertices."""
    client = FlinkRestClient(Endpoint(url))
    [job] = await client.jobs_overview()
    details = await client.job_details(job.job_id)
    await client.aclose()
    return [f"/jobs/{job.job_id}/vertices/{each.vertex_id}/subtasks/metrics" for each in details.vertices]


async def cpu_of(get: Get, paths: list[str], count: int) -> float:
    """Return the processor time of one request, ms."""
    queue = iter((paths * (count // len(paths) + 1))[:count])

    async def work() -> None:
        for path in queue:
            await get(path)

    started = time.process_time()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return (time.process_time() - started) / count * 1e3


async def compared(url: str, count: int, rounds: int) -> dict[str, float]:
    """Return the processor time of a GET by each way, ms."""
    paths = await paths_of(url)
    transport = HttpTransport(Endpoint(url, max_connections=AT_ONCE))
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE))
    plain = httpx.AsyncClient(limits=httpx.Limits(max_connections=AT_ONCE))
    query = f"get={','.join(NAMES)}"

    async def by_aiohttp(path: str) -> object:
        async with session.get(f"{url}{path}?{query}") as response:
            return json.loads(await response.read())

    async def by_httpx(path: str) -> object:
        return json.loads((await plain.get(f"{url}{path}?{query}")).content)

    async def by_transport(path: str) -> object:
        return await transport.get_json(path, params={"get": ",".join(NAMES)})

    ways: dict[str, Get] = {"HttpTransport": by_transport, "aiohttp": by_aiohttp, "httpx": by_httpx}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, get in ways.items():
            found[name].append(await cpu_of(get, paths, count))
    await transport.aclose()
    await session.close()
    await plain.aclose()
    return {name: statistics.median(times[1:]) for name, times in found.items()}  # the first round opens connections


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=2000, help="requests per way and round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=float, help="greatest ratio to aiohttp")
    parser.add_argument("--uvloop", action="store_true", help="run all three on uvloop")
    options = parser.parse_args()
    server = nginx if shutil.which("nginx") else fake_cluster
    loop_factory = new_event_loop if options.uvloop else None
    with server(1, 10) as url, asyncio.Runner(loop_factory=loop_factory) as runner:
        found = runner.run(compared(url, options.count, options.rounds))
    for name, milliseconds in found.items():
        print(f"{name:14} {milliseconds:7.3f} ms CPU per GET {milliseconds / found['aiohttp']:6.2f} x aiohttp")
    if options.limit is not None and found["HttpTransport"] > options.limit * found["aiohttp"]:
        raise SystemExit(f"more than {options.limit:g} times what aiohttp takes")


if __name__ == "__main__":
    main()
