"""Flink's metric store: filled when somebody asks for metrics, at most once per interval, a while after that."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from testkit.fakes.flink.job import FakeJob, FakeVertex, MetricValue

CPU_TIME = "Status.JVM.CPU.Time"
_COUNTERS = (".numRecordsIn", ".numRecordsOut")
_RATES = (".numRecordsInPerSecond", ".numRecordsOutPerSecond", "numRecordsInPerSecond")


@dataclass
class MetricDump:
    """What the TaskManagers said at one instant.

    Attributes:
        at: By the monotonic clock; None before anybody asked.
        taskmanagers: Metric id to the value of every TaskManager.
        vertices: By job and vertex.
    """

    at: float | None = None
    taskmanagers: Mapping[str, MetricValue] = field(default_factory=dict)
    vertices: Mapping[tuple[str, str], FakeVertex] = field(default_factory=dict)


class FakeMetricStore:
    """Answers from the last dump; a request for metrics may begin the next one, which is there a while later.

    Attributes:
        interval: Seconds between two dumps at least (``metrics.fetcher.update-interval``).
        takes: Seconds until a dump is in the store; as long as nothing has arrived, no other one begins.
        dumps: When dumps were taken, by the monotonic clock.
    """

    def __init__(self, interval: float, takes: float = 0.05) -> None:
        self.interval = interval
        self.takes = takes
        self.dumps: list[float] = []
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._stored = MetricDump()
        self._coming: MetricDump | None = None

    def asked(self, taskmanagers: Mapping[str, MetricValue], jobs: Sequence[FakeJob]) -> MetricDump:
        """Return what a request for metrics is answered from; it may begin a new dump."""
        with self._lock:
            now = time.monotonic()
            if self._coming is not None and self._coming.at is not None and now >= self._coming.at + self.takes:
                self._stored, self._coming = self._coming, None
            is_due = not self.dumps or now - self.dumps[-1] > self.interval
            if self._coming is None and is_due:
                self._coming = self._dump(taskmanagers, jobs, now)
                self.dumps.append(now)
            return self._stored

    def _dump(self, taskmanagers: Mapping[str, MetricValue], jobs: Sequence[FakeJob], now: float) -> MetricDump:
        passed = now - self._began
        vertices = {(job.job_id, vertex.vertex_id): vertex for job in jobs for vertex in job.vertices}
        cpu = {CPU_TIME: 1e9 + 1e7 * passed} if taskmanagers else {}
        return MetricDump(now, {**taskmanagers, **cpu}, {key: _at(each, passed) for key, each in vertices.items()})


def without_metrics(vertex: FakeVertex) -> FakeVertex:
    """Return a vertex of which the store knows nothing yet."""
    empty = deepcopy(vertex)
    empty.metrics, empty.names_without_value = {}, []
    empty.records_in = empty.records_out = 0
    empty.busy_ms, empty.is_complete = 0.0, False
    return empty


def _at(vertex: FakeVertex, passed: float) -> FakeVertex:
    """Return a vertex as it is after so many seconds of its load."""
    copy, records = deepcopy(vertex), round(vertex.records_per_second * passed)
    copy.waited_ms = round(1000 * passed * vertex.parallelism)
    if not records:
        return copy
    copy.records_out += records
    copy.records_in += records if vertex.inputs else 0
    for name, value in copy.metrics.items():
        if isinstance(value, float):
            counted = value + records / vertex.parallelism if name.endswith(_COUNTERS) else value
            is_rate = name.endswith(_RATES)
            copy.metrics[name] = vertex.records_per_second / vertex.parallelism if is_rate else counted
    return copy
