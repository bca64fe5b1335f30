"""Passes in this process: jobs by the endpoint that they are behind, in groups that do not wait for each other."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.flink.passes import by_endpoint, client_of, passes_behind, settled
from flink_autoscaler.clients.flink.rest_source import RestMetricSource
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.border import Border
from flink_autoscaler.core.cycle.outcome import failed
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.ports.passes import EngineUse, PassOutcome, PassRequest

INLINE: Final = "inline"
CONFIGURED: Final = "configured"
"""Why an engine is used that was asked for by its name."""

Evaluate = Callable[[Sequence[PassRequest]], Sequence[PassOutcome]]


class InlineEngine:
    """Polls and evaluates all jobs of a pass on one event loop of this process (an ``EvaluationEngine``).

    Loop and clients belong to the caller, who closes them after the engine.
    """

    def __init__(
        self,
        *,
        job_deadline: float,
        loop: EventLoopThread,
        clients: ClientCache,
        pass_deadline: float = math.inf,
        reason: str = CONFIGURED,
    ) -> None:
        """Make an engine.

        Args:
            job_deadline: Seconds that reading one job, or the metrics of one cluster, may take.
            loop: Where the requests run.
            clients: Gives the client of an endpoint, and bounds how many jobs are read at once.
            pass_deadline: Seconds that reading all jobs may take; those not read by then have an error.
            reason: Why this engine was chosen.
        """
        self._loop = loop
        self._reason = reason
        self._clients = clients
        self._deadlines = Deadlines(job_deadline, pass_deadline)

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return one outcome per request, in the same order.

        Jobs behind different endpoints do not wait for each other. Cluster-wide metrics are read once per call and
        endpoint, where a job needs them.

        Raises:
            ConnectError: The loop is closed.
        """
        return with_settled(requests, lambda open_: self.evaluate_open(open_, self._reason))

    def evaluate_open(self, requests: Sequence[PassRequest], reason: str) -> Sequence[PassOutcome]:
        """Do the same for jobs that all have to be read, for a reason of somebody else's choice."""
        return used(EngineUse(INLINE, reason), whole(self.answers(requests)))

    def answers(self, requests: Sequence[PassRequest]) -> list[Answer]:
        """Return what became of jobs that all have to be read, and how long their endpoints took; none is given up."""
        answers = self._loop.run(evaluate_groups(self._clients, grouped(requests), self._deadlines))
        return [answers[position] for position in range(len(requests))]

    def read_clusters(
        self, endpoints: Sequence[Endpoint], fresh: Collection[Endpoint]
    ) -> dict[Endpoint, ClusterReading]:
        """Return the cluster-wide metrics behind each endpoint; failures are in ``error``.

        Args:
            endpoints: Of the clusters.
            fresh: Where jobs are to be read afterwards from metrics that have just been gathered.
        """
        return self._loop.run(read_clusters(self._clients, endpoints, fresh, self._deadlines)) if endpoints else {}

    def start(self) -> None:
        """Do nothing: there is nothing to wait for."""

    def close(self) -> None:
        """Do nothing: loop and clients belong to the caller."""


def with_settled(requests: Sequence[PassRequest], evaluate: Evaluate) -> list[PassOutcome]:
    """Return one outcome per request, in the same order; only jobs that have to be read are evaluated."""
    outcomes = settled(requests)
    open_ = [position for position in range(len(requests)) if position not in outcomes]
    if open_:
        found = evaluate([requests[position] for position in open_])
        outcomes |= zip(open_, found, strict=True)
    return [outcomes[position] for position in range(len(requests))]


def used(use: EngineUse, outcomes: Iterable[PassOutcome]) -> list[PassOutcome]:
    """Return outcomes that say where they come from."""
    return [replace(outcome, engine=use) for outcome in outcomes]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that reading may take: one job or the metrics of one cluster, and all jobs of the pass."""

    job: float
    pass_: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one job.

    Attributes:
        outcome: None where its endpoint took too long for those that share a task with it.
        seconds: That its endpoint took.
    """

    outcome: PassOutcome | None
    seconds: float


def whole(answers: Iterable[Answer]) -> list[PassOutcome]:
    """Return the outcomes of jobs none of which was given up."""
    return [answer.outcome for answer in answers if answer.outcome is not None]


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs behind one endpoint.

    Attributes:
        positions: Of the requests in their pass, in the same order.
        cluster: What was read about the cluster in this pass; None when that is still to be done.
    """

    endpoint: Endpoint
    positions: tuple[int, ...]
    requests: tuple[PassRequest, ...]
    cluster: ClusterReading | None = None


def grouped(requests: Sequence[PassRequest]) -> list[Group]:
    """Group requests with their positions by endpoint, in the order in which endpoints appear."""
    places = by_endpoint(requests)
    return [Group(endpoint, tuple(mine), tuple(requests[each] for each in mine)) for endpoint, mine in places.items()]


async def evaluate_groups(
    clients: ClientCache, groups: Sequence[Group], deadlines: Deadlines, cut_after: float = math.inf
) -> dict[int, Answer]:
    """Return what became of all jobs by position. Never raises: a job that fails has its error in the outcome.

    Endpoints that take longer than ``cut_after`` seconds are given up; their jobs have no outcome.
    """
    results = await asyncio.gather(*(_answers(clients, group, deadlines, cut_after) for group in groups))
    return {position: answer for answers in results for position, answer in answers.items()}


async def _answers(clients: ClientCache, group: Group, deadlines: Deadlines, cut_after: float) -> dict[int, Answer]:
    started = perf_counter()
    outcomes: Sequence[PassOutcome | None]
    cut = asyncio.timeout(None if math.isinf(cut_after) else cut_after)
    outcomes = [None] * len(group.positions)
    with Border(what=group.endpoint.url) as border:
        async with cut:
            outcomes = await passes_behind(
                clients,
                group.endpoint,
                group.requests,
                group.cluster,
                job_deadline=deadlines.job,
                pass_deadline=deadlines.pass_,
            )
    if border.error is not None and not cut.expired():
        outcomes = [failed(request, border.error) for request in group.requests]
    seconds = perf_counter() - started
    return {position: Answer(outcome, seconds) for position, outcome in zip(group.positions, outcomes, strict=True)}


async def read_clusters(
    clients: ClientCache, endpoints: Sequence[Endpoint], fresh: Collection[Endpoint], deadlines: Deadlines
) -> dict[Endpoint, ClusterReading]:
    """Return the cluster-wide metrics behind each endpoint; failures are in ``error``. Never raises."""
    readings = await asyncio.gather(*(_read(clients, each, deadlines, is_fresh=each in fresh) for each in endpoints))
    return dict(zip(endpoints, readings, strict=True))


async def _read(clients: ClientCache, endpoint: Endpoint, deadlines: Deadlines, *, is_fresh: bool) -> ClusterReading:
    client = await client_of(clients, endpoint)
    if isinstance(client, AutoscalerError):
        return ClusterReading(error=client)
    source = clients.metrics(endpoint) or RestMetricSource(client)
    return await source.read_cluster(min(deadlines.job, deadlines.pass_), is_fresh=is_fresh)
