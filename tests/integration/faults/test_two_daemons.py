"""Two daemons on one database: the leader is killed, paused, cut off and stopped, again and again."""

from __future__ import annotations

import bisect
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from databases import DatabaseServer
from fault_setup import BusyCluster, DaemonProcess, History, LeaseChange, Put, StallingProxy, rounds
from sqlalchemy import text

from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.schema import upgrade
from flink_cluster.waiting import wait_until

pytestmark = pytest.mark.faults

TTL = 2.0
ONE_PASS = 0.1
SLACK = 5.0
"""Seconds that a machine with more to do than this test may add to a take-over."""
FAULTS = ("kill", "pause", "cut", "stop")
ROUNDS = rounds(40, short=4)


class Pair:
    """Two daemons with their own addresses of the cluster, database users and networks."""

    def __init__(self, folder: Path, server: DatabaseServer, parts: ExitStack) -> None:
        settings = server.new_database()
        self.database = Database(settings)
        parts.callback(self.database.close)
        upgrade(self.database)
        self.history = History(self.database)
        self.cluster = parts.enter_context(BusyCluster(folder, addresses=2, period=0.5))
        self.users = [self._user(settings, name) for name in ("daemon_a", "daemon_b")]
        self.proxies = [parts.enter_context(StallingProxy(server.port)) for _ in range(2)]
        self.daemons = [
            parts.enter_context(self._daemon(folder, number, replace(settings, username=self.users[number])))
            for number in range(2)
        ]

    def _user(self, settings: DatabaseSettings, name: str) -> str:
        with self.database.transaction() as connection:
            connection.execute(text(f"DROP ROLE IF EXISTS {name}"))
            connection.execute(text(f"CREATE ROLE {name} SUPERUSER LOGIN PASSWORD '{settings.password}'"))
        return name

    def _daemon(self, folder: Path, number: int, settings: DatabaseSettings) -> DaemonProcess:
        port = self.proxies[number].port
        head, _, database = settings.url.rpartition("/")
        url = f"{head.rpartition(':')[0]}:{port}/{database}"
        options = {"autoscaler.ha.enabled": "true", "autoscaler.ha.ttl": f"{TTL:g} s"}
        return DaemonProcess(
            folder,
            self.users[number],
            database=replace(settings, url=url),
            cluster_url=self.cluster.urls[number],
            options=options,
        )

    def leader(self) -> int | None:
        """Return the number of the daemon that holds the lease; None when nobody does."""
        leases = self.history.leases()
        if not leases or leases[-1].expires_at < time.time():
            return None
        return self.number_of(leases[-1])

    def number_of(self, lease: LeaseChange) -> int:
        """Return which daemon held a lease."""
        return next(number for number, daemon in enumerate(self.daemons) if lease.pid in daemon.pids)

    def wait_for_leader(self) -> int:
        """Wait until a daemon leads and has acted."""
        (leader,) = wait_until(
            "a leader", lambda: [each for each in [self.leader()] if each is not None], 30.0, interval=0.02
        )
        before = time.time()
        wait_until("a PUT", lambda: any(put.at > before for put in self.cluster.puts()), 30.0, interval=0.02)
        return leader

    def wait_for_take_over(self, leader: int, *, since: float) -> float:
        """Wait until the other daemon has taken the lease and acted; return when it took it."""

        def taken() -> list[float]:
            leases = [lease for lease in self.history.leases() if lease.at > since]
            return [lease.at for lease in leases if self.number_of(lease) != leader][:1]

        (taken_at,) = wait_until("the other leads", taken, 60.0, interval=0.02)
        wait_until("it acts", lambda: any(put.at > taken_at for put in self.cluster.puts()), 60.0, interval=0.02)
        return taken_at

    def wait_for_standby(self, number: int) -> None:
        """Wait until a daemon stands by and is ready to take over."""
        daemon = self.daemons[number]

        def stands_by() -> bool:
            status, body = daemon.get("/readyz")
            return status == 200 and '"standing":"standby"' in body

        daemon.wait_for("a standby that is ready", stands_by)

    def hit(self, fault: str, number: int) -> Callable[[], None]:
        """Cause a fault and return what ends it."""
        daemon, proxy = self.daemons[number], self.proxies[number]
        if fault == "kill":
            daemon.kill()
            return daemon.start
        if fault == "stop":
            assert daemon.stop() == 0
            return daemon.start
        if fault == "pause":
            daemon.signal(signal.SIGSTOP)
            return lambda: daemon.signal(signal.SIGCONT)
        proxy.cut()
        return proxy.mend


@pytest.fixture
def pair(tmp_path: Path, postgresql_server: DatabaseServer) -> Iterator[Pair]:
    with ExitStack() as parts:
        yield Pair(tmp_path, postgresql_server, parts)


def lease_at(leases: Sequence[LeaseChange], at: float) -> LeaseChange:
    """Return the version of the lease that was there at an instant."""
    return leases[bisect.bisect_right([lease.at for lease in leases], at) - 1]


def is_foreign(pair: Pair, leases: Sequence[LeaseChange], put: Put) -> bool:
    """Tell whether a PUT came from a daemon that did not hold the lease when it arrived."""
    lease = lease_at(leases, put.at)
    return pair.number_of(lease) != put.address or lease.expires_at <= put.at


def test_at_no_instant_two_daemons_act(pair: Pair) -> None:
    seconds: dict[str, list[float]] = {fault: [] for fault in FAULTS}
    for daemon in pair.daemons:
        daemon.start()
    for number in range(ROUNDS):
        fault = FAULTS[number % len(FAULTS)]
        leader = pair.wait_for_leader()
        pair.wait_for_standby(1 - leader)
        hit_at = time.time()
        mend = pair.hit(fault, leader)
        taken_at = pair.wait_for_take_over(leader, since=hit_at)
        seconds[fault].append(taken_at - hit_at)
        mend()
        pair.wait_for_standby(leader)
    for daemon in pair.daemons:
        assert daemon.stop() == 0

    leases, puts = pair.history.leases(), pair.cluster.puts()
    tokens = [lease.token for lease in leases]
    foreign_puts = [put for put in puts if is_foreign(pair, leases, put)]
    writes = pair.history.states()
    foreign_writes = [each for each in writes if pair.users[pair.number_of(lease_at(leases, each.at))] != each.writer]
    report(pair, seconds, puts, writes, foreign_puts, foreign_writes)
    assert tokens == sorted(tokens)
    assert len(set(tokens)) > ROUNDS
    assert foreign_puts == []
    assert foreign_writes == []
    assert max(max(each, default=0.0) for each in seconds.values()) < TTL + ONE_PASS + SLACK


def report(
    pair: Pair,
    seconds: dict[str, list[float]],
    puts: Sequence[Put],
    writes: Sequence[object],
    foreign_puts: Sequence[Put],
    foreign_writes: Sequence[object],
) -> None:
    """Print the figures."""
    changes = len({lease.token for lease in pair.history.leases()})
    print(
        f"\n{ROUNDS} faults, {changes} terms, {len(puts)} PUTs, {len(writes)} writes: {len(foreign_puts)} PUTs and"
        f" {len(foreign_writes)} writes by a daemon without the lease; time to live {TTL:g} s"
    )
    for fault, each in seconds.items():
        if each:
            print(f"  {fault}: the other took over within {max(each):.2f} s, on average {sum(each) / len(each):.2f} s")
