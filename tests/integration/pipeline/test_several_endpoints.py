"""One pass over jobs behind several endpoints, as YARN has one per application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from flink_autoscaler.clients.flink.freshness import ALWAYS_THERE, CLOCK
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import ConfigError, ConnectError
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.deployment import EvaluationEngine
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.pipeline.spark.live import SparkEngine
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from testkit.builders.pipeline import Fleet, a_request, comparable
from testkit.fakes.flink import FakeFlink, Fault

APPLICATIONS = 5
FALLBACKS: list[str] = []


@pytest.fixture(scope="module")
def fleets() -> Iterator[list[Fleet]]:
    """The fleets; the clients and the engine of the first one manage all of them."""
    with ExitStack() as running:
        loop = EventLoopThread()
        flinks = [running.enter_context(FakeFlink()) for _ in range(APPLICATIONS)]
        fleets = [Fleet(flink, loop, job_deadline=3.0) for flink in flinks]
        yield fleets
        fleets[0].clients.close()
        loop.close()


@pytest.fixture(
    scope="module",
    params=[pytest.param("inline"), pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.suite(name="spark")])],
)
def engine(fleets: list[Fleet], request: pytest.FixtureRequest) -> Iterator[EvaluationEngine]:
    inline = fleets[0].inline
    if request.param == "inline":
        yield inline
        return
    spark = SparkEngine(SparkSettings(master="local[2]"), inline, job_deadline=3.0, on_fallback=FALLBACKS.append)
    yield spark
    spark.close()


@pytest.fixture
def requests(fleets: list[Fleet]) -> list[PassRequest]:
    """Four jobs per application, dealt out as in a shuffled list."""
    FALLBACKS.clear()
    for fleet in fleets:
        fleet.flink.clear_faults()
        fleet.flink.jobs.clear()
        fleet.flink.requests.clear()
    return [fleet.add(f"{number} of {n}") for number in range(4) for n, fleet in enumerate(fleets)]


def test_outcomes_come_in_the_order_of_requests(engine: EvaluationEngine, requests: list[PassRequest]) -> None:
    outcomes = engine.evaluate(requests)

    assert [outcome.job_key for outcome in outcomes] == [request.context.job_key for request in requests]
    assert {outcome.phase for outcome in outcomes} == {PassPhase.COLLECTING}
    assert not FALLBACKS


def test_both_engines_agree(engine: EvaluationEngine, requests: list[PassRequest], fleets: list[Fleet]) -> None:
    outcomes = engine.evaluate(requests)

    assert [comparable(o) for o in outcomes] == [comparable(o) for o in fleets[0].inline.evaluate(requests)]


def metric_requests(fleet: Fleet) -> int:
    """Return how often the metrics of all TaskManagers were asked for, besides the requests that wake their store."""
    asked = [each for each in fleet.flink.requests if each.path == "/taskmanagers/metrics"]
    return len([each for each in asked if each.query["get"] not in (*CLOCK, *ALWAYS_THERE)])


def test_every_cluster_is_read_once(engine: EvaluationEngine, requests: list[PassRequest], fleets: list[Fleet]) -> None:
    engine.evaluate(requests + [fleets[0].add(f"more {number}") for number in range(40)])

    assert [fleet.flink.paths().count("/jobmanager/metrics") for fleet in fleets] == [1] * APPLICATIONS
    assert [metric_requests(fleet) for fleet in fleets] == [1] * APPLICATIONS


def test_cluster_without_a_job_to_be_read_is_not_asked(
    engine: EvaluationEngine, requests: list[PassRequest], fleets: list[Fleet]
) -> None:
    disabled = [fleets[1].add("disabled", configuration={})]

    outcomes = engine.evaluate([request for request in requests if request.context.endpoint != fleets[1].endpoint])
    phases = [outcome.phase for outcome in engine.evaluate(disabled)]

    assert len(outcomes) == 16
    assert phases == [PassPhase.DISABLED]
    assert not fleets[1].flink.requests


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.RESET, Fault.HTML], ids=["hangs", "resets", "is a page"])
def test_cluster_that_cannot_be_read_hurts_only_its_own_jobs(
    engine: EvaluationEngine, requests: list[PassRequest], fleets: list[Fleet], fault: Fault
) -> None:
    fleets[2].flink.fault("/", fault)

    outcomes = engine.evaluate(requests)

    broken = {o.job_key for o, r in zip(outcomes, requests, strict=True) if r.context.endpoint == fleets[2].endpoint}
    assert {outcome.job_key for outcome in outcomes if outcome.error is not None} == broken
    assert not FALLBACKS


def test_cluster_that_cannot_be_reached_is_not_asked_for_its_jobs(
    engine: EvaluationEngine, requests: list[PassRequest], fleets: list[Fleet]
) -> None:
    fleets[2].flink.fault("/", Fault.HANG)

    outcomes = engine.evaluate(requests)

    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    assert len(errors) == 4
    assert all(isinstance(error, ConnectError) for error in errors)
    assert {path.split("/")[1] for path in fleets[2].flink.paths()} == {"jobmanager", "taskmanagers"}


def test_unusable_endpoint_hurts_only_its_own_jobs(engine: EvaluationEngine, requests: list[PassRequest]) -> None:
    outcomes = engine.evaluate([a_request(Endpoint("ftp://user:secret@x"), "bad"), *requests])

    assert isinstance(outcomes[0].error, ConfigError)
    assert "secret" not in str(outcomes[0].error)
    assert {outcome.phase for outcome in outcomes[1:]} == {PassPhase.COLLECTING}
