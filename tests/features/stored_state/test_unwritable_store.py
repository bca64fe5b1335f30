"""A database that answers and does not take what is to be kept: a full disk, a dropped table, a withdrawn right."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event, text
from sqlalchemy.pool import Pool

from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.tables import JOBS, ORDERS, STATE
from testkit.builders.sql.command_line import call
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.faults import BusyCluster
from testkit.scenarios.runner import LogLines
from testkit.scenarios.runner.process import DaemonProcess
from testkit.scenarios.runner.wired import in_database, settings_on, started
from testkit.servers.databases import DatabaseServer

UNLIMITED = 1 << 30


class Disk:
    """Room for the files of all connections of this process."""

    def __init__(self) -> None:
        self.is_full = False

    def limit(self, connection: sqlite3.Connection, *_: object) -> None:
        # Less than there are already means no page more.
        connection.execute(f"PRAGMA max_page_count = {1 if self.is_full else UNLIMITED}")


@contextmanager
def a_disk() -> Iterator[Disk]:
    disk = Disk()
    event.listen(Pool, "checkout", disk.limit)
    try:
        yield disk
    finally:
        event.remove(Pool, "checkout", disk.limit)


def test_full_disk_is_not_ready_until_something_was_really_written(tmp_path: Path, lines: LogLines) -> None:
    with ExitStack() as parts:
        flink, disk = parts.enter_context(FakeFlink()), parts.enter_context(a_disk())
        flink.add_job("orders")
        settings = settings_on(flink.url, in_database(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}"))
        wiring, passes = parts.enter_context(started(settings))
        health = Health({"main": 60.0}, store=wiring.storage.store_status)
        assert passes.run().is_clean
        health.record_success("main")
        was_ready = health.readiness().ready

        disk.is_full = True
        wait_until("the full disk", lambda: passes.run() and not health.readiness().ready, 300, interval=0.01)
        during = [(passes.run(), health.readiness())[1] for _ in range(20)]
        disk.is_full = False
        wait_until("room", lambda: passes.run() and health.readiness().ready, 300, interval=0.01)

    assert was_ready
    assert {(each.ready, each.store.up) for each in during} == {(False, False)}
    assert "its disk is full: free some space" in (during[0].store.error or "")
    assert [line["event"] for line in lines.all() if line["event"].startswith("store_")] == [
        "store_unavailable",
        "store_recovered",
    ]


REFUSE_ONE = f"""
CREATE TRIGGER refuse_one BEFORE INSERT ON {STATE.name} WHEN NEW.job_key = 'main/sick'
BEGIN SELECT RAISE(ABORT, 'not this job'); END
"""


def test_value_of_one_job_that_is_refused_is_no_outage(tmp_path: Path, lines: LogLines) -> None:
    with ExitStack() as parts:
        flink = parts.enter_context(FakeFlink())
        for name in ("orders", "sick"):
            flink.add_job(name)
        url = f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}"
        wiring, passes = parts.enter_context(started(settings_on(flink.url, in_database(url))))
        run(DatabaseSettings(url), REFUSE_ONE)
        reports = [passes.run() for _ in range(3)]
        wait_until("a look", lambda: not wiring.storage.is_degraded(), 300, interval=0.01)
        status = wiring.storage.store_status()

    assert all("not this job" in str(report.reports["main/sick"].errors[0]) for report in reports)
    assert all(report.reports["main/orders"].errors == () for report in reports)
    assert status.up
    assert lines.of("store_unavailable") == []


class Site:
    """A cluster whose load goes up and down, and a daemon."""

    def __init__(self, folder: Path, cluster: BusyCluster, settings: DatabaseSettings) -> None:
        self.settings = settings
        self.cluster = cluster
        self.daemon = DaemonProcess(folder, database=settings, cluster_url=cluster.urls[0])

    def until_away(self) -> str:
        """Wait until the daemon says that the store is away, see that it sends nothing, and return what it says."""
        daemon = self.daemon
        (line,) = daemon.wait_for("that it is noticed", lambda: daemon.lines("store_unavailable"))
        before, since = len(self.cluster.puts()), time.monotonic()
        # The load of the cluster changes once a second.
        daemon.wait_for("two loads", lambda: time.monotonic() - since > 2.2)
        status, body = daemon.get("/readyz")
        assert (len(self.cluster.puts()), status, json.loads(body)["store"]["up"]) == (before, 503, False)
        assert "flink_autoscaler_store_up 0.0" in daemon.get("/metrics")[1]
        assert len(daemon.lines("store_unavailable")) == 1
        return str(line["error"])

    def until_back(self) -> None:
        """Wait until the daemon says that it is back and scales again."""
        self.daemon.wait_for("that it is back", lambda: self.daemon.lines("store_recovered"))
        self.cluster.wait_for_puts(1)
        self.daemon.wait_for("ready", lambda: self.daemon.get("/readyz")[0] == 200)


@contextmanager
def a_site(folder: Path, settings: DatabaseSettings) -> Iterator[Site]:
    assert call(settings, "db", "upgrade").returncode == 0
    with BusyCluster(folder) as cluster:
        site = Site(folder, cluster, settings)
        with site.daemon:
            site.daemon.start()
            cluster.wait_for_puts(1)
            yield site
            assert site.daemon.stop() == 0


def run(settings: DatabaseSettings, *statements: str) -> None:
    with closing(Database(settings)) as database, database.transaction() as connection:
        for statement in statements:
            connection.execute(text(statement))


@pytest.mark.parametrize("table", [JOBS.name, STATE.name, ORDERS.name])
def test_dropped_table_is_told_until_it_is_made_again(tmp_path: Path, table: str) -> None:
    settings = DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")
    with a_site(tmp_path, settings) as site:
        run(settings, f"DROP TABLE {table}")
        error = site.until_away()
        upgraded = call(settings, "db", "upgrade")
        site.until_back()

    assert f"no such table: {table}" in error
    assert "run 'flink-autoscaler db upgrade'" in error
    assert f"created {table}" in upgraded.stdout


def test_withdrawn_right_to_write_is_told_until_it_is_given_back(
    tmp_path: Path, postgresql_server: DatabaseServer
) -> None:
    owner = postgresql_server.new_database()
    role = "reader_" + owner.url.rsplit("/", 1)[1].split("?")[0]
    assert call(owner, "db", "upgrade").returncode == 0
    rights = f"SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}"
    run(
        owner,
        f"CREATE ROLE {role} LOGIN PASSWORD 'daemon'",
        f"GRANT {rights}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}",
    )
    settings = DatabaseSettings(owner.url, role, "daemon")
    with a_site(tmp_path, settings) as site:
        run(owner, f"REVOKE UPDATE ON {STATE.name} FROM {role}")
        error = site.until_away()
        run(owner, f"GRANT {rights}")
        site.until_back()

    assert "the user may not do this: grant SELECT, INSERT, UPDATE and DELETE" in error
