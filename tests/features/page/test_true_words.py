"""What page and API say holds: under backpressure, without a lag, after an order, and while a cluster is away."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.pass_reporter import PassReporter
from flink_autoscaler.stores.testing.event_handler_contract import a_context, a_report
from testkit.builders.backtests import a_history, job_rows
from testkit.builders.history import NOON_MS
from testkit.builders.web import WebSite, operated

KEY = "main/orders"


@pytest.fixture
def web() -> Iterator[WebSite]:
    with operated() as web:
        yield web


def order(web: WebSite, what: str, **more: object) -> str:
    answer = web.client.post("/api/v1/commands", json={"job_key": KEY, "order": what, "reason": "x", **more})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["text"])


def page(web: WebSite) -> str:
    return web.client.get("/job", params={"job": KEY}).text


def test_the_capacity_under_backpressure_is_what_the_sources_read() -> None:
    """Reckoned from busy times it would be twice the load: both vertices are half busy."""
    with WebSite(step_ms=1000) as web:
        job = web.add("orders")
        source = job.vertices[0]
        for number in range(12):
            source.metrics["Source__source_0.pendingRecords"] = 50.0 * number
            source.counters = {
                "accumulated-busy-time": 10.0 * number,
                "accumulated-idle-time": 0.0,
                "accumulated-backpressured-time": 990.0 * number,
            }
            web.run()
        (found,) = web.get("/jobs")["jobs"]
        fleet = web.client.get("/").text

    assert found["load"] == pytest.approx(150.0, rel=0.05)
    assert found["capacity"] == pytest.approx(100.0, rel=0.05)
    assert '<rect class="bad" width="100%"' in fleet


def test_a_lag_that_nobody_tells_is_not_0(web: WebSite) -> None:
    (job,) = web.flink.jobs.values()
    del job.vertices[0].metrics["Source__source_0.pendingRecords"]
    web.run(4)

    (found,) = web.get("/jobs")["jobs"]

    assert (found["lag"], found["lag_seconds"]) == (None, None)
    assert "<dt>Lag</dt><dd>– of 60 s allowed, – records wait" in page(web)


def test_an_order_is_shown_at_once_and_its_end_too(web: WebSite) -> None:
    """Passes may be minutes apart."""
    web.run()
    version = web.site.fleet.version

    order(web, "pause")
    paused, seen = web.get("/jobs")["jobs"][0], page(web)
    order(web, "dry-run")
    order(web, "resume")
    order(web, "live")
    resumed, orders = web.get("/jobs")["jobs"][0], web.get("/commands")["commands"]

    assert web.site.fleet.version > version
    assert [each["text"] for each in paused["suspensions"]] == ["scaling paused until resumed"]
    assert "None in force" not in seen
    assert "scaling paused until resumed" in seen
    assert (resumed["suspensions"], orders) == ([], [])


def test_orders_of_the_page_are_events_also_in_the_database(tmp_path: Path) -> None:
    database = {
        "autoscaler.standalone.jdbc.url": f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}",
        "autoscaler.standalone.state-store.type": "jdbc",
        "autoscaler.standalone.event-handler.type": "jdbc",
    }
    with operated(options=database) as web:
        web.wiring.storage.start()
        web.run()
        order(web, "pause")
        found = web.get("/events", job="orders")

    assert found["source"] == "database"
    assert [(each["reason"], each["count"]) for each in found["events"] if each["reason"] == "Paused"] == [
        ("Paused", 1)
    ]


def test_a_reset_wants_to_be_confirmed(web: WebSite) -> None:
    web.run()

    (form,) = re.findall(r'<form class="order" data-order="reset".*?</form>', page(web), re.DOTALL)

    assert 'type="checkbox" required' in form


def test_a_scaling_report_is_an_event_without_a_database(web: WebSite) -> None:
    web.wiring.order_events.handle_scaling_report(a_context(), a_report(is_executed=True))

    assert [each["reason"] for each in web.get("/events")["events"]] == ["ScalingReport"]


def test_the_last_hours_come_from_the_history_after_a_restart(tmp_path: Path) -> None:
    first = (time.time_ns() // 1_000_000 - NOON_MS) // 60_000 - 100
    path = a_history(tmp_path / "history", job_rows(minutes=95, first=first, rate=lambda _: 300.0))
    with WebSite({"autoscaler.history.path": str(path)}) as web:
        web.add("orders")
        web.run(2)
        found = web.get("/series", job=KEY)

    assert len(found["points"]) > 60
    assert found["points"][10]["load"] == pytest.approx(300.0)


def test_a_cluster_that_is_away_and_comes_back_is_two_events(web: WebSite) -> None:
    """Who is notified hears of it, too: the notifier is one of those who are told of events."""
    tell = web.wiring.cluster_events("main", "main")
    announcer = PassReporter(gauges=Gauges(), health=Health({"main": 60.0}), tell_event=tell)
    for error in (None, ConnectError("away"), ConnectError("still away"), None):
        announcer.report(replace(web.run(), error=error))

    found = [each for each in web.get("/events")["events"] if each["job_key"] == "main"]

    assert [(each["type"], each["reason"]) for each in found] == [
        ("Normal", "ClusterRecovered"),
        ("Warning", "ClusterUnreachable"),
    ]
    assert found[1]["message"] == "cluster main does not answer: away"
