"""The daemon makes load profiles itself, by its schedule: who does it, what is told, and that passes go on."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.events.log import EventFilter, newest_events
from flink_autoscaler.stores.sql.forecasts import SqlForecastStore
from testkit.builders.profiles import DAYS, write_samples
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.spark

RUN_SECONDS = 1500.0
"""Until the next minute, and for Spark to start and end on a busy machine, where it gives way to passes."""

OPTIONS = {
    "autoscaler__forecast__build-timezone": "Europe/Berlin",
    "autoscaler__log__level": "debug",
    "autoscaler__engine__spark-config.spark.sql.shuffle.partitions": "2",
    "autoscaler__standalone__control-loop.interval": "1 s",
}
EVERY_MINUTE = {**OPTIONS, "autoscaler__forecast__build-schedule": "* * * * *"}


@dataclass
class Site:
    """Daemons that were started together, since each waits for the next minute.

    Attributes:
        leading: Has a history, and shares a database with ``standby``.
        lost: Its history is not there.
        flink: That of ``lost``.
        database: URL.
    """

    leading: DaemonProcess
    standby: DaemonProcess
    lost: DaemonProcess
    flink: FakeFlink
    database: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    history = write_samples(folder / "samples", int(time.time()) // 60 * 60).history
    url = f"jdbc:sqlite:{folder / 'autoscaler.db'}"
    shared = {
        "autoscaler__standalone__state-store.type": "JDBC",
        "autoscaler__standalone__event-handler.type": "JDBC",
        "autoscaler__standalone__jdbc.url": url,
        "autoscaler__ha__enabled": "true",
        "job__autoscaler__flink__rest-client__timeout": "5 s",
        "autoscaler__history__path": str(history),
    }
    with ExitStack() as parts:
        flink, other = parts.enter_context(FakeFlink()), parts.enter_context(FakeFlink())
        flink.add_job("orders")
        other.add_job("clicks")

        def started(name: str, flink: FakeFlink, options: dict[str, str]) -> DaemonProcess:
            (folder / name).mkdir()
            daemon = parts.enter_context(DaemonProcess(folder / name))
            daemon.configure({"main": flink.url}, **EVERY_MINUTE, **options)
            daemon.start()
            return daemon

        leading = started("leading", flink, shared)
        leading.wait_for("leadership", lambda: leading.lines("leadership_gained"))
        standby = started("standby", flink, shared)
        lost = started("lost", other, {"autoscaler__history__path": str(folder / "nowhere")})
        yield Site(leading, standby, lost, other, url)


def series(daemon: DaemonProcess, name: str) -> float | None:
    found = re.search(rf"^flink_autoscaler_forecast_build_{name} (\S+)$", daemon.page("/metrics"), re.MULTILINE)
    return float(found[1]) if found else None


def wait_for_run(daemon: DaemonProcess, event: str, count: int = 1) -> None:
    wait_until(event, lambda: len(daemon.lines(event)) >= count, RUN_SECONDS, context=lambda: daemon.text()[-6000:])


def test_profiles_are_made_when_they_are_due(site: Site) -> None:
    wait_for_run(site.leading, "forecast_build_finished")
    line = site.leading.lines("forecast_build_finished")[0]
    database = Database(DatabaseSettings(site.database))
    kept = SqlForecastStore(database).revisions()
    told = list(newest_events(database, EventFilter(reason="ForecastsBuilt"), 1))
    database.close()

    assert (line["sources"], line["profiles"]) == (len(DAYS), len(DAYS) - 1)
    assert set(kept) == set(DAYS)
    assert told
    assert told[0].job_key == "flink-autoscaler"
    assert (series(site.leading, "successes_total") or 0) >= 1
    assert series(site.leading, "failures_total") == 0.0
    assert abs(time.time() - (series(site.leading, "last_success_timestamp_seconds") or 0)) < RUN_SECONDS
    assert (series(site.leading, "last_seconds") or 0) > 0


def test_standby_leaves_profiles_to_the_leader(site: Site) -> None:
    wait_for_run(site.standby, "forecast_build_left_to_the_leader")

    assert not site.standby.lines("forecast_build_started")


def test_run_that_fails_is_told_and_the_next_one_comes(site: Site) -> None:
    wait_for_run(site.lost, "forecast_build_failed")
    line = site.lost.lines("forecast_build_failed")[0]
    events = [each for each in site.lost.lines("autoscaler_event") if each["reason"] == "ForecastBuildFailed"]

    assert "holds neither a metric history nor Parquet files" in line["error"]
    assert line["level"] == "warning"
    assert "holds neither a metric history" in events[0]["text"]
    assert (series(site.lost, "failures_total") or 0) >= 1
    assert (series(site.lost, "next_timestamp_seconds") or 0) > time.time() - 60


def test_passes_go_on_while_profiles_are_made(site: Site) -> None:
    wait_for_run(site.lost, "forecast_build_failed")
    begun, ended = (
        datetime.fromisoformat(site.lost.lines(event)[0]["timestamp"])
        for event in ("forecast_build_started", "forecast_build_failed")
    )

    starts = [request.at for request in site.flink.requests if request.path == "/jobs/overview"]

    assert max(later - earlier for earlier, later in itertools.pairwise(starts)) < (ended - begun).total_seconds()


@pytest.mark.suite(name="long")
def test_run_that_overlaps_the_next_is_told_and_ends_with_the_daemon(tmp_path: Path) -> None:
    folder = tmp_path / "history" / "samples" / "version=1" / "date=2026-11-01" / "cluster=main"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "1793491200000-3f2a9c41d7b0.parquet")  # who reads it waits for ever
    with FakeFlink() as flink, DaemonProcess(tmp_path) as daemon:
        flink.add_job("orders")
        daemon.configure({"main": flink.url}, **EVERY_MINUTE, autoscaler__history__path=str(tmp_path / "history"))
        daemon.start()

        wait_for_run(daemon, "forecast_build_skipped")
        skipped = series(daemon, "skipped_total")
        running = series(daemon, "running")
        code = daemon.stop()

    assert len(daemon.lines("forecast_build_started")) == 1
    assert (skipped, running, code) == (1.0, 1.0, 0)
    assert not daemon.lines("forecast_build_failed")
    assert daemon.lines("forecast_build_ended_early")
