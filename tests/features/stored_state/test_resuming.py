"""A daemon that is started again on the same database goes on where it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.stores import LoggingEventHandler
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from testkit.fakes.flink import Canned, FakeFlink, FakeJob
from testkit.fakes.flink.driving import drive
from testkit.scenarios.runner.wired import passes_over
from testkit.servers.databases import create_tables

KEY = "main/orders"
BUSY = 90.0
"""Records/s that are too much for one subtask, and right for two."""
MINUTE = 60_000
OPTIONS = {
    "job.autoscaler.metrics.window": "2 min",
    "job.autoscaler.scale-down.interval": "0 s",
    "job.autoscaler.catch-up.duration": "0 s",
    "job.autoscaler.restart.time-tracking.enabled": "true",
    "job.autoscaler.target.utilization.boundary": "0.1",
}


class Site:
    """A job, a database, and a clock that the daemons of a test share."""

    def __init__(self, flink: FakeFlink, folder: Path, options: Mapping[str, str]) -> None:
        self.flink = flink
        # Long enough ago for its rates to be those of a whole minute.
        self.job: FakeJob = flink.add_job("orders", obeys=True, start_ms=time.time_ns() // 1_000_000 - 60 * MINUTE)
        self.minute = 0
        self._options = {**OPTIONS, **options}
        self._settings = DatabaseSettings(f"jdbc:sqlite:{folder / 'autoscaler.db'}")
        with closing(Database(self._settings)) as database:
            create_tables(database)

    def work_for_a_minute(self, rate: float) -> None:
        """Let the job take so many records/s for a minute."""
        self.minute += 1
        drive(self.job, rate, 60.0)

    def now_ms(self) -> int:
        return self.job.start_ms + self.minute * MINUTE

    def start(self, parts: ExitStack) -> Callable[[float], JobPassReport]:
        """Start a daemon; what is returned does a pass after a minute at some rate."""
        database = parts.enter_context(closing(Database(self._settings)))
        interval = {"autoscaler.standalone.control-loop.interval": "1 min"}
        passes = passes_over(
            self.flink.url,
            {**interval, **self._options},
            parts,
            store=SqlStateStore(database),
            told=LoggingEventHandler(),
            now_ms=self.now_ms,
        )

        def run(rate: float) -> JobPassReport:
            self.work_for_a_minute(rate)
            return passes.run().reports[KEY]

        return run

    def stored(self) -> JobState:
        """Return what is in the database."""
        with closing(Database(self._settings)) as database:
            return SqlStateStore(database).load(KEY)


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    with FakeFlink() as flink:
        yield lambda **options: Site(
            flink, tmp_path, {f"job.autoscaler.{key}": value for key, value in options.items()}
        )


def passes(site: Site, *rates: float) -> list[JobPassReport]:
    """Start a daemon, do a pass per rate, and stop it."""
    with ExitStack() as parts:
        run = site.start(parts)
        return [run(rate) for rate in rates]


def test_the_stored_window_is_not_waited_for_again(make_site: Callable[..., Site]) -> None:
    site = make_site()
    before = passes(site, 50.0, 50.0, 50.0, 50.0)

    (after,) = passes(site, 50.0)

    assert [report.outcome.phase for report in before][:2] == [PassPhase.COLLECTING, PassPhase.WINDOW_FILLING]
    assert after.outcome.phase is PassPhase.EXECUTED
    assert after.outcome.observation.sample_count == before[-1].outcome.observation.sample_count


def test_a_window_that_was_not_full_is_filled_further(make_site: Callable[..., Site]) -> None:
    site = make_site()
    passes(site, 50.0, 50.0)

    phases = [report.outcome.phase for report in passes(site, 50.0, 50.0)]

    assert phases[-1] is PassPhase.EXECUTED
    assert PassPhase.COLLECTING not in phases


def test_a_decision_that_was_recorded_but_not_carried_out_is_carried_out(make_site: Callable[..., Site]) -> None:
    site = make_site()
    site.flink.fault("/resource-requirements", Canned(b"{}", status=500), method="GET")
    passes(site, BUSY, BUSY, BUSY, BUSY)
    recorded = site.stored().overrides
    site.flink.clear_faults()

    (after,) = passes(site, BUSY)

    assert recorded
    assert after.realization is not None
    assert dict(after.realization.requested) == dict(site.stored().overrides)
    assert {vertex.vertex_id: vertex.parallelism for vertex in site.job.vertices} == dict(site.stored().overrides)


def test_a_decision_that_was_carried_out_is_not_repeated(make_site: Callable[..., Site]) -> None:
    site = make_site()
    passes(site, BUSY, BUSY, BUSY, BUSY)
    before = site.flink.paths("PUT")

    passes(site, BUSY)

    assert before
    assert site.flink.paths("PUT") == before


def test_a_delayed_scale_down_waits_no_longer_than_it_would_have(make_site: Callable[..., Site]) -> None:
    site = make_site(**{"scale-down.interval": "4 min"})
    for vertex in site.job.vertices:
        site.job.rescale({vertex.vertex_id: 8}, at_ms=site.job.start_ms)
    passes(site, 50.0, 50.0, 50.0, 50.0)
    waiting = site.stored().delayed

    reports = passes(site, 50.0, 50.0, 50.0, 50.0)

    first = min(vertex.first_ms for vertex in waiting.values())
    (executed,) = [report for report in reports if report.outcome.report is not None]
    decided_ms = site.stored().tracking[-1].at_ms
    assert executed.realization is not None
    assert decided_ms == first + 4 * MINUTE


def test_a_restart_that_was_under_way_is_measured(make_site: Callable[..., Site]) -> None:
    site = make_site()
    passes(site, BUSY, BUSY, BUSY)
    (begun,) = site.stored().tracking
    site.job.running_at_ms = begun.at_ms + 7_000

    passes(site, BUSY)

    (measured,) = site.stored().tracking
    assert (begun.restart_ms, measured) == (None, begun._replace(restart_ms=7_000))
