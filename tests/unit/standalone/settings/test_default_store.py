"""A daemon without a configured state store keeps what it learns, and the commands find it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.standalone.cli.main import app
from flink_autoscaler.standalone.settings.loading import state_directory
from testkit.builders.commands import Call, commands
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.runner.process import DaemonProcess

AT_ONCE = {"job__autoscaler__stabilization__interval": "0 s", "autoscaler__records__interval": "0 s"}


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as fake:
        fake.add_job("orders")
        yield fake


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    with commands(app, capsys, monkeypatch) as call:
        yield call


def looked_once(daemon: DaemonProcess, flink: FakeFlink, **options: str) -> None:
    """Have a daemon look at the job until it knows two samples."""
    daemon.configure({"main": flink.url}, **AT_ONCE, **options)
    daemon.start()
    phases = ("window_filling", "executed")
    daemon.wait_for("two samples", lambda: any(line["phase"] in phases for line in daemon.lines("job_phase")))
    assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"STATE_DIRECTORY": "/var/lib/a", "XDG_STATE_HOME": "/x"}, "/var/lib/a", id="systemd's"),
        pytest.param({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}, "/var/lib/a", id="the first of systemd's"),
        pytest.param({"XDG_STATE_HOME": "/x"}, "/x/flink-autoscaler", id="of the desktop specification"),
        pytest.param({"XDG_STATE_HOME": "x"}, "/h/.local/state/flink-autoscaler", id="a relative one is ignored"),
        pytest.param({}, "/h/.local/state/flink-autoscaler", id="below the home directory"),
    ],
)
def test_state_directory_is_the_first_that_the_environment_names(
    environment: Mapping[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/h")

    assert state_directory(environment) == Path(expected)


def test_daemon_without_a_store_says_where_it_keeps_state_and_goes_on_after_a_restart(
    flink: FakeFlink, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path) as daemon:
        looked_once(daemon, flink)
        daemon.start(wait=False)
        daemon.wait_for("a pass", lambda: daemon.lines("job_phase"))
        daemon.stop()

    kept = daemon.lines("state_kept")
    assert {line["path"] for line in kept} == {str(tmp_path / "daemon.state" / "autoscaler.db")}
    assert daemon.lines("job_phase")[0]["phase"] != "collecting"
    assert (tmp_path / "daemon.state").stat().st_mode & 0o777 == 0o700


def test_commands_find_what_a_daemon_without_a_store_has_kept(
    flink: FakeFlink, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DaemonProcess(tmp_path) as daemon:
        looked_once(daemon, flink)
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "daemon.state"))
    config = ("--config", str(daemon.file))

    explained = call("explain", "orders", *config)
    paused = call("pause", "orders", "--reason", "a test", *config)
    ordered = call("orders", "--json", *config)
    events = call("events", "--json", *config)

    assert explained.returncode == 0, explained.stderr
    assert "main/orders" in explained.stdout
    assert paused.returncode == 0, paused.stderr
    assert "a test" in ordered.stdout
    assert any("a test" in json.loads(line)["message"] for line in events.stdout.splitlines())


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"autoscaler__standalone__state-store.type": "MEMORY"}, id="memory was asked for"),
        pytest.param({"autoscaler__standalone__state-store.type": "heap"}, id="heap was asked for"),
    ],
)
def test_daemon_that_is_told_to_keep_state_in_memory_writes_no_file(
    flink: FakeFlink, tmp_path: Path, options: dict[str, str]
) -> None:
    with DaemonProcess(tmp_path) as daemon:
        looked_once(daemon, flink, **options)

    assert not (tmp_path / "daemon.state").exists()
    assert daemon.lines("state_kept") + daemon.lines("state_in_memory") == []


def test_daemon_that_can_write_nowhere_says_so_and_keeps_state_in_memory(flink: FakeFlink, tmp_path: Path) -> None:
    (tmp_path / "daemon.state").write_text("not a directory")

    with DaemonProcess(tmp_path) as daemon:
        looked_once(daemon, flink)

    (line,) = daemon.lines("state_in_memory")
    assert line["level"] == "warning"
    assert "daemon.state" in line["reason"]


def test_once_keeps_no_state(flink: FakeFlink, call: Call) -> None:
    said = call("once", "--set", f"autoscaler.clusters.0.url={flink.url}", *_set(QUIET))

    assert said.returncode == 0, said.stderr
    assert not Path(os.environ["STATE_DIRECTORY"]).exists()


QUIET: dict[str, Any] = {
    "autoscaler.clusters.0.name": "main",
    "autoscaler.engine.kind": "inline",
    "job.autoscaler.enabled": "true",
}


def _set(options: Mapping[str, str]) -> list[str]:
    return [text for key, value in options.items() for text in ("--set", f"{key}={value}")]
