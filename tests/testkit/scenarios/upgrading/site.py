"""A cluster and a database that versions work with in turn, and what must survive that."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from sqlalchemy import MetaData, select

from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.tables import DECISIONS, EVENTS, SET_ASIDE, STATE
from flink_autoscaler.stores.sql.tables import JOBS as JOB_TABLE
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import chain
from testkit.scenarios.faults import BusyCluster, Put
from testkit.scenarios.runner.process import DaemonProcess
from testkit.scenarios.upgrading.version import Version
from testkit.servers.databases import rows_of

LEARNING: Final = "ledger"
"""A job whose metric window takes an hour to fill, so that no sample may go."""
JOBS: Final[Mapping[str, Mapping[str, str]]] = {
    "orders": {},
    "clicks": {},
    "payments": {},
    LEARNING: {"job.autoscaler.metrics.window": "1 h"},
}
"""``orders`` is left to itself, a vertex of ``clicks`` is pinned, ``payments`` is paused."""
PINNED: Final = (chain()[1], 3)
_WHO: Final = ("--as", "ann", "--reason", "an upgrade")
_OPTIONS: Final = {
    "autoscaler.standalone.control-loop.interval": "200 ms",
    "autoscaler.records.interval": "1 s",
    "autoscaler.records.max-per-job": "100000",
    "job.autoscaler.flink.rest-client.timeout": "10 s",
}
"""The cluster is never away: a slow answer of a busy machine is no failure of a job. No record is too old to keep."""
_PATIENCE: Final = 600.0
"""Seconds for a command: a report starts a JVM."""
_FINAL: Final = frozenset({"reached", "partially reached", "refused", "superseded"})


@dataclass(frozen=True)
class Kept:
    """What a database knows, as sets of which nothing may go.

    Attributes:
        samples: Instants in the window of the job whose window never fills.
        rescales: Job and instant of every rescale that was decided and is over.
        events: Ids.
        records: Ids of recorded passes.
        orders: As JSON.
        paused: The decisions about the paused job, and what it is to run with.
    """

    samples: frozenset[str]
    rescales: frozenset[tuple[str, int]]
    events: frozenset[int]
    records: frozenset[int]
    orders: frozenset[str]
    paused: frozenset[str]

    def lost(self, later: Kept) -> dict[str, set[Any]]:
        """Return what is not there any more at a later time, by field; empty where all is."""
        gone = {each.name: set(getattr(self, each.name) - getattr(later, each.name)) for each in fields(self)}
        return {name: what for name, what in gone.items() if what}

    def figures(self) -> str:
        """Return how much there is."""
        return ", ".join(f"{len(getattr(self, each.name))} {each.name}" for each in fields(self)[:4])


class Site:
    """Works with one version after the other.

    Args:
        folder: For logs, and for the metric history.
        cluster: With :data:`JOBS`.
        settings: Of the database.
        options: Of all daemons.
    """

    def __init__(
        self, folder: Path, cluster: BusyCluster, settings: DatabaseSettings, options: Mapping[str, str] | None = None
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.folder = folder
        self._options = {**_OPTIONS, **(options or {})}
        self._paused_at: float | None = None
        self.notes: list[str] = []

    @property
    def upgrades_by_itself(self) -> bool:
        """Whether a daemon upgrades the schema when it starts."""
        return self.settings.url.startswith("jdbc:sqlite")

    def daemon(self, version: Version, options: Mapping[str, str] | None = None) -> DaemonProcess:
        """Return a daemon of a version that is not started yet."""
        return DaemonProcess(
            self.folder,
            f"daemon-{version.name}",
            database=self.settings,
            cluster_url=self.cluster.urls[0],
            options={**self._options, **(options or {})},
            program=version.program,
        )

    @contextmanager
    def running(self, version: Version, *, rescales: int = 2) -> Iterator[DaemonProcess]:
        """Run a daemon until the free and the pinned job were rescaled so often; it ends in order afterwards."""
        with self.daemon(version) as daemon:
            daemon.start()
            for job in ("orders", "clicks"):
                self.cluster.wait_for_puts(rescales, job=job, context=lambda: daemon.text()[-4000:])
            yield daemon
            assert daemon.stop() == 0
            assert daemon.lines("state_quarantined", "state_set_aside") == []
            assert daemon.lines("job_failed") == []

    def call(self, version: Version, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of a version to its end."""
        return self.daemon(version).call(*words, timeout=_PATIENCE)

    def upgrade(self, version: Version) -> str:
        """Bring the schema to a version and return what was said."""
        return said(self.call(version, "db", "upgrade"))

    def order(self, version: Version) -> None:
        """Pin and pause, and wait until that holds; what is paused was rescaled before."""
        wait_until("payments was rescaled", lambda: any(put.job == "payments" for put in self.cluster.puts()), 300)
        said(self.call(version, "pin", "main/clicks", f"{PINNED[0].name}={PINNED[1]}", *_WHO))
        said(self.call(version, "pause", "main/payments", *_WHO))
        self.cluster.wait_for_puts(2, job="orders")
        self._paused_at = time.time()

    def disobeyed(self) -> list[Put]:
        """Return PUTs that are against what was ordered."""
        assert self._paused_at is not None
        later = [put for put in self.cluster.puts() if put.at > self._paused_at]
        pinned = [put for put in later if put.job == "clicks" and put.wanted[PINNED[0].vertex_id] != PINNED[1]]
        return pinned + [put for put in later if put.job == "payments"]

    def kept(self, version: Version) -> Kept:
        """Return what there is; the orders as a version shows them."""
        word = "commands" if version.home == Path(sys.prefix) else "orders"  # as the last release calls them
        text = said(self.call(version, word, "--json"))
        shown = json.loads(text.replace('"left_alone"', '"suspensions"'))[word]
        with closing(Database(self.settings)) as database:
            assert rows_of(database, SET_ASIDE) == []
            states = {(row["job_key"], row["state_type"]): row["state_value"] for row in rows_of(database, STATE)}
            return Kept(
                frozenset(json.loads(states[f"main/{LEARNING}", "collectedMetrics"])),
                frozenset(_rescales(rows_of(database, JOB_TABLE))),
                frozenset(row["id"] for row in rows_of(database, EVENTS)),
                frozenset(row["id"] for row in rows_of(database, DECISIONS)),
                frozenset(json.dumps(order, sort_keys=True) for order in shown),
                frozenset(states["main/payments", kind] for kind in ("scalingHistory", "parallelismOverrides")),
            )

    def note(self, what: str, kept: Kept) -> None:
        """Write down what there was after a step."""
        self.notes.append(
            f"{self.settings.url.split(':')[1]}, {what}: {len(self.cluster.puts())} PUTs, {kept.figures()}"
        )

    def everything(self) -> Mapping[str, Sequence[Any]]:
        """Return all rows of all tables, in no particular order."""
        with closing(Database(self.settings)) as database, database.transaction(read_only=True) as connection:
            tables = MetaData()
            tables.reflect(connection)
            return {table.name: sorted(map(repr, connection.execute(select(table)))) for table in tables.sorted_tables}

    def refused(self, version: Version) -> str:
        """Start a daemon that must refuse to work, and return its error; nothing is written or sent meanwhile."""
        before, puts = self.everything(), len(self.cluster.puts())
        with self.daemon(version) as daemon:
            daemon.start(wait=False)
            code = daemon.exit_code()
            (error,) = [line for line in daemon.text().splitlines() if line.startswith("error: ")]
            assert "Traceback" not in daemon.text()
        assert (code, self.everything(), len(self.cluster.puts())) == (2, before, puts)
        return error


def known_revision(refusal: str) -> str:
    """Return the revision that a version knows, from its refusal to work with a newer one."""
    found = re.search(r"this version knows up to (\w+)", refusal)
    assert found is not None, refusal
    return found[1]


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command printed; it must have gone well."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def _rescales(jobs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield job and instant of the rescales that are over, which are kept for two weeks."""
    for row in jobs:
        supervision = json.loads(row["own_state"] or "{}").get("supervision", {})
        records = [*supervision.get("past", ()), *filter(None, [supervision.get("current")])]
        yield from ((row["job_key"], each["decided_ms"]) for each in records if each.get("stage") in _FINAL)
