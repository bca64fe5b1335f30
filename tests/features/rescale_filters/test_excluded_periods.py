"""Excluded periods hold in a daemon that runs, by the clock of the zone that they name."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.scenarios.faults import BusyCluster
from testkit.scenarios.runner.process import DaemonProcess

PERIODS = "job.autoscaler.excluded.periods"


def zone_where_it_is(hour: int) -> str:
    """Return a zone in which it is that hour now; the sign of these names is turned round."""
    offset = (hour - datetime.now(UTC).hour + 11) % 24 - 11
    return f"Etc/GMT{-offset:+d}"


@pytest.mark.parametrize("text", ["22:00-02:00 in {}", "from=22:00, to=02:00, timezone={}"])
def test_a_period_over_midnight_holds_at_night_and_not_at_noon(tmp_path: Path, text: str) -> None:
    jobs = {name: {PERIODS: text.format(zone_where_it_is(hour))} for name, hour in (("night", 23), ("noon", 12))}
    database = DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")
    with (
        BusyCluster(tmp_path, jobs=jobs) as cluster,
        DaemonProcess(tmp_path, database=database, cluster_url=cluster.urls[0]) as daemon,
    ):
        daemon.start()
        cluster.wait_for_puts(3, job="noon")
        daemon.wait_for("a rescale that is held", lambda: "excluded.periods" in daemon.call("events").stdout)

    assert {put.job for put in cluster.puts()} == {"noon"}
