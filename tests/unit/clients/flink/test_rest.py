"""The typed client against the fake cluster and recorded refusals."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from flink_autoscaler.clients.flink.decode import ParallelismBounds
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import JobGoneError, RealizeError, RefusedError, ResponseError
from flink_autoscaler.core.model.metrics import Aggregate
from testkit.fakes.flink import Canned, FakeFlink

T = TypeVar("T")
FIXTURES = Path(__file__).parents[3] / "fixtures"
UNKNOWN = "0" * 32


def ask(flink: FakeFlink, question: Callable[[FlinkRestClient], Awaitable[T]]) -> T:
    async def run() -> T:
        client = FlinkRestClient(flink.endpoint())
        try:
            return await question(client)
        finally:
            await client.aclose()

    return asyncio.run(run())


def test_client_reads_what_the_cluster_says_about_a_job(flink: FakeFlink) -> None:
    job = flink.add_job("orders", configuration={"a": "1"}, user_config={"b": "2"})

    overview = ask(flink, lambda client: client.jobs_overview())
    details = ask(flink, lambda client: client.job_details(job.job_id))
    configuration = ask(flink, lambda client: client.job_configuration(job.job_id))
    user_config = ask(flink, lambda client: client.job_user_config(job.job_id))

    assert [(entry.job_id, entry.name, entry.tasks["running"]) for entry in overview] == [(job.job_id, "orders", 3)]
    assert [vertex.name for vertex in details.vertices] == ["Source: source 0", "vertex 1", "vertex 2"]
    assert configuration == {"jobmanager.scheduler": "adaptive", "a": "1"}
    assert user_config == {"b": "2"}


def test_client_reads_what_the_cluster_says_about_itself(flink: FakeFlink) -> None:
    version = ask(flink, lambda client: client.flink_version())
    configuration = ask(flink, lambda client: client.cluster_configuration())
    slots = ask(flink, lambda client: client.jobmanager_metrics(("taskSlotsTotal", "noSuchMetric")))

    assert version == "2.3.0"
    assert configuration == {"jobmanager.scheduler": "adaptive"}
    assert slots == ({"taskSlotsTotal": "16"}, {})


@pytest.mark.parametrize(("version", "is_used"), [("1.20.5", True), ("2.3.0", False)])
def test_the_least_increase_is_that_of_a_flink_that_uses_it(flink: FakeFlink, version: str, is_used: bool) -> None:
    key = "jobmanager.adaptive-scheduler.min-parallelism-increase"
    flink.version, flink.configuration = version, {**flink.configuration, key: "4"}
    job = flink.add_job("orders")

    of_cluster = ask(flink, lambda client: client.cluster_configuration())
    of_job = ask(flink, lambda client: client.job_configuration(job.job_id))

    assert [key in configuration for configuration in (of_cluster, of_job)] == [is_used, is_used]


def test_taskmanager_metrics_are_asked_for_without_sums(flink: FakeFlink) -> None:
    ask(flink, lambda client: client.taskmanager_metrics(("Status.JVM.Memory.Heap.Max",)))

    assert flink.requests[0].query == {"get": "Status.JVM.Memory.Heap.Max", "agg": "min,max,avg"}


@pytest.mark.parametrize(
    "name",
    [
        "Source__Orders[1].numRecordsIn",
        "Source__a+b c%2Fd&e=f#g?.pendingRecords",
        "Source__Größe→.pendingRecords",
    ],
)
def test_metric_names_with_odd_characters_arrive_as_they_are(flink: FakeFlink, name: str) -> None:
    job = flink.add_job()
    job.vertices[0].metrics[name] = 7.0

    values = ask(flink, lambda client: client.vertex_metrics(job.job_id, job.vertices[0].vertex_id, (name,)))

    assert values == {name: Aggregate(7.0, 7.0, 7.0, 7.0, 0.0)}


def test_many_metric_names_are_split_over_urls_of_bounded_length(flink: FakeFlink) -> None:
    job = flink.add_job()
    names = tuple(f"Source__orders[{number}].pendingRecords" for number in range(300))
    job.vertices[0].metrics.update(dict.fromkeys(names, 1.0))

    values = ask(flink, lambda client: client.vertex_metrics(job.job_id, job.vertices[0].vertex_id, names))

    assert values.keys() == set(names)
    assert len(flink.requests) == 4
    assert all(len(request.target) < 4000 for request in flink.requests)


def test_one_part_without_values_empties_the_whole_answer(flink: FakeFlink) -> None:
    job = flink.add_job()
    names = tuple(f"Source__orders[{number}].pendingRecords" for number in range(300))
    job.vertices[0].metrics.update(dict.fromkeys(names[:-1], 1.0))

    values = ask(flink, lambda client: client.vertex_metrics(job.job_id, job.vertices[0].vertex_id, names))

    assert values == {}


def test_vertices_are_asked_together_and_answer_each_for_itself(flink: FakeFlink) -> None:
    job = flink.add_job()
    source, operator, sink = job.vertices
    source.metrics["a"] = 1.0
    operator.metrics["a"] = 2.0
    wanted = {source.vertex_id: ("a",), operator.vertex_id: ("a", "missing"), sink.vertex_id: ()}

    values = ask(flink, lambda client: client.all_vertex_metrics(job.job_id, wanted))

    assert values == {
        source.vertex_id: {"a": Aggregate(1.0, 1.0, 1.0, 1.0, 0.0)},
        operator.vertex_id: {},
        sink.vertex_id: {},
    }
    assert len(flink.requests) == 2


def test_requirements_can_be_set(flink: FakeFlink) -> None:
    job = flink.add_job()
    wanted = {vertex.vertex_id: ParallelismBounds(1, 4) for vertex in job.vertices}

    ask(flink, lambda client: client.set_resource_requirements(job.job_id, wanted))

    assert ask(flink, lambda client: client.resource_requirements(job.job_id)) == wanted


@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (1, -1), (3, 2)])
def test_bounds_that_are_never_right_are_not_sent(flink: FakeFlink, lower: int, upper: int) -> None:
    job = flink.add_job()
    wanted = {vertex.vertex_id: ParallelismBounds(lower, upper) for vertex in job.vertices}

    with pytest.raises(RealizeError, match=f"from {lower} to {upper}"):
        ask(flink, lambda client: client.set_resource_requirements(job.job_id, wanted))

    assert flink.requests == []


@pytest.mark.parametrize("version", ["1.20", "2.3"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resource_requirements_put_incomplete", "The request is incomplete"),
        ("resource_requirements_put_above_max_parallelism", "exceeds its maximum parallelism 24"),
        ("resource_requirements_put_bad_bounds", "lower bound"),
    ],
)
def test_recorded_refusals_are_told_in_one_line(flink: FakeFlink, version: str, name: str, message: str) -> None:
    job = flink.add_job()
    body = (FIXTURES / f"flink-{version}" / f"{name}.json").read_bytes()
    flink.fault("/resource-requirements", Canned(body, 400))

    with pytest.raises(RefusedError, match=message) as raised:
        ask(flink, lambda client: client.set_resource_requirements(job.job_id, {}))

    assert raised.value.status == 400
    assert "\n" not in str(raised.value)
    assert "\tat " in raised.value.body


@pytest.mark.parametrize("state", ["CANCELED", None], ids=["terminal", "unknown"])
def test_requirements_of_a_job_that_is_not_there_are_gone(flink: FakeFlink, state: str | None) -> None:
    job_id = flink.add_job(state=state).job_id if state else UNKNOWN

    with pytest.raises(JobGoneError, match="FlinkJobNotFoundException"):
        ask(flink, lambda client: client.resource_requirements(job_id))


@pytest.mark.parametrize("bad", ["", "..", "../../jars", "a" * 31, "g" * 32, "a" * 32 + "\n"])
def test_ids_that_are_none_never_reach_a_path(flink: FakeFlink, bad: str) -> None:
    with pytest.raises(ResponseError, match="is not an id"):
        ask(flink, lambda client: client.job_details(bad))
    with pytest.raises(ResponseError, match="is not an id"):
        ask(flink, lambda client: client.vertex_metric_names(UNKNOWN, bad))

    assert flink.requests == []
