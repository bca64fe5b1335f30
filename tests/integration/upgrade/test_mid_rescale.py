"""A daemon that is killed while a rescale is under way, and another version that takes over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.fakes.flink import FakeFlink, Fault
from testkit.scenarios.runner.process import DaemonProcess
from testkit.scenarios.upgrading import Version, driven, known_revision, said

pytestmark = [
    pytest.mark.suite(name="upgrade"),
    pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "answer lost"]),
]

RATE = 350.0
PASSES = 20
"""Passes before the cluster is done, and after: time enough for a request that must not be sent."""


class Rescaling:
    """A cluster that takes its time over a rescale, and the daemons of both versions."""

    def __init__(self, folder: Path, settings: DatabaseSettings, flink: FakeFlink) -> None:
        self.flink = flink
        self.job = flink.add_job("orders")
        self._folder = folder
        self._settings = settings

    def daemon(self, version: Version) -> DaemonProcess:
        """Return a daemon of a version that is not started yet."""
        return DaemonProcess(
            self._folder,
            f"daemon-{version.name}",
            database=self._settings,
            cluster_url=self.flink.url,
            program=version.program,
        )

    def puts(self) -> list[Mapping[str, int]]:
        """Return the parallelism that each request asked for."""
        bodies = [json.loads(json.dumps(each.body)) for each in self.flink.requests if each.method == "PUT"]
        return [{vertex: each["parallelism"]["upperBound"] for vertex, each in body.items()} for body in bodies]

    def upgrade(self, version: Version) -> None:
        """Bring the schema to a version."""
        said(self.daemon(version).call("db", "upgrade"))

    def die_mid_rescale(self, version: Version, *, is_answered: bool) -> Mapping[str, int]:
        """Run a daemon until it has asked for a rescale, and kill it; return what it asked for."""
        if not is_answered:
            self.flink.fault("/resource-requirements", Fault.HANG, method="PUT")
        with self.daemon(version) as daemon:
            daemon.start()
            daemon.wait_for("a PUT", self.puts)
            daemon.kill()
        self.flink.clear_faults()
        return self.puts()[0]

    def told(self, version: Version, reason: str) -> int:
        """Return how often an event with a reason was told."""
        shown = said(self.daemon(version).call("events", "--reason", reason, "--json"))
        return sum(json.loads(line)["count"] for line in shown.splitlines())

    def follow(self, version: Version) -> DaemonProcess:
        """Run a daemon until the cluster has done what it was asked for, and for a while after that."""
        with self.daemon(version) as daemon:
            daemon.start()
            daemon.wait_for_passes(PASSES)
            self.job.rescale({vertex: upper for vertex, (_, upper) in self.job.requirements.items()})
            daemon.wait_for("the rescale is followed", lambda: "RescaleReached" in daemon.text())
            daemon.wait_for_passes(PASSES)
            assert daemon.stop() == 0
        return daemon


@pytest.fixture
def rescaling(tmp_path: Path, settings: DatabaseSettings) -> Iterator[Rescaling]:
    with FakeFlink() as flink:
        rescaling = Rescaling(tmp_path, settings, flink)
        with driven(rescaling.job, RATE):
            yield rescaling


def test_upgrade_follows_the_rescale_that_was_under_way(
    rescaling: Rescaling, old: Version, new: Version, is_answered: bool
) -> None:
    rescaling.upgrade(old)
    asked = rescaling.die_mid_rescale(old, is_answered=is_answered)
    rescaling.upgrade(new)

    daemon = rescaling.follow(new)

    assert daemon.lines("state_quarantined", "state_set_aside") == []
    assert all(put == asked for put in rescaling.puts())
    assert rescaling.told(new, "RescaleReached") == 1


def test_way_back_follows_the_rescale_that_was_under_way(
    rescaling: Rescaling, old: Version, new: Version, is_answered: bool
) -> None:
    rescaling.upgrade(new)
    asked = rescaling.die_mid_rescale(new, is_answered=is_answered)
    refusal = rescaling.daemon(old).call("once").stderr
    said(rescaling.daemon(new).call("db", "downgrade", known_revision(refusal)))

    daemon = rescaling.follow(old)

    assert daemon.lines("state_quarantined", "state_set_aside") == []
    assert all(put == asked for put in rescaling.puts())
    assert rescaling.told(old, "RescaleReached") == 1
