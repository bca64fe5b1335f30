"""Decoding of what tells how a rescale went: exceptions, checkpoints, TaskManagers, restarts, rescale history.

As in :mod:`.decode`: what is there has to have the right type; unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flink_autoscaler.clients.flink.decode import metric_values
from flink_autoscaler.clients.flink.fields import (
    Fields,
    integer,
    number,
    object_of,
    objects_in,
    optional_object,
    optional_objects,
    optional_text,
    text,
)
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, JobException, RescaleAttempt, TaskManagerFacts

RESTARTS: Final = "numRestarts,numRescales"

TEXT_LIMIT: Final = 16_384
"""Characters of a stack trace that are kept: its causes stand below the frames of the outermost exception."""

_NESTING: Final = 8

_EXECUTING: Final = "Executing"
_STATES_OF_A_STOP: Final = 2
"""A scheduler that left the state Executing went to another one."""


def exceptions(answer: object) -> tuple[JobException, ...]:
    """Decode ``/jobs/:jobid/exceptions``; what failed at the same time is part of each entry's text."""
    history = optional_object(object_of(answer, "exceptions"), "exceptionHistory", "exceptions")
    entries = optional_objects(history, "entries", "exceptions.exceptionHistory")
    return tuple(_exception(entry) for entry in entries)


def _exception(entry: Fields) -> JobException:
    where = "exception"
    texts = [_condensed(trace) for trace in _traces(entry, _NESTING)]
    return JobException(integer(entry, "timestamp", where, 0), "\n".join(texts)[:TEXT_LIMIT])


def _traces(entry: Fields, depth: int) -> Iterator[str]:
    yield optional_text(entry, "stacktrace", "exception") or optional_text(entry, "exceptionName", "exception") or ""
    if depth:
        for other in optional_objects(entry, "concurrentExceptions", "exception"):
            yield from _traces(other, depth - 1)


def _condensed(trace: str) -> str:
    """Keep the lines with messages; the frames between them would use up the limit before the root cause."""
    return "\n".join(line for line in trace.splitlines() if not line.lstrip().startswith(("at ", "... ")))


def checkpoints(answer: object) -> CheckpointFacts:
    """Decode ``/jobs/:jobid/checkpoints``."""
    latest = optional_object(object_of(answer, "checkpoints"), "latest", "checkpoints")
    completed = optional_object(latest, "completed", "checkpoints.latest")
    if not completed:
        return CheckpointFacts()
    where = "checkpoints.latest.completed"
    return CheckpointFacts(
        completed_ms=integer(completed, "latest_ack_timestamp", where, 0) or None,
        state_bytes=integer(completed, "state_size", where, -1) if "state_size" in completed else None,
    )


def checkpoint_interval(answer: object) -> int | None:
    """Decode the interval of ``/jobs/:jobid/checkpoints/config``; Flink shows "never" as a huge number."""
    interval = integer(object_of(answer, "checkpoint configuration"), "interval", "checkpoint configuration", 0)
    return interval if 0 < interval < 2**53 else None


def taskmanagers(answer: object) -> tuple[TaskManagerFacts, ...]:
    """Decode ``/taskmanagers``."""
    return tuple(
        _taskmanager(entry)
        for entry in objects_in(object_of(answer, "TaskManagers").get("taskmanagers"), "taskmanagers")
    )


def _taskmanager(entry: Fields) -> TaskManagerFacts:
    identity = text(entry, "id", "TaskManager")
    where = f"TaskManager {identity[:80]}"
    memory = optional_object(entry, "memoryConfiguration", where)
    heap = [integer(memory, name, where, 0) for name in ("frameworkHeap", "taskHeap")]
    return TaskManagerFacts(
        taskmanager_id=identity,
        slots=integer(entry, "slotsNumber", where, 0),
        free_slots=integer(entry, "freeSlots", where, 0),
        network_memory=integer(memory, "networkMemory", where, 0) or None,
        heap=sum(heap) or None,
        cpu=number(optional_object(entry, "totalResource", where), "cpuCores", where),
    )


def restarts(answer: object) -> int | None:
    """Decode restarts; from Flink 2 on rescales count as restarts and are told apart, too."""
    values = metric_values(answer)
    count, rescales = (_whole(values.get(name)) for name in RESTARTS.split(","))
    return None if count is None else max(0, count - (rescales or 0))


def _whole(value: str | None) -> int | None:
    try:
        return None if value is None else int(float(value))
    except (ValueError, OverflowError):
        return None


def running_since(answer: object) -> int | None:
    """Decode since when all subtasks of ``/jobs/:jobid/vertices/:vertexid`` run."""
    where = "vertex"
    fields = object_of(answer, where)
    now_ms = integer(fields, "now", where, 0)
    since = []
    for subtask in optional_objects(fields, "subtasks", where):
        if text(subtask, "status", where) != "RUNNING":
            return None
        durations = optional_object(subtask, "status-duration", where)
        since.append(now_ms - integer(durations, "RUNNING", where, 0))
    return max(since, default=None)


def rescale_attempts(answer: object) -> tuple[RescaleAttempt, ...]:
    """Decode ``/jobs/:jobid/rescales/history``."""
    entries = answer if isinstance(answer, list) else _listed(object_of(answer, "rescale history"))
    return tuple(_attempt(entry) for entry in objects_in(entries, "rescale history"))


def _listed(fields: Fields) -> object:
    return next((value for value in fields.values() if isinstance(value, list)), [])


def _attempt(entry: Fields) -> RescaleAttempt:
    where = "rescale"
    return RescaleAttempt(
        start_ms=integer(entry, "startTimestampInMillis", where, 0),
        end_ms=integer(entry, "endTimestampInMillis", where, 0) or None,
        state=optional_text(entry, "terminalState", where) or "",
        cause=optional_text(entry, "triggerCause", where) or "",
        reason=optional_text(entry, "terminatedReason", where) or "",
        rescale_id=optional_text(entry, "rescaleUuid", where) or "",
    )


def rescale_stopped(answer: object) -> int | None:
    """Decode when ``/jobs/:jobid/rescales/details/:id`` stopped the execution before it; None when it found none."""
    where = "rescale"
    states = optional_objects(object_of(answer, where), "schedulerStates", where)
    if len(states) < _STATES_OF_A_STOP or optional_text(states[0], "state", where) != _EXECUTING:
        return None
    return integer(states[0], "leaveTimestampInMillis", where, 0) or None
