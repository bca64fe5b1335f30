"""The daemon makes load profiles itself, by its schedule: who does it, what is told, and that passes go on."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest

from flink_autoscaler.core.model.events import Event
from flink_autoscaler.standalone.daemon.profile_schedule import ProfileSchedule
from flink_autoscaler.stores.heap import HeapForecastStore
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.events.log import EventFilter, newest_events
from flink_autoscaler.stores.sql.forecasts import SqlForecastStore
from testkit.builders.profiles import DAYS, write_samples
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.runner import LogLines
from testkit.scenarios.runner.process import DaemonProcess
from testkit.scenarios.runner.wired import settings_of

PATIENCE = 1500.0
"""Seconds until the next minute, and for Spark to start and end on a busy machine, where it gives way to passes."""

EVERY_MINUTE = {
    "autoscaler.forecast.build-schedule": "* * * * *",
    "autoscaler.forecast.build-timezone": "Europe/Berlin",
    "autoscaler.engine.spark-master": "local[1]",
    # Interpreting plans of a few rows takes a third of the time of compiling them.
    "autoscaler.engine.spark-config.spark.sql.codegen.wholeStage": "false",
    "autoscaler.engine.spark-config.spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "autoscaler.engine.spark-config.spark.sql.shuffle.partitions": "1",
    "autoscaler.engine.spark-config.spark.sql.adaptive.enabled": "false",
}


@pytest.mark.spark
def test_profiles_are_made_when_they_are_due_while_passes_go_on(tmp_path: Path) -> None:
    history = write_samples(tmp_path / "samples", int(time.time()) // 60 * 60).history
    url = f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}"
    with FakeFlink() as flink, DaemonProcess(tmp_path) as daemon:
        flink.add_job("orders")
        options = {
            **EVERY_MINUTE,
            "autoscaler.history.path": str(history),
            "autoscaler.standalone.state-store.type": "JDBC",
            "autoscaler.standalone.event-handler.type": "JDBC",
            "autoscaler.standalone.jdbc.url": url,
            "autoscaler.standalone.control-loop.interval": "1 s",
        }
        daemon.configure({"main": flink.url}, **options)
        daemon.environment["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        daemon.start()
        [begun] = wait_until("a run", lambda: daemon.lines("forecast_build_started")[:1], PATIENCE)
        passes = daemon.passes()
        [line] = wait_until(
            "its end", lambda: daemon.lines("forecast_build_finished")[:1], PATIENCE, context=daemon.text
        )
        passes = daemon.passes() - passes
        wait_until("its end in the status", lambda: series(daemon, "successes_total"), PATIENCE)
        counted = [series(daemon, name) for name in ("failures_total", "last_sources", "last_profiles")]
        succeeded_at = series(daemon, "last_success_timestamp_seconds") or 0
        seconds, due = series(daemon, "last_seconds") or 0, series(daemon, "next_timestamp_seconds") or 0
    database = Database(DatabaseSettings(url))
    kept = SqlForecastStore(database).revisions()
    [told] = newest_events(database, EventFilter(reason="ForecastsBuilt"), 1)
    database.close()

    assert (line["sources"], line["profiles"]) == (len(DAYS), len(DAYS) - 1)
    assert counted == [0.0, len(DAYS), len(DAYS) - 1]
    assert set(kept) == set(DAYS)
    assert told.job_key == "flink-autoscaler"
    assert datetime.fromisoformat(begun["timestamp"]).timestamp() < succeeded_at < due
    assert seconds > 0
    assert passes > 1


def series(daemon: DaemonProcess, name: str) -> float | None:
    found = re.search(rf"^flink_autoscaler_forecast_build_{name} (\S+)$", daemon.page("/metrics"), re.MULTILINE)
    return float(found[1]) if found else None


class Site:
    """A schedule in this process whose runs begin when the test says so."""

    def __init__(self, folder: Path, *, leads: bool = True) -> None:
        self.told: list[Event] = []
        settings = settings_of({**EVERY_MINUTE, "autoscaler.history.path": str(folder)})
        self.schedule = ProfileSchedule(
            settings, HeapForecastStore(), may_act=lambda: leads, tell=self.told.append, clock=time.time
        )


@pytest.fixture
def lines() -> Iterator[LogLines]:
    with LogLines("debug") as lines:
        yield lines


def test_standby_leaves_profiles_to_the_leader(tmp_path: Path, lines: LogLines) -> None:
    site = Site(tmp_path, leads=False)

    site.schedule.run()

    assert [line["event"] for line in lines.all()] == ["forecast_build_left_to_leader"]
    assert site.told == []


def test_run_that_fails_is_told(tmp_path: Path, lines: LogLines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # Spark cannot even start
    site = Site(tmp_path)

    site.schedule.run()

    [line] = lines.of("forecast_build_failed", level="warning")
    assert [(each.reason, each.message) for each in site.told] == [("ForecastBuildFailed", line["error"])]
    assert (site.schedule.status().failures, site.schedule.status().running) == (1, False)


def test_run_under_way_ends_with_the_daemon_and_that_is_no_failure(tmp_path: Path, lines: LogLines) -> None:
    site = Site(tmp_path)
    run = threading.Thread(target=site.schedule.run)
    run.start()
    wait_until("its process", lambda: site.schedule.status().running, PATIENCE, interval=0.001)

    site.schedule.stop()
    run.join(PATIENCE)

    assert len(lines.of("forecast_build_ended_early")) == 1
    assert (site.told, site.schedule.status().running, site.schedule.status().failures) == ([], False, 0)


@pytest.mark.suite(name="long")
def test_run_that_overlaps_the_next_is_told_and_ends_with_the_daemon(tmp_path: Path, lines: LogLines) -> None:
    folder = tmp_path / "history" / "samples" / "version=1" / "date=2026-11-01" / "cluster=main"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "1793491200000-3f2a9c41d7b0.parquet")  # who reads it waits for ever
    site = Site(tmp_path / "history")
    with ExitStack() as ending:
        ending.callback(site.schedule.stop)
        site.schedule.start()
        wait_until("a run that is left out", lambda: site.schedule.status().skipped, PATIENCE)
        status = site.schedule.status()
    wait_until("the end of the run", lambda: lines.of("forecast_build_ended_early"), PATIENCE)

    assert (status.skipped, status.running) == (1, True)
    assert len(lines.of("forecast_build_started")) == 1
    assert lines.of("forecast_build_failed") == []
