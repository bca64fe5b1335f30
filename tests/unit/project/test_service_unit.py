"""The systemd unit is one that systemd accepts and the daemon can live in."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from flink_autoscaler.standalone.settings.loading import state_directory
from flink_autoscaler.standalone.settings.schema.settings import Settings

UNIT = Path(__file__).parents[3] / "conf" / "flink-autoscaler.service"


@pytest.fixture
def service() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None, comment_prefixes=("#",), delimiters=("=",), strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    return unit["Service"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_unit_is_accepted_by_systemd(tmp_path: Path) -> None:
    # The program is not installed where the tests run.
    text = UNIT.read_text().replace("/opt/flink-autoscaler/bin/flink-autoscaler", "/bin/true")
    installed = tmp_path / UNIT.name
    installed.write_text(text)

    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(installed)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert (result.returncode, result.stderr) == (0, "")


def test_unit_waits_for_readiness_watches_the_loop_and_is_hardened(service: configparser.SectionProxy) -> None:
    expected = {"Type": "notify", "WatchdogSec": "60s", "Restart": "on-failure", "ProtectSystem": "strict"}
    expected |= {"NoNewPrivileges": "yes", "PrivateTmp": "yes", "CapabilityBoundingSet": ""}

    assert {key: service.get(key) for key in expected} == expected
    assert "MemoryDenyWriteExecute" not in service, "the JVM compiles"


def test_unit_gives_running_passes_their_grace(service: configparser.SectionProxy) -> None:
    assert float(service["TimeoutStopSec"].removesuffix("s")) > Settings().loop.shutdown_grace


def test_a_reload_checks_the_configuration_before_the_daemon_hears_of_it() -> None:
    commands = [line.partition("=")[2] for line in UNIT.read_text().splitlines() if line.startswith("ExecReload=")]

    assert [command.split()[0].rpartition("/")[2] for command in commands] == ["flink-autoscaler", "kill"]
    assert " check-config --quiet " in commands[0]
    assert commands[1] == "/bin/kill -HUP $MAINPID"


def test_what_the_daemon_learns_is_in_the_state_directory_of_the_unit(service: configparser.SectionProxy) -> None:
    given = state_directory({"STATE_DIRECTORY": f"/var/lib/{service['StateDirectory']}"})

    assert given == Path("/var/lib/flink-autoscaler")
