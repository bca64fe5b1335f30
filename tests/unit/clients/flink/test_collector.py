"""What is asked for in a pass, and what is remembered for the next."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from flink_autoscaler.clients.flink.collector import (
    REFRESH_MS,
    REFRESH_WITHOUT_LAG_MS,
    read_cluster,
    read_job,
)
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import (
    AutoscalerError,
    ConnectError,
    JobGoneError,
    MissingMetricError,
    NotReadyError,
    RefusedError,
    ResponseError,
)
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, MetricSample
from flink_autoscaler.core.model.reading import ClusterReading, CollectorMemory, JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.model.topology import IoMetrics
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassRequest
from testkit.fakes.flink import Canned, FakeFlink, FakeJob, Fault, chain, flink_error
from testkit.fakes.flink.answers import details

NOW = 1_000_000_000_000


START = NOW - 3_600_000


REFERENCE = {"job.autoscaler.compat": "reference"}


def a_request(flink: FakeFlink, job: FakeJob, *, memory: CollectorMemory | None = None) -> PassRequest:
    context = JobAutoScalerContext(
        job_key="test/orders",
        job_id=job.job_id,
        status=JobStatus.RUNNING,
        configuration={},
        endpoint=flink.endpoint(),
    )
    return PassRequest(context, EMPTY_STATE, NOW, memory or CollectorMemory())


def with_options(request: PassRequest, options: dict[str, str]) -> PassRequest:
    return replace(request, context=replace(request.context, configuration=options))


def read(flink: FakeFlink, request: PassRequest) -> JobReading:
    async def run() -> JobReading:
        client = FlinkRestClient(flink.endpoint())
        try:
            return await read_job(client, request)
        finally:
            await client.aclose()

    return asyncio.run(run())


def next_pass(request: PassRequest, reading: JobReading, *, later_ms: int = 10_000) -> PassRequest:
    return replace(request, memory=reading.memory, now_ms=request.now_ms + later_ms)


def asked(flink: FakeFlink) -> Counter[str]:
    """Count requests since the last call: details, names and values."""
    kinds = Counter(
        "values" if request.query.get("get") else "names" if request.path.endswith("/metrics") else "details"
        for request in flink.requests
    )
    flink.requests.clear()
    return kinds


@pytest.fixture
def job(flink: FakeFlink) -> FakeJob:
    return flink.add_job("orders", chain(sources=2, vertices=10), start_ms=START)


def test_first_pass_reads_details_names_and_values(flink: FakeFlink, job: FakeJob) -> None:
    reading = read(flink, a_request(flink, job))

    source, sink = job.vertices[0], job.vertices[-1]
    assert reading.error is None
    assert reading.details is not None
    assert reading.details.running_at_ms == START
    assert reading.aggregates.keys() == {vertex.vertex_id for vertex in job.vertices}
    assert reading.aggregates[source.vertex_id].keys() == {
        FlinkMetric.BUSY_TIME,
        FlinkMetric.BACKPRESSURE_TIME,
        FlinkMetric.SOURCE_RECORDS_IN,
        FlinkMetric.SOURCE_RECORDS_IN_RATE,
        FlinkMetric.SOURCE_RECORDS_OUT,
        FlinkMetric.PENDING_RECORDS,
    }
    assert reading.aggregates[sink.vertex_id][FlinkMetric.RECORDS_IN_RATE] == Aggregate(100, 100, 100, 100, 0)
    assert reading.memory.partitions == {vertex.vertex_id: 4 for vertex in job.vertices[:2]}
    assert reading.memory.names_at_ms == NOW
    assert asked(flink) == {"details": 1, "names": 10, "values": 10}


def test_warm_pass_of_ten_vertices_needs_eleven_requests(flink: FakeFlink, job: FakeJob) -> None:
    request = a_request(flink, job)
    first = read(flink, request)
    asked(flink)

    second = read(flink, next_pass(request, first))

    assert asked(flink) == {"details": 1, "values": 10}
    assert second == replace(first, details=second.details)


def at_rest(request: PassRequest) -> PassRequest:
    """Say that the job last changed when it began to run."""
    return replace(request, context=replace(request.context, modified_ms=START))


def counting(job: FakeJob, *, passed_ms: int) -> None:
    """Let every vertex have worked for so long, half of the time."""
    for vertex in job.vertices:
        vertex.records_in, vertex.records_out = 3 * passed_ms, 2 * passed_ms
        vertex.busy_ms = vertex.waited_ms = passed_ms / 2
        vertex.has_task_counters = True


@pytest.fixture
def counted_job(flink: FakeFlink) -> FakeJob:
    job = flink.add_job("orders", chain(sources=2, vertices=10, parallelism=3), start_ms=START)
    counting(job, passed_ms=1000)
    return job


def test_warm_pass_over_a_job_that_has_not_changed_asks_its_ten_vertices_alone(
    flink: FakeFlink, counted_job: FakeJob
) -> None:
    request = at_rest(a_request(flink, counted_job))
    first = read(flink, request)
    asked(flink)
    counting(counted_job, passed_ms=61_000)

    warm = read(flink, next_pass(request, first))
    kept = asked(flink)
    plain = read(flink, replace(next_pass(request, first), memory=replace(first.memory, kept=None)))

    assert (kept, asked(flink)) == ({"values": 10}, {"details": 1, "values": 10})
    assert warm.details is not None
    assert plain.details is not None
    assert warm.details.vertices == plain.details.vertices
    assert warm.details.vertices[0].io == IoMetrics(183_000, 122_000, 30_500.0, True, 30_500.0, 0.0)
    assert warm.aggregates == plain.aggregates


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda request: with_options(request, REFERENCE), "details", id="reference"),
        pytest.param(
            lambda request: replace(request, context=replace(request.context, modified_ms=START + 1)),
            "details",
            id="the job has changed",
        ),
        pytest.param(
            lambda request: replace(request, context=replace(request.context, modified_ms=None)),
            "details",
            id="nobody says when it changed",
        ),
        pytest.param(lambda request: request, "values", id="nothing"),
    ],
)
def test_details_are_read_again_when(
    flink: FakeFlink, counted_job: FakeJob, change: Callable[[PassRequest], PassRequest], expected: str
) -> None:
    request = at_rest(a_request(flink, counted_job))
    first = read(flink, request)
    asked(flink)

    read(flink, change(next_pass(request, first)))

    assert (asked(flink)["details"] == 1) is (expected == "details")


def test_details_of_a_job_that_has_just_changed_are_not_kept(flink: FakeFlink) -> None:
    job = flink.add_job("orders", chain())
    counting(job, passed_ms=1000)
    request = replace(a_request(flink, job), context=replace(a_request(flink, job).context, modified_ms=job.start_ms))
    first = read(flink, request)
    asked(flink)

    read(flink, next_pass(request, first))

    assert asked(flink)["details"] == 1


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"sum": 2000.0, "avg": 1000.0}, id="two of three subtasks"),
        pytest.param({"sum": 4000.0, "avg": 1000.0}, id="a subtask of before"),
        pytest.param({"sum": -1.0, "avg": -1.0 / 3}, id="negative"),
        pytest.param({"sum": 1e300, "avg": 1e300 / 3}, id="impossible"),
        pytest.param({"sum": "NaN", "avg": "NaN"}, id="not a number"),
        pytest.param({}, id="no sum"),
    ],
)
def test_counters_that_are_not_those_of_all_subtasks_are_read_from_the_details(
    flink: FakeFlink, counted_job: FakeJob, values: dict[str, float | str]
) -> None:
    request = at_rest(a_request(flink, counted_job))
    first = read(flink, request)
    asked(flink)
    counted_job.vertices[3].metrics["numRecordsIn"] = values

    second = read(flink, next_pass(request, first))

    assert asked(flink) == {"details": 1, "values": 10}
    assert second.memory.kept is None
    assert second.details is not None
    assert first.details is not None
    assert second.details.vertices == first.details.vertices
    assert second.aggregates == first.aggregates


def test_vertex_that_does_not_answer_with_its_counters_is_not_asked_for_them_again(
    flink: FakeFlink, counted_job: FakeJob
) -> None:
    request = at_rest(a_request(flink, counted_job))
    first = read(flink, request)
    counted_job.vertices[3].has_task_counters = False
    request = next_pass(request, first)
    silent = read(flink, request)
    request = next_pass(request, silent)
    third = read(flink, request)
    asked(flink)

    fourth = read(flink, next_pass(request, third))

    assert silent.aggregates[counted_job.vertices[3].vertex_id] == {}
    assert asked(flink) == {"details": 1, "values": 10}
    assert third.aggregates == fourth.aggregates == first.aggregates


def test_finished_vertices_keep_the_counters_of_the_details(flink: FakeFlink, counted_job: FakeJob) -> None:
    counted_job.vertices[0].status = "FINISHED"
    request = at_rest(a_request(flink, counted_job))
    first = read(flink, request)
    asked(flink)

    second = read(flink, next_pass(request, first))

    assert asked(flink) == {"values": 9}
    assert first.details is not None
    assert second.details is not None
    assert second.details.vertices == first.details.vertices


def test_names_of_sources_are_read_again_after_five_minutes(flink: FakeFlink, job: FakeJob) -> None:
    request = a_request(flink, job)
    first = read(flink, request)
    job.vertices[0].names_without_value.append(
        "Source__source_0.KafkaSourceReader.topic.orders_0.partition.4.currentOffset"
    )
    asked(flink)

    early = read(flink, next_pass(request, first, later_ms=REFRESH_MS - 1))
    late = read(flink, next_pass(request, first, later_ms=REFRESH_MS))

    assert early.memory.partitions[job.vertices[0].vertex_id] == 4
    assert late.memory.partitions[job.vertices[0].vertex_id] == 5
    assert late.memory.names_at_ms == NOW + REFRESH_MS
    assert asked(flink) == {"details": 2, "names": 2, "values": 20}


def test_names_are_read_again_sooner_while_a_source_reports_no_lag(flink: FakeFlink, job: FakeJob) -> None:
    lag = {"Source__source_0.pendingRecords": job.vertices[0].metrics.pop("Source__source_0.pendingRecords")}
    request = a_request(flink, job)
    first = read(flink, request)
    job.vertices[0].metrics |= lag
    asked(flink)

    read(flink, next_pass(request, first, later_ms=REFRESH_WITHOUT_LAG_MS - 1))
    late = read(flink, next_pass(request, first, later_ms=REFRESH_WITHOUT_LAG_MS))

    assert FlinkMetric.PENDING_RECORDS in late.aggregates[job.vertices[0].vertex_id]
    assert asked(flink)["names"] == 2


def test_clock_that_goes_back_refreshes_names(flink: FakeFlink, job: FakeJob) -> None:
    request = a_request(flink, job)
    first = read(flink, request)
    asked(flink)

    read(flink, next_pass(request, first, later_ms=-1))

    assert asked(flink)["names"] == 2


def test_refresh_without_any_name_keeps_what_is_remembered(flink: FakeFlink, job: FakeJob) -> None:
    request = a_request(flink, job)
    first = read(flink, request)
    flink.fault(job.vertices[0].vertex_id, Canned(b"[]"), times=1)

    late = read(flink, next_pass(request, first, later_ms=REFRESH_MS))

    assert late.error is None
    assert late.memory.names == first.memory.names
    assert late.memory.partitions == first.memory.partitions


@pytest.mark.parametrize(
    ("state", "is_read_again"),
    [
        pytest.param(JobState(samples=(MetricSample(START, {}, {}),)), False, id="sample of this execution"),
        pytest.param(JobState(samples=(MetricSample(START - 1, {}, {}),)), True, id="sample of before the restart"),
        pytest.param(JobState(job_id="f" * 32), True, id="another job"),
        pytest.param(JobState(), False, id="no samples yet"),
    ],
)
def test_names_are_forgotten_after_a_restart(
    flink: FakeFlink, job: FakeJob, state: JobState, is_read_again: bool
) -> None:
    request = a_request(flink, job)
    first = read(flink, request)
    asked(flink)

    read(flink, replace(next_pass(request, first), state=state))

    assert asked(flink)["names"] == (10 if is_read_again else 0)


def test_flag_about_garbage_collection_is_kept_until_a_restart(flink: FakeFlink, job: FakeJob) -> None:
    request = a_request(flink, job, memory=CollectorMemory(reports_gc=False))
    restarted = replace(request, state=JobState(samples=(MetricSample(START - 1, {}, {}),)))

    assert read(flink, request).memory.reports_gc is False
    assert read(flink, restarted).memory.reports_gc is None


def test_remembered_names_without_values_are_read_again_once(flink: FakeFlink, job: FakeJob) -> None:
    request = a_request(flink, job)
    first = read(flink, request)
    silent = job.vertices[5]
    silent.names_without_value = list(silent.metrics)
    silent.metrics = {}
    asked(flink)

    readings = [first]
    counts = []
    for _ in range(3):
        request = next_pass(request, readings[-1])
        readings.append(read(flink, request))
        counts.append(asked(flink)["names"])

    assert [reading.aggregates[silent.vertex_id] for reading in readings[1:]] == [{}, {}, {}]
    assert all(reading.error is None for reading in readings)
    assert counts == [0, 1, 0]


def test_renamed_metric_is_found_in_the_pass_after(flink: FakeFlink, job: FakeJob) -> None:
    request = a_request(flink, job)
    first = read(flink, request)
    source = job.vertices[0]
    source.metrics = {name.replace("source_0", "renamed"): value for name, value in source.metrics.items()}

    second = read(flink, next_pass(request, first))
    third = read(flink, next_pass(request, second))

    assert second.aggregates[source.vertex_id] == {}
    assert third.aggregates[source.vertex_id] == first.aggregates[source.vertex_id]


def test_finished_vertices_are_left_alone(flink: FakeFlink, job: FakeJob) -> None:
    request = a_request(flink, job)
    first = read(flink, request)
    job.vertices[0].status = "FINISHED"
    asked(flink)

    second = read(flink, next_pass(request, first))
    third = read(flink, next_pass(request, second))

    assert job.vertices[0].vertex_id not in second.aggregates
    assert second.aggregates.keys() == third.aggregates.keys()
    assert asked(flink) == {"details": 2, "values": 18}


def test_missing_required_metric_ends_the_reading_before_values(flink: FakeFlink, job: FakeJob) -> None:
    del job.vertices[4].metrics["busyTimeMsPerSecond"]
    request = a_request(flink, job)

    reading = read(flink, request)

    assert isinstance(reading.error, MissingMetricError)
    assert reading.error.vertex_id == job.vertices[4].vertex_id
    assert reading.details is not None
    assert reading.aggregates == {}
    assert asked(flink) == {"details": 1, "names": 10}


def test_only_what_was_missing_is_read_again(flink: FakeFlink, job: FakeJob) -> None:
    busy = job.vertices[4].metrics.pop("busyTimeMsPerSecond")
    request = a_request(flink, job)
    first = read(flink, request)
    job.vertices[4].metrics["busyTimeMsPerSecond"] = busy
    asked(flink)

    second = read(flink, next_pass(request, first))

    assert second.error is None
    assert asked(flink) == {"details": 1, "names": 1, "values": 10}


def test_reference_reads_names_of_sources_in_every_pass(flink: FakeFlink, job: FakeJob) -> None:
    request = with_options(a_request(flink, job), REFERENCE)
    first = read(flink, request)
    asked(flink)

    second = read(flink, next_pass(request, first))

    assert second == replace(first, details=second.details, memory=replace(first.memory, names_at_ms=NOW + 10_000))
    assert asked(flink) == {"details": 1, "names": 2, "values": 10}


def test_reference_counts_partitions_of_finished_sources(flink: FakeFlink, job: FakeJob) -> None:
    job.vertices[0].status = "FINISHED"
    request = with_options(a_request(flink, job), REFERENCE)

    reading = read(flink, request)

    assert asked(flink) == {"details": 1, "names": 10, "values": 9}
    assert reading.memory.partitions.keys() == {job.vertices[1].vertex_id}


@pytest.mark.parametrize(
    ("path", "behaviour", "kind", "has_details"),
    [
        pytest.param("/jobs/", flink_error(404, "Job not found"), JobGoneError, False, id="job gone"),
        pytest.param("/jobs/", Fault.HTML, ResponseError, False, id="details are a page"),
        pytest.param("/jobs/", Canned(b"[]"), ResponseError, False, id="details are a list"),
        pytest.param("/subtasks/metrics", Fault.TRUNCATED_JSON, ResponseError, True, id="names are cut off"),
        pytest.param("/subtasks/metrics", flink_error(500, "no"), RefusedError, True, id="names are refused"),
    ],
)
def test_failures_are_in_the_reading(
    flink: FakeFlink,
    job: FakeJob,
    path: str,
    behaviour: Fault | Canned,
    kind: type[AutoscalerError],
    has_details: bool,
) -> None:
    memory = CollectorMemory(reports_gc=True)
    flink.fault(path, behaviour)

    reading = read(flink, a_request(flink, job, memory=memory))

    assert isinstance(reading.error, kind)
    assert (reading.details is not None) is has_details
    assert reading.memory == memory


def test_failure_of_values_keeps_the_names(flink: FakeFlink, job: FakeJob) -> None:
    request = a_request(flink, job)
    first = read(flink, request)
    flink.fault(job.vertices[3].vertex_id, Fault.HTML)

    second = read(flink, next_pass(request, first))

    assert isinstance(second.error, ResponseError)
    assert second.memory == first.memory
    assert second.aggregates == {}


def test_details_have_the_timeout_of_the_job(flink: FakeFlink, job: FakeJob) -> None:
    flink.fault(job.job_id, Fault.HANG)
    request = with_options(a_request(flink, job), {"job.autoscaler.flink.rest-client.timeout": "200 ms"})

    reading = read(flink, request)

    assert isinstance(reading.error, ConnectError)
    assert "within 0.2 s" in str(reading.error)


def test_plan_without_vertices_is_not_ready(flink: FakeFlink) -> None:
    job = flink.add_job("empty", [])

    reading = read(flink, a_request(flink, job))

    assert isinstance(reading.error, NotReadyError)
    assert reading.details is not None


def test_job_without_id_is_not_ready(flink: FakeFlink, job: FakeJob) -> None:
    request = a_request(flink, job)
    request = replace(request, context=replace(request.context, job_id=None))

    assert isinstance(read(flink, request).error, NotReadyError)
    assert flink.requests == []


def read_cluster_of(flink: FakeFlink) -> ClusterReading:
    async def run() -> ClusterReading:
        client = FlinkRestClient(flink.endpoint())
        try:
            return await read_cluster(client)
        finally:
            await client.aclose()

    return asyncio.run(run())


def test_cluster_is_read_with_two_requests(flink: FakeFlink) -> None:
    reading = read_cluster_of(flink)

    assert reading.error is None
    assert reading.jobmanager == {"taskSlotsTotal": "16", "taskSlotsAvailable": "8"}
    assert reading.taskmanagers["Status.JVM.GarbageCollector.All.TimeMsPerSecond"].maximum == 5.0
    assert reading.taskmanagers_without_gc == {}
    assert sorted(flink.paths()) == ["/jobmanager/metrics", "/taskmanagers/metrics"]


def test_taskmanagers_that_do_not_report_garbage_collection_are_asked_without(flink: FakeFlink) -> None:
    del flink.taskmanager_metrics["Status.JVM.GarbageCollector.All.TimeMsPerSecond"]

    reading = read_cluster_of(flink)

    assert reading.taskmanagers == {}
    assert len(reading.taskmanagers_without_gc) == 4


TASKS = 4


"""Two vertices of parallelism 2."""


def read_agreeing(flink: FakeFlink, job_id: str, *, task_count: int | None, compat: str = "improved") -> JobReading:
    options = {"job.autoscaler.compat": compat}
    context = JobAutoScalerContext("t/job", job_id, JobStatus.RUNNING, options, flink.endpoint())
    request = PassRequest(replace(context, task_count=task_count), EMPTY_STATE, 1_000_000)

    async def run() -> JobReading:
        client = FlinkRestClient(flink.endpoint())
        try:
            return await read_job(client, request)
        finally:
            await client.aclose()

    return asyncio.run(run())


def readings_of_details(flink: FakeFlink, job_id: str) -> int:
    return sum(request.path == f"/jobs/{job_id}" for request in flink.requests)


def test_details_that_agree_are_read_once(flink: FakeFlink) -> None:
    job = flink.add_job("job", chain(sources=1, vertices=2, parallelism=2))

    reading = read_agreeing(flink, job.job_id, task_count=TASKS)

    assert reading.error is None
    assert readings_of_details(flink, job.job_id) == 1


def test_details_of_the_execution_before_are_read_again_by_the_next_pass(flink: FakeFlink) -> None:
    job = flink.add_job("job", chain(sources=1, vertices=2, parallelism=1))
    old = Canned.json(details(job))
    job.rescale({vertex.vertex_id: 2 for vertex in job.vertices})
    flink.fault(f"/jobs/{job.job_id}", old, times=1)

    first, second = (read_agreeing(flink, job.job_id, task_count=TASKS) for _ in range(2))

    assert isinstance(first.error, NotReadyError)
    assert second.details is not None
    assert [node.parallelism for node in second.details.plan] == [2, 2]


def test_contradicting_details_are_mixed_with_nothing_and_waited_for_by_nobody(flink: FakeFlink) -> None:
    job = flink.add_job("job", chain(sources=1, vertices=2, parallelism=1))

    reading = read_agreeing(flink, job.job_id, task_count=TASKS)

    assert isinstance(reading.error, NotReadyError)
    assert (reading.details, reading.aggregates) == (None, {})
    assert readings_of_details(flink, job.job_id) == 1


@pytest.mark.parametrize(
    ("task_count", "compat"),
    [pytest.param(None, "improved", id="count not known"), pytest.param(TASKS, "reference", id="as the reference")],
)
def test_details_are_believed(flink: FakeFlink, task_count: int | None, compat: str) -> None:
    job = flink.add_job("job", chain(sources=1, vertices=2, parallelism=1))

    reading = read_agreeing(flink, job.job_id, task_count=task_count, compat=compat)

    assert reading.error is None
