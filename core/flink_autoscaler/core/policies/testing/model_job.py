"""Jobs for the contract of policies: graphs whose capacity grows with the parallelism, under a steady load."""

# ruff: noqa: S311 - the cases are made by chance, but always the same ones

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, JobSample, VertexObs, VertexSample
from flink_autoscaler.core.model.value import replace

WINDOW = 900.0
"""Seconds of the metric window."""
_LAGGING = 30.0
"""Seconds for which a job that cannot keep up has been falling behind."""


@dataclass(frozen=True, slots=True)
class ModelVertex:
    """A vertex.

    Attributes:
        inputs: Records out per record in, by upstream vertex; empty for a source.
        rate: Records/s of an always busy subtask.
        parallelism: Where the case begins.
        least: Least parallelism.
        greatest: Greatest parallelism.
    """

    vertex_id: VertexId
    inputs: Mapping[VertexId, float]
    rate: float
    parallelism: int
    least: int = 1
    greatest: int = 128


@dataclass(frozen=True, slots=True)
class ModelJob:
    """A job under a steady load.

    Attributes:
        vertices: In topological order.
        arrival: Records/s that arrive at each source.
    """

    vertices: tuple[ModelVertex, ...]
    arrival: float

    @property
    def parallelism(self) -> dict[VertexId, int]:
        """Where the case begins."""
        return {vertex.vertex_id: vertex.parallelism for vertex in self.vertices}

    def under(self, factor: float) -> ModelJob:
        """Return the job under so many times the load."""
        return replace(self, arrival=self.arrival * factor)

    def demands(self) -> dict[VertexId, float]:
        """Return the records/s that each vertex has to sustain."""
        demands: dict[VertexId, float] = {}
        for vertex in self.vertices:
            fed = sum(demands[upstream] * ratio for upstream, ratio in vertex.inputs.items())
            demands[vertex.vertex_id] = fed if vertex.inputs else self.arrival
        return demands

    def observed(
        self, parallelism: Mapping[VertexId, int], now: float, *, last_rescale_at: float | None = None
    ) -> JobObservation:
        """Return what is observed: everything gets through, or what the narrowest vertex lets through."""
        demands = self.demands()
        capacities = {each.vertex_id: each.rate * parallelism[each.vertex_id] for each in self.vertices}
        share = min(1.0, *(capacities[v] / demand for v, demand in demands.items() if demand > 0), 1.0)
        vertices = {
            each.vertex_id: _observed(each, parallelism[each.vertex_id], demands[each.vertex_id], share)
            for each in self.vertices
        }
        edges = {(u, each.vertex_id): ratio for each in self.vertices for u, ratio in each.inputs.items()}
        return JobObservation(
            job_key="main/model",
            job_id="a" * 32,
            now=now,
            status=JobStatus.RUNNING,
            all_tasks_running=True,
            window=(now - WINDOW, now),
            vertices=vertices,
            edges=edges,
            slot_groups={"default": frozenset(vertices)},
            slots_total=256,
            slots_free=128,
            slots_per_tm=4,
            tm_count=64,
            state_bytes=1 << 30,
            checkpoint_interval=60.0,
            last_checkpoint_at=now - 10.0,
            gc_pressure=0.01,
            heap_usage=0.5,
            last_rescale_at=last_rescale_at,
            last_restart_at=last_rescale_at,
        )


def _observed(vertex: ModelVertex, parallelism: int, demand: float, share: float) -> VertexObs:
    rate = demand * share
    capacity = vertex.rate * parallelism
    busy = min(1.0, rate / capacity)
    waiting = 1.0 - busy if share < 1.0 and not vertex.inputs else 0.0
    behind = demand - rate
    return VertexObs(
        vertex_id=vertex.vertex_id,
        name=vertex.vertex_id,
        is_source=not vertex.inputs,
        parallelism=parallelism,
        min_parallelism=vertex.least,
        max_parallelism=vertex.greatest,
        rate_in=rate,
        target_rate=demand,
        true_rate=capacity if rate > 0 else None,
        busy=busy,
        busy_mean=busy,
        idle=1.0 - busy - waiting,
        backpressured=waiting,
        lag_records=None if vertex.inputs else behind * _LAGGING,
        lag_slope=None if vertex.inputs else behind,
    )


