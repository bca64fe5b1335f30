"""A real Prometheus scrapes a daemon: every expression gives series, and alerts fire and end as written.

Each of them is provoked on a fake cluster, with the times of ``conf/prometheus/alerts.yml`` shortened alike.
"""

from __future__ import annotations

import math
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from dashboards import FOLDER
from dashboards.expressions import expressions
from prometheus_client import CollectorRegistry, generate_latest

from flink_autoscaler.standalone.daemon.profile_schedule import BuildStatus
from flink_autoscaler.standalone.observability.status_series import PROFILE_BUILD_SERIES, StatusMetrics
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import Fault
from testkit.servers.prometheus import RATE_INTERVAL, quickened, require
from testkit.servers.prometheus.site import TIMEOUT, Site

PROJECT = Path(__file__).parents[3]
RULES: dict[str, Any] = yaml.safe_load((PROJECT / "conf" / "prometheus" / "alerts.yml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
VARIABLES = {"cluster": "main|other", "job": "main/orders", "__rate_interval": RATE_INTERVAL}
METRIC = re.compile(r"\bflink_autoscaler_\w+")
Cause = Callable[[Site], AbstractContextManager[dict[str, str]]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require()
    with Site(tmp_path_factory.mktemp("site"), quickened(RULES)) as site:
        yield site


def has_number(series: list[dict[str, Any]]) -> bool:
    return any(math.isfinite(float(each["value"][1])) for each in series)


@pytest.mark.parametrize("name", ["fleet.json", "job.json"])
def test_every_expression_of_a_dashboard_gives_series(site: Site, name: str) -> None:
    open_ones = set(expressions(FOLDER / name, VARIABLES))

    def all_seen() -> bool:
        seen = {each for each in open_ones if has_number(site.prometheus.query(each[1]))}
        open_ones.difference_update(seen)
        return not open_ones

    with site.late_job(f"late for {name}"):
        site.order("pause", "main/orders", "--down", "--as", "ann", "--reason", "a test")
        wait_until("series", all_seen, TIMEOUT, context=lambda: f"without: {sorted(open_ones)}")
        site.order("resume", "main/orders", "--as", "ann")


def test_every_series_of_the_alerts_is_one_that_the_daemon_shows(site: Site) -> None:
    registry = CollectorRegistry()  # the nightly run takes Spark and a history: shown as after one
    status = BuildStatus(last_success_timestamp_seconds=1.0)
    registry.register(StatusMetrics(PROFILE_BUILD_SERIES, lambda: status))
    nightly = set(METRIC.findall(generate_latest(registry).decode()))
    wanted = {name for rule in ALERTS.values() for name in METRIC.findall(rule["expr"])} - nightly

    def lacking() -> set[str]:
        return {name for name in wanted if not site.prometheus.query(f"last_over_time({name}[5m])")}

    site.order("pause", "main/orders", "--as", "ann", "--reason", "a test")
    wait_until("series", lambda: not lacking(), TIMEOUT, context=lambda: f"without: {lacking()}")
    site.order("resume", "main/orders", "--as", "ann")
    assert site.prometheus.rule_errors() == []


@contextmanager
def cluster_away(site: Site) -> Iterator[dict[str, str]]:
    site.other.pause()
    try:
        yield {"cluster": "other"}
    finally:
        site.other.resume()


@contextmanager
def hanging_cluster(site: Site) -> Iterator[dict[str, str]]:
    site.other.fault("/jobs/overview", Fault.HANG)
    try:
        yield {"cluster": "other"}
    finally:
        site.other.clear_faults()


@contextmanager
def job_at_bounds(site: Site) -> Iterator[dict[str, str]]:
    with site.late_job("late") as job:
        yield {"job_key": "main/late"}
        site.set_pending(job, 0.0)
        site.wait_for_end("FlinkAutoscalerLagAtBounds", job_key="main/late")


@contextmanager
def stopped_tasks(site: Site) -> Iterator[dict[str, str]]:
    with site.job("stopped") as job:
        job.vertices[0].status = "CREATED"
        yield {"job_key": "main/stopped"}
        job.vertices[0].status = "RUNNING"
        site.wait_for_end("FlinkAutoscalerJobNotRunning", job_key="main/stopped")


@contextmanager
def impossible_option(site: Site) -> Iterator[dict[str, str]]:
    with site.job("impossible", configuration={"job.autoscaler.utilization.target": "2.0"}):
        yield {"job_key": "main/impossible"}


@contextmanager
def unreadable_metrics(site: Site) -> Iterator[dict[str, str]]:
    with site.job("failing") as job:
        site.main.fault(f"/jobs/{job.job_id}/vertices", Fault.HTML)
        yield {"job_key": "main/failing"}
        site.main.clear_faults()
        site.wait_for_end("FlinkAutoscalerJobFailing", job_key="main/failing")


@contextmanager
def rescale_without_effect(site: Site) -> Iterator[dict[str, str]]:
    with site.job("stuck") as job:
        yield {"job_key": "main/stuck"}
        job.obeys = True
        job.rescale({vertex_id: upper for vertex_id, (_, upper) in job.requirements.items()})
        site.wait_for_end("FlinkAutoscalerRescaleNotReached", job_key="main/stuck")


@contextmanager
def ordered_rollback(site: Site) -> Iterator[dict[str, str]]:
    labels = {"job_key": "main/undone"}
    reached = 'flink_autoscaler_job_rescales_total{job_key="main/undone", stage="reached"} > 0'
    with site.job("undone", obeys=True):
        wait_until("a rescale", lambda: site.prometheus.query(reached), TIMEOUT, context=site.daemon.text)
        site.order("rollback", "main/undone", "--as", "ann", "--reason", "a test")
        yield labels
        site.wait_for_firing("FlinkAutoscalerPausedAfterRollback", **labels)
        site.order("resume", "main/undone", "--as", "ann")
        site.wait_for_end("FlinkAutoscalerPausedAfterRollback", **labels)


@contextmanager
def history_in_the_way(site: Site) -> Iterator[dict[str, str]]:
    shutil.move(site.history, site.folder / "aside")
    site.history.write_text("in the way")
    try:
        yield {}
    finally:
        site.history.unlink()


@contextmanager
def lost_database(site: Site) -> Iterator[dict[str, str]]:
    aside = site.database.with_suffix(".aside")
    site.database.rename(aside)
    try:
        yield {}
    finally:
        aside.rename(site.database)


@contextmanager
def deaf_target(site: Site) -> Iterator[dict[str, str]]:
    site.receiver.answers.extend([503] * 10_000)
    try:
        yield {"target": "audit"}
    finally:
        site.receiver.answers.clear()


@contextmanager
def refusing_target(site: Site) -> Iterator[dict[str, str]]:
    site.receiver.answers.extend([410] * 10_000)
    try:
        yield {"target": "audit"}
    finally:
        site.receiver.answers.clear()


@contextmanager
def killed_daemon(site: Site) -> Iterator[dict[str, str]]:
    site.daemon.send(signal.SIGKILL)
    site.daemon.exit_code()
    try:
        yield {}
    finally:
        site.daemon.start(wait=False)


LONG = pytest.mark.suite(name="long")
"""What is like the others, and takes its time."""


@pytest.mark.parametrize(
    ("alert", "cause"),
    [
        pytest.param("FlinkAutoscalerClusterDown", cluster_away, id="a cluster is away"),
        pytest.param("FlinkAutoscalerClusterDown", hanging_cluster, id="a cluster hangs", marks=LONG),
        pytest.param("FlinkAutoscalerLagAtBounds", job_at_bounds, id="a late job may not grow", marks=LONG),
        pytest.param("FlinkAutoscalerJobNotRunning", stopped_tasks, id="tasks do not run", marks=LONG),
        pytest.param("FlinkAutoscalerJobConfigInvalid", impossible_option, id="an option cannot be used", marks=LONG),
        pytest.param("FlinkAutoscalerJobFailing", unreadable_metrics, id="metrics cannot be read", marks=LONG),
        pytest.param(
            "FlinkAutoscalerRescaleNotReached", rescale_without_effect, id="a rescale is not reached", marks=LONG
        ),
        pytest.param(
            "FlinkAutoscalerRolledBack", ordered_rollback, id="a rescale is undone, and the job paused", marks=LONG
        ),
        pytest.param(
            "FlinkAutoscalerHistoryNotWritten",
            history_in_the_way,
            id="the history cannot be written",
            marks=LONG,  # a minute passes until the path is tried again
        ),
        pytest.param("FlinkAutoscalerNotificationsNotSent", deaf_target, id="a target takes nothing", marks=LONG),
        pytest.param("FlinkAutoscalerNotificationsDropped", refusing_target, id="a target refuses", marks=LONG),
        pytest.param("FlinkAutoscalerStoreDown", lost_database, id="the database is lost", marks=LONG),
        pytest.param("FlinkAutoscalerDown", killed_daemon, id="the daemon is killed"),
    ],
)
def test_alert_fires_and_ends(site: Site, alert: str, cause: Cause) -> None:
    with cause(site) as labels:
        (fires, *_) = site.wait_for_firing(alert, **labels)

    site.wait_for_end(alert, **labels)
    texts = fires["annotations"].values()
    assert fires["labels"]["severity"] == ALERTS[alert]["labels"]["severity"]
    assert not [text for text in texts if "<no value>" in text or "<error" in text]
