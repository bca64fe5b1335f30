"""Two daemons on one PostgreSQL database, of which one leads."""

from __future__ import annotations

import bisect
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from sqlalchemy import text

from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.faults.busy_cluster import BusyCluster, Put
from testkit.scenarios.faults.history import History, LeaseChange, StateChange
from testkit.scenarios.faults.proxy import StallingProxy
from testkit.scenarios.runner.process import PRESENT, DaemonProcess

TTL: Final = 2.0
"""Seconds that a lease lasts unless something else is said."""


class Pair:
    """Two daemons with their own addresses of the cluster, database users and networks.

    Args:
        folder: For logs.
        settings: Of a PostgreSQL database that has its tables.
        port: Of its server.
        parts: What is to be stopped in the end.
        programs: The command of each.
        ttl: Seconds that a lease lasts.
    """

    def __init__(
        self,
        folder: Path,
        settings: DatabaseSettings,
        port: int,
        parts: ExitStack,
        *,
        programs: Sequence[Sequence[str]] = (PRESENT, PRESENT),
        ttl: float = TTL,
    ) -> None:
        self._options = {"autoscaler.ha.enabled": "true", "autoscaler.ha.ttl": f"{ttl:g} s"}
        self.database = Database(settings)
        parts.callback(self.database.close)
        self.history = History(self.database)
        self.cluster = parts.enter_context(BusyCluster(folder, addresses=2, period=0.5))
        self.users = [self._user(settings, name) for name in ("daemon_a", "daemon_b")]
        self.proxies = [parts.enter_context(StallingProxy(port)) for _ in range(2)]
        self.daemons = [
            parts.enter_context(self._daemon(folder, number, replace(settings, username=self.users[number]), program))
            for number, program in enumerate(programs)
        ]

    def _user(self, settings: DatabaseSettings, name: str) -> str:
        with self.database.transaction() as connection:
            connection.execute(text(f"DROP ROLE IF EXISTS {name}"))
            connection.execute(text(f"CREATE ROLE {name} SUPERUSER LOGIN PASSWORD '{settings.password}'"))
        return name

    def _daemon(self, folder: Path, number: int, settings: DatabaseSettings, program: Sequence[str]) -> DaemonProcess:
        port = self.proxies[number].port
        head, _, database = settings.url.rpartition("/")
        url = f"{head.rpartition(':')[0]}:{port}/{database}"
        return DaemonProcess(
            folder,
            self.users[number],
            database=replace(settings, url=url),
            cluster_url=self.cluster.urls[number],
            options=self._options,
            program=program,
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
            "a leader", lambda: [each for each in [self.leader()] if each is not None], 60.0, interval=0.02
        )
        before = time.time()
        wait_until("a PUT", lambda: any(put.at > before for put in self.cluster.puts()), 300, interval=0.02)
        return leader

    def wait_for_take_over(self, leader: int, *, since: float) -> float:
        """Wait until the other daemon has taken the lease and acted; return when it took it."""

        def taken() -> list[float]:
            leases = [lease for lease in self.history.leases() if lease.at > since]
            return [lease.at for lease in leases if self.number_of(lease) != leader][:1]

        (taken_at,) = wait_until("the other leads", taken, 300, interval=0.02)
        wait_until("it acts", lambda: any(put.at > taken_at for put in self.cluster.puts()), 300, interval=0.02)
        return taken_at

    def wait_for_pair(self) -> int:
        """Wait until a daemon leads and has acted, and the other one is ready to take over; return which one leads.

        On a busy machine they may change places meanwhile, without any fault of ours.
        """

        def leading() -> list[int]:
            leader = self.leader()
            return [] if leader is None or not self._stands_by(1 - leader) else [leader]

        self.wait_for_leader()
        (leader,) = wait_until(
            "a leader and a standby that is ready", leading, 120.0, interval=0.02, context=self._last_words
        )
        return leader

    def _last_words(self) -> str:
        return "\n".join(f"{user}:\n{each.text()[-4000:]}" for user, each in zip(self.users, self.daemons, strict=True))

    def wait_for_standby(self, number: int) -> None:
        """Wait until a daemon stands by and is ready to take over."""
        self.daemons[number].wait_for("a standby that is ready", lambda: self._stands_by(number))

    def _stands_by(self, number: int) -> bool:
        status, body = self.daemons[number].get("/readyz")
        return status == 200 and '"standing":"standby"' in body

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
            daemon.send(signal.SIGSTOP)
            return lambda: daemon.send(signal.SIGCONT)
        proxy.cut()
        return proxy.mend

    def foreign_puts(self) -> list[Put]:
        """Return PUTs from a daemon that did not hold the lease when they arrived."""
        leases = self.history.leases()
        held = [(put, _lease_at(leases, put.at)) for put in self.cluster.puts()]
        return [put for put, lease in held if self.number_of(lease) != put.address or lease.expires_at <= put.at]

    def foreign_writes(self) -> list[StateChange]:
        """Return what was written to the state by a daemon that did not hold the lease."""
        leases = self.history.leases()
        holders = ((each, self.users[self.number_of(_lease_at(leases, each.at))]) for each in self.history.states())
        return [each for each, holder in holders if holder != each.writer]


def _lease_at(leases: Sequence[LeaseChange], at: float) -> LeaseChange:
    """Return the version of the lease that was there at an instant."""
    return leases[bisect.bisect_right([lease.at for lease in leases], at) - 1]
