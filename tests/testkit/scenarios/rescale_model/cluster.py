"""A cluster with the adaptive scheduler, second by second: what it does with requirements, and what happens to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.rescale_facts import JobException
from testkit.builders.core import vertex_id

SOURCE, MAP, OTHER = vertex_id(1), vertex_id(2), vertex_id(3)
MOST: Final = {SOURCE: 64, MAP: 16, OTHER: 16}
"""Greatest parallelism of the vertices."""

CAPACITY: Final = 100.0
"""Records/s that one always busy subtask takes, of every vertex."""

SLOTS: Final = 4
MEMORY: Final = 64 << 20
BUFFERS: Final = "java.io.IOException: Insufficient number of network buffers: required 65, but only 12 available"
STALE: Final = 3
"""Seconds for which the JobManager may answer with an old copy of the execution graph."""

Bounds = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Execution:
    """The execution graph as the REST API shows it.

    Attributes:
        since_ms: Since when all tasks run; None while they do not.
    """

    vector: Mapping[str, int]
    created_ms: int
    since_ms: int | None
    status: JobStatus


@dataclass
class SimulatedCluster:
    """One job on one cluster.

    Attributes:
        fatal: Least parallelism of the map that the network memory is too small for.
        default: Parallelism that the job was submitted with.
        startup: Seconds from the stop of an execution until all tasks of the next one run.
        attempts: Failures that the restart strategy allows; None for any number.
        skew_ms: By how much the clock of the JobManager is ahead.
        crashes_until: Until when the job fails every few seconds for a reason of its own.
    """

    fatal: int = 99
    default: Mapping[str, int] = field(default_factory=lambda: {SOURCE: 1, MAP: 1})
    startup: int = 5
    attempts: int | None = None
    skew_ms: int = 0
    cooldown: int = 30
    now: int = 1_000_000
    load: float = 50.0
    crashes_until: int = 0
    taskmanagers: dict[str, int] = field(default_factory=lambda: {f"tm-{n}": SLOTS for n in range(4)})
    memory: int = MEMORY
    submissions: int = 0
    execution: Execution = field(init=False)
    _entered: int = field(init=False, default=0)
    _asked: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.exceptions: list[JobException] = []
        self.started_taskmanagers = len(self.taskmanagers)
        self.restarts = self.died = 0
        self.submit()

    @property
    def now_ms(self) -> int:
        """The clock of the JobManager."""
        return self.now * 1000 + self.skew_ms

    @property
    def job_id(self) -> str:
        return f"{self.submissions:032x}"

    @property
    def slots(self) -> int:
        return sum(self.taskmanagers.values())

    @property
    def upper(self) -> dict[str, int]:
        return {vertex: bounds[1] for vertex, bounds in self.requirements.items()}

    @property
    def is_fatal(self) -> bool:
        """Whether the job does not start with what was asked for and the slots that are there."""
        return self.kills(self.upper)

    def kills(self, vector: Mapping[str, int]) -> bool:
        return min(vector.get(MAP, 0), self.slots) >= self.fatal

    # What people and machines do.

    def submit(self, default: Mapping[str, int] | None = None) -> None:
        """Submit the job anew, under another id."""
        self.submissions += 1
        self.default = dict(default or self.default)
        self.initialized_ms = self.now_ms
        self.requirements: Bounds = {vertex: (1, parallelism) for vertex, parallelism in self.default.items()}
        self.exceptions.clear()
        self.failures = self.restarts = 0
        self.backlog = 0.0
        self._history: deque[Execution] = deque(maxlen=STALE)
        self.completed_ms: int | None = None
        self._enter(JobStatus.CREATED, self.default)

    def cancel(self) -> None:
        self._enter(JobStatus.CANCELED, self.execution.vector)

    def take(self, requirements: Bounds) -> None:
        """Take requirements over, as the JobMaster does in any state of the job."""
        if not self.execution.status.is_terminal:
            self.requirements = dict(requirements)
            self._asked = self.now

    def fail_over(self, *, forgets: bool) -> None:
        """Restart the JobManager; without high availability of requirements those of the job graph hold again."""
        if self.execution.status.is_terminal:
            return
        self.initialized_ms = self.now_ms
        if forgets:
            self.requirements = {vertex: (1, parallelism) for vertex, parallelism in self.default.items()}
        self.restarts = 0
        self.exceptions.clear()
        self._enter(JobStatus.CREATED, self.execution.vector)

    def lose_taskmanager(self) -> None:
        if len(self.taskmanagers) > 1:
            self.taskmanagers.pop(next(iter(self.taskmanagers)))
            self.crash("TaskManager lost")

    def add_taskmanager(self) -> None:
        self.started_taskmanagers += 1
        self.taskmanagers[f"tm-{self.started_taskmanagers}"] = SLOTS
        self._asked = self.now

    def restart_taskmanagers(self, *, memory_factor: float = 1.0) -> None:
        """Replace all TaskManagers; with more memory more parallelism is possible."""
        count = len(self.taskmanagers)
        self.taskmanagers.clear()
        for _ in range(count):
            self.add_taskmanager()
        self.memory = round(self.memory * memory_factor)
        self.fatal = self.fatal if memory_factor == 1.0 else round(self.fatal * memory_factor)
        self.crash("TaskManager lost")

    def crash(self, text: str) -> None:
        """Let the job fail; the restart strategy decides what comes of it."""
        if self.execution.status.is_terminal:
            return
        self.exceptions.insert(0, JobException(self.now_ms, text))
        del self.exceptions[16:]
        self.restarts += 1
        self.failures += 1
        is_over = self.attempts is not None and self.failures > self.attempts
        self._enter(JobStatus.FAILED if is_over else JobStatus.RESTARTING, self.execution.vector)

    def set_clock(self, by_ms: int) -> None:
        """Set the clock of the JobManager."""
        self.skew_ms += by_ms

    # What time does.

    def tick(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.now += 1
            self._history.append(self.execution)
            self._second()

    def _second(self) -> None:
        execution, age = self.execution, self.now - self._entered
        if execution.status.is_terminal:
            return
        if execution.since_ms is None:
            if age >= self.startup:
                self._start()
            return
        self._work()
        if self.now < self.crashes_until and age >= 7:
            self.crash("java.lang.RuntimeException: a bug of the job")
        elif self._is_due(age):
            self._enter(JobStatus.RUNNING, self._granted())

    def _is_due(self, age: int) -> bool:
        """Tell whether the running job is rescaled now: after the cooldown, and not while more slots may come."""
        granted = self._granted()
        if granted == dict(self.execution.vector) or age < self.cooldown:
            return False
        return granted == self.upper or self.now - self._asked >= 60

    def _start(self) -> None:
        granted = self._granted()
        if any(granted[vertex] < bounds[0] for vertex, bounds in self.requirements.items()):
            if self.now - self._entered >= 300:
                self.crash("NoResourceAvailableException: Could not acquire the minimum required resources.")
        elif granted.get(MAP, 0) >= self.fatal:
            self.execution = replace(self.execution, vector=granted)
            self.died = self.now
            self.crash(BUFFERS)
        else:
            self._started = self.now
            self.records = dict.fromkeys(granted, 0.0)
            self.execution = replace(self.execution, vector=granted, since_ms=self.now_ms, status=JobStatus.RUNNING)
            self._entered = self.now

    def _granted(self) -> dict[str, int]:
        return {vertex: min(parallelism, self.slots) for vertex, parallelism in self.upper.items()}

    def _work(self) -> None:
        self.backlog += self.load
        self.throughput = min(self.backlog, *(CAPACITY * p for p in self.execution.vector.values()))
        self.backlog -= self.throughput
        for vertex in self.records:
            self.records[vertex] += self.throughput
        if self.now % 10 == 0:
            self.completed_ms = self.now_ms

    def _enter(self, status: JobStatus, vector: Mapping[str, int]) -> None:
        """Stop the execution and begin the next one."""
        self.execution = Execution(dict(vector), self.now_ms, None, status)
        self._entered = self._asked = self.now
        self.throughput = 0.0
        self.records = dict.fromkeys(vector, 0.0)

    def shown(self, *, is_stale: bool = False) -> Execution:
        """Return the execution graph, or the copy from a few seconds ago."""
        return self._history[0] if is_stale and self._history else self.execution

    @property
    def status(self) -> JobStatus:
        """The status that counts for scaling, from the list of jobs, which is never cached."""
        execution = self.execution
        return (
            JobStatus.CREATED if execution.status is JobStatus.RUNNING and not execution.since_ms else execution.status
        )
