"""The command as users run it: a process, its output and its exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from testkit.builders.forked_command import run_command
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeMetricStore, Fault, chain

COMMANDS = ("run", "once", "jobs", "check-config")
INLINE = ("--set", "autoscaler.engine.kind=inline")
NO_HTTP = ("--set", "autoscaler.http.enabled=false")
ENABLED = ("--set", "job.autoscaler.enabled=true")
PATIENT = ("--set", "job.autoscaler.flink.rest-client.timeout=300s")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AUTOSCALER", "FLINK"))}
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(extra or {})}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "flink_autoscaler.standalone", *arguments]


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(arguments, environment())


def at(flink: FakeFlink) -> tuple[str, ...]:
    port = flink.url.rsplit(":", 1)[1]
    prefix = "autoscaler.standalone.fetcher.flink-cluster."
    # What the commands show does not depend on the engine, and Spark takes ten seconds to start.
    values = (f"{prefix}host=127.0.0.1", f"{prefix}port={port}", "autoscaler.engine.kind=inline")
    return tuple(argument for value in values for argument in ("--set", value))


@pytest.fixture
def two_clusters(flink: FakeFlink, tmp_path: Path) -> Iterator[tuple[Path, FakeFlink, FakeFlink]]:
    with FakeFlink() as other:
        file = tmp_path / "autoscaler.yaml"
        clusters = [{"name": "main", "url": flink.url}, {"name": "other", "url": other.url}]
        # JSON is YAML.
        file.write_text(json.dumps({"autoscaler": {"clusters": clusters}, "job.autoscaler.enabled": True}))
        yield file, flink, other


def test_help_names_every_command() -> None:
    result = call("--help")

    assert result.returncode == 0
    assert all(name in result.stdout for name in COMMANDS)


def test_call_without_a_command_shows_the_help() -> None:
    result = call()

    assert result.returncode == 2
    assert all(name in result.stderr for name in COMMANDS)


def test_version_is_shown() -> None:
    assert re.fullmatch(r"flink-autoscaler \d+\.\d+\.\d+\S*\n", call("--version").stdout)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(("once", "--bogus"), "--bogus", id="unknown option"),
        pytest.param(("bogus",), "bogus", id="unknown command"),
        pytest.param(("once", "--set", "nonsense"), "expected key=value", id="not a pair"),
        pytest.param(("run", "--config", "/nonexistent.yaml"), "/nonexistent.yaml", id="no such file"),
        pytest.param(("run", "--set", "autoscaler.http.prt=1"), "autoscaler.http.port", id="mistyped key"),
        pytest.param(("once", "--cluster", "mian"), "default", id="unknown cluster"),
    ],
)
def test_mistake_is_one_line_and_exit_code_2(arguments: tuple[str, ...], expected: str) -> None:
    result = call(*arguments)

    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert expected in result.stderr


def test_debug_shows_the_traceback() -> None:
    result = call("once", "--debug", "--cluster", "mian")

    assert result.returncode == 2
    assert "Traceback" in result.stderr


def test_once_is_the_first_thing_that_works(flink: FakeFlink) -> None:
    flink.add_job("orders")

    result = call("once", *at(flink), *ENABLED)

    assert result.returncode == 0, result.stderr
    header, row = result.stdout.splitlines()
    assert header.split() == ["JOB", "STATUS", "PHASE", "DECISION", "WHY"]
    assert row.split()[:4] == ["default/orders", "RUNNING", "collecting", "hold"]


def test_once_prints_nothing_but_json_on_standard_output(flink: FakeFlink) -> None:
    job = flink.add_job("orders", chain(vertices=2, parallelism=3))

    result = call("once", *at(flink), *ENABLED, "--json")

    (cluster,) = json.loads(result.stdout)["clusters"]
    (shown,) = cluster["jobs"]
    assert (cluster["cluster"], cluster["error"]) == ("default", None)
    assert (shown["job_key"], shown["job_id"], shown["enabled"]) == ("default/orders", job.job_id, True)
    assert (shown["phase"], shown["decision"], shown["samples"]) == ("collecting", "hold", 1)
    assert [(vertex["parallelism"], vertex["recommended"]) for vertex in shown["vertices"]] == [(3, None), (3, None)]


def test_once_shows_jobs_with_odd_names_as_they_are(flink: FakeFlink) -> None:
    flink.add_job("[bold]orders[/] \x1b[31m")

    result = call("once", *at(flink), *ENABLED)

    assert "default/[bold]orders[/] ?[31m" in result.stdout
    assert "\x1b" not in result.stdout


def test_once_fails_when_the_cluster_does_not_answer(flink: FakeFlink) -> None:
    flink.pause()

    result = call("once", *at(flink))

    assert result.returncode == 1
    assert result.stdout.splitlines()[1].split()[:4] == ["default", "-", "error", "-"]
    assert "Traceback" not in result.stderr


def test_once_shows_the_good_cluster_beside_the_bad_one(two_clusters: tuple[Path, FakeFlink, FakeFlink]) -> None:
    file, flink, other = two_clusters
    flink.fault("/jobs/overview", Fault.HTML)
    other.add_job("orders")

    result = call("once", "--config", str(file))

    assert result.returncode == 1
    assert "other/orders" in result.stdout


def test_once_looks_at_one_cluster_only(two_clusters: tuple[Path, FakeFlink, FakeFlink]) -> None:
    file, flink, other = two_clusters
    other.add_job("orders")

    result = call("once", "--config", str(file), "--cluster", "other")

    assert result.returncode == 0
    assert flink.requests == []


@pytest.mark.parametrize("pattern", ["default/ord*", "orders", "o?ders"])
def test_once_looks_at_matching_jobs_only(flink: FakeFlink, pattern: str) -> None:
    flink.add_job("orders")
    flink.add_job("payments")

    result = call("once", *at(flink), *ENABLED, "--job", pattern)

    assert result.returncode == 0
    assert "default/orders" in result.stdout
    assert "payments" not in result.stdout


def test_once_without_a_matching_job_fails(flink: FakeFlink) -> None:
    flink.add_job("orders")

    result = call("once", *at(flink), "--job", "nothing*")

    assert result.returncode == 1
    assert "no job matches 'nothing*'" in result.stderr


def test_once_sends_no_put_in_a_dry_run(flink: FakeFlink) -> None:
    flink.add_job("orders")

    call("once", *at(flink), *ENABLED, "--dry-run")

    assert flink.paths("PUT") == []


def test_reader_that_has_seen_enough_is_no_error(flink: FakeFlink) -> None:
    flink.add_job("orders")
    process = subprocess.Popen(
        command("check-config"), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()

    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait(timeout=300)


def test_jobs_lists_every_job(flink: FakeFlink) -> None:
    job = flink.add_job("orders", chain(vertices=2, parallelism=3), configuration={"job.autoscaler.enabled": "true"})
    flink.add_job("done", state="FINISHED")

    result = call("jobs", *at(flink))

    rows = [line.split() for line in result.stdout.splitlines()]
    assert result.returncode == 0
    assert rows[1] == ["default/orders", job.job_id, "RUNNING", "yes", "3"]
    assert rows[2][0] == "default/done"
    assert rows[2][2:] == ["FINISHED", "no", "-"]


def test_jobs_without_any_says_so(flink: FakeFlink) -> None:
    flink.taskmanagers = [{"id": "a", "slotsNumber": 16, "freeSlots": 8}]

    result = call("jobs", *at(flink))

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "no jobs\n")


def test_check_config_shows_values_without_secrets() -> None:
    result = call("check-config", "--set", "autoscaler.http.port=1234", "--set", "some.password=hunter2", "--json")

    values = {value["key"]: value for value in json.loads(result.stdout)["values"]}
    assert result.returncode == 0
    assert values["autoscaler.http.port"]["value"] == "1234"
    assert "hunter2" not in result.stdout


JDBC = ("--set", "autoscaler.standalone.state-store.type=jdbc")


def kept_in(url: str) -> tuple[str, ...]:
    return *JDBC, "--set", f"autoscaler.standalone.jdbc.url={url}"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param(kept_in("jdbc:sqlit:/x.db"), "names the database 'sqlit'", id="unknown database"),
        pytest.param(kept_in("jdbc:sqlite:/no/such/folder/x.db"), "/no/such/folder", id="folder that is not there"),
        pytest.param(("--set", "autoscaler.history.enabled=true"), "autoscaler.history.path", id="history nowhere"),
        pytest.param(
            ("--set", "autoscaler.engine.kind=spark", "--set", "autoscaler.engine.spark-master=sc://127.0.0.1:1"),
            "a Spark Connect server evaluates no passes",
            id="Spark Connect",
        ),
    ],
)
def test_what_run_refuses_is_refused_by_check_config(settings: tuple[str, ...], said: str) -> None:
    checked = call("check-config", *INLINE, *settings)
    run = call("run", *INLINE, *NO_HTTP, *settings)

    assert (checked.returncode, run.returncode) == (2, 2)
    assert all(said in each.stderr for each in (checked, run))
    assert checked.stderr.startswith("error: ")
    assert "autoscaler.http.port" in checked.stdout


def test_check_config_leaves_no_trace(tmp_path: Path) -> None:
    checked = call("check-config", *kept_in(f"jdbc:sqlite:{tmp_path}/x.db"), "--connect", "--json")

    document = json.loads(checked.stdout)
    assert (document["problems"], list(tmp_path.iterdir())) == ([], [])


def test_check_config_asks_database_and_clusters_when_told_to(
    two_clusters: tuple[Path, FakeFlink, FakeFlink], tmp_path: Path
) -> None:
    file, flink, other = two_clusters
    flink.add_job("orders")
    other.fault("/jobs/overview", Fault.HTML)
    store = kept_in(f"jdbc:sqlite:{tmp_path}/x.db")
    upgraded = call("db", "upgrade", "--config", str(file), *store)

    offline = call("check-config", "--config", str(file), *store)
    checked = call("check-config", "--config", str(file), *store, "--connect")

    assert (upgraded.returncode, offline.returncode, checked.returncode) == (0, 0, 1)
    assert "cluster main: ok: it answers, with 1 job" in checked.stdout
    assert "cluster other: FAILED: " in checked.stdout
    assert "database, connection: ok: " in checked.stdout
    assert "cluster main" not in offline.stdout


class Running:
    """A daemon process."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            command("run", *arguments),
            env=environment(variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def first_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def hear(self, event: str) -> dict[str, Any]:
        """Read the log up to the first line of an event."""
        assert self.process.stderr is not None
        lines = map(json.loads, self.process.stderr)
        return next(line for line in lines if line["event"] == event)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=300)
        return self.process.returncode, errors

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=300)


