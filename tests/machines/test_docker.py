"""The images and the compose file, run for real: in a Docker engine of the tests' own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from machines import MachineError, missing_tools
from machines.engine import Engine, docker_engine
from machines.images import INLINE, PROJECT, WITH_SPARK, build_images, docker_data, scratch

pytestmark = pytest.mark.docker

SPARK_MB, INLINE_MB = 700, 200
CURVE = "0:200,60:1400,240:1400,245:100"
"""A subtask of the job does 500 records/s: it needs three or four for three minutes, then one."""


@dataclass(frozen=True)
class Site:
    """What runs: the engine, the folder of the compose file, and the name of the daemon's container."""

    engine: Engine
    folder: Path

    def compose(self, *words: object, timeout: float = 300.0) -> str:
        file = self.folder / "docker-compose.yml"
        return self.engine.docker("compose", "--file", file, *words, timeout=timeout)

    def daemon(self) -> dict[str, Any]:
        [container] = self.compose("ps", "--all", "--quiet", "autoscaler").split()
        return self.engine.inspect(container)

    def execute(self, *words: object) -> str:
        return self.engine.docker("exec", self.daemon()["Id"], *words)

    def jobs(self) -> Any:
        return json.loads(self.engine.get("http://127.0.0.1:8081/jobs/overview"))["jobs"]

    def parallelism(self) -> int:
        """Return that of the vertex that works; 0 while it is not known."""
        try:
            job = json.loads(self.engine.get(f"http://127.0.0.1:8081/jobs/{self.jobs()[0]['jid']}"))
        except (MachineError, IndexError):
            return 0
        return max(int(vertex["parallelism"]) for vertex in job["vertices"] if vertex["name"].startswith("work"))


def wait_until(what: str, probe: Callable[[], object], timeout: float) -> float:
    """Return the seconds until a probe was truthy."""
    started = time.monotonic()
    while True:
        try:
            if probe():
                return time.monotonic() - started
        except MachineError as error:
            said = str(error)
        else:
            said = ""
        if time.monotonic() - started > timeout:
            raise AssertionError(f"not within {timeout:g} s: {what}\n{said}")
        time.sleep(0.5)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    if reason := missing_tools():
        pytest.skip(reason)
    started = time.monotonic()
    build_images()
    print(f"images built in {time.monotonic() - started:.0f} s")
    shared = scratch("compose")
    shutil.rmtree(shared, ignore_errors=True)
    shutil.copytree(PROJECT / "docker", shared)
    with docker_engine(docker_data(), scratch("engine"), shared, alone=True) as running:
        yield running


@pytest.fixture(scope="module")
def site(engine: Engine) -> Iterator[Site]:
    """Return the site of the compose file with a job, looked after on Spark, with windows short enough for a test."""
    folder = scratch("compose")
    configuration = yaml.safe_load((folder / "autoscaler.yaml").read_text())
    configuration["autoscaler"] |= {"standalone": {"control-loop": {"interval": "3 s"}}, "engine": {"kind": "spark"}}
    configuration |= {f"job.autoscaler.{key}": value for key, value in SHORT.items()}
    (folder / "autoscaler.yaml").write_text(yaml.safe_dump(configuration))
    site = Site(engine, folder)
    try:
        started = time.monotonic()
        site.compose("up", "--detach", "--no-build", "--wait", "--scale", "taskmanager=2", timeout=400)
        print(f"compose file is up and healthy after {time.monotonic() - started:.0f} s")
        command = [sys.executable, "-m", "machines.submitting", "http://127.0.0.1:8081", CURVE]
        inside = ["nsenter", "--target", str(engine.pid), "--net", *command]
        environment = {"PYTHONPATH": str(PROJECT / "tests" / "support"), "PATH": "/usr/bin:/bin:/usr/sbin"}
        subprocess.run(inside, env=environment, check=True, timeout=120)
        yield site
    finally:
        print(site.compose("logs", "--no-color", "--tail", 40, "autoscaler")[-3000:])
        site.compose("down", "--volumes", "--timeout", 10)


