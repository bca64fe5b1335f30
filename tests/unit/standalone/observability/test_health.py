"""What makes a daemon ready, besides its clusters, and what it tells while it stands by."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.ha.leadership import LeadershipState, LeadershipStatus
from flink_autoscaler.standalone.ha.store_health import WORKING, StoreStatus
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.http import HttpServer, create_app
from flink_autoscaler.standalone.observability.pass_reporter import PassReporter
from flink_autoscaler.standalone.observability.status_series import CLUSTER_SERIES, StatusMetrics
from testkit.fakes.flink import FakeFlink, Fault
from testkit.scenarios.runner import LogLines, Watching

AWAY = StoreStatus(up=False, error="it cannot be reached")


def standing(value: LeadershipState) -> LeadershipStatus:
    return LeadershipStatus(value, "host:1:abc", 12.5, None)


@pytest.mark.parametrize(
    ("store", "leadership", "expected"),
    [
        pytest.param(WORKING, None, True, id="alone"),
        pytest.param(WORKING, standing(LeadershipState.LEADER), True, id="leads"),
        pytest.param(WORKING, standing(LeadershipState.STANDBY), True, id="stands by"),
        pytest.param(WORKING, standing(LeadershipState.UNKNOWN), False, id="does not know"),
        pytest.param(AWAY, standing(LeadershipState.LEADER), False, id="leads without a database"),
        pytest.param(AWAY, None, False, id="alone without a database"),
    ],
)
def test_readiness(store: StoreStatus, leadership: LeadershipStatus | None, expected: bool) -> None:
    health = Health({"main": 60.0}, store=lambda: store, leadership=lambda: leadership)
    health.record_success("main")

    assert health.readiness().ready is expected


def test_the_page_says_why_the_daemon_is_not_ready() -> None:
    health = Health({}, store=lambda: AWAY, leadership=lambda: standing(LeadershipState.STANDBY))
    server = HttpServer(create_app(gauges=Gauges(), health=health, is_alive=lambda: True), host="127.0.0.1", port=0)
    server.start()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    with pytest.raises(urllib.error.HTTPError) as answer:
        opener.open(server.url + "/readyz", timeout=60)
    body = json.loads(answer.value.read())
    server.close()

    assert answer.value.code == 503
    assert body["store"] == {"up": False, "error": "it cannot be reached"}
    assert body["leadership"]["standing"] == "standby"
    assert body["leadership"]["holder"] == "host:1:abc"


@pytest.mark.parametrize("value", [pytest.param(True, id="yes"), pytest.param(False, id="no")])
def test_gauges_follow_store_and_leadership(value: bool) -> None:
    gauges = Gauges()

    gauges.register_gauge("store_up", lambda: value)
    gauges.register_gauge("leader", lambda: value)

    for name in ("store_up", "leader"):
        assert gauges.registry.get_sample_value(f"flink_autoscaler_{name}") == float(value)


@pytest.fixture
def report(lines: LogLines) -> Iterator[PassReport]:
    """Give the report of a pass over a job whose metrics cannot be read."""
    with FakeFlink() as flink, Watching() as watching:
        flink.taskmanagers = [{"id": "a", "slotsNumber": 16, "freeSlots": 8}]
        flink.add_job("orders")
        flink.fault("/vertices", Fault.HTML)
        yield watching.watch(flink).passes.run()


def test_of_jobs_only_the_leader_tells(report: PassReport, lines: LogLines) -> None:
    health, gauges = Health({"main": 60.0}), Gauges()
    announcer = PassReporter(gauges=gauges, health=health)

    announcer.report(replace(report, is_acting=False))
    while_standing_by = [line["event"] for line in lines.all() if "_event" not in line["event"]]
    announcer.report(report)

    assert while_standing_by == []
    assert [line["event"] for line in lines.of("job_failed")] == ["job_failed"]
    assert health.readiness().ready


@pytest.mark.parametrize(
    ("is_in_doubt", "expected"),
    [
        pytest.param(True, [], id="said once elsewhere"),
        pytest.param(False, ["the row is too long"], id="an error of this job"),
    ],
)
def test_errors_of_the_store_are_not_told_per_job_while_it_may_be_away(
    report: PassReport, lines: LogLines, is_in_doubt: bool, expected: list[str]
) -> None:
    announcer = PassReporter(gauges=Gauges(), health=Health({"main": 60.0}), is_store_in_doubt=lambda _: is_in_doubt)
    failed = {key: replace(each, errors=(StoreError("the row is too long"),)) for key, each in report.reports.items()}

    announcer.report(replace(report, reports=failed, failures={"main/new": StoreError("the row is too long")}))

    assert [line["error"] for line in lines.of("job_failed")] == expected * 2


def test_other_clusters_can_be_followed() -> None:
    health = Health({"a": 60.0, "b": 60.0})
    health.record_success("a")
    health.record_success("b")
    health.record_failure("b", "no answer")

    health.set_clusters({"b": 30.0, "c": 60.0})

    clusters = health.readiness().clusters
    assert list(clusters) == ["b", "c"]
    assert (clusters["b"].ready, clusters["b"].stale_after_seconds, clusters["b"].error) == (True, 30.0, "no answer")
    assert not clusters["c"].ready


def test_last_pass_of_a_cluster_that_is_not_followed_any_more_does_not_count() -> None:
    health = Health({"a": 60.0})
    health.set_clusters({})

    health.record_success("a")
    health.record_failure("a", "no answer")

    assert health.readiness().clusters == {}


def test_series_say_which_clusters_were_looked_at_lately() -> None:
    now = [100.0]
    health = Health({"main": 60.0, "other": 60.0}, clock=lambda: now[0])
    registry = CollectorRegistry()
    registry.register(StatusMetrics(CLUSTER_SERIES, lambda: health.readiness().clusters))
    health.record_success("main")
    now[0] += 30

    shown = {
        (sample.name.removeprefix("flink_autoscaler_cluster_"), sample.labels["cluster"]): sample.value
        for family in registry.collect()
        for sample in family.samples
    }

    assert shown == {("ready", "main"): 1, ("ready", "other"): 0, ("last_success_age_seconds", "main"): 30}


def test_a_daemon_that_stands_by_shows_no_jobs(report: PassReport) -> None:
    gauges = Gauges()
    announcer = PassReporter(gauges=gauges, health=Health({"main": 60.0}))
    announcer.report(report)
    assert "main/orders" in b"".join(gauges.texts()).decode()

    announcer.report(replace(report, is_acting=False))

    assert "main/orders" not in b"".join(gauges.texts()).decode()
    assert gauges.registry.get_sample_value("flink_autoscaler_cluster_up", {"cluster": "main"}) == 1
