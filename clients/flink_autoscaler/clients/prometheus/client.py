"""Asks a server with the HTTP API of Prometheus (Thanos, VictoriaMetrics, Mimir) for instant vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from flink_autoscaler.clients.http.forms import FormTransport
from flink_autoscaler.clients.prometheus.figures import FigureReader, JobFigures
from flink_autoscaler.clients.prometheus.questions import CLOCK, Questions
from flink_autoscaler.clients.prometheus.vectors import TooManySeriesError, Vector, VectorReader
from flink_autoscaler.core.border import awaited
from flink_autoscaler.core.errors import AutoscalerError, ResponseError
from flink_autoscaler.core.model.job import Endpoint

R = TypeVar("R", bound=VectorReader)

PATH = "/api/v1/query"


class PrometheusClient:
    """Talks to one server. Belongs to one event loop; calls may overlap.

    Args:
        endpoint: The server; ``/api/v1/query`` is added to its URL.

    Raises:
        ConfigError: The URL is none, or a header cannot be sent.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._transport = FormTransport(endpoint)
        self.url = self._transport.url

    async def query(self, expression: str, at: float | None = None) -> Vector:
        """Return what an expression comes to.

        Args:
            expression: PromQL that gives an instant vector.
            at: Instant of the evaluation by the server's clock, seconds; None takes now.

        Raises:
            FlinkRestError: No usable answer (see :meth:`FormTransport.post`).
        """
        return (await self.read(expression, at, VectorReader))[1]

    async def read(self, expression: str, at: float | None, reader: Callable[[], R]) -> tuple[R, Vector]:
        """Return what has taken the answer, and the answer.

        Args:
            expression: PromQL that gives an instant vector.
            at: Instant of the evaluation by the server's clock, seconds; None takes now.
            reader: Makes what takes it; again where it has to be asked for again.

        Raises:
            FlinkRestError: No usable answer (see :meth:`FormTransport.post`).
        """
        form = {"query": expression} if at is None else {"query": expression, "time": f"{at:.3f}"}
        taken = await self._transport.post(PATH, form, reader)
        try:
            return taken, taken.vector()
        except ResponseError as exc:
            raise ResponseError(f"POST {self.url}{PATH}: {exc}") from exc

    async def aclose(self) -> None:
        """Close all connections. May be called more than once."""
        await self._transport.aclose()


MOST_JOBS: Final = 1000
"""Jobs in one question, whose ids it names."""

SETTLED: Final = 1.0
"""Seconds before now that the questions are about, so that all of them see the same scrapes."""

_Write = Callable[[Sequence[str]], str]


@dataclass(frozen=True, slots=True)
class Gathered:
    """Answers of one pass.

    Attributes:
        now: The instant of the pass, by the server's clock, seconds.
        jobs: By id.
    """

    now: float
    jobs: dict[str, JobFigures]

    def take(self, job_id: str) -> JobFigures:
        """Return what was answered about a job, and hold it no longer: there may be ten thousand, each read once."""
        return self.jobs.pop(job_id, JobFigures())


async def clock_of(client: PrometheusClient) -> float:
    """Return the time of a server, seconds. May raise :class:`FlinkRestError`."""
    series = (await client.query(CLOCK)).series
    if len(series) != 1 or not series[0].value > 0:
        raise ResponseError(f"{client.url}: does not tell the time")
    return series[0].value


async def gather(
    client: PrometheusClient, questions: Questions, now: float, jobs: Sequence[str], with_partitions: Sequence[str]
) -> Gathered:
    """Ask for everything that is known about jobs.

    Args:
        client: Of the server.
        questions: How they are written.
        now: The instant of the pass, by the server's clock, seconds.
        jobs: Ids.
        with_partitions: Those whose partitions are to be counted.

    Returns:
        What was answered; what failed is in the figures.
    """
    at = now - SETTLED
    figures = {job: JobFigures() for job in jobs}
    asking = _Asking(client, questions, at, figures)
    parts = [*_parts(jobs)]
    kinds = (questions.loads, questions.counters, questions.rates)
    each = [asking.ask(kind, part) for part in parts for kind in kinds]
    await asyncio.gather(*each, *(asking.ask(questions.partitions, part) for part in _parts(with_partitions)))
    return Gathered(now, figures)


def _parts(jobs: Sequence[str]) -> Iterable[Sequence[str]]:
    return (jobs[start : start + MOST_JOBS] for start in range(0, len(jobs), MOST_JOBS))


@dataclass(frozen=True, slots=True)
class _Asking:
    """Asks questions about jobs, all at one instant, and sorts the answers."""

    client: PrometheusClient
    questions: Questions
    at: float
    figures: dict[str, JobFigures]

    async def ask(self, write: _Write, jobs: Sequence[str]) -> None:
        """Ask one question; where the answer would be too long, about one half of the jobs after the other."""
        reader = partial(FigureReader, self.questions, jobs)
        answer = await awaited(self.client.read(write(jobs), self.at, reader), ResponseError)
        if isinstance(answer, TooManySeriesError) and len(jobs) > 1:
            half = len(jobs) // 2
            await self.ask(write, jobs[:half])
            await self.ask(write, jobs[half:])
        elif isinstance(answer, AutoscalerError):
            for job in jobs:
                self.figures[job].error = self.figures[job].error or answer
        else:
            self._take(*answer, jobs)

    def _take(self, reader: FigureReader, answer: Vector, jobs: Sequence[str]) -> None:
        for doubt in (*answer.warnings, *answer.strange):
            for job in jobs:
                self.figures[job].doubts.append(doubt)
        for job, found in reader.found.items():
            self.figures[job].add(found)
