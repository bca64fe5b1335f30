"""The lease and its fence on every kind of database."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import delete, update

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.stores.clock import monotonic_seconds
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.database.failures import LeaseLostError
from flink_autoscaler.stores.sql.lease import MARGIN, Lease, LeaseFence
from flink_autoscaler.stores.sql.tables import LEASE
from testkit.clusters.flink.waiting import wait_until
from testkit.servers.databases import every_database, rows_of

TTL = 60.0


class Clock:
    """The holder's own clock, set by the test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def a_lease(database: Database, owner: str, *, ttl: float = TTL, clock: Clock | None = None) -> Lease:
    return Lease(database, name="group", owner=owner, ttl=ttl, clock=clock or monotonic_seconds)


def expire(database: Database) -> None:
    """Let the lease run out, whoever has it."""
    with database.transaction() as connection:
        connection.execute(update(LEASE).values(expires_at=1))


def test_a_free_lease_is_acquired_by_the_first(database: Database) -> None:
    first, second = a_lease(database, "first"), a_lease(database, "second")

    assert (first.acquire(), second.acquire()) == (True, False)
    assert (first.token, second.token) == (1, None)
    assert second.holder == "first"
    assert first.remaining() > 0
    assert second.remaining() == 0


@every_database
def test_only_one_of_many_acquires(database: Database) -> None:
    leases = [a_lease(database, f"owner-{number}") for number in range(8)]
    together = threading.Barrier(len(leases))

    def acquire(lease: Lease) -> bool:
        together.wait(300)
        return lease.acquire()

    for _ in range(5):
        with ThreadPoolExecutor(len(leases)) as threads:
            assert sum(threads.map(acquire, leases)) == 1
        expire(database)
        for lease in leases:
            lease.lose(lease.token or 0)

    assert rows_of(database, LEASE)[0]["token"] == 5


@every_database
def test_an_expired_lease_goes_to_somebody_else_with_a_greater_token(database: Database) -> None:
    first, second = a_lease(database, "first"), a_lease(database, "second")
    first.acquire()
    expire(database)

    assert second.acquire()
    assert second.token == 2
    assert not first.renew()
    assert (first.token, first.remaining()) == (None, 0.0)


def test_a_released_lease_is_free_at_once_and_its_token_is_never_given_again(database: Database) -> None:
    first, second = a_lease(database, "first"), a_lease(database, "second")
    first.acquire()

    first.release()

    assert (first.token, first.remaining()) == (None, 0.0)
    assert second.acquire()
    assert second.token == 2


def test_releasing_what_is_lost_leaves_the_new_holder_alone(database: Database) -> None:
    first, second = a_lease(database, "first"), a_lease(database, "second")
    first.acquire()
    expire(database)
    second.acquire()

    first.release()

    assert second.renew()
    assert not a_lease(database, "third").acquire()


def test_an_expired_lease_that_nobody_took_is_renewed(database: Database, clock: Clock) -> None:
    lease = a_lease(database, "first", clock=clock)
    lease.acquire()
    clock.now += 10 * TTL
    expire(database)

    assert lease.remaining() == 0
    assert lease.renew()
    assert lease.token == 1
    assert lease.remaining() == pytest.approx(TTL * (1 - MARGIN))


def test_the_holder_counts_from_before_the_renewal_was_sent_and_stops_early(database: Database) -> None:
    class SlowClock(Clock):
        """Ten seconds pass each time that somebody looks: as if the database took long to answer."""

        def __call__(self) -> float:
            self.now += 10.0
            return self.now

    lease = a_lease(database, "first", clock=SlowClock())

    lease.acquire()

    assert lease.remaining() == pytest.approx(TTL * (1 - MARGIN) - 10.0)


@every_database
def test_the_lease_lasts_as_long_as_it_should_by_the_clock_of_the_database(database: Database) -> None:
    # No shorter: as long a transaction may be idle, which one is on a busy machine.
    first, second = a_lease(database, "first", ttl=2.0), a_lease(database, "second", ttl=2.0)
    started = time.monotonic()
    first.acquire()

    wait_until("the lease is free", second.acquire, 300, interval=0.02)

    assert time.monotonic() - started > 1.95
    (row,) = rows_of(database, LEASE)
    assert row["expires_at"] - row["renewed_at"] == 2000
    assert abs(row["renewed_at"] - time.time() * 1000) < 60_000


def test_renewals_fail_without_the_database_and_the_lease_lasts_as_long_as_it_did(
    database: Database, clock: Clock
) -> None:
    lease = a_lease(database, "first", clock=clock)
    lease.acquire()
    with database.transaction() as connection:
        LEASE.drop(connection)
    clock.now += 10.0

    with pytest.raises(StoreError):
        lease.renew()

    assert lease.token == 1
    assert lease.remaining() == pytest.approx(TTL * (1 - MARGIN) - 10.0)


