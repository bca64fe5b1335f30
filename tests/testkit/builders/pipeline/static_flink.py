"""Clusters that cost nearly nothing: nginx serves the answers of the tests' fake cluster as files.

Every job id is known and has the same graph; counters stand still. Any path prefix such as ``/c17`` is a cluster of its
own with the same answers.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self
from urllib.request import urlopen

from testkit.fakes.flink import FakeFlink, chain

CONFIGURATION = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 16384; }}
worker_rlimit_nofile 16384;
http {{
  access_log off; default_type application/json; keepalive_requests 1000000; keepalive_timeout 300s;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  map $arg_get $kind {{ "" names; default values; }}
  server {{
    listen 127.0.0.1:{port};
    location ~ "/jobs/overview$" {{ alias {folder}/overview; }}
    location ~ "/jobs/[0-9a-f]+$" {{ alias {folder}/details; }}
    location ~ "/jobs/[0-9a-f]+/jobmanager/config$" {{ alias {folder}/configuration; }}
    location ~ "/jobs/[0-9a-f]+/config$" {{ alias {folder}/user; }}
    location ~ "/jobs/[0-9a-f]+/vertices/(?<vertex>[0-9a-f]+)/subtasks/metrics$" {{ alias {folder}/$kind-$vertex; }}
    location ~ "/jobmanager/metrics$" {{ alias {folder}/jobmanager; }}
    location ~ "/taskmanagers/metrics$" {{ alias {folder}/taskmanagers; }}
  }}
}}
"""


class StaticFlink:
    """Serves jobs, two of whose vertices are sources, until the block ends."""

    def __init__(self, *, jobs: int = 1, vertices: int = 10) -> None:
        self._jobs = jobs
        self._vertices = vertices

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="static-flink-"))
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        _record(self.folder, self._jobs, self._vertices)
        config = self.folder / "nginx.conf"
        config.write_text(CONFIGURATION.format(folder=self.folder, port=self.port))
        self.process = subprocess.Popen(["nginx", "-c", str(config), "-e", str(self.folder / "error.log")])
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.folder)

    def _wait(self) -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError("nginx does not listen: " + (self.folder / "error.log").read_text())


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _record(folder: Path, jobs: int, vertices: int) -> None:
    folder.chmod(0o755)  # nginx started by root serves as another user
    with FakeFlink() as flink:
        job = flink.add_job("static", chain(sources=2, vertices=vertices), start_ms=_an_hour_ago())
        _save(f"{flink.url}/jobs/{job.job_id}/jobmanager/config", folder / "configuration")
        _save(f"{flink.url}/jobs/{job.job_id}/config", folder / "user")
        _save(f"{flink.url}/jobs/{job.job_id}", folder / "details")
        for vertex in job.vertices:
            url = f"{flink.url}/jobs/{job.job_id}/vertices/{vertex.vertex_id}/subtasks/metrics"
            _save(url, folder / f"names-{vertex.vertex_id}")
            _save(f"{url}?get={','.join(vertex.metrics)}", folder / f"values-{vertex.vertex_id}")
        _save(f"{flink.url}/jobmanager/metrics?get={','.join(flink.jobmanager_metrics)}", folder / "jobmanager")
        _save(f"{flink.url}/taskmanagers/metrics?get={','.join(flink.taskmanager_metrics)}", folder / "taskmanagers")
        for number in range(1, jobs):
            flink.add_job(f"job {number}", job.vertices, start_ms=_an_hour_ago())
        _save(f"{flink.url}/jobs/overview", folder / "overview")


def _an_hour_ago() -> int:
    return time.time_ns() // 1_000_000 - 3_600_000


def _save(url: str, path: Path) -> None:
    with urlopen(url, timeout=10) as answer:
        path.write_bytes(answer.read())
