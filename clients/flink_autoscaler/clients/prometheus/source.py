"""The metric source that asks Prometheus for the metrics of all jobs at once, and Flink for nothing but the rest."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import structlog

from flink_autoscaler.clients.flink.collector import REFRESH_MS, current_memory, details_from_cache, reading_time
from flink_autoscaler.clients.flink.facts import read_with_rescale_status
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.prometheus.client import PrometheusClient, QueryResults, clock_of, query_all
from flink_autoscaler.clients.prometheus.queries import CLUSTERS, FIGURE, JOBMANAGER, TASKMANAGER, TOPIC, QueryBuilder
from flink_autoscaler.clients.prometheus.samples import (
    JobFromSeries,
    JobSamples,
    VertexSamples,
    from_series,
    gaps_text,
    without_known_counters,
)
from flink_autoscaler.core.error_boundary import ErrorBoundary, try_await
from flink_autoscaler.core.errors import AutoscalerError, ConnectError, ResponseError
from flink_autoscaler.core.log_once import LogOnce
from flink_autoscaler.core.model.job import JobStatus, PrometheusSource
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.reading import ClusterReading, CollectorMemory, JobReading, VertexAggregates
from flink_autoscaler.core.model.topology import JobDetails, build_topology
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.plausibility import active_partitions
from flink_autoscaler.core.ports.metric_source import ReadJob
from flink_autoscaler.core.ports.passes import PassRequest

log = structlog.get_logger(__name__)

METRICS: Final = "the metrics of the cluster"

ORIGIN: Final = "prometheus"
"""What readings say of values that come from here."""

_APART: Final = 2.0
"""Seconds that clocks which are set by the same servers may be apart."""

_MAX_AHEAD: Final = 60.0
"""Seconds by which the server's clock may be ahead and is taken as it is: its answer may have taken as long."""


class PrometheusMetricSource:
    """Reads jobs from a server with the HTTP API of Prometheus (a ``MetricSource``).

    Belongs to one event loop.

    Args:
        source: The server, and what series are called there.
        flink: The JobManager, for what only it knows.

    Raises:
        ConfigError: The URL is none, or a header cannot be sent.
    """

    def __init__(self, source: PrometheusSource, flink: FlinkRestClient) -> None:
        self._source = source
        self._flink = flink
        self._client = PrometheusClient(source.endpoint)
        self._questions = QueryBuilder(source)
        self._told = LogOnce()

    async def read_cluster(
        self,
        seconds: float,
        *,
        is_fresh: bool = True,  # noqa: ARG002 - the port's
        is_provable: bool = False,  # noqa: ARG002 - the port's
    ) -> ClusterReading:
        """Return cluster-wide metrics by one question; scrapes come when they come, so nothing is waited for."""
        try:
            async with asyncio.timeout(seconds):
                return await self._cluster()
        except TimeoutError:
            return _failed_reading(ConnectError(f"{self._client.url}: not asked within {seconds:.3g} s"))

    async def prepare(self, requests: Sequence[PassRequest], seconds: float) -> ReadJob:
        """Ask for the metrics of all jobs that run, and return what reads each of them."""
        running = [each for each in requests if each.context.status is JobStatus.RUNNING and each.context.job_id]
        jobs = list(dict.fromkeys(each.context.job_id or "" for each in running))
        counted = list(dict.fromkeys(each.context.job_id or "" for each in running if _wants_partitions(each)))
        gathered: QueryResults | AutoscalerError = QueryResults(0.0, {})
        try:
            async with asyncio.timeout(seconds):
                if jobs:
                    gathered = await try_await(self._gather(running, jobs, counted), ResponseError)
        except TimeoutError:
            gathered = ConnectError(f"{self._client.url}: the metrics of the jobs were not read within {seconds:.3g} s")
        reading = _Reading(self._source, self._flink, gathered, frozenset(counted), self._told)
        return reading.read_with_rescale_status

    async def _gather(
        self, running: Sequence[PassRequest], jobs: Sequence[str], counted: Sequence[str]
    ) -> QueryResults:
        """Ask for everything as it was at the instant of the pass."""
        latest = max(running, key=lambda each: each.now_ms)
        asked_ms = reading_time(latest)  # the pass may have begun long ago; an answer that takes long is no clock ahead
        ahead = _ahead(await clock_of(self._client), asked_ms)
        return await query_all(self._client, self._questions, latest.now_ms / 1000 + ahead, jobs, counted)

    async def aclose(self) -> None:
        """Close the connections to the server; those to Flink belong to others."""
        await self._client.aclose()

    async def _cluster(self) -> ClusterReading:
        answer = await try_await(self._client.query(self._questions.cluster()), ResponseError, METRICS)
        if isinstance(answer, AutoscalerError):
            return _failed_reading(answer)
        values = {labels.get(FIGURE, ""): value for labels, value in answer.series if 0 <= value < math.inf}
        if values.get(CLUSTERS, 0) > 1:
            return _failed_reading(ResponseError(f"{self._client.url} has more than one JobManager; set a selector"))
        managers = {name: Aggregate(maximum=values[each]) for each, name in TASKMANAGER.items() if each in values}
        slots = {name: f"{values[each]:.0f}" for each, name in JOBMANAGER.items() if each in values}
        problems = dict.fromkeys([METRICS] if answer.warnings else [], "; ".join(answer.warnings))
        is_whole = len(managers) == len(TASKMANAGER)
        return ClusterReading(slots, managers if is_whole else {}, {} if is_whole else managers, missing=problems)


def _ahead(clock: float, now_ms: int) -> float:
    """Return the seconds that the server's clock is ahead of that of the pass.

    Clocks that agree well enough are taken as they are, so that the instant of a scrape is the same in every pass, and
    so is one that is ahead by less than an answer may take.
    """
    ahead = clock - now_ms / 1000
    return 0.0 if -_APART <= ahead <= _MAX_AHEAD else float(round(ahead))


