from __future__ import annotations

import pytest

from flink_autoscaler.clients.flink import decode_facts as facts_decode
from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, RescaleAttempt, TaskManagerFacts

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
    assert facts_decode.checkpoint_interval({"mode": "exactly_once", "interval": interval}) == expected


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