def lines_of(errors: str) -> list[str]:
    return [json.loads(line)["event"] for line in errors.splitlines()]


# A window that is full after a second, and vertices that are always busy.
IMPATIENT = (
    *ENABLED,
    *INLINE,
    *NO_HTTP,
    *("--set", "autoscaler.standalone.control-loop.interval=100ms"),
    *("--set", "job.autoscaler.metrics.window=500ms"),
    *("--set", "job.autoscaler.stabilization.interval=0s"),
)


def an_overloaded_job(flink: FakeFlink) -> None:
    job = flink.add_job("orders", chain(sources=1, vertices=2), obeys=True)
    job.vertices[1].metrics["busyTimeMsPerSecond"] = 1000.0


def keep_counting(flink: FakeFlink) -> None:
    """Let the counters grow as they do while a job works."""
    for job in flink.jobs.values():
        source, operator = job.vertices
        for name in ("Source__source_0.numRecordsIn", "Source__source_0.numRecordsOut"):
            source.metrics[name] = operator.records_in + 10.0
        source.records_out = operator.records_in = operator.records_in + 10


def test_overloaded_job_is_rescaled_until_a_signal_ends_the_daemon_in_good_order(flink: FakeFlink) -> None:
    an_overloaded_job(flink)

    def rescaled() -> bool:
        keep_counting(flink)
        return bool(flink.paths("PUT"))

    with Running(*at(flink), *IMPATIENT) as daemon:
        announcement = daemon.first_line()
        wait_until("a PUT", rescaled, timeout=300, interval=0.05)
        code, errors = daemon.stop()

    (requested, *_) = [
        line for line in map(json.loads, errors.splitlines()) if line["event"] == "job_rescale_requested"
    ]
    assert announcement == f"watching 1 cluster: default ({flink.url}, inline)\n"
    assert code == 0
    # A pass that outlasts its grace may say something of its own after that.
    assert [line for line in lines_of(errors) if line in ("stopping", "stopped")] == ["stopping", "stopped"]
    assert requested["job_key"] == "default/orders"
    assert max(requested["parallelism"].values()) > 1
    assert requested["cause"] == "load"
    assert [(change["from"], change["to"] > 1) for change in requested["changes"]] == [(1, True)]
    assert {change["vertex_id"]: change["to"] for change in requested["changes"]}.items() <= requested[
        "parallelism"
    ].items()
    assert requested["text"] == f"{requested['changes'][0]['vertex']} 1 → {requested['changes'][0]['to']}"


