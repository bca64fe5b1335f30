"""Orders as people type them, and passes of the daemon's own wiring over one job of a fake cluster.

The metric window is an hour, so that load decides nothing: what is asked of the cluster comes from orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pytest

from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.standalone.cli.main import app
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.fetchers.listing import chosen_clusters
from flink_autoscaler.standalone.observability.announcer import Announcer
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.settings.loading import load_settings
from flink_autoscaler.standalone.settings.sources.configuration import load_configuration
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.records import SqlRecordStore
from flink_autoscaler.stores.sql.schema import upgrade
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from flink_autoscaler.stores.sql.tables import EVENTS
from testkit.builders.commands import restored_logging
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.servers.databases import rows_of

KEY = "main/orders"
OPTIONS = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "1 h",
    "job.autoscaler.stabilization.interval": "0 s",
    "autoscaler.engine.kind": "inline",
    "autoscaler.standalone.state-store.type": "JDBC",
    "autoscaler.standalone.event-handler.type": "JDBC",
}


@pytest.fixture(autouse=True)
def unchanged_logging() -> Iterator[None]:
    """Undo what commands do to the logging of this process."""
    with restored_logging():
        yield


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    output: str
    errors: str


class OrderedJob:
    """A job ``orders`` with the vertices ``source`` and ``work``, a daemon's passes over it, and people.

    Args:
        folder: For the database.
        capture: Reads what commands print.
        options: Further settings.
        state: What the daemon before remembers, by the ids of source and work.
        values: Fields of the job; it does at once what it is asked for unless told otherwise.
    """

    def __init__(
        self,
        folder: Path,
        capture: pytest.CaptureFixture[str],
        *,
        options: Mapping[str, str] | None = None,
        parallelism: int = 1,
        **values: bool,
    ) -> None:
        self.flink = FakeFlink()
        self.job: FakeJob = self.flink.add_job(
            "orders", chain(vertices=2, parallelism=parallelism), **{"obeys": True, **values}
        )
        self.source, self.work = (vertex.vertex_id for vertex in self.job.vertices)
        self.job.vertices[1].name = "work"
        self.flink.taskmanagers = [{"id": "a", "slotsNumber": 16, "freeSlots": 8}]
        self._capture = capture
        self._options = options or {}
        self._database = Database(DatabaseSettings(f"jdbc:sqlite:{folder / 'autoscaler.db'}"))
        self._url = f"jdbc:sqlite:{folder / 'autoscaler.db'}"
        self._announcer = Announcer(gauges=Gauges(), health=Health({"main": 60.0}))
        self._passes: ClusterPass | None = None
        self._wiring: Wiring | None = None

    def __enter__(self) -> Self:
        self.flink.__enter__()
        upgrade(self._database)
        return self

    def __exit__(self, *_: object) -> None:
        if self._wiring is not None:
            self._wiring.close()
        self._database.close()
        self.flink.__exit__()

    @property
    def database(self) -> DatabaseSettings:
        """The database of the daemon."""
        return DatabaseSettings(self._url)

    @property
    def running(self) -> int:
        """Parallelism of the work vertex."""
        return self.job.vertices[1].parallelism

    @property
    def wanted(self) -> int:
        """Greatest parallelism of the work vertex that the cluster was asked for."""
        return self.job.requirements[self.work][1]

    def remember(self, state: JobState) -> None:
        """Begin with what a daemon before remembers about the job."""
        store = SqlStateStore(self._database, writer="flink-autoscaler")
        store.save(KEY, replace(state, job_id=self.job.job_id))

    def remembered(self) -> JobState:
        """Return what the daemon remembers about the job."""
        return SqlStateStore(self._database, writer="flink-autoscaler").load(KEY)

    def run(self, times: int = 1) -> None:
        """Do passes of the daemon."""
        for _ in range(times):
            assert self._ready().run().error is None

    def run_recorded(self, times: int = 1) -> None:
        """Do passes of the daemon, and wait for the record of one, which is written beside them."""
        self.run(times)
        records = SqlRecordStore(self._database)
        wait_until("a pass is recorded", lambda: records.latest(KEY) is not None, 300, interval=0.05)

    def passes(self) -> ClusterPass:
        """Return the passes of the daemon over the cluster."""
        return self._ready()

    def run_until(self, what: str, condition: object) -> None:
        """Do passes until something is so."""
        assert callable(condition)

        def is_so() -> bool:
            self.run()
            return bool(condition())

        wait_until(what, is_so, 300, interval=0.05)

    def announce(self) -> None:
        """Do a pass, and let the daemon tell about it as it does."""
        report = self._ready().run()
        assert report.error is None
        self._announcer.announce(report)

    def order(self, *arguments: str, name: str = "ann", reason: str | None = "a test") -> Said:
        """Give an order as it is typed."""
        self._capture.readouterr()
        why = [] if reason is None else ["--as", name, "--reason", reason]
        code = app([*arguments, *why, *self._set()], standalone_mode=False)
        said = self._capture.readouterr()
        return Said(int(code or 0), said.out, said.err)

    def told(self, *reasons: str) -> list[str]:
        """Return the messages of events, of some reasons or all."""
        with closing(Database(DatabaseSettings(self._url))) as database:
            rows = rows_of(database, EVENTS)
        return [row["message"] for row in rows if not reasons or row["reason"] in reasons]

    def _ready(self) -> ClusterPass:
        if self._passes is None:
            settings = load_settings(
                load_configuration(
                    file=None, environment={}, overrides=[each for each in self._set() if each != "--set"]
                )
            )
            self._wiring = Wiring(settings)
            self._passes = self._wiring.cluster_pass(chosen_clusters(settings, None)[0])
            self._wiring.storage.start()
        return self._passes

    def _set(self) -> list[str]:
        place = {
            "autoscaler.clusters.0.name": "main",
            "autoscaler.clusters.0.url": self.flink.url,
            "autoscaler.standalone.jdbc.url": self._url,
        }
        values = {**OPTIONS, **place, **self._options}
        return [part for key, text in values.items() for part in ("--set", f"{key}={text}")]
