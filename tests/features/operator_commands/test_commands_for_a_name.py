"""What a person ordered for a job while other jobs of its name come and go, in a daemon of its own process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.schema import upgrade_schema
from flink_autoscaler.stores.sql.tables import JOBS
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.fakes.flink.driving import drive
from testkit.fakes.flink.load import repeated
from testkit.scenarios.runner.process import DaemonProcess
from testkit.servers.databases import rows_of

KEY = "main/orders"
WHY = ("--as", "ann", "--reason", "a test")
TICK = 0.01


class Site:
    """A cluster whose jobs are all overloaded until they have parallelism 4, and a daemon."""

    def __init__(self, folder: Path) -> None:
        self.flink = FakeFlink()
        self.settings = DatabaseSettings(f"jdbc:sqlite:{folder / 'autoscaler.db'}")
        self._folder = folder
        self._parts = ExitStack()

    def __enter__(self) -> Site:
        with closing(Database(self.settings)) as database:
            upgrade_schema(database)
        self._parts.enter_context(self.flink)
        self._parts.enter_context(repeated(self._drive, TICK))
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def _drive(self) -> None:
        for job in list(self.flink.jobs.values()):
            drive(job, 250.0, TICK)

    def submit(self, name: str = "orders", **values: int) -> FakeJob:
        return self.flink.add_job(name, chain(vertices=2), obeys=True, **values)

    def daemon(self) -> DaemonProcess:
        return DaemonProcess(self._folder, database=self.settings, cluster_url=self.flink.url)

    def puts(self, job: FakeJob) -> int:
        return sum(job.job_id in path for path in self.flink.paths("PUT"))

    def is_known(self, job_key: str) -> bool:
        """Tell whether the daemon has written down a job: a line of its log may come before that."""
        with closing(Database(self.settings)) as database:
            return job_key in {row["job_key"] for row in rows_of(database, JOBS)}


def told(daemon: DaemonProcess, reason: str) -> list[str]:
    return [line["job_key"] for line in daemon.lines("autoscaler_event") if line["reason"] == reason]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as site:
        yield site


def test_a_pause_holds_for_every_job_of_the_name_as_they_come_and_go(site: Site) -> None:
    first, other = site.submit(), site.submit("payments")
    with site.daemon() as daemon:
        site.flink.jobs.pop(other.job_id)
        daemon.start()
        daemon.wait_for("a rescale", lambda: site.puts(first))
        daemon.order("pause", KEY, *WHY)
        daemon.wait_for_passes(2)
        before = site.puts(first)

        second = site.submit()
        site.flink.jobs[other.job_id] = other
        first.rescale(dict.fromkeys((vertex.vertex_id for vertex in first.vertices), 1))
        daemon.wait_for("a rescale of a job of another name", lambda: site.puts(other))
        daemon.wait_for_passes(10)
        shown = json.loads(daemon.call("commands", "--json").stdout)["commands"]

        assert (site.puts(first), site.puts(second)) == (before, 0)
        assert {each["job_key"] for each in shown if each["pause"]} == {KEY, f"{KEY}#{second.job_id}"}
        (line,) = daemon.lines("job_name_shared")
        assert (line["job_key"], line["name_key"]) == (f"{KEY}#{second.job_id}", KEY)

        # The one that stays has the name, and what was ordered for it, to itself.
        del site.flink.jobs[first.job_id]
        daemon.wait_for_passes(10)
        assert site.puts(second) == 0
        daemon.order("resume", KEY, "--as", "ann")
        daemon.wait_for("a rescale", lambda: site.puts(second))
        assert daemon.stop() == 0


def test_a_job_keeps_its_history_when_another_of_its_name_comes_and_leaves(site: Site) -> None:
    first = site.submit()
    with site.daemon() as daemon:
        daemon.start()
        daemon.wait_for("a rescale", lambda: site.puts(first))
        daemon.order("pause", KEY, *WHY)
        daemon.wait_for_passes(2)

        second = site.submit()
        daemon.wait_for("the second job", lambda: daemon.lines("job_name_shared"))
        assert "To be rolled back" in daemon.order("rollback", KEY, *WHY)
        daemon.wait_for("the rollback", lambda: told(daemon, "RolledBack"))
        rolled_back_to = first.vertices[1].parallelism
        del site.flink.jobs[second.job_id]
        daemon.wait_for_passes(10)

        assert first.vertices[1].parallelism == rolled_back_to
        assert told(daemon, "RolledBack") == [KEY]
        assert "ann" in daemon.order("commands", KEY)
        assert daemon.stop() == 0


def test_what_is_ordered_for_one_of_two_jobs_follows_it_when_it_has_the_name_alone(site: Site) -> None:
    first = site.submit()
    second = site.submit(start_ms=first.start_ms + 1)
    key = f"{KEY}#{second.job_id}"
    with site.daemon() as daemon:
        daemon.order("pause", key, "--new", *WHY)
        daemon.start()
        daemon.wait_for("a rescale of the other one", lambda: site.puts(first))

        del site.flink.jobs[first.job_id]
        daemon.wait_for_passes(10)
        assert site.puts(second) == 0
        assert "ann" in daemon.order("commands", key)
        assert daemon.stop() == 0


def test_an_order_for_one_job_says_what_holds_by_its_name(site: Site) -> None:
    first = site.submit()
    key = f"{KEY}#{site.submit(start_ms=first.start_ms + 1).job_id}"

    with site.daemon() as daemon:
        daemon.order("pause", KEY, "--new", *WHY)
        daemon.start()
        daemon.wait_for("the second job", lambda: site.is_known(key))
        said = daemon.order("resume", key, "--as", "ann", code=1)

        assert "nothing to resume" in said
        assert f"every job named so has an order for {KEY}: scaling paused" in said
        assert daemon.stop() == 0
