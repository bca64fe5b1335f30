"""The unit on a real systemd, on a server that is installed as the guide says."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from testkit.clusters.flink.cache import cache_directory
from testkit.clusters.flink.configuration import free_ports
from testkit.clusters.machines import MachineError, missing_tools
from testkit.clusters.machines.booted import Server, booted_server
from testkit.clusters.machines.roots import run
from testkit.fakes.flink import FakeFlink, chain

PROJECT = Path(__file__).parents[2]
CONFIGURATION = "/etc/flink-autoscaler/autoscaler.yaml"
UNIT = "flink-autoscaler"
STATE = "/var/lib/flink-autoscaler/autoscaler.db"

pytestmark = pytest.mark.suite(name="docker")


@pytest.fixture(scope="module")
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as flink:
        flink.add_job("orders", chain(vertices=2, parallelism=3))
        yield flink


@pytest.fixture(scope="module")
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with the daemon installed, on which nothing resolves its name."""
    if reason := missing_tools("systemd-nspawn"):
        pytest.skip(reason)
    wheels = tmp_path_factory.mktemp("wheels")
    run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", wheels])
    scratch = cache_directory() / "machines" / "scratch-systemd"
    built = cache_directory() / "wheels"
    with booted_server(scratch, hostname="nobody-knows-me", binds=[wheels, built]) as booted:
        started = time.monotonic()
        _install(booted, next(wheels.glob("*.whl")), sorted(built.glob("pyspark-4*")))
        print(f"installed in {time.monotonic() - started:.0f} s")
        yield booted


def _install(server: Server, wheel: Path, spark: list[Path]) -> None:
    """Do what docs/guide/deployment.md says."""
    links = f"--find-links={spark[-1]}" if spark else "--retries=5"
    server.run("python3", "-m", "venv", "/opt/flink-autoscaler")
    pip = ("/opt/flink-autoscaler/bin/pip", "install", "--quiet", links)
    server.run(*pip, f"flink-autoscaler[spark] @ file://{wheel}", timeout=900)
    server.write(f"/etc/systemd/system/{UNIT}.service", (PROJECT / "conf" / f"{UNIT}.service").read_text())
    server.run("systemctl", "daemon-reload")


def configured(server: Server, flink: FakeFlink, port: int, *, kind: str = "inline", **sections: object) -> None:
    """Write a configuration that is right."""
    cluster = {"name": "main", "url": flink.url, "interval": "5 s"}
    sections |= {"clusters": [cluster], "http": {"port": port}, "engine": {"kind": kind}}
    server.write(CONFIGURATION, yaml.safe_dump({"autoscaler": sections, "job.autoscaler.enabled": True}))


@pytest.fixture
def running(server: Server, flink: FakeFlink, port: int) -> Server:
    """Return the server with the daemon just started, in its own process."""
    configured(server, flink, port)
    server.restart(UNIT)
    return server


