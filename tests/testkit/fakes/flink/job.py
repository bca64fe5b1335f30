"""Jobs of the fake cluster, as values that tests may change while they are served."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

_BLOCKED = "accumulateBackPressuredTimeMs"

MetricValue = float | str | Mapping[str, float | str]
"""One value for all subtasks, or the aggregates as they go over the wire."""


@dataclass
class FakeVertex:
    """One vertex.

    Attributes:
        start_ms: Since when its tasks run; 0 tells nothing.
        inputs: Upstream vertex id to ship strategy; empty for a source.
        metrics: Metric id to value per subtask.
        names_without_value: Metric ids that are listed but not answered.
        busy_ms: Accumulated busy time; None leaves the field out.
        waited_ms: Accumulated time without input; None leaves it out, and that of being held up.
        counters: What the answer has instead of the counters, by their names on the wire.
        slot_sharing_group: Id of the group that the vertex shares its slots with.
        description: Of its operators, as in the plan; its name where it is empty.
        has_task_counters: Whether its metrics have the counters of the details as well, as those of a real Flink.
        records_per_second: What it takes in, or gives where it is a source; only a metric store lets it grow.
    """

    vertex_id: str
    name: str
    parallelism: int = 1
    max_parallelism: int = 128
    inputs: dict[str, str] = field(default_factory=dict)
    status: str = "RUNNING"
    start_ms: int = 0
    metrics: dict[str, MetricValue] = field(default_factory=dict)
    names_without_value: list[str] = field(default_factory=list)
    records_in: int = 1000
    records_out: int = 1000
    busy_ms: float | str | None = 500.0
    waited_ms: float | None = None
    is_complete: bool = True
    counters: dict[str, object] = field(default_factory=dict)
    slot_sharing_group: str = "55f9eb5ee17c78b09947ae7f0a6c6678"
    description: str = ""
    records_per_second: float = 0.0
    has_task_counters: bool = False

    def all_metrics(self) -> dict[str, MetricValue]:
        """Return metric id to value per subtask, with the counters of the task."""
        waited = {} if self.waited_ms is None else {"accumulateIdleTimeMs": self.waited_ms, _BLOCKED: 0.0}
        busy = {} if self.busy_ms is None else {"accumulateBusyTimeMs": self.busy_ms}
        counters = {"numRecordsIn": self.records_in, "numRecordsOut": self.records_out, **busy, **waited}
        each = {name: value if isinstance(value, str) else value / self.parallelism for name, value in counters.items()}
        return {**(each if self.has_task_counters and self.is_complete else {}), **self.metrics}

    def topic_partitions(self) -> list[tuple[str, str]]:
        """Return the topics and partitions of Kafka that its metric ids tell of."""
        found = (
            re.search(r"\.topic\.(.+)\.partition\.(\d+)\.currentOffset", each) for each in self.names_without_value
        )
        return [(match[1], match[2]) for match in found if match]


@dataclass
class FakeJob:
    """One job.

    Attributes:
        requirements: Lower and upper bound per vertex.
        obeys: Whether accepted requirements change the parallelism at once.
        is_adaptive: Whether the scheduler knows resource requirements at all.
        configuration: What ``/jobs/:jobid/jobmanager/config`` says beyond the cluster's configuration.
        user_config: The job's global parameters.
        created_ms: When the execution was made, for clusters that tell how long a rescale took; None does not tell.
        tasks: Task counts of the overview that differ from "all as the vertices say".
    """

    job_id: str
    name: str
    vertices: list[FakeVertex]
    state: str = "RUNNING"
    start_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    running_at_ms: int = 0
    created_ms: int | None = None
    obeys: bool = False
    is_adaptive: bool = True
    configuration: dict[str, str] = field(default_factory=dict)
    user_config: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)
    requirements: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.running_at_ms = self.running_at_ms or self.start_ms
        for vertex in self.vertices:
            self.requirements.setdefault(vertex.vertex_id, (1, vertex.parallelism))

    def vertex(self, name: str) -> FakeVertex:
        """Return the vertex with this name or id."""
        return next(vertex for vertex in self.vertices if name in (vertex.name, vertex.vertex_id))

    def hide_age(self) -> None:
        """Let its tasks have begun in the year 2100: nobody knows for how long they run, and all they say counts."""
        for vertex in self.vertices:
            vertex.start_ms = 4_102_444_800_000

    def rescale(self, parallelism: Mapping[str, int], *, at_ms: int | None = None) -> None:
        """Change the parallelism of some vertices; the job counts as restarted at that instant (default: now)."""
        for vertex in self.vertices:
            vertex.parallelism = parallelism.get(vertex.vertex_id, vertex.parallelism)
        self.running_at_ms = time.time_ns() // 1_000_000 if at_ms is None else at_ms
        if self.created_ms is not None:
            self.created_ms = self.running_at_ms


def chain(*, sources: int = 1, vertices: int = 3, parallelism: int = 1) -> list[FakeVertex]:
    """Build a graph: all sources feed one vertex, which starts a chain to the sink. Every vertex is half busy."""
    graph = [_source(number, parallelism) for number in range(sources)]
    for number in range(sources, vertices):
        upstream = graph if number == sources else graph[-1:]
        graph.append(
            FakeVertex(
                vertex_id=_id(number),
                name=f"vertex {number}",
                parallelism=parallelism,
                inputs={vertex.vertex_id: "HASH" for vertex in upstream},
                metrics={"busyTimeMsPerSecond": 500.0, "numRecordsInPerSecond": 100.0},
            )
        )
    return graph


def _source(number: int, parallelism: int) -> FakeVertex:
    task = f"Source__source_{number}"
    return FakeVertex(
        vertex_id=_id(number),
        name=f"Source: source {number}",
        parallelism=parallelism,
        records_in=0,
        metrics={
            "busyTimeMsPerSecond": 500.0,
            "backPressuredTimeMsPerSecond": 0.0,
            f"{task}.numRecordsIn": 1000.0,
            f"{task}.numRecordsInPerSecond": 100.0,
            f"{task}.numRecordsOut": 1000.0,
            f"{task}.pendingRecords": 0.0,
        },
        names_without_value=[
            f"{task}.KafkaSourceReader.topic.orders_{number}.partition.{partition}.currentOffset"
            for partition in range(4)
        ],
    )


def _id(number: int) -> str:
    return f"{number:04x}bc764cd8ddf7a0cff126f51c{number:04x}"
