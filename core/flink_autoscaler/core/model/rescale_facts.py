"""What a cluster says about a rescale and the health of a job, as it goes from the client to the core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flink_autoscaler.core.model.supervision import Fingerprint, Requirements, Vector
from flink_autoscaler.core.model.value import value


@dataclass(frozen=True, slots=True)
class JobException:
    """An entry of a job's exception history.

    Attributes:
        at_ms: By the clock of the JobManager.
        text: The beginning of the stack trace and of its causes, bounded.
    """

    at_ms: int
    text: str


@value
class TaskManagerFacts:
    """One TaskManager.

    Attributes:
        network_memory: Bytes; None when not told.
        heap: Bytes of heap for tasks and framework; None when not told.
        cpu: CPUs of its slots together; None when not told.
    """

    taskmanager_id: str
    slots: int
    free_slots: int
    network_memory: int | None = None
    heap: int | None = None
    cpu: float | None = None


@value
class CheckpointFacts:
    """Checkpoints of a job.

    Attributes:
        completed_ms: When the latest one was completed, by the clock of the JobManager; None when there is none.
        state_bytes: Its size.
        interval_ms: Time between checkpoints; None where they are off or the interval is not known.
        is_enabled: Whether the job makes checkpoints.
    """

    completed_ms: int | None = None
    state_bytes: int | None = None
    interval_ms: int | None = None
    is_enabled: bool = True


@dataclass(frozen=True, slots=True)
class RescaleAttempt:
    """An entry of the rescale history of Flink 2.3 and later."""

    start_ms: int
    end_ms: int | None
    state: str
    cause: str = ""
    reason: str = ""
    rescale_id: str = ""

    def led_to(self, created_ms: int | None) -> bool:
        """Tell whether it made the execution graph of that instant."""
        return self.end_ms is not None and created_ms is not None and self.start_ms <= created_ms <= self.end_ms


@value
class RescaleFacts:
    """Everything that is asked about a job whose rescale is followed. What could not be read is None.

    Attributes:
        now_ms: Clock of the JobManager when it answered.
        initialized_ms: When this execution of the JobMaster began; a fail-over of the JobManager moves it.
        running: Parallelism per vertex of the present execution; None while there is none.
        all_running: Whether every task is RUNNING or FINISHED.
        running_since_ms: Since when all tasks run, by the clock of the JobManager; None when not known.
        stopped_ms: When the execution before was stopped, the same; None when not known.
        requirements: What the cluster was asked for.
        exceptions: Newest first.
        restarts: Restarts so far, rescales not counted where Flink counts them apart.
        attempts: Rescales, newest first; None where the cluster keeps no history of them.
        missing: What could not be read and why, by name of the field.
    """

    now_ms: int | None = None
    initialized_ms: int | None = None
    running: Vector | None = None
    all_running: bool = False
    running_since_ms: int | None = None
    stopped_ms: int | None = None
    requirements: Requirements | None = None
    exceptions: tuple[JobException, ...] | None = None
    checkpoints: CheckpointFacts | None = None
    taskmanagers: tuple[TaskManagerFacts, ...] | None = None
    restarts: int | None = None
    attempts: tuple[RescaleAttempt, ...] | None = None
    missing: Mapping[str, str] = field(default_factory=dict)

    def fingerprint(self, job_id: str | None) -> Fingerprint | None:
        """Return what tells this cluster from a restarted one; None when the TaskManagers are not known."""
        if self.taskmanagers is None:
            return None
        return Fingerprint(
            job_id=job_id,
            taskmanagers=frozenset(each.taskmanager_id for each in self.taskmanagers),
            network_memory=min((t.network_memory for t in self.taskmanagers if t.network_memory), default=None),
            heap=min((t.heap for t in self.taskmanagers if t.heap), default=None),
        )
