"""The configuration to try out, as it is in ``conf/``: up and down within ten minutes on a real Flink."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testkit.clusters.flink import FlinkCluster, job
from testkit.clusters.flink.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="long")]

SAMPLE = Path(__file__).parents[2] / "conf" / "try-out.yaml"
COMMAND = str(Path(sys.executable).with_name("flink-autoscaler"))
PATIENCE = 3600.0
"""Seconds; it takes some ten minutes on a machine that has nothing else to do."""

# A subtask of "work" does 500 records/s. Half of the ten minutes are as busy as in the guide, the rest is quiet.
LOAD = job.ScalingJob(name="orders", curve="0:150,60:150,70:1200,240:1200,250:150,900:150", cost_micros=2000)


def environment(directory: Path) -> dict[str, str]:
    """Return the environment of a person who has configured nothing else."""
    own = ("AUTOSCALER__", "JOB__AUTOSCALER__", "FLINK_CONF_DIR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return kept | {"STATE_DIRECTORY": str(directory / "state")}


def given(cluster: FlinkCluster, directory: Path) -> list[str]:
    """Return the sample with what belongs to this machine: the URL, a free port, and where files go."""
    here = {
        "autoscaler.clusters.0.url": cluster.rest_url,
        "autoscaler.http.port": "0",
        "autoscaler.log.format": "json",
        "autoscaler.history.path": str(directory / "history"),
    }
    return ["--config", str(SAMPLE), *(part for key, value in here.items() for part in ("--set", f"{key}={value}"))]


@contextmanager
def running_daemon(arguments: list[str], directory: Path) -> Iterator[Path]:
    """Run the daemon; give its log."""
    log = directory / "daemon.log"
    with log.open("wb") as out:
        daemon = subprocess.Popen([COMMAND, "run", *arguments], env=environment(directory), stdout=out, stderr=out)
    try:
        yield log
    finally:
        daemon.terminate()
        assert daemon.wait(timeout=300) == 0, log.read_text()


def lines(log: Path) -> list[dict[str, Any]]:
    """Return what the log has as JSON by now."""
    texts = (text for text in log.read_text().splitlines() if text.startswith("{") and text.endswith("}"))
    return [json.loads(text) for text in texts]


def rescales(log: Path) -> list[tuple[int, int]]:
    """Return every request about the vertex that is loaded: from, to."""
    asked = (line["changes"] for line in lines(log) if line.get("event") == "job_rescale_requested")
    return [(each["from"], each["to"]) for changes in asked for each in changes if each["vertex"] == job.WORK_VERTEX]


def test_the_configuration_to_try_out_gives_a_scale_up_and_a_scale_down(tmp_path: Path) -> None:
    tmp_path.joinpath("state").mkdir()
    with FlinkCluster("2.3", slots=8, directory=tmp_path / "flink") as cluster:
        arguments = given(cluster, tmp_path)
        begun, seconds = time.monotonic(), dict[str, float]()
        with running_daemon(arguments, tmp_path) as log:
            job_id = job.submit(cluster, LOAD)

            def parallelism() -> int:
                return int(cluster.rest.vertices(job_id)[job.WORK_VERTEX]["parallelism"])

            def left() -> float:
                return begun + PATIENCE - time.monotonic()

            wait_until("the job has grown", lambda: parallelism() > 1, left(), context=log.read_text)
            seconds["up"] = time.monotonic() - begun
            wait_until(
                "the job has shrunk", lambda: any(to < at for at, to in rescales(log)), left(), context=log.read_text
            )
            lowered = rescales(log)[-1][1]
            wait_until("it runs so", lambda: parallelism() <= lowered, left(), context=log.read_text)
            seconds["down"] = time.monotonic() - begun
        told = {line.get("reason") for line in lines(log) if line.get("event") == "autoscaler_event"}
        info = subprocess.run(
            [COMMAND, "history", "info", *arguments],
            env=environment(tmp_path),
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    print(f"up after {seconds['up'] / 60:.1f} min, down after {seconds['down'] / 60:.1f} min: {rescales(log)}")
    assert {"ScalingReport", "Scaling", "RescaleReached"} <= told
    assert not {"RollbackStarted", "RescaleStuck", "RescaleRefused"} & told
    assert re.search(r"samples", info), info
