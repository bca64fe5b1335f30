"""The compose file, run for real with a job on a real Flink: once on each engine, in the image that is made for it."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from testkit.clusters.flink.waiting import wait_until
from testkit.clusters.machines import MachineError
from testkit.clusters.machines.engine import Engine
from testkit.clusters.machines.images import FLINK, INLINE, PROJECT, WITH_SPARK
from testkit.clusters.machines.site import DAEMON, ComposeSetup

pytestmark = pytest.mark.suite(name="docker")

NEEDED = (INLINE, WITH_SPARK, FLINK)

CURVE = "0:200,60:200,90:1400,270:1400,275:100"
"""A subtask of the job does 500 records/s: it needs three or four for three minutes, once Spark is up, then one."""

SHORT = {
    "metrics.window": "15 s",
    "stabilization.interval": "5 s",
    "scale-down.interval": "10 s",
    "restart.time": "5 s",
    "catch-up.duration": "30 s",
}
IMAGES = {"spark": WITH_SPARK, "inline": INLINE}
JOB = "compose/scaling-job"


@pytest.fixture(scope="module", params=IMAGES)
def kind(request: pytest.FixtureRequest) -> str:
    """Return the engine that evaluates."""
    return str(request.param)


@pytest.fixture(scope="module")
def site(engine: Engine, kind: str) -> Iterator[ComposeSetup]:
    """Return the site with a job, managed with windows short enough for a test."""
    folder = engine.shared / kind
    shutil.copytree(PROJECT / "docker", folder)
    site = ComposeSetup(engine, folder)
    site.take_image(IMAGES[kind])
    site.configure({"standalone": {"control-loop": {"interval": "3 s"}}, "engine": {"kind": kind}}, SHORT)
    try:
        started = time.monotonic()
        site.up()
        print(f"compose file is up and healthy after {time.monotonic() - started:.0f} s, {kind}")
        yield site
    finally:
        print(site.compose("logs", "--no-color", "--tail", 40, "autoscaler")[-3000:])
        site.compose("down", "--volumes", "--timeout", 10)


def events(site: ComposeSetup) -> list[dict[str, str]]:
    lines = site.command("events", "--json", "--limit", 10_000).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_job_is_scaled_up_and_down(site: ComposeSetup, kind: str) -> None:
    site.submit(CURVE)
    started = time.monotonic()
    wait_until(f"passes on {kind}", lambda: site.passes(kind) >= 2, 300, interval=0.5, context=site.log)
    others = sum(site.passes(each) for each in IMAGES if each != kind)

    wait_until("scaled up", lambda: site.parallelism() >= 2, 300, interval=0.5, context=site.log)
    up = time.monotonic() - started
    wait_until("scaled down", lambda: site.parallelism() == 1, 420, interval=0.5, context=site.log)

    print(f"scaled up {up:.0f} s after it was submitted, down after {time.monotonic() - started:.0f} s, {kind}")
    assert sum(site.passes(each) for each in IMAGES if each != kind) == others
    assert site.passes(kind) > 20


def test_pages_answer(site: ComposeSetup) -> None:
    assert "<html" in site.engine.get(f"{DAEMON}/")
    assert site.engine.get(f"{DAEMON}/readyz")


def test_container_is_confined(site: ComposeSetup) -> None:
    facts = site.daemon()
    status = site.execute("sh", "-c", "cat /proc/self/status")

    assert site.execute("id", "-u").strip() == "10001"
    assert facts["HostConfig"]["ReadonlyRootfs"]
    assert re.search(r"CapEff:\s+0+$", status, re.MULTILINE)
    assert re.search(r"NoNewPrivs:\s+1$", status, re.MULTILINE)
    with pytest.raises(MachineError):
        site.execute("touch", "/opt/flink-autoscaler/x")


def test_configuration_is_read_again_on_a_signal_and_a_mistake_is_refused(site: ComposeSetup) -> None:
    whole = site.configuration.read_text()
    container = site.daemon()["Id"]
    try:
        site.configure({"notifications": {"targets": [{"name": "audit", "url": "http://127.0.0.1:1"}]}}, {})
        site.engine.docker("kill", "--signal", "HUP", container)
        wait_until("a reload", lambda: "reloaded" in site.log(), 300, context=site.log)
        site.configure({"notificatoins": {"targets": []}}, {})
        site.engine.docker("kill", "--signal", "HUP", container)
        wait_until("a refusal", lambda: "reload_refused" in site.log(), 300, context=site.log)
    finally:
        site.configuration.write_text(whole)

    assert "autoscaler.notificatoins" in site.log()
    assert (site.daemon()["Id"], site.daemon()["State"]["Running"]) == (container, True)


def test_health_turns_unhealthy_when_the_loop_hangs(site: ComposeSetup) -> None:
    def health() -> str:
        return str(site.daemon()["State"]["Health"]["Status"])

    found = site.execute("sh", "-c", "grep -l bin/flink-autoscaler /proc/[0-9]*/cmdline").split()
    pid = min(int(path.split("/")[2]) for path in found if path != "/proc/1/cmdline")
    started = time.monotonic()
    site.execute("sh", "-c", f"kill -STOP {pid}")
    try:
        wait_until("unhealthy", lambda: health() == "unhealthy", 300, interval=0.5)
    finally:
        site.execute("sh", "-c", f"kill -CONT {pid}")
    print(f"unhealthy {time.monotonic() - started:.0f} s after it hung")
    wait_until("healthy", lambda: health() == "healthy", 300, interval=0.5)


def test_state_survives_down_and_up_and_sigterm_ends_in_order(site: ComposeSetup) -> None:
    site.command("pin", JOB, "work=1", "--reason", "a test", "--new")
    told, ordered = events(site), site.command("commands", "--json")
    site.compose("stop", "autoscaler")
    code = site.daemon()["State"]["ExitCode"]
    site.compose("down", "--timeout", 20)
    site.up()

    assert code == 0, "137 is that of a process that was killed when its grace was over"
    assert "work" in ordered
    assert json.loads(site.command("commands", "--json")) == json.loads(ordered)
    assert "ScalingReport" in {event["reason"] for event in told}
    assert {event["id"] for event in told} <= {event["id"] for event in events(site)}


def test_mistake_in_the_configuration_is_told_and_given_up_with_nothing_lost(site: ComposeSetup) -> None:
    before = {event["id"] for event in events(site)}
    whole = site.configuration.read_text()
    started = datetime.now().astimezone()
    try:
        # Not the kind of the engine: the environment of the image without Java goes before the file.
        site.configure({"standalone": {"control-loop": {"interval": "often"}}}, {})
        site.compose("restart", "autoscaler")
        wait_until("it is given up", lambda: site.daemon()["State"]["Status"] == "exited", 400, interval=0.5)
        ended = site.daemon()
        said = site.engine.docker("logs", "--since", started.isoformat(), ended["Id"])
    finally:
        site.configuration.write_text(whole)

    assert (ended["State"]["ExitCode"], ended["RestartCount"] <= 5) == (2, True)
    assert "autoscaler.standalone.control-loop.interval" in said
    site.up()
    assert before <= {event["id"] for event in events(site)}