SHORT = {
    "metrics.window": "15 s",
    "stabilization.interval": "5 s",
    "scale-down.interval": "10 s",
    "restart.time": "5 s",
    "catch-up.duration": "30 s",
}


def test_images_are_small_and_described(engine: Engine) -> None:
    for image, most in ((WITH_SPARK, SPARK_MB), (INLINE, INLINE_MB)):
        facts = engine.inspect(image)
        print(f"{image}: {facts['Size'] / 1e6:.0f} MB")
        bom = json.loads(
            engine.docker("run", "--rm", "--entrypoint", "cat", image, "/usr/share/doc/flink-autoscaler/sbom.cdx.json")
        )
        assert facts["Size"] / 1e6 <= most
        assert facts["Config"]["Labels"]["org.opencontainers.image.version"] == "0.2.0"
        assert (bom["bomFormat"], bom["metadata"]["component"]["version"]) == ("CycloneDX", "0.2.0")
        assert len(bom["components"]) > 100


@pytest.mark.parametrize("image", [WITH_SPARK, INLINE])
def test_image_has_no_pip(engine: Engine, image: str) -> None:
    with pytest.raises(MachineError):
        engine.docker("run", "--rm", "--entrypoint", "/opt/flink-autoscaler/bin/python", image, "-m", "pip")


def test_first_pass_of_the_small_image_comes_within_five_seconds(site: Site) -> None:
    networks = site.daemon()["NetworkSettings"]["Networks"]
    cluster = ("--set", "autoscaler.clusters.0.name=main", "--set", "autoscaler.clusters.0.url=http://jobmanager:8081")
    options = ("--detach", "--read-only", "--tmpfs", "/tmp", "--network", next(iter(networks)))
    started = time.monotonic()

    container = site.engine.docker("run", *options, INLINE, "run", *cluster, "--dry-run").split()[-1]
    ready = "from urllib.request import urlopen; urlopen('http://127.0.0.1:8484/readyz')"
    try:
        wait_until("a pass", lambda: site.engine.docker("exec", container, "python3", "-c", ready) == "", 60)
        seconds = time.monotonic() - started
    finally:
        print(site.engine.docker("logs", container)[-1500:])
        site.engine.docker("rm", "--force", "--volumes", container)
    print(f"start to first pass, inline: {seconds:.1f} s")
    assert seconds <= 5 * SLACK


SLACK = 2
"""Other programs may slow this machine down."""


def test_job_is_scaled_up_and_down_on_spark(site: Site) -> None:
    up = wait_until("scaled up", lambda: site.parallelism() >= 2, 240)
    wait_until("Spark is up", lambda: "flink_autoscaler_spark_up 1.0" in metrics(site), 120)
    down = wait_until("scaled down", lambda: site.parallelism() == 1, 420)

    print(f"scaled up after {up:.0f} s, down after {up + down:.0f} s")
    assert re.search(r'flink_autoscaler_passes_total\{[^}]*engine="spark"[^}]*\} [1-9]', metrics(site))


def metrics(site: Site) -> str:
    return site.engine.get("http://127.0.0.1:8484/metrics")


def test_pages_answer(site: Site) -> None:
    assert "<html" in site.engine.get("http://127.0.0.1:8484/")
    assert site.engine.get("http://127.0.0.1:8484/readyz")


def test_container_is_confined(site: Site) -> None:
    facts = site.daemon()
    status = site.execute("sh", "-c", "cat /proc/self/status")

    assert site.execute("id", "-u").strip() == "10001"
    assert facts["HostConfig"]["ReadonlyRootfs"]
    assert re.search(r"CapEff:\s+0+$", status, re.MULTILINE)
    assert re.search(r"NoNewPrivs:\s+1$", status, re.MULTILINE)
    with pytest.raises(MachineError):
        site.execute("touch", "/opt/flink-autoscaler/x")


