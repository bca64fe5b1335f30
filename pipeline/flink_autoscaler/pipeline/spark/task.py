"""What runs in Spark's Python workers: the pass over one partition of the jobs.

Event loop and connections are kept in the worker process between tasks, which Spark reuses. Only GET requests are
sent, so that a task that runs twice does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

import pyarrow as pa

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.decision import PassOutcome, PassRequest
from flink_autoscaler.pipeline.inline.groups import Deadlines, Group, evaluate_groups
from flink_autoscaler.pipeline.spark.codec import CodecError, Encoded, decode, encode_outcome, portable

REQUESTS: Final = pa.schema(
    [
        pa.field("position", pa.int32(), False),
        pa.field("cluster", pa.int32(), False),
        pa.field("request", pa.binary(), False),
    ]
)
"""One row per job: its place in the pass, the place of its cluster in ``PassTask.clusters``, its encoded request."""

OUTCOMES: Final = pa.schema([("position", pa.int32()), ("outcome", pa.binary()), ("problem", pa.string())])
"""One row per job: its place in the pass and its encoded outcome, or else why there is none."""

OUTCOMES_DDL: Final = "position int, outcome binary, problem string"

Row = tuple[int, Encoded | None, str | None]


@dataclass(frozen=True)
class PassTask:
    """The function of ``mapInArrow``: rows of ``REQUESTS`` to rows of ``OUTCOMES``, in any order.

    Attributes:
        clusters: Encoded pairs of :class:`Endpoint`, its connections being one task's share, and
            :class:`ClusterReading`, None where the task is to read it.
        job_deadline: Seconds that reading one job, or the metrics of one cluster, may take.
        pass_deadline: Seconds that the task may take; jobs not read by then have an error.
    """

    clusters: Encoded = field(repr=False)
    job_deadline: float
    pass_deadline: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Evaluate all jobs of the partition concurrently."""
        rows = [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
        if rows:
            answers = list(self._answers(rows))
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(column, kind)
                    for column, kind in zip(zip(*answers, strict=True), OUTCOMES.types, strict=True)
                ],
                schema=OUTCOMES,
            )

    def _answers(self, rows: Sequence[tuple[int, int, Encoded]]) -> Iterator[Row]:
        members: dict[int, dict[int, PassRequest]] = {}
        for position, cluster, data in rows:
            try:
                members.setdefault(cluster, {})[position] = decode(data, PassRequest)
            except CodecError as error:
                yield position, None, str(error)
        groups = self._groups(members)
        outcomes = _worker().run(groups, Deadlines(self.job_deadline, self.pass_deadline)) if groups else {}
        for group in groups:
            for position, request in zip(group.positions, group.requests, strict=True):
                yield _answer(position, request, outcomes[position])

    def _groups(self, members: Mapping[int, Mapping[int, PassRequest]]) -> list[Group]:
        clusters = decode(self.clusters, tuple) if any(members.values()) else ()
        return [
            Group(endpoint, tuple(requests), tuple(requests.values()), reading)
            for (endpoint, reading), requests in ((clusters[index], each) for index, each in members.items() if each)
        ]


def _answer(position: int, request: PassRequest, outcome: PassOutcome) -> Row:
    try:
        return position, encode_outcome(replace(outcome, error=portable(outcome)), request), None
    except AutoscalerError as error:
        return position, None, str(error)


class _Worker:
    """What a Python worker keeps between tasks."""

    def __init__(self) -> None:
        self._loop = EventLoopThread("flink-polling")
        self._clients = ClientCache(self._loop)

    def run(self, groups: Sequence[Group], deadlines: Deadlines) -> dict[int, PassOutcome]:
        return self._loop.run(evaluate_groups(self._clients, groups, deadlines))


@cache
def _worker() -> _Worker:
    return _Worker()