def _failed_reading(error: AutoscalerError) -> ClusterReading:
    return ClusterReading(error=error, missing={METRICS: str(error)})


def _wants_partitions(request: PassRequest) -> bool:
    return not 0 <= request.now_ms - request.memory.names_at_ms < REFRESH_MS


def _memory(request: PassRequest, details: JobDetails) -> CollectorMemory:
    """Return what is remembered about this execution; the partitions of its sources outlive a restart."""
    memory = current_memory(request, details)
    if request.state.job_id not in (None, request.context.job_id):
        return memory
    kept = request.memory
    return replace(memory, partitions=kept.partitions, topics=kept.topics, names_at_ms=kept.names_at_ms)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads the jobs of one pass.

    Attributes:
        gathered: What the server said about all of them, or why it said nothing.
        counted: Jobs whose partitions were asked for.
    """

    source: PrometheusSource
    flink: FlinkRestClient
    gathered: QueryResults | AutoscalerError
    counted: frozenset[str]
    log_once: LogOnce

    async def read_with_rescale_status(self, request: PassRequest) -> JobReading:
        """Read a job and, where its rescale is followed, what tells how that goes."""
        return await read_with_rescale_status(self.flink, request, self.read)

    async def read(self, flink: FlinkRestClient, request: PassRequest) -> JobReading:
        """Read a job that runs. Never raises."""
        details: JobDetails | None = None
        memory, reading = request.memory, None
        with ErrorBoundary(what=f"job {request.context.job_key}") as boundary:
            details, kept = await details_from_cache(flink, request)
            memory = replace(_memory(request, details), kept=kept)
            if isinstance(self.gathered, AutoscalerError):
                raise self.gathered
            reading = self._reading_from(request, details, memory, self.gathered)
        if reading is None:
            known = None if details is None else without_known_counters(details)
            reading = JobReading(known, memory=memory, error=boundary.error)
        self._log_problem(request, reading.doubt or ("" if reading.error is None else str(reading.error)))
        return reading

    def _reading_from(
        self, request: PassRequest, details: JobDetails, memory: CollectorMemory, gathered: QueryResults
    ) -> JobReading:
        figures = gathered.take(request.context.job_id or "")
        if figures.error is not None:
            raise figures.error
        found = from_series(details, build_topology(details), figures)
        reading = JobReading(
            found.details,
            found.aggregates,
            self._with_counting_vertices(request, details, memory, figures),
            at_ms=_at_ms(request, gathered, figures),
            doubt=self._staleness_problem(request, gathered, figures, found),
            origins={v: _from_here(tuple(aggregates)) for v, aggregates in found.aggregates.items() if aggregates},
        )
        self._log_problem(request, gaps_text(found.gaps))
        return replace(reading, error=found.missing) if found.missing is not None and not reading.doubt else reading

    def _staleness_problem(
        self, request: PassRequest, gathered: QueryResults, figures: JobSamples, found: JobFromSeries
    ) -> str:
        """Return why the metrics of a job are no sample; empty where they are one."""
        if figures.doubts:
            return f"Prometheus answered only partly: {figures.doubts[0]}"
        if figures.at is None:
            return "Prometheus has no series of the job"
        age = gathered.now - figures.at
        if not age <= self.source.max_age:
            return f"the metrics that Prometheus has of the job are {age:.0f} s old"
        if found.gaps and (not request.context.options.is_improved or not any(found.aggregates.values())):
            return f"Prometheus does not have the job as it is: {gaps_text(found.gaps)}"
        return ""

    def _with_counting_vertices(
        self, request: PassRequest, details: JobDetails, memory: CollectorMemory, figures: JobSamples
    ) -> CollectorMemory:
        if request.context.job_id not in self.counted or figures.at is None:
            return memory
        counts = {
            v: round(each["partitions"])
            for v, each in figures.vertices.items()
            if 0 < each.get("partitions", 0) < math.inf
        }
        if request.context.options.is_improved:
            parallelism = {v.vertex_id: v.parallelism for v in details.vertices}
            for v in figures.vertices.keys() & parallelism.keys():
                counts[v] = active_partitions(counts.get(v, 0), _splits(figures.vertices[v]), parallelism[v])
        prefix = f"{TOPIC} "
        topics = {
            v: tuple(sorted(name.removeprefix(prefix) for name in each if name.startswith(prefix)))
            for v, each in figures.vertices.items()
        }
        known = {v: names for v, names in topics.items() if names}
        return replace(
            memory,
            partitions={v: count for v, count in counts.items() if count},
            topics=known,
            names_at_ms=request.now_ms,
        )

    def _log_problem(self, request: PassRequest, problem: str) -> None:
        error = ResponseError(problem) if problem else None
        if self.log_once.is_news(request.context.job_key, error) and error is not None:
            log.warning("metrics_unknown", job_key=request.context.job_key, reason=problem)


def _splits(figures: VertexSamples) -> VertexAggregates:
    return {FlinkMetric.ACTIVE_SPLITS: Aggregate(average=figures.get("splits_avg"), total=figures.get("splits"))}


@cache
def _from_here(metrics: tuple[FlinkMetric, ...]) -> Mapping[FlinkMetric, str]:
    """Return that metrics come from here; one value for all vertices, of which there are many."""
    return dict.fromkeys(metrics, ORIGIN)


def _at_ms(request: PassRequest, gathered: QueryResults, figures: JobSamples) -> int | None:
    """Return the instant of the metrics by the clock of the pass: the server's own may be another."""
    if figures.at is None or not math.isfinite(figures.at):
        return None
    return request.now_ms - round(1000 * (gathered.now - figures.at))