def check(database: Database, lease: Lease, token: int | None) -> None:
    with database.transaction() as connection:
        LeaseFence(lease, lambda: token).check(connection)


@every_database
@pytest.mark.parametrize("token", [pytest.param(None, id="no token"), pytest.param(7, id="another token")])
def test_the_fence_refuses_who_does_not_hold_the_lease(database: Database, token: int | None) -> None:
    lease = a_lease(database, "first")
    lease.acquire()

    with pytest.raises(LeaseLostError, match="'group'"):
        check(database, lease, token)


def test_the_fence_refuses_an_old_term_of_the_same_daemon(database: Database) -> None:
    lease = a_lease(database, "first")
    lease.acquire()
    lease.release()
    lease.acquire()

    with pytest.raises(LeaseLostError):
        check(database, lease, 1)
    check(database, lease, 2)


def test_the_fence_tells_a_paused_holder_that_it_lost(database: Database) -> None:
    first, second = a_lease(database, "first"), a_lease(database, "second")
    first.acquire()
    expire(database)
    second.acquire()

    with pytest.raises(LeaseLostError, match="lost to second"):
        check(database, first, 1)

    assert first.token is None


def test_the_fence_tells_token_and_owner_apart_when_somebody_deleted_the_row(database: Database) -> None:
    first, second = a_lease(database, "first"), a_lease(database, "second")
    first.acquire()
    with database.transaction() as connection:
        connection.execute(delete(LEASE))
    second.acquire()

    with pytest.raises(LeaseLostError):
        check(database, first, 1)
    check(database, second, 1)


@every_database
def test_nobody_takes_the_lease_between_check_and_commit(database: Database) -> None:
    first, second = a_lease(database, "first"), a_lease(database, "second")
    first.acquire()
    expire(database)
    with ThreadPoolExecutor(1) as thread, database.transaction() as connection:
        LeaseFence(first, lambda: 1).check(connection)
        # SQLite waits for the writer, the others go away empty-handed.
        attempt = thread.submit(second.acquire)
        has_lost = database.dialect != "sqlite" and not attempt.result(10)
        assert first.token == 1
    assert has_lost or attempt.result(10)

    assert has_lost is (second.token is None)
    assert second.token is not None or second.acquire()


@every_database
def test_renewals_do_not_wait_for_writers(database: Database) -> None:
    lease = a_lease(database, "first")
    lease.acquire()
    if database.dialect != "postgresql":
        pytest.skip("renewals take their turn between two writers")

    with database.transaction() as connection:
        LeaseFence(lease, lambda: 1).check(connection)
        assert lease.renew()


HOLDER = """
import sys, time
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.lease import Lease, LeaseFence
url, username, password, ttl, deed = sys.argv[1:]
database = Database(DatabaseSettings(url, username or None, password or None))
lease = Lease(database, name="group", owner="paused", ttl=float(ttl))
assert lease.acquire()
try:
    with database.transaction() as connection:
        if deed == "writes":
            LeaseFence(lease, lambda: lease.token).check(connection)
        else:
            lease._extend(connection, lease.token)
        print("in a transaction", flush=True)
        sys.stdin.readline()
except Exception as error:
    print(type(error).__name__, flush=True)
else:
    print("committed", flush=True)
"""


@pytest.fixture(params=["writes", "renews"])
def paused_holder(
    request: pytest.FixtureRequest, database_settings: DatabaseSettings, database: Database
) -> Iterator[subprocess.Popen[str]]:
    if database.dialect == "sqlite":
        pytest.skip("a paused process keeps its lock on the file")
    values = [
        database_settings.url,
        database_settings.username or "",
        database_settings.password or "",
        "4",
        request.param,
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, *values], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "in a transaction\n"
    process.send_signal(signal.SIGSTOP)
    yield process
    process.kill()
    process.communicate()


@every_database
def test_a_holder_paused_within_a_transaction_neither_blocks_the_next_one_nor_commits(
    paused_holder: subprocess.Popen[str], database: Database
) -> None:
    successor = a_lease(database, "successor", ttl=4.0)

    wait_until("the successor leads", successor.acquire, 300, interval=0.1)
    paused_holder.send_signal(signal.SIGCONT)
    output, _ = paused_holder.communicate("\n", timeout=300)

    assert output == "StoreError\n"
    assert successor.renew()


@every_database
def test_a_lease_works_with_a_single_connection(database_settings: DatabaseSettings, database: Database) -> None:
    own = Database(replace(database_settings, pool_size=1, pool_timeout=1.0, query_timeout=2.0))
    lease = a_lease(own, "first")

    assert lease.acquire()
    assert lease.renew()
    lease.release()
    own.close()
