"""What the daemon tells about its decisions, as the settings wire it: in the log always, and wherever else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import text

from flink_autoscaler.core.errors import ConfigError, PluginError, StoreError
from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Quarantined, Supervision
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.daemon.event_handlers import EventHandlers
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from flink_autoscaler.stores.sql.tables import EVENT_FIGURES, EVENTS, SCALINGS
from flink_autoscaler.stores.testing.event_handler_contract import a_context, a_report
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink
from testkit.fakes.flink.load import keep_counting, overloaded, working
from testkit.scenarios.runner import LogLines
from testkit.scenarios.runner.process import DaemonProcess
from testkit.scenarios.runner.wired import in_database, settings_on, started
from testkit.servers.databases import rows_of

QUICK = {
    "job.autoscaler.metrics.window": "300 ms",
    "job.autoscaler.stabilization.interval": "0 s",
    "autoscaler.standalone.control-loop.interval": "100 ms",
}


class Site:
    """A cluster with a job whose second vertex has too much to do, and a database file."""

    def __init__(self, flink: FakeFlink, folder: Path) -> None:
        self.flink = flink
        self.job = overloaded(flink)
        self.url = f"jdbc:sqlite:{folder / 'autoscaler.db'}"
        self.database = Database(DatabaseSettings(self.url))

    def settings(self, job: Mapping[str, str] | None = None, /, **more: str) -> Settings:
        more = {f"autoscaler.{key}": value for key, value in more.items()}
        of_job = {f"job.autoscaler.{key}": value for key, value in (job or {}).items()}
        return settings_on(self.flink.url, {**QUICK, **in_database(self.url), **of_job, **more})

    def run_until(self, settings: Settings, is_over: Callable[[PassReport], object]) -> None:
        """Do passes until one of them shows something."""
        with started(settings) as (_, passes):

            def look() -> object:
                keep_counting(self.job)
                return is_over(passes.run())

            wait_until("a pass that shows it", look, 300, interval=0.05)


def is_rescaled(report: PassReport) -> bool:
    realization = report.reports["main/orders"].realization
    return realization is not None and bool(realization.requested)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with FakeFlink() as flink:
        site = Site(flink, tmp_path)
        with closing(site.database):
            yield site


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"standalone.event-handler.type": "JDBC"}, id="the key of the Java process"),
        pytest.param({"event-handlers": "jdbc"}, id="the list"),
        pytest.param({"event-handlers": "[logging, jdbc]", "standalone.event-handler.type": "JDBC"}, id="both"),
    ],
)
def test_a_rescale_is_in_the_log_and_in_the_database(site: Site, lines: LogLines, options: Mapping[str, str]) -> None:
    site.run_until(site.settings(**options), is_rescaled)

    (logged,) = lines.of("scaling_report", is_executed="True")
    executed = [row for row in rows_of(site.database, SCALINGS) if row["is_executed"]]
    assert {v["vertex_id"]: v["new"] for v in logged["vertices"]} == {
        row["vertex_id"]: row["new_parallelism"] for row in executed
    }
    assert [row["reason"] for row in rows_of(site.database, EVENTS)].count("ScalingReport") == 1


def test_a_database_that_takes_no_events_does_not_keep_the_log_from_being_told(site: Site, lines: LogLines) -> None:
    settings = site.settings(**{"event-handlers": "jdbc"})
    reports: list[PassReport] = []

    def without_events(report: PassReport) -> bool:
        if not reports:
            with site.database.transaction() as connection:
                connection.execute(text(f"DROP TABLE {EVENTS.name}"))
        reports.append(report)
        return is_rescaled(report)

    site.run_until(settings, without_events)

    assert lines.of("scaling_report", is_executed="True")
    assert any(isinstance(error, StoreError) for error in reports[-1].reports["main/orders"].errors)


def test_an_unknown_event_handler_is_a_configuration_error_that_names_the_known_ones(site: Site) -> None:
    with pytest.raises(ConfigError, match=r"autoscaler\.event-handlers.*no plug-in 'jbdc'.*known: jdbc, logging"):
        site.settings(**{"event-handlers": "jbdc"})


class Taking:
    """Takes everything, after it may have failed."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.taken: list[object] = []

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        self._take(event)

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        self._take(report)

    def close(self) -> None:
        self._take("closed")

    def _take(self, what: object) -> None:
        self.taken.append(what)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        pytest.param((StoreError("away"), None), StoreError, id="ours goes through"),
        pytest.param((RuntimeError("oops"), None), PluginError, id="others are wrapped"),
        pytest.param((StoreError("away"), RuntimeError("oops")), PluginError, id="all are named"),
    ],
)
def test_every_handler_is_told_whatever_becomes_of_the_others(
    errors: tuple[Exception | None, ...], kind: type[Exception]
) -> None:
    handlers = [*map(Taking, errors), Taking()]
    all_of_them, event, report = EventHandlers(handlers), Event(EventType.NORMAL, "R", "T"), a_report(is_executed=True)

    with pytest.raises(kind, match=".*".join(str(error) for error in errors if error)):
        all_of_them.handle_event(a_context(), event)
    with pytest.raises(kind):
        all_of_them.handle_scaling_report(a_context(), report)
    with pytest.raises(kind):
        all_of_them.close()

    assert [handler.taken for handler in handlers] == [[event, report, "closed"]] * len(handlers)


