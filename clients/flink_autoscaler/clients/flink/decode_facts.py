"""From decoded JSON to what is known about rescales, checkpoints, failures and TaskManagers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flink_autoscaler.clients.flink.decode import metric_values, optional_instant
from flink_autoscaler.clients.http.json_object import JsonObject, objects_in, or_unknown, type_error
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, JobException, RescaleAttempt, TaskManagerFacts

RESTARTS: Final = "numRestarts,numRescales"

TEXT_LIMIT: Final = 16_384
"""Characters of a stack trace that are kept: its causes stand below the frames of the outermost exception."""

_NESTING: Final = 8

_EXACT: Final = 2**53

_MAX_CORES: Final = 1_000_000

_EXECUTING: Final = "Executing"

_STATES_OF_A_STOP: Final = 2
"""A scheduler that left the state Executing went to another one."""


def exceptions(answer: object) -> tuple[JobException, ...]:
    """Decode ``/jobs/:jobid/exceptions``; what failed at the same time is part of each entry's text."""
    history = JsonObject(answer, "exceptions").child("exceptionHistory")
    return tuple(_exception(entry) for entry in history.children("entries", "exception"))


def _exception(entry: JsonObject) -> JobException:
    texts = [_condense_trace(trace) for trace in _traces(entry, _NESTING)]
    return JobException(optional_instant(entry, "timestamp") or 0, "\n".join(texts)[:TEXT_LIMIT])


def _traces(entry: JsonObject, depth: int) -> Iterator[str]:
    yield entry.optional_text("stacktrace") or entry.optional_text("exceptionName") or ""
    if depth:
        for other in entry.children("concurrentExceptions", "exception"):
            yield from _traces(other, depth - 1)


def _condense_trace(trace: str) -> str:
    """Keep the lines with messages; the frames between them would use up the limit before the root cause."""
    return "\n".join(line for line in trace.splitlines() if not line.lstrip().startswith(("at ", "... ")))


def checkpoints(answer: object) -> CheckpointFacts:
    """Decode ``/jobs/:jobid/checkpoints``."""
    completed = JsonObject(answer, "checkpoints").child("latest").child("completed")
    if not completed:
        return CheckpointFacts()
    return CheckpointFacts(
        completed_ms=optional_instant(completed, "latest_ack_timestamp"),
        state_bytes=or_unknown(lambda: _bytes(completed, "state_size")),
    )


def _bytes(fields: JsonObject, name: str) -> int | None:
    """Return a number of bytes; None where it is missing, null or -1, and beyond 2^53, which nobody has."""
    value = fields.integer(name, -1)
    return value if 0 <= value < _EXACT else None


def decode_checkpoint_interval(answer: object) -> int | None:
    """Decode the interval of ``/jobs/:jobid/checkpoints/config``; Flink shows "never" as a huge number."""
    interval = JsonObject(answer, "checkpoint configuration").integer("interval", 0)
    return interval if 0 < interval < _EXACT else None


def taskmanagers(answer: object) -> tuple[TaskManagerFacts, ...]:
    """Decode ``/taskmanagers``."""
    entries = JsonObject(answer, "TaskManagers").get("taskmanagers")
    return tuple(_taskmanager(entry) for entry in objects_in(entries, "taskmanagers", "TaskManager"))


def _taskmanager(entry: JsonObject) -> TaskManagerFacts:
    identity = entry.text("id")
    where = f"TaskManager {identity[:80]}"
    entry = entry.with_name(where)
    return TaskManagerFacts(
        taskmanager_id=identity,
        slots=entry.count("slotsNumber", 0),
        free_slots=entry.count("freeSlots", 0),
        network_memory=or_unknown(lambda: _memory(entry, "networkMemory")),
        heap=or_unknown(lambda: _memory(entry, "frameworkHeap", "taskHeap")),
        cpu=or_unknown(lambda: _cores(entry.child("totalResource", where).number("cpuCores"))),
    )


def _memory(taskmanager: JsonObject, *names: str) -> int | None:
    memory = taskmanager.child("memoryConfiguration", "memoryConfiguration")
    return sum(_bytes(memory, name) or 0 for name in names) or None


def _cores(value: float | None) -> float | None:
    return value if value is not None and 0 <= value <= _MAX_CORES else None


def restarts(answer: object) -> int | None:
    """Decode restarts; from Flink 2 on rescales count as restarts and are told apart, too."""
    values = metric_values(answer)
    count, rescales = (_whole_number(values.get(name)) for name in RESTARTS.split(","))
    return None if count is None else max(0, count - (rescales or 0))


def _whole_number(value: str | None) -> int | None:
    try:
        number = None if value is None else float(value)
    except ValueError:
        return None
    return int(number) if number is not None and 0 <= number < _EXACT else None


def running_since(answer: object) -> int | None:
    """Decode since when all subtasks of ``/jobs/:jobid/vertices/:vertexid`` run."""
    vertex = JsonObject(answer, "vertex")
    now_ms = vertex.instant("now")
    if now_ms is None:
        return None
    since = []
    for subtask in vertex.children("subtasks", "vertex"):
        if subtask.text("status") != "RUNNING":
            return None
        since.append(now_ms - _duration_ms(subtask.child("status-duration", "vertex"), "RUNNING", most=now_ms))
    return max(since, default=None)


def _duration_ms(fields: JsonObject, name: str, *, most: int) -> int:
    value = fields.integer(name, 0)
    if 0 <= value <= most:
        return value
    raise type_error(f"vertex.status-duration.{name}", "milliseconds since an instant after 1970", value)


def rescale_attempts(answer: object) -> tuple[RescaleAttempt, ...]:
    """Decode ``/jobs/:jobid/rescales/history``: an array, or an object with one in one of its fields."""
    if not isinstance(answer, list):
        history = JsonObject(answer, "rescale history")
        answer = next((value for name in history if isinstance(value := history.get(name), list)), [])
    return tuple(_attempt(entry) for entry in objects_in(answer, "rescale history", "rescale"))


def _attempt(entry: JsonObject) -> RescaleAttempt:
    return RescaleAttempt(
        start_ms=entry.instant("startTimestampInMillis") or 0,
        end_ms=entry.instant("endTimestampInMillis"),
        state=entry.optional_text("terminalState") or "",
        cause=entry.optional_text("triggerCause") or "",
        reason=entry.optional_text("terminatedReason") or "",
        rescale_id=entry.optional_text("rescaleUuid") or "",
    )


def rescale_stopped(answer: object) -> int | None:
    """Decode when ``/jobs/:jobid/rescales/details/:id`` stopped the execution before it; None when it found none."""
    states = JsonObject(answer, "rescale").children("schedulerStates", "rescale")
    if len(states) < _STATES_OF_A_STOP or states[0].optional_text("state") != _EXECUTING:
        return None
    return states[0].instant("leaveTimestampInMillis")
