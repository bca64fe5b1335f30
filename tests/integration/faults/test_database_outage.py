"""A database that is stopped and started again while a daemon works with it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.schema import upgrade_schema
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from testkit.scenarios.faults import BusyCluster, rounds
from testkit.scenarios.runner.process import DaemonProcess
from testkit.servers.databases import DatabaseServer, MissingServerError, PostgresqlServer

pytestmark = pytest.mark.faults

PATIENT = {"job.autoscaler.flink.rest-client.timeout": "10 s"}
"""The cluster is never away here: a slow answer of a busy machine is no failure of a job. What the test is about does
not hang on it: PUTs are counted where they arrive."""
OUTAGES = rounds(20, short=2)
PASSES = 20
"""Over two seconds, in which the load of the cluster changes twice: time enough for a PUT that must not be sent."""


@pytest.fixture
def server() -> Iterator[DatabaseServer]:
    try:
        with PostgresqlServer() as server:
            yield server
    except MissingServerError as error:
        pytest.skip(f"{error}; apt-get install postgresql")


def test_outages_of_the_database_stop_scaling_until_they_are_over(tmp_path: Path, server: DatabaseServer) -> None:
    settings = server.new_database()
    database = Database(settings)
    upgrade_schema(database)
    puts_while_away, seconds_to_notice, seconds_to_recover = 0, [], []
    with (
        BusyCluster(tmp_path) as cluster,
        DaemonProcess(tmp_path, database=settings, cluster_url=cluster.urls[0], options=PATIENT) as daemon,
    ):
        daemon.start()
        cluster.wait_for_puts(1)
        for number in range(1, OUTAGES + 1):
            (server.kill if number % 2 else server.stop)()
            seconds_to_notice.append(until(daemon, "store_unavailable", number))
            away_at = time.time()  # what was saved before the database ended may be sent until then
            status, body = daemon.get("/readyz")
            away = json.loads(body)["store"]
            assert (status, away["up"]) == (503, False)
            assert away["error"]
            assert "flink_autoscaler_store_up 0.0" in daemon.get("/metrics")[1]
            # Without passes during the outage it would prove nothing that no PUT was sent.
            daemon.wait_for_passes(PASSES)
            server.start()
            back_at = time.time()
            seconds_to_recover.append(until(daemon, "store_recovered", number))
            daemon.wait_for("ready", lambda: daemon.get("/readyz")[0] == 200)
            puts_while_away += sum(away_at < put.at < back_at for put in cluster.puts())
            cluster.wait_for_puts(1)
        is_alive = daemon.is_running
        assert daemon.stop() == 0
        failures = daemon.lines("job_failed")

    store = SqlStateStore(database)
    state = store.load("main/orders")
    print(
        f"\n{OUTAGES} outages: {puts_while_away} PUTs while the database was away; noticed after at most"
        f" {max(seconds_to_notice):.1f} s, recovered after at most {max(seconds_to_recover):.1f} s"
    )
    assert is_alive
    assert puts_while_away == 0
    assert failures == []
    assert (store.quarantined_count, bool(state.overrides)) == (0, True)
    database.close()


def until(daemon: DaemonProcess, event: str, count: int) -> float:
    """Wait until an event was logged so many times in all, not once more, and return how long that took."""
    started = time.monotonic()
    daemon.wait_for(f"{count} {event}", lambda: len(daemon.lines(event)) >= count)
    assert len(daemon.lines(event)) == count
    return time.monotonic() - started


def test_daemon_that_starts_before_its_database_waits_for_it(tmp_path: Path, server: DatabaseServer) -> None:
    settings = server.new_database()
    database = Database(settings)
    upgrade_schema(database)
    database.close()
    server.stop()
    with (
        BusyCluster(tmp_path) as cluster,
        DaemonProcess(tmp_path, database=settings, cluster_url=cluster.urls[0]) as daemon,
    ):
        daemon.start()
        (line,) = daemon.lines("store_unavailable")
        status, _ = daemon.get("/readyz")
        server.start()
        cluster.wait_for_puts(1)
        puts, code = cluster.puts(), daemon.stop()

    assert "cannot be reached" in line["error"]
    assert status == 503
    assert puts
    assert code == 0


@pytest.mark.parametrize(
    "is_away_first", [pytest.param(False, id="at once"), pytest.param(True, id="once it is there")]
)
def test_daemon_ends_when_the_password_is_wrong(tmp_path: Path, server: DatabaseServer, is_away_first: bool) -> None:
    settings = server.new_database()
    wrong = type(settings)(settings.url, settings.username, "not-the-password")
    if is_away_first:
        server.stop()
    with (
        BusyCluster(tmp_path) as cluster,
        DaemonProcess(tmp_path, database=wrong, cluster_url=cluster.urls[0]) as daemon,
    ):
        daemon.start(wait=is_away_first)
        if is_away_first:
            server.start()
        code = daemon.exit_code()
        text = daemon.text()

    assert code == 2
    assert "error: " in text
    assert "password is wrong" in text
    assert "not-the-password" not in text
