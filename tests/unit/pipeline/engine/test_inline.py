from __future__ import annotations

from collections.abc import Iterator

import pytest

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.flink.freshness import ALWAYS_THERE, CLOCK
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.decision import PassPhase
from testkit.builders.pipeline import Fleet


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet.serving(job_deadline=0.5) as fleet:
        yield fleet


def test_inline_engine_keeps_the_order_of_requests(fleet: Fleet) -> None:
    requests = fleet.add_mixed()

    outcomes = fleet.inline.evaluate(requests)

    assert [o.job_key for o in outcomes] == [r.context.job_key for r in requests]


@pytest.fixture
def patient_fleet() -> Iterator[Fleet]:
    """Give a fleet whose jobs are all read in time on a busy machine too, but for one that hangs."""
    with Fleet.serving(job_deadline=5.0) as fleet:
        yield fleet


def test_inline_engine_reports_each_kind_of_job(patient_fleet: Fleet) -> None:
    fleet = patient_fleet
    requests = fleet.add_mixed()

    outcomes = fleet.inline.evaluate(requests)

    phases = {outcome.job_key.removeprefix("test/"): outcome.phase for outcome in outcomes[:8]}
    assert phases == {
        "first": PassPhase.COLLECTING,
        "disabled": PassPhase.DISABLED,
        "not running": PassPhase.NOT_RUNNING,
        "failing": PassPhase.ERROR,
        "invalid": PassPhase.INVALID_CONFIG,
        "vanished": PassPhase.ERROR,
        "hanging": PassPhase.ERROR,
        "not started": PassPhase.NOT_READY,
    }


def test_inline_engine_reads_the_cluster_once(fleet: Fleet) -> None:
    requests = [fleet.add(f"job {number}") for number in range(5)]

    fleet.inline.evaluate(requests)

    assert fleet.flink.paths().count("/jobmanager/metrics") == 1
    asked = [each for each in fleet.flink.requests if each.path == "/taskmanagers/metrics"]
    assert (
        len([each for each in asked if each.query["get"] not in (*CLOCK, *ALWAYS_THERE)]) == 1
    )  # the others wake the store


def test_inline_engine_asks_nothing_for_nobody(fleet: Fleet) -> None:
    assert fleet.inline.evaluate([]) == []
    assert not fleet.flink.requests


def test_inline_engine_keeps_connections_between_passes(fleet: Fleet) -> None:
    requests = [fleet.add("orders")]
    fleet.inline.evaluate(requests)
    opened = fleet.flink.connections

    fleet.inline.evaluate(requests)

    assert fleet.flink.connections == opened


def test_client_cache_gives_one_client_per_endpoint(fleet: Fleet) -> None:
    loop = EventLoopThread()
    cache = ClientCache(loop)

    client = cache(fleet.endpoint)

    assert cache(fleet.flink.endpoint()) is client
    assert cache(fleet.flink.endpoint(timeout=1.0)) is not client
    cache.close()
    loop.close()
