"""The journal of the database is deleted under a daemon: it stops, says so, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.scenarios.faults import BusyCluster
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.suite(name="hostile")


@pytest.mark.guard
def test_a_pause_outlives_a_deleted_journal_and_a_kill(tmp_path: Path) -> None:
    database = DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")
    with (
        BusyCluster(tmp_path) as cluster,
        DaemonProcess(tmp_path, database=database, cluster_url=cluster.urls[0]) as daemon,
    ):
        daemon.start()
        cluster.wait_for_puts(1)
        paused = daemon.call("pause", "main/orders", "--reason", "a test", "--as", "ann")
        (tmp_path / "autoscaler.db-wal").unlink()
        daemon.wait_for("that it is noticed", lambda: daemon.lines("store_unavailable"))
        is_ready = daemon.get("/readyz")[0] == 200
        daemon.kill()
        before = len(cluster.puts())
        daemon.start()
        orders = daemon.call("commands").stdout
        sent = len(cluster.puts()) - before

    assert paused.returncode == 0, paused.stderr
    assert not is_ready
    assert "a test" in orders
    assert sent == 0
