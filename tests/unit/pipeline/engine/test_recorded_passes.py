"""What a cluster answered stays with the outcome of a pass where the pass is to be recorded."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.recording import signature
from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import LastRecord, PassOutcome, PassRequest
from flink_autoscaler.pipeline.engine.run_pass import run_passes
from flink_autoscaler.pipeline.spark.codec import decode_outcome, encode_outcome
from testkit.fakes.flink import FakeFlink

NOW_MS = 1_700_000_000_000


def run(request: PassRequest, endpoint: Endpoint, cluster: ClusterReading | None = None) -> PassOutcome:
    async def main() -> PassOutcome:
        client = FlinkRestClient(endpoint)
        try:
            return (await run_passes(client, [request], cluster, job_deadline=5.0))[0]
        finally:
            await client.aclose()

    return asyncio.run(main())


def a_request(flink: FakeFlink, recorded: LastRecord | None) -> PassRequest:
    job = flink.add_job()
    enabled = {"job.autoscaler.enabled": "true"}
    context = JobAutoScalerContext("test/job", job.job_id, JobStatus.RUNNING, enabled, flink.endpoint())
    return PassRequest(context, EMPTY_STATE, NOW_MS, recorded=recorded)


def test_a_pass_that_is_to_be_recorded_has_its_inputs_and_comes_to_the_same_with_them(flink: FakeFlink) -> None:
    request = a_request(flink, LastRecord())

    outcome = run(request, flink.endpoint())

    assert outcome.inputs is not None
    assert outcome.inputs.reading is not None
    again = advance(request, outcome.inputs.reading, outcome.inputs.cluster)
    assert repr(replace(again, seconds={})) == repr(replace(outcome, seconds={}, inputs=None))


def test_a_pass_that_is_not_to_be_recorded_has_no_inputs(flink: FakeFlink) -> None:
    request = a_request(flink, None)
    first = run(request, flink.endpoint())

    known = replace(request, recorded=LastRecord(NOW_MS, signature(first)))

    assert first.inputs is None
    assert run(known, flink.endpoint()).inputs is None


def test_a_cluster_that_is_away_is_recorded_as_such(flink: FakeFlink) -> None:
    away = ClusterReading(error=ConnectError("nobody there"), is_away=True)

    outcome = run(a_request(flink, LastRecord()), flink.endpoint(), away)

    assert outcome.inputs is not None
    assert (outcome.inputs.reading, outcome.inputs.cluster) == (None, away)


def test_inputs_travel_from_spark_tasks(flink: FakeFlink) -> None:
    request = a_request(flink, LastRecord())
    outcome = run(request, flink.endpoint())

    travelled = decode_outcome(encode_outcome(outcome, request), request)

    assert travelled.inputs is not None
    assert outcome.inputs is not None
    assert travelled.inputs == outcome.inputs
