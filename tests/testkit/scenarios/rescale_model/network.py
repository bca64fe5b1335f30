"""What stands between a daemon and the simulated cluster: answers and requests get lost, late, doubled and mixed up."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from flink_autoscaler.clients.flink.decode import ParallelismBounds
from flink_autoscaler.core.errors import ConnectError, JobGoneError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, RescaleFacts, TaskManagerFacts
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy, Vertex
from flink_autoscaler.core.observe.required_facts import RequiredFacts, required_facts
from flink_autoscaler.core.ports.passes import PassRequest
from testkit.builders.core import a_reading, a_vertex, operator_answers, source_answers
from testkit.scenarios.rescale_model.cluster import CAPACITY, MAP, OTHER, SOURCE, Bounds, Execution, SimulatedCluster

T = TypeVar("T")

OLDEST: Final = 90
"""Seconds by which an answer may come late."""


class PutFate(StrEnum):
    """What becomes of a PUT."""

    FINE = "fine"
    LOST = "lost"
    UNANSWERED = "taken over, but the answer is lost"
    TWICE = "taken over, and once more later"
    LATE = "taken over later, but the answer is lost"


class FactsFate(StrEnum):
    """What becomes of the questions of a pass."""

    FINE = "fine"
    STALE = "the execution graph of a few seconds ago"
    OLD = "the answers of an earlier pass"
    PARTS = "some parts are missing"
    BLIND = "the requirements are missing"
    LOST = "nothing is answered"


@dataclass(frozen=True)
class Put:
    """A request that reached the cluster, or is on its way."""

    due: int
    job_id: str
    requirements: Bounds


@dataclass
class LossyNetwork:
    """The client of the cluster, as far as the realizer needs it, and the collector of the daemon.

    Attributes:
        put_fate: Of the next PUT.
        facts_fate: Of the questions of the next pass.
        delay: Seconds that a late PUT needs.
        on_its_way: PUTs that the cluster has not seen yet.
        sent: Every PUT that left the daemon in this pass: requirements before and after.
        author: Who made the requirements what they are: ``us``, ``others``, ``cluster``.
    """

    cluster: SimulatedCluster
    put_fate: PutFate = PutFate.FINE
    facts_fate: FactsFate = FactsFate.FINE
    delay: int = 15
    on_its_way: list[Put] = field(default_factory=list)
    sent: list[tuple[Bounds, Bounds]] = field(default_factory=list)
    author: str = "cluster"
    was_fatal_before: bool = False
    delivered: int = 0
    _earlier: list[tuple[int, RescaleFacts]] = field(default_factory=list)

    # The part of FlinkRestClient that the realizer calls.

    async def resource_requirements(self, job_id: str) -> dict[str, ParallelismBounds]:
        self._check(job_id)
        return {vertex: ParallelismBounds(*bounds) for vertex, bounds in self.cluster.requirements.items()}

    async def set_resource_requirements(self, job_id: str, bounds: Mapping[str, ParallelismBounds]) -> None:
        requirements = {vertex: (lower, upper) for vertex, (lower, upper) in bounds.items()}
        self.sent.append((dict(self.cluster.requirements), requirements))
        fate, self.put_fate = self.put_fate, PutFate.FINE
        put = Put(self.cluster.now + self.delay, job_id, requirements)
        if fate in (PutFate.FINE, PutFate.UNANSWERED, PutFate.TWICE):
            self._deliver(put)
        if fate in (PutFate.LATE, PutFate.TWICE):
            self.on_its_way.append(put)
        if fate not in (PutFate.FINE, PutFate.TWICE):
            raise ConnectError("no answer")

    def _check(self, job_id: str) -> None:
        if job_id != self.cluster.job_id or self.cluster.status.is_terminal:
            raise JobGoneError("no such job", 404)

    def _deliver(self, put: Put) -> None:
        if put.job_id == self.cluster.job_id and put.requirements.keys() == self.cluster.requirements.keys():
            self.was_fatal_before = self.cluster.is_fatal
            self.cluster.take(put.requirements)
            self.author = "us"
            self.delivered = self.cluster.now

    # Time.

    def tick(self, seconds: int) -> None:
        for _ in range(seconds):
            self.cluster.tick()
            due = [put for put in self.on_its_way if put.due <= self.cluster.now]
            self.on_its_way = [put for put in self.on_its_way if put not in due]
            for put in due:
                self._deliver(put)

    # What the collector reads.

    def read(self, request: PassRequest) -> JobReading:
        """Answer the questions of one pass."""
        fate, self.facts_fate = self.facts_fate, FactsFate.FINE
        if fate is FactsFate.LOST:
            return JobReading(None, memory=request.memory, error=ConnectError("no answer"))
        shown = self.cluster.shown(is_stale=fate is FactsFate.STALE)
        facts = self._facts(shown, required_facts(request), fate)
        if request.context.status is not JobStatus.RUNNING:
            return replace(self._reading(shown), aggregates={}, facts=facts, memory=request.memory)
        return replace(self._reading(shown), facts=facts)

    def _reading(self, shown: Execution) -> JobReading:
        cluster = self.cluster
        vertices = [self._vertex(vertex, parallelism) for vertex, parallelism in shown.vector.items()]
        busy = {v: 1000 * cluster.throughput / (CAPACITY * p) for v, p in shown.vector.items()}
        answers = {v: operator_answers(busy_ms=busy[v], rate=cluster.throughput) for v in busy if v != SOURCE}
        answers[SOURCE] = source_answers(busy_ms=busy[SOURCE], rate=cluster.throughput, pending=cluster.backlog)
        reading = a_reading(vertices, answers, running_at_ms=shown.since_ms, job_id=cluster.job_id)
        assert reading.details is not None
        details = replace(
            reading.details,
            now_ms=cluster.now_ms,
            state=shown.status.value,
            initialized_ms=cluster.initialized_ms,
            created_ms=shown.created_ms,
        )
        return replace(reading, details=details)

    def _vertex(self, vertex: str, parallelism: int) -> Vertex:
        records = round(self.cluster.records.get(vertex, 0.0))
        io = IoMetrics(records_in=records, records_out=records)
        numbers = {SOURCE: (1, 64), MAP: (2, 16), OTHER: (3, 16)}
        number, most = numbers[vertex]
        inputs = None if vertex == SOURCE else {1: ShipStrategy.REBALANCE}
        return a_vertex(number, parallelism=parallelism, max_parallelism=most, io=io, inputs=inputs)

    def _facts(self, shown: Execution, wanted: RequiredFacts, fate: FactsFate) -> RescaleFacts | None:
        if wanted is RequiredFacts.NOTHING:
            return None
        cluster = self.cluster
        self._earlier = [(at, facts) for at, facts in self._earlier if at >= cluster.now - OLDEST]
        if fate is FactsFate.OLD and self._earlier:
            return self._earlier[0][1]
        is_gone = cluster.status.is_terminal
        facts = RescaleFacts(
            now_ms=cluster.now_ms,
            initialized_ms=cluster.initialized_ms,
            running=dict(shown.vector),
            all_running=shown.since_ms is not None and shown.status is JobStatus.RUNNING,
            stopped_ms=shown.created_ms,
            requirements=None if is_gone else dict(cluster.requirements),
        )
        if wanted is RequiredFacts.EVERYTHING:
            facts = replace(
                facts,
                running_since_ms=shown.since_ms,
                exceptions=tuple(cluster.exceptions),
                checkpoints=CheckpointFacts(cluster.completed_ms, 10**9, 10_000),
                taskmanagers=tuple(
                    TaskManagerFacts(name, slots, 0, cluster.memory) for name, slots in cluster.taskmanagers.items()
                ),
                restarts=cluster.restarts,
            )
        self._earlier.append((cluster.now, facts))
        if fate is FactsFate.PARTS:
            return replace(facts, exceptions=None, checkpoints=None, taskmanagers=None, restarts=None, now_ms=None)
        return replace(facts, requirements=None) if fate is FactsFate.BLIND else facts


class InlineLoop:
    """Runs the coroutines of the realizer, none of which ever waits here."""

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        try:
            coroutine.send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        raise AssertionError("a coroutine of the model waited")