def test_pass_that_hangs_is_given_the_grace_only(flink: FakeFlink) -> None:
    flink.fault("/jobs/overview", Fault.HANG)
    brief = ("--set", "autoscaler.loop.shutdown-grace=200ms")
    with Running(*at(flink), *INLINE, *NO_HTTP, *PATIENT, *brief) as daemon:
        wait_until("the first request", lambda: flink.requests, timeout=300, interval=0.01)

        code, errors = daemon.stop()

    assert code == 0
    assert "pass_abandoned" in lines_of(errors)


def test_second_ctrl_c_ends_the_daemon_at_once(flink: FakeFlink) -> None:
    flink.fault("/jobs/overview", Fault.HANG)
    slow = ("--set", "job.autoscaler.flink.rest-client.timeout=25s", "--set", "autoscaler.loop.shutdown-grace=25s")
    with Running(*at(flink), *INLINE, *NO_HTTP, *slow) as daemon:
        wait_until("the first request", lambda: flink.requests, timeout=300, interval=0.01)
        daemon.process.send_signal(signal.SIGINT)
        daemon.hear("stopping")

        code, errors = daemon.stop(signal.SIGINT)

    assert code == 130
    assert "Traceback" not in errors


def test_port_in_use_is_a_clear_error(flink: FakeFlink) -> None:
    result = call("run", *at(flink), *INLINE, "--set", f"autoscaler.http.port={flink.url.rsplit(':', 1)[1]}")

    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith("error: http: cannot listen on 127.0.0.1:")
    assert "Traceback" not in result.stderr


