"""What collecting metrics costs: ``python benchmarks/bench_collect.py [--jobs 100] [--vertices 10] [--repeat 5]``.

Prints processor and wall time of single requests, of a whole warm pass over many jobs, and of one job whose answers are
slow. The cluster is nginx with fixed files where it is installed, so that the program under test is what is measured;
else the tests' fake cluster in a process of its own, which makes wall times longer. The server's time is not included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("core", "clients", "tests")]

from flink_autoscaler.clients import FlinkRestClient, HttpTransport, read_cluster  # noqa: E402
from flink_autoscaler.core.model.job import Endpoint, effective_status  # noqa: E402
from flink_autoscaler.core.model.state import EMPTY_STATE  # noqa: E402
from flink_autoscaler.core.options.context import JobAutoScalerContext  # noqa: E402
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest  # noqa: E402
from flink_autoscaler.pipeline.engine.run_pass import run_passes  # noqa: E402
from testkit.fakes.flink import FakeFlink, FakeJob, answers, chain  # noqa: E402 - the paths come first

AT_ONCE = 16
OPTIONS = {"job.autoscaler.enabled": "true", "job.autoscaler.stabilization.interval": "0 s"}

NGINX = """
daemon off; worker_processes 1; pid {root}/nginx.pid; error_log {root}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; default_type application/json; keepalive_requests 1000000;
  client_body_temp_path {root}/b; proxy_temp_path {root}/p; fastcgi_temp_path {root}/f;
  uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;
  server {{
    listen 127.0.0.1:{port}; root {root};
    location ~ /vertices/([0-9a-f]+)/subtasks/metrics$ {{
      if ($arg_get) {{ rewrite /vertices/([0-9a-f]+)/ /values-$1 break; }}
      rewrite /vertices/([0-9a-f]+)/ /names-$1 break;
    }}
    location ~ ^/jobs/[0-9a-f]+$ {{ rewrite ^/jobs/(.*)$ /job-$1 break; }}
    location / {{ rewrite ^/(.*)/(.*)$ /$1-$2 break; }}
  }}
}}
"""


def an_hour_ago() -> int:
    return time.time_ns() // 1_000_000 - 3_600_000


def add_jobs(flink: FakeFlink, jobs: int, vertices: int) -> None:
    for number in range(jobs):
        flink.add_job(f"job {number}", chain(sources=2, vertices=vertices, parallelism=4), start_ms=an_hour_ago())


def write_answers(root: Path, flink: FakeFlink) -> None:
    """Write the answers of a fake cluster as files for nginx."""
    jobs: list[FakeJob] = list(flink.jobs.values())
    files: dict[str, object] = {f"job-{job.job_id}": answers.details(job) for job in jobs}
    for vertex in jobs[0].vertices:
        files[f"names-{vertex.vertex_id}"] = answers.vertex_metrics(vertex, None)
        files[f"values-{vertex.vertex_id}"] = answers.vertex_metrics(vertex, ",".join(vertex.metrics))
    files["jobs-overview"] = answers.overview(jobs)
    files["jobmanager-metrics"] = [{"id": name, "value": text} for name, text in flink.jobmanager_metrics.items()]
    names = ",".join(flink.taskmanager_metrics)
    files["taskmanagers-metrics"] = answers.aggregated(flink.taskmanager_metrics, names, count=1)
    for name, answer in files.items():
        (root / name).write_text(json.dumps(answer))


@contextmanager
def nginx(jobs: int, vertices: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="bench-collect-") as directory, socket.socket() as free:
        root = Path(directory)
        root.chmod(0o755)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        flink = FakeFlink()
        add_jobs(flink, jobs, vertices)
        write_answers(root, flink)
        (root / "nginx.conf").write_text(NGINX.format(root=root, port=port))
        server = subprocess.Popen(["nginx", "-c", str(root / "nginx.conf"), "-e", str(root / "error.log")])
        try:
            wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(10)


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise SystemExit("nginx does not listen")


def serve(jobs: int, vertices: int, delay: float, pipe: Connection) -> None:
    with FakeFlink() as flink:
        add_jobs(flink, jobs, vertices)
        flink.delay = delay
        pipe.send(flink.url)
        pipe.recv()


@contextmanager
def fake_cluster(jobs: int, vertices: int, delay: float = 0.0) -> Iterator[str]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(jobs, vertices, delay, there))
    process.start()
    try:
        yield here.recv()
    finally:
        here.send(None)
        process.join(10)


async def timed(title: str, count: int, work: Callable[[], Awaitable[object]], repeat: int) -> None:
    """Print the median processor time of all and of one, and the median and longest wall time."""
    cpu, wall = [], []
    for _ in range(repeat):
        started = time.process_time(), time.perf_counter()
        await work()
        cpu.append(time.process_time() - started[0])
        wall.append(time.perf_counter() - started[1])
    middle = statistics.median(cpu)
    print(
        f"{title:52} {count:6} {middle:8.3f} {middle / count * 1e3:10.3f}"
        f" {statistics.median(wall):8.3f} {max(wall):8.3f}"
    )


async def bench_requests(url: str, repeat: int) -> None:
    """Compare the transport with plain httpx: 1,000 times the details of a job, 16 at once."""
    transport = HttpTransport(Endpoint(url, max_connections=AT_ONCE))
    plain = httpx.AsyncClient(base_url=url, limits=httpx.Limits(max_connections=AT_ONCE))
    slots = asyncio.Semaphore(AT_ONCE)
    client = FlinkRestClient(Endpoint(url))
    paths = [f"/jobs/{job.job_id}" for job in await client.jobs_overview()]
    await client.aclose()
    paths = (paths * (1000 // len(paths) + 1))[:1000]

    async def by_httpx(path: str) -> object:
        async with slots:
            return json.loads((await plain.get(path)).content)

    await timed("GET: HttpTransport", 1000, lambda: asyncio.gather(*map(transport.get_json, paths)), repeat)
    await timed("GET: plain httpx.AsyncClient", 1000, lambda: asyncio.gather(*map(by_httpx, paths)), repeat)
    await transport.aclose()
    await plain.aclose()


class Loop:
    """Passes over all jobs of a cluster, each with what the pass before remembered."""

    def __init__(self, url: str) -> None:
        self.endpoint = Endpoint(url, max_connections=AT_ONCE)
        self.client = FlinkRestClient(self.endpoint)
        self.outcomes: Sequence[PassOutcome] = ()

    async def run_pass(self) -> None:
        """List the jobs, read cluster and jobs, decide."""
        jobs = await self.client.jobs_overview()
        past = {outcome.job_key: outcome for outcome in self.outcomes}
        requests = []
        for job in jobs:
            status = effective_status(job.state, job.tasks)
            context = JobAutoScalerContext(job.job_id, job.job_id, status, OPTIONS, self.endpoint)
            request = PassRequest(context, EMPTY_STATE, time.time_ns() // 1_000_000)
            before = past.get(job.job_id)
            requests.append(
                request if before is None else PassRequest(context, before.state, request.now_ms, before.memory)
            )
        cluster = await read_cluster(self.client)
        self.outcomes = await run_passes(self.client, requests, cluster, job_deadline=10.0)
        errors = [outcome.error for outcome in self.outcomes if outcome.error is not None]
        if errors:
            raise errors[0]


async def bench_passes(title: str, url: str, repeat: int) -> None:
    loop = Loop(url)
    await loop.run_pass()
    await timed(title, len(loop.outcomes), loop.run_pass, repeat)
    await loop.client.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--vertices", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    server = nginx if shutil.which("nginx") else fake_cluster
    print(f"server: {server.__name__}; times in seconds, medians of {options.repeat}")
    print(f"{'what':52} {'count':>6} {'CPU':>8} {'ms CPU/one':>10} {'wall':>8} {'longest':>8}")
    with server(options.jobs, options.vertices) as url:
        asyncio.run(bench_requests(url, options.repeat))
        title = f"warm pass: {options.jobs} jobs x {options.vertices} vertices"
        asyncio.run(bench_passes(title, url, options.repeat))
    with fake_cluster(1, 50, delay=0.005) as url:
        asyncio.run(bench_passes("warm pass: 1 job x 50 vertices, answers after 5 ms", url, options.repeat))
    with fake_cluster(1, options.vertices) as url:
        asyncio.run(bench_passes(f"warm pass: 1 job x {options.vertices} vertices", url, options.repeat))


if __name__ == "__main__":
    main()
