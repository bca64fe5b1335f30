"""What a pass of discovery costs on a YARN cluster of many applications with one job each.

Run: PYTHONPATH=tests:. python benchmarks/bench_yarn.py [--applications 1000] [--passes 5]
Needs nginx, which is the ResourceManager, its web proxy, and every JobManager on a loopback address of its own.
Processor time is that of the daemon, without nginx.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.standalone.fetchers.yarn import YarnFetcher
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster
from testkit.builders.pipeline.static_flink import StaticFlink

RECORDED = Path(__file__).parents[1] / "tests" / "fixtures" / "yarn"
SERVER = """
worker_processes 1; daemon off; pid {folder}/yarn.pid; error_log {folder}/yarn-error.log;
events {{ worker_connections 16384; }}
worker_rlimit_nofile 16384;
http {{
  access_log off; default_type application/json; keepalive_requests 1000000; keepalive_timeout 300s;
  client_body_temp_path {folder}/y1; proxy_temp_path {folder}/y2; fastcgi_temp_path {folder}/y3;
  uwsgi_temp_path {folder}/y4; scgi_temp_path {folder}/y5;
  server {{
    {listens}
    location ~ "^/proxy/(?<application>[a-z0-9_]+)/jobs/overview$" {{ alias {folder}/overview-$application; }}
    location = /jobs/overview {{ alias {folder}/overview-$server_addr; }}
    location ~ "/jobs/[0-9a-f]+/config$" {{ alias {folder}/user; }}
    location ~ "/jobmanager/config$" {{ alias {folder}/configuration; }}
    location ~ "/taskmanagers$" {{ alias {folder}/taskmanagers-list; }}
    location /ws/v1/cluster/ {{ alias {folder}/; }}
  }}
}}
"""


@contextmanager
def yarn(flink: StaticFlink, applications: int) -> Iterator[str]:
    """Serve a ResourceManager and applications; give the URL of the former."""
    folder, port = flink.folder, flink.port + 1
    hosts = [f"127.1.{number // 250}.{number % 250 + 1}" for number in range(applications)]
    overview = json.loads((folder / "overview").read_text())
    entries = []
    for number, host in enumerate(hosts):
        entry = json.loads((RECORDED / "app.json").read_text())["app"]
        entry |= {"id": f"application_1700000000000_{number:04d}", "amRPCAddress": f"{host}:{port}"}
        entry["trackingUrl"] = f"http://127.0.0.1:{port}/proxy/{entry['id']}/"
        entries.append(entry)
        text = json.dumps({"jobs": [{**overview["jobs"][0], "jid": f"{number:032x}", "name": f"job {number}"}]})
        for name in (host, entry["id"]):
            (folder / f"overview-{name}").write_text(text)
    (folder / "apps").write_text(json.dumps({"apps": {"app": entries}}))
    taskmanager = {"id": "container_1_1_01_000002", "slotsNumber": 2, "freeSlots": 0}
    (folder / "taskmanagers-list").write_text(json.dumps({"taskmanagers": [taskmanager]}))
    for name in ("scheduler", "metrics"):
        shutil.copy(RECORDED / f"{name}.json", folder / name)
    config = folder / "yarn.conf"
    listens = " ".join(f"listen {host}:{port};" for host in ("127.0.0.1", *hosts))
    config.write_text(SERVER.format(folder=folder, listens=listens))
    process = subprocess.Popen(["nginx", "-c", str(config), "-e", str(folder / "yarn-error.log")])
    try:
        time.sleep(1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def measure(title: str, url: str, passes: int, **options: object) -> None:
    settings = ClusterSettings.model_validate({"name": "main", "type": "yarn", "yarn": {"url": (url,), **options}})
    endpoint = Endpoint("", max_response_bytes=settings.max_response_bytes)
    cluster = Cluster("main", endpoint, 10.0, EngineKind.INLINE, {}, settings)
    loop = EventLoopThread()
    with (
        closing(loop),
        closing(ClientCache(loop)) as clients,
        closing(YarnFetcher(cluster, loop=loop, clients=clients)) as fetcher,
    ):
        walls, cpus = [], []
        for _ in range(passes + 1):
            wall, cpu = time.perf_counter(), time.process_time()
            listed = fetcher.fetch()
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
            if listed.problems or listed.unreadable:
                print(
                    "PROBLEMS",
                    len(listed.problems),
                    len(listed.unreadable),
                    next(iter({**listed.problems}.items()), ""),
                )
    print(
        f"{title:30} {len(listed.jobs):5} jobs {walls[0]:7.3f} {cpus[0]:7.2f}"
        f" {statistics.median(walls[1:]):7.3f} {statistics.median(cpus[1:]):7.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=5)
    options = parser.parse_args()
    print(f"{'seconds':41} {'first: wall':>7} {'CPU':>4} {'later: wall':>7} {'CPU':>4}")
    with StaticFlink(jobs=1) as flink, yarn(flink, options.applications) as url:
        measure("direct", url, options.passes, access="direct")
        measure("auto", url, options.passes)
        measure("proxy", url, options.passes, access="proxy")
        measure("direct, without headroom", url, options.passes, access="direct", headroom=False)


if __name__ == "__main__":
    main()
