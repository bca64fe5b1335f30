"""Decoding of answers recorded from real clusters, and of answers that no cluster should give."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.clients.flink import decode, decode_facts
from flink_autoscaler.clients.flink import decode_facts as facts_decode
from flink_autoscaler.clients.http.bounds import MAX_ENTRIES
from flink_autoscaler.clients.http.json_object import objects_in
from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.model.metrics import Aggregate
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, RescaleAttempt, TaskManagerFacts
from flink_autoscaler.core.model.topology import PlanNode, ShipStrategy

FIXTURES = Path(__file__).parents[3] / "fixtures"


SOURCE, WORK, SINK = (
    "431c11b7410a217cf29a345eb02981d0",
    "9f6d7fd1e69105de88900ba5047ec5a1",
    "afa3664e2d13439221e8d041382a4dc1",
)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=2) | st.dictionaries(st.text(max_size=3), values, max_size=2),
    max_leaves=4,
)


both_versions = pytest.mark.parametrize("version", ["1.20", "2.3"])


def recorded(version: str, name: str) -> Any:
    return json.loads((FIXTURES / f"flink-{version}" / f"{name}.json").read_text())


def a_graph(inputs: int) -> dict[str, Any]:
    """Make details of a job whose last vertex has inputs from others, some of them more than once."""
    names = [f"{number:032x}" for number in range(100)]
    edges = [{"id": names[number % 99], "ship_strategy": "HASH"} for number in range(inputs)]
    vertices = [{"id": name, "name": "v", "parallelism": 1, "status": "RUNNING", "metrics": {}} for name in names]
    nodes = [{"id": name, "parallelism": 1, "inputs": edges if name == names[-1] else []} for name in names]
    return {
        "jid": "a" * 32, "name": "job", "state": "RUNNING", "timestamps": {"RUNNING": 1_700_000_000_000},
        "vertices": vertices, "plan": {"nodes": nodes},
    }  # fmt: skip


def test_a_graph_has_no_more_inputs_than_are_taken() -> None:
    assert len(decode.job_details(a_graph(decode.MAX_EDGES)).plan[-1].inputs) == decode.MAX_EDGES

    with pytest.raises(ResponseError, match="inputs of vertices"):
        decode.job_details(a_graph(decode.MAX_EDGES + 1))


def test_a_list_has_no_more_entries_than_are_taken() -> None:
    assert len(objects_in([{}] * MAX_ENTRIES, "jobs")) == MAX_ENTRIES

    with pytest.raises(ResponseError, match="jobs has 100001 entries, 100000 are taken at most"):
        objects_in([{}] * (MAX_ENTRIES + 1), "jobs")


@both_versions
def test_job_details_have_graph_counters_and_timestamp(version: str) -> None:
    answer = recorded(version, "job_details")

    details = decode.job_details(answer)

    source = details.vertices[0]
    assert (details.job_id, details.name, details.state) == (answer["jid"], "load-job", "RUNNING")
    assert details.running_at_ms == answer["timestamps"]["RUNNING"]
    assert (source.vertex_id, source.name, source.parallelism, source.max_parallelism) == (
        SOURCE,
        "Source: orders",
        1,
        24,
    )
    assert source.io.records_out == answer["vertices"][0]["metrics"]["write-records"]
    assert source.io.busy_ms == answer["vertices"][0]["metrics"]["accumulated-busy-time"]
    assert source.io.idle_ms == answer["vertices"][0]["metrics"]["accumulated-idle-time"] > 0
    assert source.io.is_complete
    assert source.slot_sharing_group == answer["vertices"][0]["slotSharingGroupId"]
    assert details.plan == (
        PlanNode(SOURCE, 1),
        PlanNode(WORK, 1, ((SOURCE, ShipStrategy.HASH),)),
        PlanNode(SINK, 1, ((WORK, ShipStrategy.REBALANCE),)),
    )


@both_versions
def test_finished_source_and_unknown_busy_time_are_told(version: str) -> None:
    details = decode.job_details(recorded(version, "job_details_one_source_finished"))

    assert sorted(vertex.status for vertex in details.vertices) == ["FINISHED", "RUNNING", "RUNNING"]
    assert sum(math.isnan(vertex.io.busy_ms) for vertex in details.vertices) == 2


@pytest.mark.parametrize(
    ("metrics", "is_complete"),
    [
        pytest.param({"read-records-complete": False}, False, id="not all subtasks reported reads"),
        pytest.param({"write-records-complete": False}, False, id="not all subtasks reported writes"),
        pytest.param({"read-bytes-complete": False}, True, id="bytes do not matter"),
        pytest.param({"read-records-complete": None}, True, id="not told"),
    ],
)
def test_incomplete_counters_are_told(metrics: dict[str, object], is_complete: bool) -> None:
    answer = recorded("2.3", "job_details")
    answer["vertices"][0]["metrics"] |= metrics

    assert decode.job_details(answer).vertices[0].io.is_complete is is_complete


def test_waiting_for_vertices_downstream_is_counted() -> None:
    assert decode.job_details(recorded("1.20", "job_details_after_rescale")).vertices[0].io.backpressured_ms == 1527.0


def test_fields_that_older_versions_lack_have_defaults() -> None:
    answer = recorded("1.20", "job_details")
    vertex = answer["vertices"][0]
    del vertex["slotSharingGroupId"], vertex["metrics"]["accumulated-busy-time"], vertex["start-time"]
    del vertex["metrics"]["accumulated-idle-time"], vertex["metrics"]["accumulated-backpressured-time"]

    decoded = decode.job_details(answer).vertices[0]

    assert (decoded.slot_sharing_group, decoded.start_ms) == (None, -1)
    assert math.isnan(decoded.io.busy_ms)
    assert (decoded.io.idle_ms, decoded.io.backpressured_ms) == (None, None)


def test_missing_counters_are_not_complete() -> None:
    answer = recorded("2.3", "job_details")
    answer["vertices"][0]["metrics"] = {}

    io = decode.job_details(answer).vertices[0].io

    assert (io.records_in, io.records_out, io.is_complete) == (0, 0, False)


@pytest.mark.parametrize("timestamps", [{}, {"RUNNING": 0}, {"RUNNING": None}, None])
def test_job_that_never_ran_has_no_running_timestamp(timestamps: object) -> None:
    answer = recorded("2.3", "job_details") | {"timestamps": timestamps}

    assert decode.job_details(answer).running_at_ms is None


@pytest.mark.parametrize("plan", [None, {}, {"nodes": []}, {"nodes": None}])
def test_job_without_plan_has_an_empty_one(plan: object) -> None:
    answer = recorded("2.3", "job_details") | {"plan": plan}

    assert decode.job_details(answer).plan == ()


def test_strategy_of_a_later_version_is_unknown() -> None:
    answer = recorded("2.3", "job_details")
    answer["plan"]["nodes"][1]["inputs"][0]["ship_strategy"] = "TELEPORT"

    assert decode.job_details(answer).plan[1].inputs == ((SOURCE, ShipStrategy.UNKNOWN),)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        pytest.param(("jid",), 7, r"job details\.jid is 7, expected text", id="job id"),
        pytest.param(("vertices",), {}, r"job details\.vertices is \{\}, expected an array", id="vertices"),
        pytest.param(("vertices", 0), "x", "vertices is 'x', expected an object", id="vertex"),
        pytest.param(("vertices", 0, "parallelism"), "2", f"vertex {SOURCE}.parallelism is '2'", id="parallelism"),
        pytest.param(("vertices", 0, "parallelism"), True, "parallelism is True", id="parallelism is a boolean"),
        pytest.param(("vertices", 0, "parallelism"), 1e999, "parallelism is inf", id="parallelism is infinite"),
        pytest.param(("vertices", 0, "parallelism"), 1.5, "parallelism is 1.5", id="parallelism has a fraction"),
        pytest.param(("vertices", 0, "metrics", "accumulated-busy-time"), "much", "busy-time is 'much'", id="busy"),
        pytest.param(("vertices", 0, "metrics", "read-records-complete"), "yes", "is 'yes', expected true", id="flag"),
        pytest.param(("plan", "nodes", 0, "parallelism"), None, "is None, expected an integer", id="node"),
        pytest.param(("timestamps", "RUNNING"), "now", "timestamps.RUNNING is 'now'", id="timestamp"),
        pytest.param(("name",), ["x" * 1000], r"\.\.\., expected text", id="long value is cut"),
    ],
)
def test_wrong_types_are_errors_that_name_the_field(path: tuple[str | int, ...], value: object, message: str) -> None:
    answer = recorded("2.3", "job_details")
    place = answer
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value

    with pytest.raises(ResponseError, match=message):
        decode.job_details(answer)


def test_missing_required_field_is_an_error() -> None:
    answer = recorded("2.3", "job_details")
    del answer["vertices"][0]["id"]

    with pytest.raises(ResponseError, match="id is missing, expected text"):
        decode.job_details(answer)


@pytest.mark.parametrize(
    "decoder",
    [
        decode.jobs_overview,
        decode.job_details,
        decode.configuration,
        decode.user_configuration,
        decode.metric_names,
        decode.metric_values,
        decode.aggregates,
        decode.resource_requirements,
        decode.flink_version,
    ],
)
@pytest.mark.parametrize("answer", [None, 7, "text", [7], {"jobs": 7}, {"x": 7}, [{}], [[]]], ids=repr)
def test_answers_of_another_shape_are_errors(decoder: Any, answer: object) -> None:
    try:
        decoded = decoder(answer)
    except ResponseError:
        return

    assert decoded == {}  # the job's configuration may have no user configuration


@both_versions
@pytest.mark.parametrize(
    "name",
    [
        "jobs_overview",
        "jobs_overview_after_rescale",
        "jobs_overview_not_enough_slots",
        "jobs_overview_one_source_finished",
    ],
)
def test_jobs_overview_lists_every_job(version: str, name: str) -> None:
    answer = recorded(version, name)

    jobs = decode.jobs_overview(answer)

    assert [job.job_id for job in jobs] == [entry["jid"] for entry in answer["jobs"]]
    assert [job.tasks for job in jobs] == [entry["tasks"] for entry in answer["jobs"]]
    assert [job.start_ms for job in jobs] == [entry["start-time"] for entry in answer["jobs"]]


@pytest.mark.parametrize(
    ("version", "expected"), [("1.20", (None, None)), ("2.3", ("STREAMING", "Adaptive"))], ids=["1.20", "2.3"]
)
def test_job_and_scheduler_type_are_told_where_known(version: str, expected: tuple[str | None, str | None]) -> None:
    job = decode.jobs_overview(recorded(version, "jobs_overview"))[0]

    assert (job.job_type, job.scheduler_type) == expected


def test_initializing_job_needs_little() -> None:
    answer = {"jobs": [{"jid": "a" * 32, "name": "n", "state": "INITIALIZING", "schedulerType": None}]}

    job = decode.jobs_overview(answer)[0]

    assert (job.tasks, job.start_ms, job.end_ms, job.scheduler_type) == ({}, -1, -1, None)


@both_versions
@pytest.mark.parametrize("name", ["job_jobmanager_config", "jobmanager_config"])
def test_configuration_is_flat_text(version: str, name: str) -> None:
    assert decode.configuration(recorded(version, name))["job.autoscaler.restart.time"] == "10s"


def test_configuration_without_value_is_left_out() -> None:
    assert decode.configuration([{"key": "a", "value": None}, {"key": "b", "value": ""}]) == {"b": ""}


@pytest.mark.parametrize("answer", [{}, {"execution-config": None}, {"execution-config": {"user-config": None}}])
def test_job_without_execution_config_has_an_empty_user_configuration(answer: object) -> None:
    assert decode.user_configuration(answer) == {}


def test_user_configuration_is_text() -> None:
    answer = {"execution-config": {"user-config": {"a": "x", "b": 1, "c": True}}}

    assert decode.user_configuration(answer) == {"a": "x", "b": "1", "c": "true"}


@both_versions
@pytest.mark.parametrize(
    "name",
    [
        "metric_names_finished_source_one_source_finished",
        "metric_values_finished_source_one_source_finished",
        "taskmanagers_one_metric_missing",
        "vertex0_one_metric_missing",
        "vertex_not_found",
    ],
)
def test_empty_lists_are_empty(version: str, name: str) -> None:
    answer = recorded(version, name)

    assert (decode.metric_names(answer), decode.aggregates(answer)) == ((), {})


@both_versions
@pytest.mark.parametrize(
    "name",
    [
        "vertex0_source_orders_metric_values",
        "vertex0_source_orders_metric_values_after_rescale",
        "vertex1_work_metric_values",
        "vertex2_fmt_out_writer_metric_values",
        "metric_values_aggregate_one_source_finished",
    ],
)
def test_vertex_metrics_have_all_aggregates(version: str, name: str) -> None:
    answer = recorded(version, name)

    decoded = decode.aggregates(answer)

    assert decoded == {e["id"]: Aggregate(e["min"], e["max"], e["avg"], e["sum"], e["skew"]) for e in answer}


@both_versions
@pytest.mark.parametrize("name", ["taskmanagers_metric_values", "taskmanagers_metric_values_after_rescale"])
def test_taskmanager_metrics_have_no_sum(version: str, name: str) -> None:
    heap = decode.aggregates(recorded(version, name))["Status.JVM.Memory.Heap.Max"]

    assert heap == Aggregate(518979584.0, 518979584.0, 518979584.0)


@both_versions
def test_nan_as_text_is_nan(version: str) -> None:
    busy = decode.aggregates(recorded(version, "metric_values_running_source_one_source_finished"))

    assert all(math.isnan(value) for value in busy["busyTimeMsPerSecond"] if value is not None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("Infinity", math.inf, id="infinity as text"),
        pytest.param("-Infinity", -math.inf, id="negative infinity as text"),
        pytest.param(3, 3.0, id="integer"),
        pytest.param(10**400, math.inf, id="integer beyond doubles"),
        pytest.param(None, None, id="null"),
    ],
)
def test_numbers_are_floats(value: object, expected: float | None) -> None:
    assert decode.aggregates([{"id": "m", "max": value}]) == {"m": Aggregate(maximum=expected)}


@pytest.mark.parametrize("value", ["many", True, [], {}])
def test_metric_that_is_no_number_is_an_error(value: object) -> None:
    with pytest.raises(ResponseError, match=r"metric m\.max is .*, expected a number"):
        decode.aggregates([{"id": "m", "max": value}])


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.20", {"taskSlotsTotal": "16", "taskSlotsAvailable": "15"}),
        ("2.3", {"taskSlotsTotal": "8", "taskSlotsAvailable": "7"}),
    ],
    ids=["1.20", "2.3"],
)
def test_jobmanager_metrics_are_text(version: str, expected: dict[str, str]) -> None:
    assert decode.metric_values(recorded(version, "jobmanager_slots")) == expected


@both_versions
@pytest.mark.parametrize(
    ("name", "vertices"),
    [
        ("resource_requirements", 3),
        ("resource_requirements_after_rescale", 3),
        ("resource_requirements_not_enough_slots", 3),
        ("resource_requirements_one_source_finished", 3),
    ],
)
def test_resource_requirements_round_trip(version: str, name: str, vertices: int) -> None:
    answer = recorded(version, name)

    bounds = decode.resource_requirements(answer)

    assert len(bounds) == vertices
    assert decode.encode_requirements(bounds) == answer


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of all values inside a decoded JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, child in children for found in [(*path, key), *places(child, (*path, key))]]


@pytest.mark.parametrize(
    ("decoder", "name"),
    [
        (decode.job_details, "job_details_one_source_finished"),
        (decode.jobs_overview, "jobs_overview"),
        (decode.aggregates, "vertex1_work_metric_values"),
        (decode.metric_values, "jobmanager_slots"),
        (decode.configuration, "job_jobmanager_config"),
        (decode.user_configuration, "job_config"),
        (decode.resource_requirements, "resource_requirements"),
        (decode.flink_version, "config"),
    ],
)
@given(data=st.data())
def test_whatever_stands_in_an_answer_it_is_decoded_or_refused(decoder: Any, name: str, data: st.DataObject) -> None:
    answer = recorded("2.3", name)
    path = data.draw(st.sampled_from(places(answer)))
    place = answer
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = data.draw(ANY_JSON)

    with contextlib.suppress(ResponseError):
        decoder(answer)


def test_half_of_a_surrogate_pair_in_a_name_is_replaced() -> None:
    answer = json.loads('{"jobs": [{"jid": "%s", "name": "x\\ud800y", "state": "RUNNING"}]}' % ("a" * 32))

    assert decode.jobs_overview(answer)[0].name == "x?y"


TRACE = """org.apache.flink.runtime.JobException: Recovery is suppressed
\tat org.apache.flink.runtime.executiongraph.A.b(A.java:1)
\t... 12 more
Caused by: java.io.IOException: Insufficient number of network buffers: required 65, but only 12 available
\tat org.apache.flink.runtime.io.C.d(C.java:2)"""


def test_exceptions_keep_their_messages_and_lose_their_frames() -> None:
    entry = {"exceptionName": "x.JobException", "stacktrace": TRACE, "timestamp": 17, "taskName": "work (1/4)"}

    (exception,) = facts_decode.exceptions({"exceptionHistory": {"entries": [entry], "truncated": False}})

    assert exception.at_ms == 17
    assert exception.text.splitlines() == [line for line in TRACE.splitlines() if not line.startswith("\t")]


def test_what_failed_at_the_same_time_belongs_to_the_exception() -> None:
    inner = {"stacktrace": "innermost", "timestamp": 1}
    middle = {"stacktrace": "middle", "timestamp": 1, "concurrentExceptions": [inner]}
    outer = {"stacktrace": "outer", "timestamp": 1, "concurrentExceptions": [middle]}

    (exception,) = facts_decode.exceptions({"exceptionHistory": {"entries": [outer]}})

    assert exception.text == "outer\nmiddle\ninnermost"


def test_a_stack_trace_of_any_length_is_bounded() -> None:
    entry = {"stacktrace": "x" * 10**6, "timestamp": 1}

    (exception,) = facts_decode.exceptions({"exceptionHistory": {"entries": [entry]}})

    assert len(exception.text) == facts_decode.TEXT_LIMIT


@pytest.mark.parametrize(
    "answer",
    [{}, {"exceptionHistory": {}}, {"root-exception": None, "all-exceptions": [], "exceptionHistory": {"entries": []}}],
    ids=["nothing", "no entries", "Flink 1.20 without exceptions"],
)
def test_a_job_without_exceptions_has_none(answer: object) -> None:
    assert facts_decode.exceptions(answer) == ()


def test_the_latest_completed_checkpoint_counts() -> None:
    completed = {"id": 13, "latest_ack_timestamp": 99, "state_size": 834, "trigger_timestamp": 90}

    facts = facts_decode.checkpoints({"latest": {"completed": completed, "savepoint": None, "failed": None}})

    assert facts == CheckpointFacts(completed_ms=99, state_bytes=834)


def test_a_job_without_a_checkpoint_yet_has_no_time_of_one() -> None:
    assert facts_decode.checkpoints({"latest": {"completed": None}}) == CheckpointFacts()


@pytest.mark.parametrize(("interval", "expected"), [(3000, 3000), (2**63 - 1, None), (0, None)])
def test_an_interval_that_means_never_is_none(interval: int, expected: int | None) -> None:
    assert facts_decode.decode_checkpoint_interval({"mode": "exactly_once", "interval": interval}) == expected


def test_taskmanagers_tell_slots_and_memory() -> None:
    entry = {
        "id": "localhost:1-a",
        "slotsNumber": 8,
        "freeSlots": 7,
        "totalResource": {"cpuCores": 2.0},
        "memoryConfiguration": {"frameworkHeap": 1, "taskHeap": 2, "networkMemory": 64},
    }

    assert facts_decode.taskmanagers({"taskmanagers": [entry]}) == (
        TaskManagerFacts("localhost:1-a", slots=8, free_slots=7, network_memory=64, heap=3, cpu=2.0),
    )


@pytest.mark.parametrize(
    ("values", "restarts"),
    [
        ({"numRestarts": "5", "numRescales": "3"}, 2),
        ({"numRestarts": "5"}, 5),
        ({}, None),
        ({"numRestarts": "many"}, None),
        ({"numRestarts": "1", "numRescales": "3"}, 0),
    ],
    ids=["rescales counted apart", "before Flink 2", "not told", "nonsense", "never negative"],
)
def test_rescales_are_no_restarts(values: dict[str, str], restarts: int | None) -> None:
    answer = [{"id": name, "value": value} for name, value in values.items()]

    assert facts_decode.restarts(answer) == restarts


@pytest.mark.parametrize(
    ("subtasks", "since"),
    [
        ([("RUNNING", 40), ("RUNNING", 60)], 960),
        ([("RUNNING", 40), ("DEPLOYING", 0)], None),
        ([], None),
    ],
    ids=["the last one counts", "not all run", "none"],
)
def test_a_vertex_runs_since_its_last_subtask_does(subtasks: list[tuple[str, int]], since: int | None) -> None:
    entries = [{"status": status, "status-duration": {"RUNNING": running}} for status, running in subtasks]

    assert facts_decode.running_since({"now": 1000, "subtasks": entries}) == since


def test_the_rescale_history_is_read_in_either_shape() -> None:
    entry = {
        "startTimestampInMillis": 5,
        "endTimestampInMillis": 9,
        "terminalState": "COMPLETED",
        "triggerCause": "UPDATE_REQUIREMENT",
        "terminatedReason": "SUCCEEDED",
    }
    attempt = RescaleAttempt(5, 9, "COMPLETED", "UPDATE_REQUIREMENT", "SUCCEEDED")

    assert facts_decode.rescale_attempts([entry]) == (attempt,)
    assert facts_decode.rescale_attempts({"rescalesHistory": [entry]}) == (attempt,)


@pytest.mark.parametrize("answer", [[], {"taskmanagers": {}}, {"taskmanagers": [{"id": 5}]}])
def test_nonsense_is_an_error_that_names_the_field(answer: object) -> None:
    with pytest.raises(ResponseError, match=r"(?i)taskmanager"):
        facts_decode.taskmanagers(answer)


GOOD, BAD = "a" * 32, "b" * 32


def an_entry(job_id: str = BAD, **values: Any) -> dict[str, Any]:
    return {
        "jid": job_id,
        "name": "orders",
        "state": "RUNNING",
        "tasks": {"total": 2, "running": 2},
        "start-time": 1,
        "end-time": -1,
        "last-modification": 2,
        "jobType": "STREAMING",
        **values,
    }


def listed(*entries: object) -> decode.JobListing:
    return decode.job_listing({"jobs": [*entries, an_entry(GOOD, name="good")]})


@pytest.mark.parametrize(
    "values",
    [
        {"tasks": ""},
        {"tasks": []},
        {"tasks": {"running": "2"}},
        {"tasks": {"running": -1}},
        {"tasks": {"running": 2**31}},
        {"tasks": {"running": 1e308}},
        {"state": None},
        {"state": 5},
        {"name": None},
        {"name": ["x"]},
        {"name": "x" * (decode.LONGEST_NAME + 1)},
    ],
    ids=lambda values: str(values)[:40],
)
def test_an_entry_without_what_a_pass_needs_is_unreadable_and_no_other_is(values: dict[str, Any]) -> None:
    listing = listed(an_entry(**values))

    (unreadable,) = listing.unreadable
    assert [job.job_id for job in listing.jobs] == [GOOD]
    assert (unreadable.job_id, unreadable.place) == (BAD, 0)
    assert unreadable.name == (None if "name" in values else "orders")
    assert isinstance(unreadable.error, ResponseError)
    assert len(str(unreadable.error)) < 400


@pytest.mark.parametrize(
    "values",
    [
        {"jobType": 5},
        {"schedulerType": []},
        {"end-time": 1.5},
        {"start-time": "soon"},
        {"start-time": -84_637_000_000_000},
        {"end-time": 2**63},
        {"last-modification": 1e308},
        {"last-modification": {}},
        {"duration": "x"},
    ],
    ids=str,
)
def test_what_feeds_nothing_in_a_pass_is_not_demanded(values: dict[str, Any]) -> None:
    listing = listed(an_entry(**values))

    assert [job.job_id for job in listing.jobs] == [BAD, GOOD]
    assert listing.unreadable == ()


@pytest.mark.parametrize(
    "entry",
    [None, 5, "x", [], {}, an_entry(job_id="x"), an_entry(job_id="../" + "a" * 29), {"jid": None, "name": "orders"}],
    ids=lambda entry: str(entry)[:30],
)
def test_an_entry_of_nobody_knows_whom_is_told_by_its_place(entry: object) -> None:
    listing = listed(an_entry(), entry)

    (unreadable,) = listing.unreadable
    assert [job.job_id for job in listing.jobs] == [BAD, GOOD]
    assert (unreadable.job_id, unreadable.place) == (None, 1)


def test_a_job_that_is_listed_twice_is_there_once_unless_the_two_contradict_each_other() -> None:
    twice = listed(an_entry(), an_entry())
    contradicting = listed(an_entry(), an_entry(state="FAILED"))

    assert [job.job_id for job in twice.jobs] == [BAD, GOOD]
    assert [job.job_id for job in contradicting.jobs] == [GOOD]
    assert [each.job_id for each in contradicting.unreadable] == [BAD]


@pytest.mark.parametrize("answer", [None, [], {}, {"jobs": None}, {"jobs": {}}, {"jobs": "x"}], ids=repr)
def test_no_list_at_all_is_an_error_of_the_list(answer: object) -> None:
    with pytest.raises(ResponseError):
        decode.job_listing(answer)


def test_more_jobs_than_anybody_could_look_after_are_refused() -> None:
    with pytest.raises(ResponseError, match="10000 of a cluster are managed at most"):
        decode.job_listing({"jobs": [None] * (decode.MAX_JOBS + 1)})


def test_who_needs_the_whole_list_is_told_what_is_wrong_with_an_entry() -> None:
    with pytest.raises(ResponseError, match="state"):
        decode.jobs_overview({"jobs": [an_entry(), an_entry(GOOD, state=None)]})


HUGE_NUMBERS = [2**63, -(2**63) - 1, 10**400, 1e308, -1e308, float("inf"), float("nan"), -84_637_000_000_000]


@pytest.mark.parametrize("value", HUGE_NUMBERS, ids=lambda value: f"{value:.3e}"[:12] if value < 1e300 else "huge")
@pytest.mark.parametrize("name", ["INITIALIZING", "CREATED"])
def test_an_instant_that_only_helps_is_unknown_when_it_cannot_be(name: str, value: float) -> None:
    details = decode.job_details(
        {"jid": GOOD, "name": "x", "state": "RUNNING", "now": value, "timestamps": {"RUNNING": 5, name: value}}
    )

    assert (details.running_at_ms, details.now_ms) == (5, None)
    assert (details.initialized_ms, details.created_ms) == (None, None)


@pytest.mark.parametrize("value", HUGE_NUMBERS, ids=lambda value: f"{value:.3e}"[:12] if value < 1e300 else "huge")
def test_an_instant_that_a_pass_needs_is_an_error_of_the_job_when_it_cannot_be(value: float) -> None:
    with pytest.raises(ResponseError, match=r"timestamps\.RUNNING"):
        decode.job_details({"jid": GOOD, "name": "x", "state": "RUNNING", "timestamps": {"RUNNING": value}})


@pytest.mark.parametrize(
    "value", [*HUGE_NUMBERS, 0, -1, 2**31], ids=lambda value: "huge" if value > 1e300 else f"{value}"
)
def test_a_parallelism_that_cannot_be_is_an_error_of_the_job(value: float) -> None:
    vertex = {"id": GOOD, "name": "x", "parallelism": value, "status": "RUNNING"}

    with pytest.raises(ResponseError, match="parallelism"):
        decode.job_details({"jid": GOOD, "name": "x", "state": "RUNNING", "vertices": [vertex]})


@pytest.mark.parametrize("value", [*HUGE_NUMBERS, "x", -1], ids=lambda value: str(value)[:20])
def test_facts_of_a_taskmanager_that_only_help_are_unknown_when_they_cannot_be(value: object) -> None:
    memory = {"networkMemory": value, "taskHeap": value}
    (facts,) = decode_facts.taskmanagers(
        {
            "taskmanagers": [
                {
                    "id": "a",
                    "slotsNumber": 4,
                    "freeSlots": 1,
                    "memoryConfiguration": memory,
                    "totalResource": {"cpuCores": value},
                }
            ]
        }
    )

    assert (facts.slots, facts.free_slots) == (4, 1)
    assert (facts.network_memory, facts.heap, facts.cpu) == (None, None, None)


def test_a_configuration_beyond_its_bound_is_refused() -> None:
    pairs = [{"key": f"k{number}", "value": "x" * 1000} for number in range(1100)]

    with pytest.raises(ResponseError, match="1048576 are taken at most"):
        decode.configuration(pairs)


def test_jobs_with_more_vertices_than_anybody_has_are_refused() -> None:
    vertices: list[object] = [{}] * (decode.MAX_VERTICES + 1)

    with pytest.raises(ResponseError, match="1001 vertices"):
        decode.job_details({"jid": GOOD, "name": "x", "state": "RUNNING", "vertices": vertices})


@pytest.mark.parametrize("field", ["name", "id", "slotSharingGroupId"])
def test_texts_of_the_graph_of_one_job_are_bounded_together(field: str) -> None:
    vertices: list[object] = [
        {"id": f"v{number}", "name": "x", "parallelism": 1, "status": "RUNNING", "metrics": {}, "tasks": {}}
        | {field: f"{number}" + "x" * 10_000}
        for number in range(110)
    ]

    with pytest.raises(ResponseError, match="1048576 are taken at most"):
        decode.job_details({"jid": GOOD, "name": "x", "state": "RUNNING", "vertices": vertices})
