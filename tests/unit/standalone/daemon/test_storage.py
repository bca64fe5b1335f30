"""Store, leadership and outage handling as the settings wire them, on a SQLite file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.daemon.cluster_pass import PassReport
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.fetchers.listing import chosen_clusters
from flink_autoscaler.standalone.ha.leadership import LeadershipState
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.tables import JOBS, LEASE, TOMBSTONES
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeJob
from testkit.scenarios.watching.wired import settings_of
from testkit.servers.databases import rows_of

NO_WAIT = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.stabilization.interval": "0 s",
    "job.autoscaler.metrics.window": "20 s",
}


class Site:
    """A cluster with one job, and a database file."""

    def __init__(self, flink: FakeFlink, folder: Path) -> None:
        self.flink = flink
        self.job: FakeJob = flink.add_job("orders")
        self.url = f"jdbc:sqlite:{folder / 'autoscaler.db'}"
        self.database = Database(DatabaseSettings(self.url))

    def settings(self, **more: str) -> Settings:
        values = {
            **NO_WAIT,
            "autoscaler.clusters.0.name": "main",
            "autoscaler.clusters.0.url": self.flink.url,
            "autoscaler.engine.kind": "inline",
            "autoscaler.standalone.state-store.type": "JDBC",
            "autoscaler.standalone.event-handler.type": "JDBC",
            "autoscaler.standalone.jdbc.url": self.url,
            **{f"autoscaler.{key}": value for key, value in more.items()},
        }
        return settings_of(values)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with FakeFlink() as flink:
        site = Site(flink, tmp_path)
        yield site
        site.database.close()


def started(parts: ExitStack, settings: Settings) -> tuple[Wiring, Callable[[], PassReport]]:
    wiring = parts.enter_context(Wiring(settings))
    passes = wiring.cluster_pass(chosen_clusters(settings, None)[0])
    wiring.storage.start()
    return wiring, passes.run


def test_a_new_database_is_made_ready_and_states_are_saved(site: Site) -> None:
    with ExitStack() as parts:
        wiring, run = started(parts, site.settings())
        report = run()
        status = wiring.storage.store_status()

    assert status.up
    assert report.is_clean
    (row,) = rows_of(site.database, JOBS)
    assert (row["job_key"], row["cluster"], row["writer"]) == ("main/orders", "main", "flink-autoscaler")


def test_a_database_that_cannot_be_used_ends_the_start(site: Site) -> None:
    settings = site.settings(**{"standalone.jdbc.upgrade-at-start": "false"})

    with ExitStack() as parts, pytest.raises(ConfigError, match="db upgrade"):
        started(parts, settings)


def test_the_second_of_two_daemons_stands_by_until_the_first_has_ended(site: Site) -> None:
    settings = site.settings(**{"ha.enabled": "true", "ha.ttl": "30 s"})
    with ExitStack() as second_parts:
        with ExitStack() as first_parts:
            first, run_first = started(first_parts, settings)
            second, run_second = started(second_parts, settings)
            standings = [each.storage.leadership.status() for each in (first, second)]
            reports = [run_first(), run_second(), run_first()]
        wait_until("the second leads", second.storage.leadership.may_act, 300, interval=0.02)
        after = run_second()

    assert [each and each.standing for each in standings] == [LeadershipState.LEADER, LeadershipState.STANDBY]
    assert [report.is_acting for report in reports] == [True, False, True]
    assert after.is_acting
    # It went on with the samples of the first.
    assert after.reports["main/orders"].outcome.sample_count == 3
    (lease,) = rows_of(site.database, LEASE)
    assert (lease["token"], lease["expires_at"]) == (2, 0)


def test_a_gone_job_has_a_tombstone_in_the_database_and_goes_on_when_it_returns(site: Site) -> None:
    with ExitStack() as parts:
        _, run = started(parts, site.settings())
        run()
        site.flink.jobs.clear()
        run()
        marked = [row["job_key"] for row in rows_of(site.database, TOMBSTONES)]
    site.flink.jobs[site.job.job_id] = site.job
    with ExitStack() as parts:
        _, run = started(parts, site.settings())
        report = run()

    assert marked == ["main/orders"]
    assert report.reports["main/orders"].outcome.sample_count == 2
    assert rows_of(site.database, TOMBSTONES) == []


def test_a_job_that_stays_away_loses_its_state(site: Site) -> None:
    with ExitStack() as parts:
        _, run = started(parts, site.settings(**{"jobs-gone.grace": "0 s"}))
        run()
        site.flink.jobs.clear()
        report = run()

    assert report.deleted == ("main/orders",)
    assert rows_of(site.database, JOBS) == []
    assert rows_of(site.database, TOMBSTONES) == []