def answer(port: int, path: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answered:
        return str(answered.read().decode())


def test_start_waits_for_readiness_and_the_pages_answer(running: Server, port: int) -> None:
    assert running.property("ActiveState") == "active"
    assert running.property("StatusText").startswith("watching 1 cluster: main")
    assert answer(port, "/healthz")


def test_hardening_is_no_worse_than_it_was(running: Server) -> None:
    said = running.run("systemd-analyze", "--no-pager", "security", UNIT)

    [score] = re.findall(r"Overall exposure level for \S+: ([\d.]+)", said)
    print(f"systemd-analyze security: {score}")
    assert float(score) <= 1.5


def test_user_has_no_entry_and_the_name_of_the_host_does_not_resolve(running: Server) -> None:
    uid = running.run("stat", "--format", "%u", f"/proc/{running.property('MainPID')}").strip()

    assert uid != "0"
    assert running.code("grep", "-q", f":{uid}:", "/etc/passwd") != 0
    assert running.code("python3", "-c", "import socket; socket.gethostbyname(socket.gethostname())") != 0


def test_what_is_learned_is_in_the_state_directory(running: Server) -> None:
    running.wait_until("state is written", lambda: running.code("test", "-s", STATE) == 0)

    assert running.run("stat", "--format", "%a", STATE).strip() == "600"


def test_history_is_in_the_state_directory(server: Server, flink: FakeFlink, port: int) -> None:
    folder = "/var/lib/flink-autoscaler/history"
    history = {"enabled": True, "path": folder, "interval": "0 s", "flush-interval": "2 s"}
    configured(server, flink, port, history=history)

    server.restart(UNIT)

    found = f"find {folder}/ -name '*.parquet' | grep --quiet ."
    server.wait_until("files", lambda: server.code("sh", "-c", found) == 0)


def test_reload_takes_a_cluster_and_a_refused_one_is_told(running: Server, flink: FakeFlink) -> None:
    before = running.property("MainPID")
    whole = (running.folder / CONFIGURATION.lstrip("/")).read_text()
    more = yaml.safe_load(whole)
    more["autoscaler"]["clusters"].append({"name": "second", "url": flink.url.replace("127.0.0.1", "localhost")})

    running.write(CONFIGURATION, yaml.safe_dump(more))
    running.run("systemctl", "reload", UNIT)
    running.wait_until("two clusters", lambda: "watching 2 clusters" in running.property("StatusText"))
    running.write(CONFIGURATION, whole.replace("interval:", "intervall:"))
    with pytest.raises(MachineError):
        running.run("systemctl", "reload", UNIT)

    assert "autoscaler.clusters.0.intervall" in running.journal()
    assert (running.property("MainPID"), running.property("ActiveState")) == (before, "active")


MISTAKES = {
    "value": ("autoscaler.engine.kind: sparc\n", "autoscaler.engine.kind"),
    "key": ("autoscaler.engin.kind: inline\n", "autoscaler.engin.kind"),
    "syntax": ("autoscaler: [\n", CONFIGURATION),
    "no file": (None, CONFIGURATION),
}


@pytest.mark.parametrize(("text", "named"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_ends_the_start_once_is_named_and_loses_nothing(
    running: Server, flink: FakeFlink, port: int, text: str | None, named: str
) -> None:
    running.wait_until("state is written", lambda: running.code("test", "-s", STATE) == 0)
    before = running.run("stat", "--format", "%i", STATE)
    running.remove(CONFIGURATION) if text is None else running.write(CONFIGURATION, text)
    mark = len(running.journal())

    with pytest.raises(MachineError):
        running.restart(UNIT)

    assert (running.property("ActiveState"), running.property("ExecMainStatus")) == ("failed", "2")
    assert running.property("NRestarts") == "0"
    assert named in running.journal()[mark:]
    assert "Traceback" not in running.journal()[mark:]
    assert running.run("stat", "--format", "%i", STATE) == before
    configured(running, flink, port)
    running.restart(UNIT)
    assert running.property("ActiveState") == "active"


def test_cluster_that_is_away_does_not_keep_the_daemon_from_starting(server: Server, port: int) -> None:
    sections = {"clusters": [{"name": "away", "url": f"http://127.0.0.1:{free_ports(1)[0]}"}], "http": {"port": port}}
    server.write(CONFIGURATION, yaml.safe_dump({"autoscaler": {**sections, "engine": {"kind": "inline"}}}))

    server.restart(UNIT)

    server.wait_until("the failure is told", lambda: "cluster_failed" in server.journal() or "away" in server.journal())
    assert (server.property("ActiveState"), server.property("NRestarts")) == ("active", "0")


def test_stopped_process_is_restarted_by_the_watchdog(running: Server, port: int) -> None:
    before = running.property("MainPID")
    started = time.monotonic()

    running.run("kill", "-STOP", before)
    running.wait_until("another process", lambda: running.property("MainPID") not in (before, "0"), timeout=300)
    running.wait_until("it is ready", lambda: running.property("ActiveState") == "active")

    print(f"restarted by the watchdog after {time.monotonic() - started:.0f} s")
    assert running.property("NRestarts") == "1"
    assert answer(port, "/healthz")


def test_spark_evaluates_in_the_sandbox(server: Server, flink: FakeFlink, port: int) -> None:
    configured(server, flink, port, kind="spark")
    started = time.monotonic()

    server.restart(UNIT)

    server.wait_until("Spark is up", lambda: "flink_autoscaler_spark_up 1.0" in answer(port, "/metrics"), timeout=400)
    print(f"first pass on Spark after {time.monotonic() - started:.0f} s")
    assert json.loads(answer(port, "/readyz"))
