"""What page and API say about a cluster: slots that are promised and waited for, how it is reached, what failed."""

from __future__ import annotations

import html
from dataclasses import replace

import pytest

from flink_autoscaler.core.errors import ConfigError, NotReadyError
from flink_autoscaler.core.model.job import Headroom
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Cluster
from flink_autoscaler.standalone.views.clusters import ClusterView, cluster_view
from flink_autoscaler.standalone.views.fleet import MAX_FAILURES, Fleet
from testkit.builders.slots import FULL, SharedCluster
from testkit.builders.web import WebSite
from testkit.fakes.flink import Fault


def configured(*more: str) -> Cluster:
    overrides = ["autoscaler.clusters.0.name=main", "autoscaler.clusters.0.url=http://flink:8081", *more]
    settings = SettingsLoader(overrides=overrides, environment={}).read()
    return settings.effective_clusters()[0]


def described(*reports: PassReport, cluster: Cluster | None = None) -> ClusterView:
    """Return what is said about the cluster after some passes."""
    instants = iter(range(1000, 1_000_000, 1000))
    fleet = Fleet(lambda: next(instants))
    for report in reports:
        fleet.record_pass(report)
    (now,) = fleet.clusters()
    return cluster_view(now, fleet.jobs(), cluster or configured())


def test_slots_that_a_rescale_takes_are_promised_until_the_job_has_them() -> None:
    with SharedCluster(12) as cluster:
        cluster.add("orders", 4, load=430.0)
        cluster.run_until(lambda: bool(cluster.asked("orders")), 2 * FULL)
        deciding = described(*cluster.reports)
        cluster.run(3)
        settled = described(*cluster.reports)

    promises = [(each.job_key, each.slots, each.because) for each in deciding.promised]
    assert promises == [("main/orders", 4, "its rescale takes them")]
    assert deciding.promised_slots == 4
    assert (settled.promised, settled.free_slots) == ([], 4)


def test_a_job_that_cannot_have_all_it_wants_waits_with_the_slots_that_are_missing() -> None:
    with SharedCluster(12) as cluster:
        cluster.add("payments", 7)
        cluster.add("orders", 4, load=430.0)
        cluster.add("fraud", 1)
        cluster.run(FULL)

        found = described(*cluster.reports)

    (waiting,) = found.waiting
    assert (waiting.job_key, waiting.code, waiting.slots_missing) == ("main/orders", "HEADROOM_REACHED", 4)
    assert (found.holders[0].job_key, found.holders[0].slots) == ("main/payments", 7)
    assert (found.slots, found.free_slots, found.is_fixed) == (12, 0, True)


def test_slots_that_others_give_are_kept_for_the_job_that_waits() -> None:
    with SharedCluster(6) as cluster:
        cluster.add("payments", 6)
        cluster.submit("orders", 3)
        cluster.run(2)

        found = described(*cluster.reports)

    (promise,) = [each for each in found.promised if each.job_key == "main/orders"]
    assert (promise.slots, promise.because) == (3, "kept free until it runs")
    assert found.promised_slots >= 3
    assert "main/orders" in [each.job_key for each in found.waiting]


def test_what_failed_lately_comes_with_its_cause_the_newest_first_and_once() -> None:
    away, refused = ConfigError("away; password=s3cr3t"), ConfigError("refused")
    found = described(
        PassReport("main", error=away),
        PassReport("main", failures={"main/a": refused, "main/b": NotReadyError("still under way")}),
        PassReport("main", error=away),
    )

    texts = [(each.at_ms, each.what, each.text, each.count) for each in found.failures]
    assert [each[1:] for each in texts] == [("main", "away; password=******", 2), ("main/a", "refused", 1)]
    assert texts[0][0] > texts[1][0]


def test_what_failed_is_bounded() -> None:
    reports = [
        PassReport("main", failures={f"main/{number}-{job}": ConfigError("x" * 10_000) for job in range(50)})
        for number in range(3)
    ]

    found = described(*reports)

    assert len(found.failures) == MAX_FAILURES
    assert {each.what.partition("-")[0] for each in found.failures} == {"main/2"}
    assert max(len(each.text) for each in found.failures) == 500


def test_how_it_is_reached_has_the_kind_of_proof_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_TOKEN", "s3cr3t")
    cluster = configured(
        "autoscaler.clusters.0.auth.kind=bearer",
        "autoscaler.clusters.0.auth.token-env-variable=CLUSTER_TOKEN",
        "autoscaler.clusters.0.interval=20 s",
    )

    found = described(PassReport("main"), cluster=cluster)

    assert (found.url, found.type, found.auth, found.interval) == ("http://flink:8081", "flink", "bearer", 20.0)
    assert "s3cr3t" not in found.model_dump_json()


def test_a_cluster_that_is_configured_no_more_is_described_without() -> None:
    fleet = Fleet(lambda: 1)
    fleet.record_pass(PassReport("old"))

    found = cluster_view(fleet.clusters()[0], [], None)

    assert (found.url, found.type, found.slots, found.promised) == (None, None, None, [])


def test_the_page_of_a_cluster_shows_all_of_it() -> None:
    with WebSite() as web:
        web.flink.taskmanagers = [{"id": "tm", "slotsNumber": 4, "freeSlots": 1}]
        web.add("orders").vertices[1].metrics["busyTimeMsPerSecond"] = 1000.0
        web.decide("orders")
        web.flink.fault("/jobs/overview", Fault.HTML, times=1)
        web.run()
        (cluster,) = web.get("/clusters")["clusters"]
        text = html.unescape(web.client.get("/cluster", params={"name": "main"}).text)

    (failure,) = cluster["failures"]
    assert failure["what"] == "main"
    assert failure["text"] in text
    assert all(each in text for each in ("Slot usage", "Reserved slots", "Pending slot requests", "What failed lately"))
    assert cluster["url"] in text


def test_what_a_queue_can_still_give_is_shown_once_for_all_its_jobs() -> None:
    queue = Headroom("YARN queue root.streaming", cpu=12.0, memory=64 << 30, taskmanagers=None)
    with WebSite() as web:
        web.add("orders")
        web.add("payments")
        report = web.run()
        found = described(_with_headroom(report, queue))

    (headroom,) = found.headroom
    assert (headroom.source, headroom.cpu, headroom.memory) == ("YARN queue root.streaming", 12.0, 64 << 30)


def _with_headroom(report: PassReport, headroom: Headroom) -> PassReport:
    return replace(report, jobs=tuple(replace(each, headroom=headroom) for each in report.jobs))
