"""Several jobs on the slots of one fake cluster, and passes of the daemon's own wiring over them, ten seconds apart.

The cluster deals its slots out as Flink does: a job that runs holds as many as its widest vertex has subtasks, one that
waits starts with what is free once that is enough for the least of what it asks for, and takes more where it may.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, Self

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.stores import HeapStateStore
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.fakes.flink.load import stand_at
from testkit.scenarios.runner.wired import passes_over

STEP_MS: Final = 10_000
FULL: Final = 7
"""Passes after which the metric window of a minute is full."""

_USUAL: Final = 0.6
"""Share of the time for which a vertex is busy that is as it should be."""

OPTIONS: Final = {
    "job.autoscaler.metrics.window": "1 min",
    "job.autoscaler.scale-down.interval": "0 s",
    "job.autoscaler.scale-down.economics.enabled": "false",
    "job.autoscaler.utilization.max": "0.9",
    "autoscaler.standalone.control-loop.interval": "10 s",
}


@dataclass
class Told:
    """Keeps events with the keys of their jobs."""

    events: list[tuple[str, Event]] = field(default_factory=list)

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Keep an event."""
        self.events.append((context.job_key, event))

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Keep nothing: reports are no events."""

    def close(self) -> None:
        """Release nothing."""

    def of(self, name: str, reason: str) -> list[str]:
        """Return the messages of the events of a job with a reason."""
        return [event.message for key, event in self.events if key == f"main/{name}" and event.reason == reason]


class SharedCluster:
    """A cluster of fixed size, its jobs, and a daemon.

    Args:
        slots: Of all TaskManagers.
        options: Further settings.
        per_taskmanager: Slots of one TaskManager.

    Attributes:
        dealing: Whether jobs that wait are started where there are slots; Flink takes its time for that.
        handing_over: Passes for which a job that waits has slots already, and does not run.
        aside: Slots that Flink keeps for jobs that run until it rescales them.
    """

    def __init__(self, slots: int, options: Mapping[str, str] | None = None, *, per_taskmanager: int = 2) -> None:
        self.flink = FakeFlink()
        self.slots = slots
        self.told = Told()
        self.store = HeapStateStore()
        self.dealing = True
        self.handing_over = 0
        self.aside = 0
        self._handed: dict[str, tuple[int, int]] = {}
        self.loads: dict[str, float | None] = {}
        self.counted: dict[str, float] = {}
        self.number = 0
        self.reports: list[PassReport] = []
        self._per_taskmanager = per_taskmanager
        self._options = options or {}
        self._parts = ExitStack()
        self._passes: ClusterPass | None = None

    def __enter__(self) -> Self:
        self._parts.enter_context(self.flink)
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def add(
        self, name: str, parallelism: int, *, load: float | None = None, options: Mapping[str, str] | None = None
    ) -> FakeJob:
        """Serve a job with a source of one subtask and a vertex ``work``, whose subtasks do 100 records/s each.

        Args:
            name: Of the job.
            parallelism: Of ``work``.
            load: Records/s that arrive; None keeps ``work`` as busy as it should be, whatever its parallelism.
            options: Of the job, relative to ``job.autoscaler.``.
        """
        job = self.flink.add_job(name, chain(vertices=2), start_ms=1, running_at_ms=1, obeys=True)
        work = job.vertices[1]
        work.name, work.parallelism = "work", parallelism
        job.requirements[work.vertex_id] = (1, parallelism)
        job.configuration.update({f"job.autoscaler.{key}": text for key, text in (options or {}).items()})
        self.loads[name] = load
        return job

    def submit(self, name: str, parallelism: int, options: Mapping[str, str] | None = None) -> FakeJob:
        """Serve a job that waits for slots."""
        job = self.add(name, parallelism, options=options)
        self.stop(job)
        return job

    def stop(self, job: FakeJob) -> None:
        """Let a job wait for slots: it has lost those that it had."""
        job.state = "CREATED"
        for vertex in job.vertices:
            vertex.status = "CREATED"

    def remember(self, name: str, overrides: Mapping[str, int]) -> None:
        """Begin with what a daemon before has decided about a job."""
        job = next(job for job in self.flink.jobs.values() if job.name == name)
        self.store.save(f"main/{name}", JobState(job_id=job.job_id, overrides=dict(overrides)))

    @property
    def free(self) -> int:
        """Slots that no job holds."""
        handed = sum(slots for slots, _ in self._handed.values())
        return self.slots - self.aside - handed - sum(held(job) for job in self.flink.jobs.values())

    def run(self, times: int = 1) -> PassReport:
        """Do passes; between them the cluster deals out what is free."""
        for _ in range(times):
            self.number += 1
            self._deal()
            for job in self.flink.jobs.values():
                self._count(job)
            report = self._ready().run()
            assert report.error is None
            self.reports.append(report)
        return self.reports[-1]

    def run_until(self, condition: Callable[[], bool], most: int) -> int:
        """Do passes until something is so; return how many it took."""
        for count in range(1, most + 1):
            self.run()
            if condition():
                return count
        raise AssertionError(f"not so after {most} passes")

    def report(self, name: str) -> JobPassReport:
        """Return the last pass over a job."""
        return self.reports[-1].reports[f"main/{name}"]

    def texts(self, name: str) -> dict[str, str]:
        """Return the reasons of the last pass over a job, by their codes."""
        return {reason.code: reason.text for reason in self.report(name).outcome.decision.reasons}

    def asked(self, name: str) -> list[int]:
        """Return the parallelism of ``work`` that passes asked for, in order."""
        keys = [(report, f"main/{name}") for report in self.reports]
        realizations = [report.reports[key].realization for report, key in keys if key in report.reports]
        job = next(job for job in self.flink.jobs.values() if job.name == name)
        work = job.vertices[1].vertex_id
        return [each.requested[work] for each in realizations if each is not None and work in each.requested]

    def _ready(self) -> ClusterPass:
        if self._passes is None:
            self._passes = passes_over(
                self.flink.url,
                {**OPTIONS, **self._options},
                self._parts,
                store=self.store,
                told=self.told,
                now_ms=lambda: STEP_MS * self.number,
            )
        return self._passes

    def _deal(self) -> None:
        """Start what waits, as far as slots go, and tell how many are left."""
        for job in self.flink.jobs.values():
            least, most = (max(bounds[part] for bounds in job.requirements.values()) for part in (0, 1))
            if self.dealing and job.state == "CREATED" and job.name not in self._handed and self.free >= least:
                self._handed[job.name] = (min(most, self.free), self.number + self.handing_over)
            slots, at = self._handed.get(job.name, (0, 0))
            if slots and at <= self.number:
                del self._handed[job.name]
                self._start(job, slots)
        count = -(-self.slots // self._per_taskmanager)
        free = self.free
        self.flink.taskmanagers = [
            {
                "id": f"tm-{number}",
                "slotsNumber": min(self._per_taskmanager, self.slots - number * self._per_taskmanager),
                "freeSlots": max(0, min(self._per_taskmanager, free - number * self._per_taskmanager)),
            }
            for number in range(count)
        ]
        self.flink.jobmanager_metrics = {"taskSlotsTotal": str(self.slots), "taskSlotsAvailable": str(free)}

    def _start(self, job: FakeJob, slots: int) -> None:
        job.state = "RUNNING"
        for vertex in job.vertices:
            vertex.status, vertex.parallelism = "RUNNING", min(slots, job.requirements[vertex.vertex_id][1])
        job.running_at_ms = STEP_MS * self.number - 1

    def _count(self, job: FakeJob) -> None:
        """Let the counters of a job grow as they do while it works."""
        source, work = job.vertices
        most, load = 100.0 * work.parallelism, self.loads[job.name]
        rate = _USUAL * most if load is None else min(load, most)
        counter = self.counted[job.name] = self.counted.get(job.name, 10**9) + rate * STEP_MS / 1000
        stand_at(job, counter)
        source.busy_ms = 500.0 * 10 * self.number
        work.busy_ms = work.parallelism * 1000.0 * 10 * self.number * rate / most
        work.metrics["busyTimeMsPerSecond"] = 1000.0 * rate / most
        work.metrics["numRecordsInPerSecond"] = rate / work.parallelism


def held(job: FakeJob) -> int:
    """Return the slots that a job has."""
    return max(vertex.parallelism for vertex in job.vertices) if job.state == "RUNNING" else 0