def test_daemon_tells_systemd_and_serves_its_pages(flink: FakeFlink, tmp_path: Path) -> None:
    flink.add_job("orders")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(300)
        variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with Running(*at(flink), *ENABLED, *INLINE, "--set", "autoscaler.http.port=0", **variables) as daemon:
            messages = [systemd.recv(4096).decode() for _ in range(4)]
            url = daemon.hear("http_listening")["url"]
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            health = opener.open(f"{url}/healthz", timeout=60).status

            code, _ = daemon.stop()
            messages += _rest(systemd)

    assert code == 0
    assert health == 200
    assert [message for message in messages if message != "WATCHDOG=1"] == [
        f"READY=1\nSTATUS=watching 1 cluster: default ({flink.url}, inline)",
        "STOPPING=1\nSTATUS=finishing the passes that run",
    ]
    assert messages.count("WATCHDOG=1") >= 2


def _rest(channel: socket.socket) -> list[str]:
    channel.setblocking(False)
    messages = []
    while True:
        try:
            messages.append(channel.recv(4096).decode())
        except BlockingIOError:
            return messages


def test_once_waits_shortly_for_the_metrics_of_a_job_that_nobody_asked_about() -> None:
    with FakeFlink(store=FakeMetricStore(10.0)) as flink:
        flink.add_job("orders", start_ms=1)

        result = call("once", *at(flink), *ENABLED)

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1].split()[:4] == ["default/orders", "RUNNING", "collecting", "hold"]
    assert "no metric" not in result.stderr


def test_once_says_that_flink_has_no_metrics_yet() -> None:
    with FakeFlink(store=FakeMetricStore(10.0, takes=60.0)) as flink:
        flink.add_job("orders", start_ms=1)

        result = call("once", *at(flink), *ENABLED)

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1].split()[:4] == ["default/orders", "RUNNING", "not_ready", "hold"]
    assert "Flink has no metrics yet" in result.stdout


EMR = """job.autoscaler.enabled: true
job.autoscaler.decision.interval: 60s
job.autoscaler.debug.logs.interval: 60s
job.autoscaler.autotune.enable: true
"""


@pytest.mark.parametrize("name", ["config.yaml", "flink-conf.yaml"])
def test_keys_of_others_in_flinks_file_are_one_warning_each(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(EMR)
    own = tmp_path / "autoscaler.yaml"
    own.write_text(EMR)

    result = run_command(["check-config"], environment({"FLINK_CONF_DIR": str(tmp_path)}))
    strict = call("check-config", "--config", str(own))

    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    assert [said.count(f"job.autoscaler.{key} (") for key in ("decision.interval", "autotune.enable")] == [1, 1]
    assert "did you mean" not in said
    assert "unknown key of this autoscaler, ignored" in " ".join(said.split())
    assert strict.returncode == 2
