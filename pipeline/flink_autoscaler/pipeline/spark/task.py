"""The jobs of a pass on Spark: how they are dealt out to tasks, and what runs in the Python workers.

Event loop and connections are kept in the worker process between tasks, which Spark reuses. Only GET requests are
sent, so that a task that runs twice does no harm.

The driver deals out plain rows, without Spark's SQL: planning a query costs the JVM more than a small pass costs
altogether.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Final

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.border import Border
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.pipeline.engine.base import Answer, Deadlines, Group
from flink_autoscaler.pipeline.engine.garbage import YOUNG, spare_collector
from flink_autoscaler.pipeline.engine.run_pass import evaluate_groups
from flink_autoscaler.pipeline.spark.codec import Encoded, decode, encode, encode_outcome, portable

RequestRow = tuple[int, int, Encoded]
"""Of one job: its place in the pass, the place of its cluster in ``PassTask.clusters``, its encoded request."""

OutcomeRow = tuple[int, Encoded | None, str | None, float]
"""Of one job: its place in the pass, its encoded outcome, or else why there is none, and the seconds that its
endpoint took. Neither outcome nor problem: the endpoint was given up."""

JOBS_PER_TASK: Final = 16
"""Fewer jobs are not worth another task."""

WHOLE_JOBS: Final = 64
"""A cluster with so many jobs at most goes to one task, which reads its metrics as well."""


@dataclass(frozen=True)
class PassTask:
    """Turns rows of requests into rows of outcomes, in any order.

    Attributes:
        clusters: Encoded pairs of :class:`Endpoint`, its connections being one task's share, and
            :class:`ClusterReading`, None where the task is to read it.
        job_deadline: Seconds that reading one job, or the metrics of one cluster, may take.
        pass_deadline: Seconds that the task may take; jobs not read by then have an error.
        cut_after: Seconds after which an endpoint is given up for the sake of the others.
        is_packed: Whether outcomes are compressed.
    """

    clusters: Encoded = field(repr=False)
    job_deadline: float
    pass_deadline: float
    cut_after: float = math.inf
    is_packed: bool = True

    def of_pieces(self, pieces: Iterable[Sequence[RequestRow]]) -> Iterable[list[OutcomeRow]]:
        """Evaluate all jobs of a partition of an RDD concurrently; its elements are pieces."""
        yield from map(self.of_rows, pieces)

    def of_rows(self, rows: Sequence[RequestRow]) -> list[OutcomeRow]:
        """Evaluate all jobs of a piece concurrently."""
        _spare_collector()
        return list(self._answers(rows))

    def _answers(self, rows: Sequence[RequestRow]) -> Iterator[OutcomeRow]:
        members: dict[int, dict[int, PassRequest]] = {}
        for position, cluster, data in rows:
            with Border() as border:
                members.setdefault(cluster, {})[position] = decode(data, PassRequest)
            if border.error is not None:
                yield position, None, str(border.error), 0.0
        groups = self._groups(members)
        answers = self._evaluated(groups) if groups else {}
        for group in groups:
            for position, request in zip(group.positions, group.requests, strict=True):
                yield self._row(position, request, answers[position])

    def _evaluated(self, groups: Sequence[Group]) -> dict[int, Answer]:
        loop, clients = _kept()
        deadlines = Deadlines(self.job_deadline, self.pass_deadline)
        return loop.run(evaluate_groups(clients, groups, deadlines, self.cut_after))

    def _row(self, position: int, request: PassRequest, answer: Answer) -> OutcomeRow:
        if answer.outcome is None:
            return position, None, None, answer.seconds
        with Border() as border:
            outcome = replace(answer.outcome, error=portable(answer.outcome))
            return position, encode_outcome(outcome, request, is_packed=self.is_packed), None, answer.seconds
        return position, None, str(border.error), answer.seconds

    def _groups(self, members: Mapping[int, Mapping[int, PassRequest]]) -> list[Group]:
        clusters = decode(self.clusters, tuple) if any(members.values()) else ()
        return [
            Group(endpoint, tuple(requests), tuple(requests.values()), reading)
            for (endpoint, reading), requests in ((clusters[index], each) for index, each in members.items() if each)
        ]


@cache
def _spare_collector() -> None:
    """Let garbage collection, which Spark's workers also run after every task, pass over what has been imported."""
    spare_collector(YOUNG)


@cache
def _kept() -> tuple[EventLoopThread, ClientCache]:
    """Values that a Python worker keeps between tasks."""
    loop = EventLoopThread("flink-polling")
    return loop, ClientCache(loop)


@dataclass(frozen=True)
class PartitionPlan:
    """The jobs of a Spark job, in one piece per task. A cluster with ``WHOLE_JOBS`` at most is not cut.

    Attributes:
        endpoints: Of the clusters, by place.
        pieces: Rows per task; no piece is empty.
    """

    endpoints: tuple[Endpoint, ...]
    pieces: tuple[tuple[RequestRow, ...], ...]

    @classmethod
    def of(cls, clusters: Mapping[Endpoint, Sequence[tuple[int, Encoded]]], most_tasks: int) -> PartitionPlan:
        """Deal out encoded requests.

        Args:
            clusters: Per endpoint, the jobs' places in the pass and their requests; not empty.
            most_tasks: Pieces at most, at least 1.
        """
        rows = [(place, index, data) for index, jobs in enumerate(clusters.values()) for place, data in jobs]
        tasks = min(most_tasks, math.ceil(len(rows) / JOBS_PER_TASK))
        return cls(tuple(clusters), tuple(_pieces(rows, tasks)))

    def divided(self) -> list[Endpoint]:
        """Return the clusters whose jobs are dealt out to several tasks."""
        return [self.endpoints[index] for index, tasks in self._tasks().items() if tasks > 1]

    def clusters(self, readings: Mapping[Endpoint, ClusterReading], *, is_packed: bool = True) -> Encoded:
        """Return ``PassTask.clusters``: tasks that share a cluster share its connections.

        Raises:
            CodecError: A reading holds something that cannot be pickled.
        """
        tasks = self._tasks()
        return encode(
            tuple(
                (_share(endpoint, tasks[index]), readings.get(endpoint))
                for index, endpoint in enumerate(self.endpoints)
            ),
            is_packed=is_packed,
        )

    def _tasks(self) -> Counter[int]:
        return Counter(index for piece in self.pieces for index in {cluster for _, cluster, _ in piece})


def _pieces(rows: Sequence[RequestRow], most: int) -> Iterator[tuple[RequestRow, ...]]:
    """Cut rows into so many pieces at most, about equal ones; clusters that are not to be cut go where they fit."""
    size = math.ceil(len(rows) / most)
    piece: list[RequestRow] = []
    for part in _parts(rows, size):
        if piece and len(piece) + len(part) > size and most > 1:
            yield tuple(piece)
            piece, most = [], most - 1
        piece += part
    yield tuple(piece)


def _parts(rows: Sequence[RequestRow], size: int) -> Iterator[list[RequestRow]]:
    """Give clusters that are not to be cut, and the others in parts of a size."""
    for _, jobs in groupby(rows, key=itemgetter(1)):
        cluster = list(jobs)
        step = len(cluster) if len(cluster) <= WHOLE_JOBS else size
        yield from (cluster[start : start + step] for start in range(0, len(cluster), step))


def _share(endpoint: Endpoint, tasks: int) -> Endpoint:
    return endpoint if tasks == 1 else replace(endpoint, max_connections=max(1, endpoint.max_connections // tasks))
