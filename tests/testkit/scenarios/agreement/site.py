"""Real Flink with a job for each policy under the same curve, one daemon, and somebody who writes down what is seen."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
from demo.job_watch import running_parallelism

from testkit.clusters.flink import FlinkCluster, job
from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.job import SOURCE_VERTEX
from testkit.clusters.flink.rest import FlinkRest
from testkit.scenarios.agreement import plan
from testkit.scenarios.agreement.recording import HISTORY, LOOKS, START, Look, Recording, line, load
from testkit.scenarios.runner.process import DaemonProcess

_SECONDS_OF_SAMPLE: Final = 1.0
_PENDING: Final = "Source__orders.pendingRecords"
_START_AHEAD: Final = 20.0
"""Seconds from the submission of the jobs to the second 0 of their curve."""


def configuration(url: str, folder: Path) -> dict[str, object]:
    """Return the configuration of the daemon: an entry for each policy, which takes the job of its name."""
    return {
        "autoscaler.clusters": [
            {"name": policy, "url": url, "include": [policy], "options": plan.options(policy)}
            for policy in plan.POLICIES
        ],
        "autoscaler.engine.kind": "inline",
        "autoscaler.http.port": 0,
        "autoscaler.log.format": "json",
        "autoscaler.log.level": "debug",
        "autoscaler.records.interval": "0 s",
        "autoscaler.standalone.control-loop.interval": f"{plan.INTERVAL:g} s",
        "autoscaler.history.enabled": True,
        "autoscaler.history.path": str(folder / HISTORY),
        "autoscaler.history.interval": f"{plan.INTERVAL:g} s",
        "autoscaler.history.flush-interval": "1 min",
    }


def recorded(folder: Path) -> Recording:
    """Run the jobs for the length of the curve, and return what was recorded in a folder."""
    with _jobs(folder) as (cluster, ids, start), DaemonProcess(folder) as daemon:
        daemon.file.write_text(json.dumps(configuration(cluster.rest_url, folder)))  # JSON is YAML
        daemon.start()
        while time.time() < start + plan.SECONDS:
            assert daemon.is_running, daemon.text()[-4000:]
            looks = [_look(cluster.rest, name, job_id, start) for name, job_id in ids.items()]
            with (folder / LOOKS).open("a", encoding="utf-8") as file:
                file.writelines(map(line, looks))
            time.sleep(_SECONDS_OF_SAMPLE)
        assert daemon.stop() == 0
    return load(folder)


@contextmanager
def _jobs(folder: Path) -> Iterator[tuple[FlinkCluster, Mapping[str, str], float]]:
    """Start a cluster with the jobs; give it with their ids by name and the second 0 of the curve."""
    with FlinkCluster("2.3", taskmanagers=2, slots=plan.SLOTS, directory=folder / "flink") as cluster:
        start = time.time() + _START_AHEAD
        (folder / START).write_text(json.dumps({"start": start}), encoding="utf-8")
        ids = {policy: job.submit(cluster, plan.job(policy, round(start * 1000))) for policy in plan.POLICIES}
        yield cluster, ids, start


def _look(rest: FlinkRest, name: str, job_id: str, start: float) -> Look:
    details = rest.reachable(f"/jobs/{job_id}")
    at = time.time() - start
    running = None if details is None else running_parallelism(details)
    vertices = [] if details is None else details["vertices"]
    shown = {str(vertex["name"]): int(vertex["parallelism"]) for vertex in vertices}
    source = next((vertex["id"] for vertex in vertices if vertex["name"] == SOURCE_VERTEX), None)
    pending = None if running is None or source is None else _pending(rest, job_id, source)
    return Look(at, name, running is not None, shown, pending)


def _pending(rest: FlinkRest, job_id: str, source: str) -> float | None:
    try:
        rows = rest.vertex_metrics(job_id, source, [_PENDING])
        return float(rows[_PENDING]["sum"]) if _PENDING in rows else None
    except (HarnessError, httpx.HTTPError, KeyError, ValueError):
        return None
