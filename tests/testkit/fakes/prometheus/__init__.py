"""A fake Prometheus over real sockets, that answers the daemon's questions from a fake Flink cluster.

``with FakePrometheus(flink) as prometheus:`` knows the jobs of a :class:`FakeFlink` as they were ``age`` seconds ago.

* ``prometheus.source(max_age=60.0, ...)``: what an endpoint of the cluster has for it.
* ``prometheus.lie = ...``: given figure, job id, vertex id and value, returns what is answered: a number, a text, or
  None for nothing.
* ``prometheus.warnings``, ``prometheus.clock``: what every answer has, and the seconds that its clock is ahead.
* ``prometheus.fault("/", Fault.HANG)``: misbehave; ``prometheus.pause()`` refuses connections.
* ``prometheus.queries``: what was asked, in order.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from flink_autoscaler.clients.prometheus.queries import (
    CLOCK,
    CLUSTERS,
    COUNTERS,
    FIGURE,
    JOBMANAGER,
    TASKMANAGER,
    TOPIC,
)
from flink_autoscaler.core.model.job import Endpoint, PrometheusSource
from testkit.fakes.flink import Canned, FakeFlink, FakeJob, FakeRequest, FakeVertex
from testkit.fakes.flink.service import FaultyService

Value = float | str | None
Lie = Callable[[str, str, str, float], Value]

_FIGURE = re.compile(r'"figure", "([^"]+)"')
_JOBS = re.compile(r'=~"([0-9a-f|]{32,})"')
_OF_SOURCES = {"source_in": ".numRecordsIn", "source_out": ".numRecordsOut", "source_in_rate": ".numRecordsInPerSecond"}


class FakePrometheus(FaultyService):
    """Answers ``POST /api/v1/query``; see the package for an overview.

    Attributes:
        age: Seconds since the scrape that it answers from.
        clock: Seconds that its clock is ahead.
        warnings: Of every answer.
        lie: Changes what is answered; None tells the truth.
        queries: What was asked.
    """

    def __init__(self, flink: FakeFlink) -> None:
        super().__init__()
        self.flink = flink
        self.age = 5.0
        self.clock = 0.0
        self.warnings: list[str] = []
        self.lie: Lie | None = None
        self.queries: list[str] = []

    def source(self, **overrides: Any) -> PrometheusSource:
        """Return what an endpoint has for it."""
        return PrometheusSource(Endpoint(self.url, timeout=5.0), **overrides)

    @property
    def headers(self) -> list[dict[str, str]]:
        """Of all requests, in order."""
        return [request.headers for request in self.requests]

    def _answer(self, request: FakeRequest) -> Canned:
        assert isinstance(request.body, dict)
        expression = request.body["query"]
        self.queries.append(expression)
        now = time.time() + self.clock
        series = [_series({}, now)] if expression == CLOCK else list(self._series(expression, now))
        answer = {"status": "success", "data": {"resultType": "vector", "result": series}, "warnings": self.warnings}
        return Canned.json(answer)

    def _series(self, expression: str, now: float) -> Iterator[dict[str, Any]]:
        figures = set(_FIGURE.findall(expression))
        if CLUSTERS in figures:
            yield from self._cluster(figures)
        asked = {job for text in _JOBS.findall(expression) for job in text.split("|")}
        for job in self.flink.jobs.values():
            if job.job_id in asked and job.state == "RUNNING":
                yield from self._job(job, figures, now)

    def _cluster(self, figures: set[str]) -> Iterator[dict[str, Any]]:
        known: dict[str, Any] = {name: self.flink.taskmanager_metrics.get(rest) for name, rest in TASKMANAGER.items()}
        known |= {name: self.flink.jobmanager_metrics.get(rest) for name, rest in JOBMANAGER.items()}
        for figure, value in {**known, CLUSTERS: 1.0}.items():
            told = None if value is None else self._told(figure, "", "", float(value))
            if figure in figures and told is not None:
                yield _series({FIGURE: figure}, told)

    def _job(self, job: FakeJob, figures: set[str], now: float) -> Iterator[dict[str, Any]]:
        at = self._told("at", job.job_id, "", now - self.age)
        if "at" in figures and at is not None:
            yield _series({FIGURE: "at", "job_id": job.job_id}, at)
        for vertex in job.vertices:
            if vertex.status != "RUNNING":
                continue
            for topic in sorted({topic for topic, _ in vertex.topic_partitions()}) if TOPIC in figures else ():
                yield _series({FIGURE: TOPIC, "job_id": job.job_id, "task_id": vertex.vertex_id, TOPIC: topic}, 1.0)
            for figure, value in _figures(vertex).items():
                told = self._told(figure, job.job_id, vertex.vertex_id, value)
                if figure in figures and told is not None:
                    operator = {"operator_name": vertex.name} if figure in _OF_SOURCES else {}
                    labels = {FIGURE: figure, "job_id": job.job_id, "task_id": vertex.vertex_id, **operator}
                    yield _series(labels, told)

    def _told(self, figure: str, job_id: str, vertex_id: str, value: float) -> Value:
        return value if self.lie is None else self.lie(figure, job_id, vertex_id, value)


def _series(labels: dict[str, str], value: float | str) -> dict[str, Any]:
    return {"metric": labels, "value": [time.time(), value if isinstance(value, str) else f"{value!r}"]}


def _figures(vertex: FakeVertex) -> dict[str, float]:
    """Return what is known of a vertex, as sums over its subtasks where they are sums."""
    known: dict[str, object] = dict(
        zip(COUNTERS, (vertex.records_in, vertex.records_out, vertex.busy_ms), strict=False)
    )
    known |= {"idle_ms": vertex.waited_ms, "backpressured_ms": None if vertex.waited_ms is None else 0.0}
    busy, blocked = (vertex.metrics.get(name) for name in ("busyTimeMsPerSecond", "backPressuredTimeMsPerSecond"))
    known |= {"subtasks": vertex.parallelism, "busy_max": busy, "busy_avg": busy, "busy_min": busy}
    known |= {"blocked_avg": blocked, "in_rate": _sum(vertex, "numRecordsInPerSecond")}
    if not vertex.inputs:
        known |= {figure: _sum(vertex, ending) for figure, ending in _OF_SOURCES.items()}
        pending = _sum(vertex, ".pendingRecords")
        known |= {"pending": pending, "pending_min": pending, "partitions": len(vertex.names_without_value)}
        splits = _sum(vertex, ".activeSplitCount")
        known |= {} if splits is None else {"splits": splits, "splits_avg": splits / vertex.parallelism}
    return {figure: float(value) for figure, value in known.items() if isinstance(value, float | int | str)}


def _sum(vertex: FakeVertex, ending: str) -> float | None:
    found = [value for name, value in vertex.metrics.items() if name.endswith(ending)]
    return float(found[0]) * vertex.parallelism if found and isinstance(found[0], float | str) else None
