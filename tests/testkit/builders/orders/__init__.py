"""Orders as people type them, and passes of the daemon's own wiring over one job of a fake cluster.

The metric window is an hour, so that load decides nothing: what is asked of the cluster comes from orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.standalone.cli.main import app
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.pass_reporter import PassReporter
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.records import SqlRecordStore
from flink_autoscaler.stores.sql.schema import upgrade_schema
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from flink_autoscaler.stores.sql.tables import EVENTS
from testkit.builders.commands import Said, run_in_process
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.scenarios.runner.wired import in_database, settings_on, started
from testkit.servers.databases import rows_of

KEY = "main/orders"
OPTIONS = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "1 h",
    "autoscaler.standalone.event-handler.type": "JDBC",
}


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
        self._url = f"jdbc:sqlite:{folder / 'autoscaler.db'}"
        self._values = {**OPTIONS, **in_database(self._url), **(options or {})}
        self._database = Database(DatabaseSettings(self._url))
        self._open = ExitStack()
        self._announcer = PassReporter(gauges=Gauges(), health=Health({"main": 60.0}))
        self._passes: ClusterPass | None = None

    def __enter__(self) -> Self:
        self._open.enter_context(self.flink)
        self._open.callback(self._database.close)
        upgrade_schema(self._database)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

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
            assert self.passes().run().error is None

    def run_recorded(self, times: int = 1) -> None:
        """Do passes of the daemon, and wait for the record of one, which is written beside them."""
        self.run(times)
        records = SqlRecordStore(self._database)
        wait_until("a pass is recorded", lambda: records.latest(KEY) is not None, 300, interval=0.05)

    def passes(self) -> ClusterPass:
        """Return the passes of the daemon over the cluster."""
        if self._passes is None:
            _, self._passes = self._open.enter_context(started(settings_on(self.flink.url, self._values)))
        return self._passes

    def run_until(self, what: str, condition: Callable[[], object]) -> None:
        """Do passes until something is so."""

        def is_so() -> object:
            self.run()
            return condition()

        wait_until(what, is_so, 300, interval=0.05)

    def announce(self) -> None:
        """Do a pass, and let the daemon tell about it as it does."""
        report = self.passes().run()
        assert report.error is None
        self._announcer.report(report)

    def order(self, *arguments: str, name: str = "ann", reason: str | None = "a test") -> Said:
        """Give an order as it is typed."""
        why = [] if reason is None else ["--as", name, "--reason", reason]
        place = {"autoscaler.clusters.0.name": "main", "autoscaler.clusters.0.url": self.flink.url}
        given = [part for key, text in (self._values | place).items() for part in ("--set", f"{key}={text}")]
        return run_in_process(app, self._capture, [*arguments, *why, *given])

    def told(self, *reasons: str) -> list[str]:
        """Return the messages of events, of some reasons or all."""
        rows = rows_of(self._database, EVENTS)
        return [row["message"] for row in rows if not reasons or row["reason"] in reasons]


@pytest.fixture
def ordered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., OrderedJob]]:
    """Give what makes such a job, by the options of :class:`OrderedJob`."""
    with ExitStack() as open_jobs:
        yield lambda **options: open_jobs.enter_context(OrderedJob(tmp_path, capsys, **options))
