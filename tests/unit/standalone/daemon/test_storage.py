"""Store, leadership and outage handling as the settings wire them, on a SQLite file."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.load_profile import LoadProfile, ProfileResult
from flink_autoscaler.core.model.metrics import MetricSample
from flink_autoscaler.standalone.ha.leadership import LeadershipState
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.tables import JOBS, LEASE, TOMBSTONES
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeJob
from testkit.scenarios.runner.wired import in_database, settings_on, started
from testkit.servers.databases import rows_of


class Site:
    """A cluster with one job, and a database file."""

    def __init__(self, flink: FakeFlink, folder: Path) -> None:
        self.flink = flink
        self.job: FakeJob = flink.add_job("orders")
        self.url = f"jdbc:sqlite:{folder / 'autoscaler.db'}"
        self.database = Database(DatabaseSettings(self.url))

    def settings(self, job: Mapping[str, str] | None = None, /, **more: str) -> Settings:
        values = {
            "job.autoscaler.metrics.window": "20 s",
            "autoscaler.standalone.event-handler.type": "JDBC",
            **in_database(self.url),
            **{f"job.autoscaler.{key}": value for key, value in (job or {}).items()},
            **{f"autoscaler.{key}": value for key, value in more.items()},
        }
        return settings_on(self.flink.url, values)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with FakeFlink() as flink:
        site = Site(flink, tmp_path)
        yield site
        site.database.close()


def test_a_new_database_is_made_ready_and_states_are_saved(site: Site) -> None:
    with ExitStack() as parts:
        wiring, passes = parts.enter_context(started(site.settings()))
        report = passes.run()
        status = wiring.storage.store_status()

    assert status.up
    assert report.is_clean
    (row,) = rows_of(site.database, JOBS)
    assert (row["job_key"], row["cluster"], row["writer"]) == ("main/orders", "main", "flink-autoscaler")


def test_a_database_that_cannot_be_used_ends_the_start(site: Site) -> None:
    settings = site.settings(**{"standalone.jdbc.upgrade-at-start": "false"})

    with ExitStack() as parts, pytest.raises(ConfigError, match="db upgrade"):
        parts.enter_context(started(settings))


def test_the_second_of_two_daemons_stands_by_until_the_first_has_ended(site: Site) -> None:
    settings = site.settings(**{"ha.enabled": "true", "ha.ttl": "30 s"})
    with ExitStack() as second_parts:
        with ExitStack() as first_parts:
            first, passes_first = first_parts.enter_context(started(settings))
            second, passes_second = second_parts.enter_context(started(settings))
            standings = [each.storage.leadership.status() for each in (first, second)]
            reports = [passes_first.run(), passes_second.run(), passes_first.run()]
        wait_until("the second leads", second.storage.leadership.is_leader, 300, interval=0.02)
        after = passes_second.run()

    assert [each and each.standing for each in standings] == [LeadershipState.LEADER, LeadershipState.STANDBY]
    assert [report.is_acting for report in reports] == [True, False, True]
    assert after.is_acting
    # It went on with the samples of the first.
    assert after.reports["main/orders"].outcome.observation.sample_count == 3
    (lease,) = rows_of(site.database, LEASE)
    assert (lease["token"], lease["expires_at"]) == (2, 0)


def test_a_gone_job_has_a_tombstone_in_the_database_and_goes_on_when_it_returns(site: Site) -> None:
    with ExitStack() as parts:
        _, passes = parts.enter_context(started(site.settings()))
        passes.run()
        site.flink.jobs.clear()
        passes.run()
        marked = [row["job_key"] for row in rows_of(site.database, TOMBSTONES)]
    site.flink.jobs[site.job.job_id] = site.job
    with ExitStack() as parts:
        _, passes = parts.enter_context(started(site.settings()))
        report = passes.run()

    assert marked == ["main/orders"]
    assert report.reports["main/orders"].outcome.observation.sample_count == 2
    assert rows_of(site.database, TOMBSTONES) == []


def test_a_job_that_stays_away_loses_its_state(site: Site) -> None:
    with ExitStack() as parts:
        _, passes = parts.enter_context(started(site.settings(**{"state-retention.grace-period": "0 s"})))
        passes.run()
        site.flink.jobs.clear()
        report = passes.run()

    assert report.deleted_states == ("main/orders",)
    assert rows_of(site.database, JOBS) == []
    assert rows_of(site.database, TOMBSTONES) == []


def test_profiles_reach_the_passes_of_their_job_and_go_with_it(site: Site) -> None:
    asof, source = 1_769_860_800.0, site.job.vertices[0].vertex_id
    settings = site.settings({"forecast.enabled": "true"}, **{"state-retention.grace-period": "0 s"})
    with started(settings) as (wiring, passes):
        profile = LoadProfile((1.0,) * 672, (1.2,) * 672, 5, level=100.0, growth=1.0, asof=asof)
        wiring.storage.forecasts.save([ProfileResult("main/orders", source, asof, profile)])

        reports = [passes.run() for _ in range(3)]
        outcome = reports[-1].reports["main/orders"].outcome
        before = wiring.storage.forecasts.revisions()
        site.flink.jobs.clear()
        passes.run()
        after = wiring.storage.forecasts.revisions()

    [(_, f50, f90)] = outcome.state.forecast["sources"][source]["issued"]
    assert (f50, f90) == (100.0, 120.0)
    assert (set(before), after) == ({"main/orders"}, {})


WINDOW = 3
"""Passes over a job, each with a sample. The window that was looked at last is kept in any case, of whatever job."""


def samples_in_memory() -> int:
    """Count the metric samples that something holds, whoever it is."""
    gc.collect()
    return sum(isinstance(each, MetricSample) for each in gc.get_objects())


@pytest.mark.parametrize(
    ("is_in_database", "jobs", "bounds"),
    [
        pytest.param(True, 12, (0, WINDOW), id="nothing where a database has it"),
        pytest.param(False, 110, (WINDOW + 1, WINDOW * 101), id="those of a hundred jobs without a database"),
    ],
)
def test_of_the_metrics_of_gone_jobs_little_is_kept_in_memory(
    flink: FakeFlink, tmp_path: Path, is_in_database: bool, jobs: int, bounds: tuple[int, int]
) -> None:
    options = {"autoscaler.state-retention.grace-period": "1 h", "autoscaler.records.enabled": "false"}
    options |= in_database(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}") if is_in_database else {}
    before = samples_in_memory()
    with started(settings_on(flink.url, options)) as (_, passes):
        for number in range(jobs):
            flink.add_job(f"job {number}")
        for _ in range(WINDOW):
            passes.run()
        flink.jobs.clear()
        passes.run()
        passes.run()

        kept = samples_in_memory() - before

    assert bounds[0] <= kept <= bounds[1]