@dataclass(slots=True)
class Meter:
    """The counters of a job that is observed again and again, for policies that go by single samples.

    What is not read waits, and is read as fast as the narrowest vertex can. The counters begin again with an execution.
    """

    at: float = 0.0
    began_at: float = 0.0
    read: dict[VertexId, float] = field(default_factory=dict)
    sent: dict[VertexId, float] = field(default_factory=dict)
    waiting: dict[VertexId, float] = field(default_factory=dict)

    def sample(self, obs: JobObservation) -> JobSample:
        """Return what the pass of an observation reads; one that is not later than the last one begins anew."""
        began_at = obs.now - WINDOW if obs.last_restart_at is None else obs.last_restart_at
        if not self.at < obs.now or self.waiting.keys() != obs.vertices.keys():
            self.waiting = dict.fromkeys(obs.vertices, 0.0)
            self.at, self.began_at = obs.now, began_at
            self.read = {v: min((each.rate_in or 0.0) * WINDOW, _MOST) for v, each in obs.vertices.items()}
            self.sent = {v: min(self.read[v] * _sent_per_read(obs, v), _MOST) for v in obs.vertices}
        elif obs.last_restart_at is not None and obs.last_restart_at > self.began_at:
            self.began_at = obs.last_restart_at
            self.read, self.sent = dict.fromkeys(obs.vertices, 0.0), dict.fromkeys(obs.vertices, 0.0)
        seconds, self.at = obs.now - self.at, obs.now
        shares = self._go_on(obs, seconds)
        return JobSample(obs.now, self.began_at, {v: self._vertex(each, shares) for v, each in obs.vertices.items()})

    def _go_on(self, obs: JobObservation, seconds: float) -> dict[VertexId, float]:
        """Read for some seconds; return by how much more than in the observation each vertex did."""
        known = [each for each in obs.vertices.values() if each.target_rate]
        able = [_able(each) / (each.target_rate or 1.0) for each in known]
        sources = [each for each in obs.vertices.values() if each.is_source and each.target_rate]
        behind = max((self.waiting[each.vertex_id] / (each.target_rate or 1.0) for each in sources), default=0.0)
        share = min([1.0 + behind / seconds if seconds > 0 else 1.0, *able])
        ratios = {}
        for vertex_id, each in obs.vertices.items():
            usual = (each.rate_in or 0.0) * seconds
            arrived = each.target_rate * seconds if each.target_rate else usual + (each.lag_slope or 0.0) * seconds
            done = arrived * share if each.target_rate else usual
            self.waiting[vertex_id] = min(max(self.waiting[vertex_id] + arrived - done, 0.0), _MOST)
            self.read[vertex_id] = min(self.read[vertex_id] + done, _MOST)
            self.sent[vertex_id] = min(self.sent[vertex_id] + done * _sent_per_read(obs, vertex_id), _MOST)
            ratios[vertex_id] = done / usual if usual > 0.0 else 1.0
        return ratios

    def _vertex(self, vertex: VertexObs, ratios: Mapping[VertexId, float]) -> VertexSample:
        key, is_read = vertex.vertex_id, vertex.rate_in is not None
        return VertexSample(
            parallelism=vertex.parallelism,
            records_in=self.read[key] if is_read else None,
            records_out=self.sent[key] if is_read else None,
            pending=self.waiting[key] if vertex.is_source and vertex.lag_records is not None else None,
            busy=None if vertex.busy is None else min(vertex.busy * ratios[key], 1.0),
            is_complete=vertex.complete,
        )


_MOST = 1e300


def _able(vertex: VertexObs) -> float:
    """Return the records/s that a vertex can read; what it does read where that is not known."""
    known = vertex.true_rate if vertex.true_rate is not None else vertex.rate_in
    return known if known is not None else vertex.target_rate or 0.0


def _sent_per_read(obs: JobObservation, vertex_id: VertexId) -> float:
    return sum(ratio for (start, _), ratio in obs.edges.items() if start == vertex_id)


def model_jobs(count: int) -> list[ModelJob]:
    """Make jobs of all sorts, the same ones in every call: some keep up, some do not, some are far too large."""
    return [_job(random.Random(number)) for number in range(count)]


def balanced_jobs(count: int) -> list[ModelJob]:
    """Make jobs whose vertices are all equally loaded; the same ones in every call."""
    return [_balanced(random.Random(number)) for number in range(count)]


def _job(chance: random.Random) -> ModelJob:
    vertices: list[ModelVertex] = []
    for number in range(chance.randint(1, 5)):
        is_source = number == 0 or (number == 1 and chance.random() < 0.3)  # noqa: PLR2004 - a second one at times
        upstream = [] if is_source else chance.sample(vertices, chance.randint(1, min(2, len(vertices))))
        greatest = chance.choice([12, 64, 128])
        vertex = ModelVertex(
            vertex_id=f"{number + 1:032x}",
            inputs={each.vertex_id: chance.choice([0.1, 0.5, 1.0, 2.5]) for each in upstream},
            rate=chance.uniform(50.0, 5_000.0),
            parallelism=chance.randint(1, greatest),
            least=chance.choice([1, 1, 1, 2]),
            greatest=greatest,
        )
        vertices.append(replace(vertex, parallelism=max(vertex.least, vertex.parallelism)))
    return ModelJob(tuple(vertices), chance.uniform(100.0, 20_000.0))


def _balanced(chance: random.Random) -> ModelJob:
    job = _job(chance)
    load = chance.uniform(0.1, 1.2)
    demands = job.demands()
    vertices = tuple(
        replace(each, rate=demands[each.vertex_id] / (each.parallelism * load), greatest=10_000)
        for each in job.vertices
    )
    return replace(job, vertices=vertices)
