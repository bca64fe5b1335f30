"""Many jobs of one cluster in one pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from flink_autoscaler.clients.flink.collector import read_cluster
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.recording import signature
from flink_autoscaler.core.errors import ConnectError, EvaluationError, PluginError
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import LastRecord, PassOutcome, PassRequest
from flink_autoscaler.pipeline.engine.base import evaluate_pending
from flink_autoscaler.pipeline.engine.run_pass import COLLECT, EVALUATE, run_passes
from flink_autoscaler.pipeline.spark.codec import decode_outcome, encode_outcome
from testkit.fakes.flink import Canned, FakeFlink, FakeJob, Fault

ENABLED = {"job.autoscaler.enabled": "true"}


def a_request(endpoint: Endpoint, job: FakeJob, status: JobStatus = JobStatus.RUNNING) -> PassRequest:
    context = JobAutoScalerContext(f"test/{job.name}", job.job_id, status, ENABLED, endpoint)
    return PassRequest(context, EMPTY_STATE, time.time_ns() // 1_000_000)


def run(
    requests: Sequence[PassRequest], endpoint: Endpoint, *, job_deadline: float = 5.0, pass_deadline: float = 60.0
) -> list[PassOutcome]:
    async def main(open_: Sequence[PassRequest]) -> list[PassOutcome]:
        client = FlinkRestClient(endpoint)
        try:
            cluster = await read_cluster(client)
            return await run_passes(client, open_, cluster, job_deadline=job_deadline, pass_deadline=pass_deadline)
        finally:
            await client.aclose()

    return evaluate_pending(requests, lambda open_: asyncio.run(main(open_)))


def test_outcomes_come_in_the_order_of_the_requests(flink: FakeFlink) -> None:
    endpoint = flink.endpoint(max_connections=2)
    requests = [a_request(endpoint, flink.add_job(f"job {number}")) for number in range(20)]

    outcomes = run(requests, endpoint)

    assert [outcome.job_key for outcome in outcomes] == [f"test/job {number}" for number in range(20)]
    assert {outcome.phase for outcome in outcomes} == {PassPhase.COLLECTING}
    assert all(outcome.error is None and outcome.observation.sample is not None for outcome in outcomes)


def test_stages_are_timed(flink: FakeFlink) -> None:
    endpoint = flink.endpoint()
    flink.delay = 0.02

    outcome = run([a_request(endpoint, flink.add_job())], endpoint)[0]

    assert outcome.seconds.keys() == {COLLECT, EVALUATE}
    assert outcome.seconds[COLLECT] >= 0.06


def test_job_that_needs_no_reading_is_not_asked_for(flink: FakeFlink) -> None:
    endpoint = flink.endpoint()
    job = flink.add_job()

    outcome = run([a_request(endpoint, job, JobStatus.CREATED)], endpoint)[0]

    assert outcome.phase is PassPhase.NOT_RUNNING
    assert not any(job.job_id in path for path in flink.paths())


BUSY_SECONDS = 4.0


"""For jobs to be read on a busy machine; one that hangs is waited for as long."""


@pytest.mark.parametrize(
    "behaviour",
    [Fault.HANG, Fault.RESET, Fault.HTML, Canned.json({"jid": 7}), Fault.HUGE],
    ids=["hangs", "resets", "is a page", "has wrong types", "is too long"],
)
def test_broken_job_hurts_no_other(flink: FakeFlink, behaviour: Fault | Canned) -> None:
    endpoint = flink.endpoint()
    jobs = [flink.add_job(f"job {number}") for number in range(4)]
    flink.fault(jobs[1].job_id, behaviour)

    outcomes = run([a_request(endpoint, job) for job in jobs], endpoint, job_deadline=BUSY_SECONDS)

    assert [outcome.error is None for outcome in outcomes] == [True, False, True, True]
    assert outcomes[1].phase is PassPhase.ERROR


def test_job_that_is_not_read_in_time_has_an_error(flink: FakeFlink) -> None:
    endpoint = flink.endpoint()
    flink.fault("/subtasks/metrics", Fault.HANG)

    outcome = run([a_request(endpoint, flink.add_job())], endpoint, job_deadline=0.3)[0]

    assert isinstance(outcome.error, ConnectError)
    assert str(outcome.error) == "job test/orders: not read within 0.3 s"


def test_pass_ends_in_time_however_many_jobs_hang(flink: FakeFlink) -> None:
    endpoint = flink.endpoint(max_connections=1)
    requests = [a_request(endpoint, flink.add_job(f"job {number}")) for number in range(10)]
    flink.fault("/jobs/", Fault.HANG)

    outcomes = run(requests, endpoint, job_deadline=0.3, pass_deadline=0.5)

    assert len({path.split("/")[2] for path in flink.paths()}) < 10
    assert all(isinstance(outcome.error, ConnectError) for outcome in outcomes)


def test_surprise_in_one_job_hurts_no_other(flink: FakeFlink) -> None:
    endpoint = flink.endpoint()
    good, bad = a_request(endpoint, flink.add_job("good")), a_request(endpoint, flink.add_job("bad"))
    broken = PassRequest(bad.context, bad.state, "not an instant")  # type: ignore[arg-type]

    outcomes = run([broken, good], endpoint)

    assert outcomes[0].phase is PassPhase.ERROR
    assert isinstance(outcomes[0].error, PluginError | EvaluationError)
    assert outcomes[1].error is None


NOW_MS = 1_700_000_000_000


def run_with_record(request: PassRequest, endpoint: Endpoint, cluster: ClusterReading | None = None) -> PassOutcome:
    async def main() -> PassOutcome:
        client = FlinkRestClient(endpoint)
        try:
            return (await run_passes(client, [request], cluster, job_deadline=5.0))[0]
        finally:
            await client.aclose()

    return asyncio.run(main())


def recordable_request(flink: FakeFlink, recorded: LastRecord | None) -> PassRequest:
    job = flink.add_job()
    enabled = {"job.autoscaler.enabled": "true"}
    context = JobAutoScalerContext("test/job", job.job_id, JobStatus.RUNNING, enabled, flink.endpoint())
    return PassRequest(context, EMPTY_STATE, NOW_MS, recorded=recorded)


def test_a_pass_that_is_to_be_recorded_has_its_inputs_and_comes_to_the_same_with_them(flink: FakeFlink) -> None:
    request = recordable_request(flink, LastRecord())

    outcome = run_with_record(request, flink.endpoint())

    assert outcome.inputs is not None
    assert outcome.inputs.reading is not None
    again = advance(request, outcome.inputs.reading, outcome.inputs.cluster)
    assert repr(replace(again, seconds={})) == repr(replace(outcome, seconds={}, inputs=None))


def test_a_pass_that_is_not_to_be_recorded_has_no_inputs(flink: FakeFlink) -> None:
    request = recordable_request(flink, None)
    first = run_with_record(request, flink.endpoint())

    known = replace(request, recorded=LastRecord(NOW_MS, signature(first)))

    assert first.inputs is None
    assert run_with_record(known, flink.endpoint()).inputs is None


def test_a_cluster_that_is_away_is_recorded_as_such(flink: FakeFlink) -> None:
    away = ClusterReading(error=ConnectError("nobody there"), is_away=True)

    outcome = run_with_record(recordable_request(flink, LastRecord()), flink.endpoint(), away)

    assert outcome.inputs is not None
    assert (outcome.inputs.reading, outcome.inputs.cluster) == (None, away)


def test_inputs_travel_from_spark_tasks(flink: FakeFlink) -> None:
    request = recordable_request(flink, LastRecord())
    outcome = run_with_record(request, flink.endpoint())

    travelled = decode_outcome(encode_outcome(outcome, request), request)

    assert travelled.inputs is not None
    assert outcome.inputs is not None
    assert travelled.inputs == outcome.inputs
