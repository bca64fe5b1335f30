"""Orders as people give them, and what a running daemon makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.tables import EVENTS
from testkit.scenarios.faults import BusyCluster
from testkit.scenarios.runner.process import DaemonProcess
from testkit.servers.databases import rows_of

UNFOLLOWED = {"job.autoscaler.supervised-rescales.enabled": "false"}
WHOM = ("main/orders", "--as", "ann", "--reason", "a test")


class Site:
    """A cluster whose load goes up and down, and a database."""

    def __init__(self, folder: Path, cluster: BusyCluster) -> None:
        self.settings = DatabaseSettings(f"jdbc:sqlite:{folder / 'autoscaler.db'}")
        self.cluster = cluster
        self._folder = folder

    def daemon(self, options: Mapping[str, str]) -> DaemonProcess:
        return DaemonProcess(
            self._folder, database=self.settings, cluster_url=self.cluster.urls[0], options={**options}
        )

    def told(self, reason: str) -> list[str]:
        with closing(Database(self.settings)) as database:
            return [row["message"] for row in rows_of(database, EVENTS) if row["reason"] == reason]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with BusyCluster(tmp_path) as cluster:
        yield Site(tmp_path, cluster)


def test_reset_is_carried_out_where_rescales_are_not_followed(site: Site) -> None:
    with site.daemon(UNFOLLOWED) as daemon:
        daemon.start()
        site.cluster.wait_for_puts(2)

        daemon.order("reset", *WHOM, "--yes")

        daemon.wait_for("the reset", lambda: site.told("StateReset"))
        daemon.wait_for(
            "no order is left", lambda: json.loads(daemon.call("commands", "--json").stdout)["commands"] == []
        )

        assert daemon.stop() == 0


def test_rollback_is_refused_where_rescales_are_not_followed_any_more(site: Site) -> None:
    with site.daemon({}) as daemon:
        daemon.start()
        daemon.wait_for("a rescale that was followed", lambda: site.told("RescaleReached"))
        assert daemon.stop() == 0
    daemon.order("rollback", *WHOM)

    with site.daemon(UNFOLLOWED) as daemon:
        daemon.start()
        daemon.wait_for("the refusal", lambda: site.told("RollbackImpossible"))
        assert daemon.stop() == 0

    (text,) = site.told("RollbackImpossible")
    assert "job.autoscaler.supervised-rescales.enabled is off" in text
    assert json.loads(daemon.call("commands", "--json").stdout)["commands"] == []


def test_pin_that_fits_no_vertex_is_told_with_the_names_there_are(site: Site) -> None:
    with site.daemon({}) as daemon:
        daemon.start()
        site.cluster.wait_for_puts(1)

        daemon.order("pin", "main/orders", "Sorce*=3", "Source*=2", "--force", "--as", "ann", "--reason", "a test")

        daemon.wait_for("the event", lambda: site.told("PinMatchesNothing"))
        assert daemon.stop() == 0
    lines = {line.split("  ")[1].strip(): line for line in daemon.order("commands").splitlines() if "pin " in line}
    (shown,) = json.loads(daemon.call("commands", "--json").stdout)["commands"]

    (text, *_) = site.told("PinMatchesNothing")
    assert text.startswith("The pin Sorce*=3 of ann fits no vertex; the job has '")
    assert [("fits no vertex" in line) for line in sorted(lines)] == [True, False]
    assert {pin["vertex"]: pin["fits_a_vertex"] for pin in shown["pins"]} == {"Sorce*": False, "Source*": True}
