"""The SQLite file of a running daemon is deleted, moved, replaced, or used by a second daemon."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from flink_autoscaler.stores.sql.tables import DECISIONS, LEASE
from testkit.scenarios.faults import BusyCluster
from testkit.scenarios.runner.process import DaemonProcess
from testkit.servers.databases import rows_of

JOB = "main/orders"


class Site:
    """A cluster whose load goes up and down, and a daemon with a database file."""

    def __init__(self, folder: Path, cluster: BusyCluster) -> None:
        self.path = folder / "autoscaler.db"
        self.settings = DatabaseSettings(f"jdbc:sqlite:{self.path}")
        self.cluster = cluster
        self._folder = folder

    def daemon(self, name: str = "daemon") -> DaemonProcess:
        return DaemonProcess(self._folder, name, database=self.settings, cluster_url=self.cluster.urls[0])

    def learned(self) -> set[str]:
        with closing(Database(self.settings)) as database:
            state = SqlStateStore(database).load(JOB)
        return {name for name in ("history", "overrides", "samples") if getattr(state, name)}

    def records(self) -> int:
        with closing(Database(self.settings)) as database:
            return len(rows_of(database, DECISIONS))


def readiness(daemon: DaemonProcess) -> tuple[int, str]:
    status, body = daemon.get("/readyz")
    return status, json.loads(body)["store"].get("error") or ""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with BusyCluster(tmp_path) as cluster:
        yield Site(tmp_path, cluster)


def test_nothing_is_sent_while_the_file_is_deleted_and_the_daemon_says_so_once(site: Site) -> None:
    with site.daemon() as daemon:
        daemon.start()
        site.cluster.wait_for_puts(2)
        site.path.unlink()
        daemon.wait_for("that it is noticed", lambda: daemon.lines("store_unavailable"))
        before = len(site.cluster.puts())
        daemon.wait_for_passes(30)
        sent = len(site.cluster.puts()) - before
        status, error = readiness(daemon)
        alive = daemon.get("/healthz")[0]
        lines = daemon.lines("store_unavailable")
        code = daemon.stop()

    assert (sent, status, alive, code, len(lines)) == (0, 503, 200, 0, 1)
    assert f"{site.path}: its file was deleted or moved while it was in use" in error
    assert "put it back" in lines[0]["error"]
    assert not site.path.exists()


def test_daemon_goes_on_when_the_file_is_back(site: Site) -> None:
    aside = site.path.with_name("aside.db")
    with site.daemon() as daemon:
        daemon.start()
        site.cluster.wait_for_puts(2)
        site.path.rename(aside)
        daemon.wait_for("that it is noticed", lambda: daemon.lines("store_unavailable"))
        status, _ = readiness(daemon)
        aside.rename(site.path)
        daemon.wait_for("that it is back", lambda: daemon.lines("store_recovered"))
        site.cluster.wait_for_puts(1)
        code = daemon.stop()

    assert (status, code) == (503, 0)
    assert site.learned() >= {"history", "samples"}


def test_replaced_file_is_not_touched_until_the_daemon_is_started_again(site: Site) -> None:
    with site.daemon() as daemon:
        daemon.start()
        site.cluster.wait_for_puts(2)
        other = site.path.with_name("backup.db")
        shutil.copy(site.path, other)
        os.replace(other, site.path)
        daemon.wait_for("that it is noticed", lambda: daemon.lines("store_unavailable"))
        content, before = site.path.read_bytes(), len(site.cluster.puts())
        daemon.wait_for_passes(30)
        sent = len(site.cluster.puts()) - before
        status, error = readiness(daemon)
        is_untouched = site.path.read_bytes() == content
        code = daemon.stop()

    assert (sent, status, code, is_untouched) == (0, 503, 0, True)
    assert "its file was replaced by another one while it was in use" in error
    assert "restart the daemon" in error


def test_second_daemon_with_the_file_is_refused_with_what_to_do(site: Site) -> None:
    with site.daemon() as first, site.daemon("second") as second:
        first.start()
        site.cluster.wait_for_puts(1)
        second.start(wait=False)
        code = second.exit_code()
        (line,) = [line for line in second.text().splitlines() if line.startswith("error: ")]
        first.kill()
        second.start()
        site.cluster.wait_for_puts(1)

    assert code == 2
    assert f"another daemon works with {site.path} already (process {first.pid} on " in line
    assert "autoscaler.ha.enabled" in line


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_deleted_journal_stops_the_daemon_and_loses_nothing(site: Site, suffix: str) -> None:
    with site.daemon() as daemon:
        daemon.start()
        site.cluster.wait_for_puts(2)
        paused = daemon.call("pause", JOB, "--reason", "a test", "--as", "ann")
        daemon.wait_for_passes(3)
        site.path.with_name(f"{site.path.name}{suffix}").unlink()
        daemon.wait_for("that it is noticed", lambda: daemon.lines("store_unavailable"))
        before = len(site.cluster.puts())
        daemon.wait_for_passes(8)
        status, error = readiness(daemon)
        daemon.kill()
        learned = site.learned()
        daemon.start()
        daemon.wait_for_passes(8)
        sent = len(site.cluster.puts()) - before
        orders = daemon.call("commands")

    assert paused.returncode == 0, paused.stderr
    assert (status, sent) == (503, 0)
    assert f"{site.path.name}{suffix} beside its file was deleted or replaced while it was in use" in error
    assert learned >= {"history", "samples"}
    assert "a test" in orders.stdout


def test_main_file_alone_has_everything_soon(site: Site, tmp_path: Path) -> None:
    copy = DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'copy.db'}")

    def is_complete() -> bool:
        shutil.copy(site.path, tmp_path / "copy.db")
        with closing(Database(copy)) as database:
            return bool(rows_of(database, DECISIONS))

    with site.daemon() as daemon:
        daemon.start()
        tables = schema_of(site.path)
        site.cluster.wait_for_puts(1)
        daemon.wait_for("a checkpoint", is_complete)

    assert "fa_order" in tables


def schema_of(path: Path) -> set[str]:
    """Return the tables of the main file, without what is in the journal."""
    copy = path.with_name("schema.db")
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_daemon_that_was_held_up_does_not_act_beside_its_successor(site: Site) -> None:
    with site.daemon() as first, site.daemon("second") as second:
        first.start()
        site.cluster.wait_for_puts(2)
        with closing(Database(site.settings)) as database, database.transaction() as connection:
            # As if it had been held up for longer than its claim lasts, where nobody can look into the process.
            connection.execute(update(LEASE).values(owner="process 1 on elsewhere (a b c)", expires_at=0))
        second.start()
        first.wait_for("that it is noticed", lambda: first.lines("store_unavailable"))
        site.cluster.wait_for_puts(1)
        status, error = readiness(first)

    assert status == 503
    assert "another daemon has taken over the file" in error
