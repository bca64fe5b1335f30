"""What embeds the autoscaler goes through the pass of the daemon: rescales are followed, plug-ins are passed on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flink_autoscaler.clients import EventLoopThread, FlinkRestClient
from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.autoscaler import JobAutoScaler, JobPassReport
from flink_autoscaler.core.errors import ConfigError, ConnectError
from flink_autoscaler.core.model.decision import PassPhase, Rescale
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.pipeline.engine.inline import InlineEngine
from flink_autoscaler.realizers import RescaleApiRealizer
from flink_autoscaler.stores import HeapStateStore
from testkit.builders.core import RecordingEvents
from testkit.fakes.flink import FakeFlink, FakeJob, chain

OPTIONS = {
    "jobmanager.scheduler": "adaptive",
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "20 s",
    "job.autoscaler.stabilization.interval": "2 min",
    "job.autoscaler.rescale.timeout": "30 s",
}
INTERVAL_MS = 10_000
RECORDS = 1000
"""Records that the job takes in between two passes, with every task busy all of the time."""


class Embedding:
    """The parts of the guide around a job whose cluster takes requirements and never follows them."""

    def __init__(self, flink: FakeFlink, loop: EventLoopThread) -> None:
        self.job = flink.add_job(vertices=chain(parallelism=2), start_ms=time.time_ns() // 1_000_000 - 600_000)
        for vertex in self.job.vertices:
            vertex.metrics["busyTimeMsPerSecond"] = 1000.0
            vertex.busy_ms = 1000.0
        self.endpoint = flink.endpoint()
        self.client = FlinkRestClient(self.endpoint)
        self.collector = InlineEngine(loop=loop)
        self.store, self.events = HeapStateStore(), RecordingEvents()
        self.autoscaler = JobAutoScaler(
            store=self.store,
            realizer=RescaleApiRealizer(lambda _: self.client, loop),
            event_handler=self.events,
            collector=self.collector,
        )
        self.now_ms = self.job.start_ms + 600_000

    def scale(self, **options: str) -> JobPassReport:
        """Do the next pass, ten seconds after the last one."""
        self.now_ms += INTERVAL_MS
        for vertex in self.job.vertices:
            vertex.records_in += RECORDS
            vertex.records_out += RECORDS
        source = self.job.vertices[0]
        source.metrics["Source__source_0.numRecordsIn"] = float(source.records_out)
        source.metrics["Source__source_0.pendingRecords"] = 10.0 * source.records_out
        return self.autoscaler.scale(a_context(self.job, self.endpoint, options), self.now_ms)


def a_context(job: FakeJob, endpoint: Endpoint, options: dict[str, str] | None = None) -> JobAutoScalerContext:
    more = {f"job.autoscaler.{key}": value for key, value in (options or {}).items()}
    return JobAutoScalerContext("orders", job.job_id, JobStatus.RUNNING, {**OPTIONS, **more}, endpoint)


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    started = EventLoopThread()
    yield started
    started.close()


@pytest.fixture
def embedding(flink: FakeFlink, loop: EventLoopThread) -> Iterator[Embedding]:
    made = Embedding(flink, loop)
    yield made
    made.collector.close()
    loop.run(made.client.aclose())


def test_a_decision_that_the_cluster_does_not_follow_is_not_made_again_in_every_pass(embedding: Embedding) -> None:
    reports = [embedding.scale() for _ in range(12)]

    decisions = [each for each in reports if isinstance(each.outcome.decision, Rescale)]
    reasons = [event.reason for event in embedding.events.events]
    held = {reason.code for each in reports for reason in each.outcome.decision.reasons}
    assert len(decisions) == 1
    assert reasons.count("RescaleRefused") == 1
    assert "RESCALE_UNDER_WAY" in held


def test_a_rescale_is_followed_until_the_job_runs_with_it(embedding: Embedding) -> None:
    embedding.job.obeys = True

    for _ in range(6):
        embedding.scale()

    current = embedding.store.load("orders").supervision.current
    assert current is not None
    assert current.reached == current.target


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Install a policy that is known by its entry point alone."""
    metadata = tmp_path / "fa_embedded_policy-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fa-embedded-policy\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[flink_autoscaler.policies]\nmine = fa_embedded_policy:Mine\n")
    (tmp_path / "fa_embedded_policy.py").write_text(
        "from flink_autoscaler.core.policies.varga import VargaPolicy\n\nclass Mine(VargaPolicy):\n    name = 'mine'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_plugins.cache_clear()
    yield "mine"
    installed_plugins.cache_clear()


def test_installed_plugins_take_part_in_a_pass(embedding: Embedding, plugin: str) -> None:
    report = embedding.scale(policy=plugin)

    assert report.outcome.phase is PassPhase.COLLECTING


def test_a_policy_that_is_not_installed_is_an_invalid_configuration(embedding: Embedding) -> None:
    report = embedding.scale(policy="mine")

    assert report.outcome.phase is PassPhase.INVALID_CONFIG


def a_request(job: FakeJob, endpoint: Endpoint) -> PassRequest:
    return PassRequest(a_context(job, endpoint), EMPTY_STATE, job.start_ms + 600_000)


def test_jobs_of_several_endpoints_have_their_outcomes_in_order(embedding: Embedding) -> None:
    with FakeFlink() as other:
        first, second = a_request(embedding.job, embedding.endpoint), a_request(other.add_job(), other.endpoint())
        third = replace(first, context=replace(first.context, job_key="third"))

        outcomes = embedding.collector.evaluate([first, second, third])

    assert [each.job_key for each in outcomes] == ["orders", "orders", "third"]
    assert [each.phase for each in outcomes] == [PassPhase.COLLECTING] * 3


def test_an_endpoint_that_cannot_be_used_is_an_error_of_its_jobs(embedding: Embedding) -> None:
    report = embedding.autoscaler.scale(a_context(embedding.job, Endpoint("not a url")), embedding.now_ms)

    assert [type(error) for error in report.errors] == [ConfigError]


def test_a_loop_that_is_closed_is_an_error_of_the_job(embedding: Embedding) -> None:
    loop = EventLoopThread()
    collector = InlineEngine(loop=loop)
    collector.close()
    loop.close()
    autoscaler = JobAutoScaler(
        store=embedding.store,
        realizer=RescaleApiRealizer(lambda _: embedding.client, loop),
        event_handler=embedding.events,
        collector=collector,
    )

    report = autoscaler.scale(a_context(embedding.job, embedding.endpoint), embedding.now_ms)

    assert isinstance(report.errors[0], ConnectError)
