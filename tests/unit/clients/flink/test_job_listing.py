"""The list of jobs where one entry of it is not as documented."""

from __future__ import annotations

from typing import Any

import pytest

from flink_autoscaler.clients.flink import decode, decode_facts
from flink_autoscaler.core.errors import ResponseError

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
    with pytest.raises(ResponseError, match="10000 of a cluster are looked after at most"):
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