def test_a_filter_that_holds_a_rescale_back_is_an_event_with_its_figures_once_per_interval(
    site: Site, lines: LogLines
) -> None:
    settings = site.settings(**{"event-handlers": "jdbc"})
    site.run_until(settings, lambda _: True)  # makes the tables
    failed = Quarantined(site.job.vertices[1].vertex_id, 3, "network-memory", time.time_ns() // 1_000_000)
    state = JobState(job_id=site.job.job_id, supervision=Supervision(quarantine=(failed,)))
    SqlStateStore(site.database).save("main/orders", state)
    held: list[PassReport] = []

    def is_held_twice(report: PassReport) -> bool:
        reasons = report.reports["main/orders"].outcome.decision.reasons
        held.extend([report] if any(reason.code == "QUARANTINED" for reason in reasons) else [])
        return len(held) > 1

    site.run_until(settings, is_held_twice)

    figures = {"failed": 3.0, "limit": 2.0}
    (line,) = lines.of("autoscaler_event", reason="ParallelismQuarantined")
    (row,) = [row for row in rows_of(site.database, EVENTS) if row["reason"] == "ParallelismQuarantined"]
    stored = {each["name"]: each["value"] for each in rows_of(site.database, EVENT_FIGURES)}
    assert row["event_count"] > 1
    assert figures.items() <= line["figures"].items()
    assert figures.items() <= stored.items()


def test_a_daemon_at_its_default_level_tells_whenever_the_reasons_change_and_not_in_between(tmp_path: Path) -> None:
    quick = {key.replace(".", "__"): value for key, value in QUICK.items() if key.startswith("job.")}
    with FakeFlink() as flink, DaemonProcess(tmp_path) as daemon, working(overloaded(flink)):
        daemon.configure({"main": flink.url}, **quick, **{"job__autoscaler__scale-up__enabled": "false"})
        daemon.start()
        daemon.wait_for("a decision", lambda: "DIRECTION_OFF" in daemon.text())
        daemon.configure({"main": flink.url}, **quick)
        daemon.reload()
        daemon.wait_for("a rescale", lambda: daemon.lines("job_rescale_requested"))
        daemon.stop()

    told = [line for line in daemon.lines("job_reasons") if line["decision"] == "rescale"]
    (sized,) = [code for code in told[0]["codes"] if code["code"] == "SIZED" and code["vertex"] == "work"]
    assert sized["wanted"] > 2
    assert sized["needed_rate"] > sized["processing_rate"]
    signatures = [[line["phase"], line["decision"], _codes(line)] for line in _told(daemon)]
    assert all(one != other for one, other in pairwise(signatures))


def _told(daemon: DaemonProcess) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in daemon.text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] in ("job_phase", "job_reasons")]


def _codes(line: Mapping[str, object]) -> list[str]:
    entries = line["codes"]
    assert isinstance(entries, list)
    return sorted({f"{entry['code']} {entry.get('vertex', '')}" for entry in entries})
