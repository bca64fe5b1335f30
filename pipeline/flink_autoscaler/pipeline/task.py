"""What runs in Spark's Python workers: the pass over one partition of the jobs.

Event loop and connections are kept in the worker process between tasks, which Spark reuses. Only GET requests are
sent, so that a task that runs twice does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import pyarrow as pa

from flink_autoscaler.clients import EventLoopThread
from flink_autoscaler.clients.passes import run_passes
from flink_autoscaler.core.decision import PassOutcome, PassRequest
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.job import Endpoint
from flink_autoscaler.core.reading import ClusterReading
from flink_autoscaler.pipeline.codec import CodecError, Encoded, decode, encode_outcome, portable
from flink_autoscaler.pipeline.engine import ClientCache

REQUESTS: Final = pa.schema([pa.field("position", pa.int32(), False), pa.field("request", pa.binary(), False)])
"""One row per job: its place in the pass and its encoded request."""

OUTCOMES: Final = pa.schema([("position", pa.int32()), ("outcome", pa.binary()), ("problem", pa.string())])
"""One row per job: its place in the pass and its encoded outcome, or else why there is none."""

OUTCOMES_DDL: Final = "position int, outcome binary, problem string"

Row = tuple[int, Encoded | None, str | None]


@dataclass(frozen=True)
class PassTask:
    """The function of ``mapInArrow``: rows of ``REQUESTS`` to rows of ``OUTCOMES``, in any order.

    Attributes:
        endpoint: Of the cluster; its connections are this task's share.
        cluster: The encoded :class:`ClusterReading` of the pass.
        job_deadline: Seconds that reading one job may take.
        pass_deadline: Seconds that the task may take; jobs not read by then have an error.
    """

    endpoint: Endpoint
    cluster: Encoded
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

    def _answers(self, rows: Sequence[tuple[int, Encoded]]) -> Iterator[Row]:
        readable: dict[int, PassRequest] = {}
        for position, data in rows:
            try:
                readable[position] = decode(data, PassRequest)
            except CodecError as error:
                yield position, None, str(error)
        outcomes = _worker().run(self, list(readable.values())) if readable else []
        for (position, request), outcome in zip(readable.items(), outcomes, strict=True):
            yield _answer(position, request, outcome)


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

    def run(self, task: PassTask, requests: Sequence[PassRequest]) -> list[PassOutcome]:
        return self._loop.run(self._run(task, requests))

    async def _run(self, task: PassTask, requests: Sequence[PassRequest]) -> list[PassOutcome]:
        client = await self._clients.get(task.endpoint)
        cluster = decode(task.cluster, ClusterReading)
        return await run_passes(
            client, requests, cluster, job_deadline=task.job_deadline, pass_deadline=task.pass_deadline
        )


@cache
def _worker() -> _Worker:
    return _Worker()
