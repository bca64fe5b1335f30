"""The part of Flink's REST API that the autoscaler uses, typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

from flink_autoscaler.clients.flink import decode, decode_facts
from flink_autoscaler.clients.flink.decode import JobListing, JobOverview, ParallelismBounds, Readable
from flink_autoscaler.clients.flink.freshness import MetricFetcherMonitor
from flink_autoscaler.clients.http.json_object import decode_answer
from flink_autoscaler.clients.http.transport import HttpTransport
from flink_autoscaler.core.errors import AutoscalerError, RealizeError, ResponseError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.metrics import Aggregate, VertexId
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, JobException, RescaleAttempt, TaskManagerFacts
from flink_autoscaler.core.model.topology import JobDetails
from flink_autoscaler.core.options.flink import FlinkOptions

T = TypeVar("T")

QUERY_LIMIT: Final = 3500
"""Characters of metric names in one URL: Netty, inside Flink, reads request lines of up to 4096."""

_LONGEST_QUOTED: Final = 3
"""Characters that one of ASCII becomes in a URL at most."""

MAX_EXCEPTIONS: Final = 20
"""Entries of the exception history that are asked for."""

_ID: Final = re.compile(r"[0-9a-fA-F]{32}")


class Transport(Protocol):
    """Carries requests to a JobManager and decoded answers back. May raise :class:`FlinkRestError`."""

    @property
    def url(self) -> str:
        """Base URL, for messages."""
        ...

    async def get_json(
        self, path: str, *, params: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> object:
        """Return the answer of a GET."""
        ...

    async def get_all_json(
        self, asked: Sequence[tuple[str, Mapping[str, str]]], *, timeout: float | None = None
    ) -> list[object]:
        """Return the answers of several GETs, paths and query parameters, in the same order."""
        ...

    async def put_json(self, path: str, body: object, *, timeout: float | None = None) -> object:
        """Return the answer of a PUT."""
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...


class FlinkRestClient:
    """Talks to one JobManager.

    All methods raise :class:`FlinkRestError` and, unless they say so, nothing else but :class:`ConfigError` for a file
    of the endpoint that cannot be used.

    Belongs to one event loop; calls may overlap.

    Args:
        endpoint: The JobManager.
        transport: Carries the requests; HTTP by default.

    Attributes:
        store: What is known of the metrics that the JobManager has gathered.
    """

    def __init__(self, endpoint: Endpoint, transport: Transport | None = None) -> None:
        self.endpoint = endpoint
        self.store = MetricFetcherMonitor()
        self._transport: Transport = transport or HttpTransport(endpoint)

    async def jobs_overview(self) -> tuple[JobOverview, ...]:
        """Return all jobs that the cluster remembers, ended ones too; raises where one of them cannot be read."""
        return await self._get("/jobs/overview", decode.jobs_overview)

    async def job_listing(self) -> JobListing:
        """Return all jobs that the cluster remembers, ended ones too, and apart those whose entry cannot be read."""
        return await self._get("/jobs/overview", decode.job_listing)

    async def job_details(self, job_id: str, *, timeout: float | None = None) -> JobDetails:
        """Return graph, counters and timestamps of a job; the JobManager's copy may be 3 s old."""
        return await self._get(_job(job_id), decode.job_details, timeout=timeout)

    async def job_configuration(self, job_id: str) -> dict[str, str]:
        """Return the configuration of the job's JobManager. In a session cluster unknown jobs have it, too."""
        return await self._effective_configuration(
            await self._get(f"{_job(job_id)}/jobmanager/config", decode.configuration)
        )

    async def cluster_configuration(self) -> dict[str, str]:
        """Return the configuration of the JobManager; sensitive values are ``******``."""
        return await self._effective_configuration(await self._get("/jobmanager/config", decode.configuration))

    async def _effective_configuration(self, configuration: dict[str, str]) -> dict[str, str]:
        """Leave out what Flink 2 still reads and does not use any more: the least increase of parallelism."""
        key = FlinkOptions.min_parallelism_increase.key
        if key not in configuration:
            return configuration
        with suppress(AutoscalerError):  # of an unknown version: the cautious way is that of Flink 1
            if not (await self.flink_version()).startswith("1."):
                return {name: value for name, value in configuration.items() if name != key}
        return configuration

    async def job_user_config(self, job_id: str) -> dict[str, str]:
        """Return the global parameters of a job."""
        return await self._get(f"{_job(job_id)}/config", decode.user_configuration)

    async def hinted_options(self, job_id: str) -> tuple[Mapping[str, str], ...]:
        """Return the options that the SQL of a job gives its tables by hints, table by table."""
        return await self._get(_job(job_id), decode.hinted_options)

    async def flink_version(self) -> str:
        """Return the version of Flink, such as ``2.1.0``."""
        return await self._get("/config", decode.flink_version)

    async def vertex_metric_names(self, job_id: str, vertex_id: VertexId) -> tuple[str, ...]:
        """Return the metric ids of a vertex; empty while none is known yet, and for unknown jobs and vertices."""
        return (await self.all_vertex_metric_names(job_id, [vertex_id]))[vertex_id]

    async def all_vertex_metric_names(
        self, job_id: str, vertices: Sequence[VertexId]
    ) -> dict[VertexId, tuple[str, ...]]:
        """Return what :meth:`vertex_metric_names` does for several vertices, which are asked at the same time."""
        paths = {vertex: _vertex_metrics(job_id, vertex) for vertex in vertices}
        answers = await self._transport.get_all_json([(path, {}) for path in paths.values()]) if paths else ()
        return {
            vertex: decode_answer(answer, decode.metric_names, f"GET {self._transport.url}{path}")
            for (vertex, path), answer in zip(paths.items(), answers, strict=True)
        }

    async def vertex_metrics(self, job_id: str, vertex_id: VertexId, names: Sequence[str]) -> dict[str, Aggregate]:
        """Return metrics over all subtasks; empty when any of them has no value at the moment."""
        return (await self.all_vertex_metrics(job_id, {vertex_id: names}))[vertex_id]

    async def all_vertex_metrics(
        self, job_id: str, names: Mapping[VertexId, Sequence[str]]
    ) -> dict[VertexId, dict[str, Aggregate]]:
        """Return what :meth:`vertex_metrics` does for several vertices, which are asked at the same time.

        Args:
            job_id: Of all of them.
            names: Metric ids per vertex.
        """
        parts = [(vertex, part) for vertex, wanted in names.items() for part in _parts(wanted)]
        paths = {vertex: _vertex_metrics(job_id, vertex) for vertex in names}
        answers = await self._transport.get_all_json([(paths[vertex], {"get": part}) for vertex, part in parts])
        found: dict[VertexId, dict[str, Aggregate]] = {vertex: {} for vertex in names}
        silent = set()
        for (vertex, _), answer in zip(parts, answers, strict=True):
            values = decode_answer(answer, decode.aggregates, f"GET {self._transport.url}{paths[vertex]}")
            found[vertex] |= values
            if not values:  # as in a single answer, one name without a value empties the whole
                silent.add(vertex)
        return {vertex: {} if vertex in silent else values for vertex, values in found.items()}

    async def taskmanager_metrics(self, names: Sequence[str]) -> Readable[Aggregate]:
        """Return metrics over all TaskManagers; none when any of them has no value at the moment."""
        query = {"get": ",".join(names), "agg": "min,max,avg"}
        return await self._get("/taskmanagers/metrics", decode.readable_aggregates, params=query)

    async def jobmanager_metrics(self, names: Sequence[str]) -> Readable[str]:
        """Return metrics of the JobManager, without those that have no value."""
        return await self._get("/jobmanager/metrics", decode.readable_values, params={"get": ",".join(names)})

    async def resource_requirements(self, job_id: str) -> dict[VertexId, ParallelismBounds]:
        """Return what the adaptive scheduler was asked for, for all vertices of the job."""
        return await self._get(_requirements(job_id), decode.resource_requirements)

    async def set_resource_requirements(self, job_id: str, bounds: Mapping[VertexId, ParallelismBounds]) -> None:
        """Ask for a parallelism. Returns when the wish is accepted, long before it comes true. Never sent twice.

        Args:
            job_id: A running job of an adaptive scheduler.
            bounds: Of all vertices of the job, ``1 <= lower <= upper``: Flink stores -1 before it chokes on it.

        Raises:
            RealizeError: Bounds that are never right; nothing was sent.
            NotLeaderError: Another daemon may act now; nothing was sent.
            RefusedError: Flink did not accept it.
            FlinkRestError: No usable answer; it may have been accepted nevertheless.
        """
        for vertex_id, (lower, upper) in bounds.items():
            if not 1 <= lower <= upper:
                raise RealizeError(f"vertex {vertex_id}: a parallelism from {lower} to {upper} is not possible")
        await self._transport.put_json(_requirements(job_id), decode.encode_requirements(bounds))

    async def exceptions(self, job_id: str) -> tuple[JobException, ...]:
        """Return the exception history of a job, newest first; ended attempts too."""
        params = {"maxExceptions": str(MAX_EXCEPTIONS)}
        return await self._get(f"{_job(job_id)}/exceptions", decode_facts.exceptions, params=params)

    async def checkpoints(self, job_id: str) -> CheckpointFacts:
        """Return the latest completed checkpoint of a job. Raises RefusedError 404 where it makes none."""
        return await self._get(f"{_job(job_id)}/checkpoints", decode_facts.checkpoints)

    async def checkpoint_interval(self, job_id: str) -> int | None:
        """Return the time between checkpoints of a job, milliseconds; None when it makes none by itself."""
        return await self._get(f"{_job(job_id)}/checkpoints/config", decode_facts.decode_checkpoint_interval)

    async def taskmanagers(self) -> tuple[TaskManagerFacts, ...]:
        """Return all TaskManagers that are registered."""
        return await self._get("/taskmanagers", decode_facts.taskmanagers)

    async def restarts(self, job_id: str) -> int | None:
        """Return how often a job was restarted other than for a rescale, where Flink counts those apart."""
        return await self._get(f"{_job(job_id)}/metrics", decode_facts.restarts, params={"get": decode_facts.RESTARTS})

    async def running_since(self, job_id: str, vertex_id: VertexId) -> int | None:
        """Return since when all subtasks of a vertex run, by the clock of the JobManager; None while not all do."""
        return await self._get(f"{_job(job_id)}/vertices/{_checked_id(vertex_id)}", decode_facts.running_since)

    async def rescale_attempts(self, job_id: str) -> tuple[RescaleAttempt, ...]:
        """Return the rescale history of a job, newest first (Flink 2.3 and later; empty unless it is switched on)."""
        return await self._get(f"{_job(job_id)}/rescales/history", decode_facts.rescale_attempts)

    async def rescale_stopped(self, job_id: str, rescale_id: str) -> int | None:
        """Return when a rescale of that history stopped the execution before it; None when there was none to stop."""
        path = f"{_job(job_id)}/rescales/details/{_checked_id(rescale_id)}"
        return await self._get(path, decode_facts.rescale_stopped)

    async def aclose(self) -> None:
        """Close all connections. May be called more than once."""
        await self._transport.aclose()

    async def _get(
        self,
        path: str,
        decoder: Callable[[object], T],
        *,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> T:
        answer = await self._transport.get_json(path, params=params, timeout=timeout)
        return decode_answer(answer, decoder, f"GET {self._transport.url}{path}")


def _job(job_id: str) -> str:
    return f"/jobs/{_checked_id(job_id)}"


def _requirements(job_id: str) -> str:
    return f"{_job(job_id)}/resource-requirements"


def _vertex_metrics(job_id: str, vertex_id: VertexId) -> str:
    return f"{_job(job_id)}/vertices/{_checked_id(vertex_id)}/subtasks/metrics"


def _checked_id(text: str) -> str:
    """Let only ids into a path: they come from a remote answer and could otherwise lead to another path."""
    if _ID.fullmatch(text) is None:
        raise ResponseError(f"{text[:40]!r} is not an id, expected 32 hex digits")
    return text


def _parts(names: Sequence[str]) -> Iterator[str]:
    """Join names by commas into as few texts as fit into a URL."""
    whole = ",".join(names)
    if whole.isascii() and len(whole) * _LONGEST_QUOTED <= QUERY_LIMIT:
        yield from (whole,) if names else ()
        return
    part: list[str] = []
    length = 0
    for name in names:
        quoted = len(quote(name)) + 1
        if part and length + quoted > QUERY_LIMIT:
            yield ",".join(part)
            part, length = [], 0
        part.append(name)
        length += quoted
    if part:
        yield ",".join(part)
