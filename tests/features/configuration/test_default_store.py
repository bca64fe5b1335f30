"""A daemon without a configured state store keeps what it learns, and the commands find it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.standalone.cli.main import app
from flink_autoscaler.standalone.settings.loading import SettingsLoader, state_directory
from flink_autoscaler.standalone.settings.schema.settings import StandaloneSettings
from testkit.builders.commands import Call, command_fixture, restored_logging
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.runner.process import DaemonProcess

AT_ONCE = {"job__autoscaler__stabilization__interval": "0 s", "autoscaler__records__interval": "0 s"}


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as fake:
        fake.add_job("orders")
        yield fake


call = command_fixture(app)


def looked_once(daemon: DaemonProcess, flink: FakeFlink) -> None:
    """Have a daemon look at the job until it knows two samples."""
    daemon.configure({"main": flink.url}, **AT_ONCE)
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


def test_what_a_daemon_without_a_store_keeps_is_found_by_the_next_one_and_by_commands(
    flink: FakeFlink, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DaemonProcess(tmp_path) as daemon:
        looked_once(daemon, flink)
        daemon.start(wait=False)
        daemon.wait_for("a pass", lambda: daemon.lines("job_phase"))
        daemon.stop()
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "daemon.state"))
    config = ("--config", str(daemon.file))

    explained = call("explain", "orders", *config)
    paused = call("pause", "orders", "--reason", "a test", *config)
    ordered = call("commands", "--json", *config)
    events = call("events", "--json", *config)

    kept = daemon.lines("state_kept")
    assert {line["path"] for line in kept} == {str(tmp_path / "daemon.state" / "autoscaler.db")}
    assert daemon.lines("job_phase")[0]["phase"] != "collecting"
    assert (tmp_path / "daemon.state").stat().st_mode & 0o777 == 0o700
    assert (explained.returncode, paused.returncode) == (0, 0), explained.stderr + paused.stderr
    assert "main/orders" in explained.stdout
    assert "a test" in ordered.stdout
    assert any("a test" in json.loads(line)["message"] for line in events.stdout.splitlines())


def settings_of_a_daemon(*overrides: str) -> StandaloneSettings:
    with restored_logging():
        return SettingsLoader(None, ["autoscaler.log.format=json", *overrides]).read_for_daemon().standalone


@pytest.mark.parametrize("store", ["MEMORY", "heap"])
def test_daemon_that_is_told_to_keep_state_in_memory_writes_no_file(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))

    settings = settings_of_a_daemon(f"autoscaler.standalone.state-store.type={store}")

    assert (settings.state_store, settings.jdbc_url) == ("heap", None)
    assert not (tmp_path / "state").exists()
    assert capsys.readouterr().err == ""


def test_daemon_that_can_write_nowhere_says_so_and_keeps_state_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("not a directory")
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))

    settings = settings_of_a_daemon()

    line = json.loads(capsys.readouterr().err)
    assert (settings.state_store, settings.jdbc_url) == (None, None)
    assert (line["event"], line["level"]) == ("state_in_memory", "warning")
    assert str(tmp_path / "state") in line["reason"]


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