def test_health_turns_unhealthy_when_the_loop_hangs(site: Site) -> None:
    pids = site.execute("sh", "-c", "grep -l bin/flink-autoscaler /proc/[0-9]*/cmdline").split()
    pid = min(int(path.split("/")[2]) for path in pids if path != "/proc/1/cmdline")
    site.execute("sh", "-c", f"kill -STOP {pid}")
    try:
        seconds = wait_until("unhealthy", lambda: site.daemon()["State"]["Health"]["Status"] == "unhealthy", 150)
    finally:
        site.execute("sh", "-c", f"kill -CONT {pid}")
    print(f"unhealthy {seconds:.0f} s after it hung")
    wait_until("healthy", lambda: site.daemon()["State"]["Health"]["Status"] == "healthy", 90)


def test_state_survives_down_and_up_and_sigterm_ends_within_the_grace(site: Site) -> None:
    before = site.execute("stat", "--format", "%i", "/var/lib/flink-autoscaler/autoscaler.db")
    started = time.monotonic()
    site.compose("stop", "autoscaler")
    seconds = time.monotonic() - started
    code = site.daemon()["State"]["ExitCode"]
    site.compose("down", "--timeout", 20)
    site.compose("up", "--detach", "--no-build", "--wait", timeout=400)

    after = site.execute("stat", "--format", "%i", "/var/lib/flink-autoscaler/autoscaler.db")

    print(f"SIGTERM ended it after {seconds:.1f} s")
    assert (code, seconds < 30) == (0, True)
    assert before == after


def ended(engine: Engine, image: str, *options: str, command: tuple[str, ...] = ()) -> tuple[int, str]:
    """Return exit code and output of a container that is to end by itself."""
    words = engine.command("docker", "run", "--rm", "--network", "none", *options, image, *command)
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
    return done.returncode, done.stdout + done.stderr


RUN = ("run", "--set", "autoscaler.clusters.0.name=main", "--set", "autoscaler.clusters.0.url=http://127.0.0.1:1")


def test_state_directory_that_cannot_be_written_is_told_and_the_daemon_goes_on(engine: Engine) -> None:
    volume = ("--volume", "state:/var/lib/flink-autoscaler:ro")
    container = engine.docker("run", "--detach", "--network", "none", *volume, INLINE, *RUN).split()[-1]
    try:
        wait_until("it is told", lambda: "autoscaler.db cannot be written" in engine.docker("logs", container), 60)
        assert engine.inspect(container)["State"]["Running"]
    finally:
        engine.docker("rm", "--force", "--volumes", container)


def test_spark_in_the_image_without_java_ends_and_names_the_way_out(engine: Engine) -> None:
    code, said = ended(engine, INLINE, command=(*RUN, "--set", "autoscaler.engine.kind=spark"))

    assert code == 2
    assert "autoscaler.engine.kind: inline" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "limits", [("--memory", "256m"), ("--env", "TZ=Pacific/Auckland")], ids=["256 MB", "time zone"]
)
def test_small_image_runs_in_tight_places_with_a_cluster_that_is_away(engine: Engine, limits: tuple[str, str]) -> None:
    container = engine.docker("run", "--detach", "--network", "none", "--read-only", *limits, INLINE, *RUN).split()[-1]
    try:
        wait_until("the failure is told", lambda: "cluster" in engine.docker("logs", container), 60)
        wait_until("healthy", lambda: engine.inspect(container)["State"]["Health"]["Status"] == "healthy", 90)
        facts = engine.inspect(container)
        assert (facts["State"]["OOMKilled"], facts["RestartCount"], facts["State"]["Running"]) == (False, 0, True)
    finally:
        engine.docker("rm", "--force", "--volumes", container)


def test_a_backtest_works_with_the_jars_that_are_left(engine: Engine) -> None:
    script = (
        "set -e; cd /var/lib/flink-autoscaler; "
        "flink-autoscaler backtest --workload swing --days 1 --master 'local[2]' --output backtest.html; "
        "test -s backtest.html"
    )
    code, said = ended(engine, WITH_SPARK, "--entrypoint", "sh", command=("-c", script))

    assert code == 0, said
