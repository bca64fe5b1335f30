"""The data source: as Spark sees it, and asking a cluster for the rows of a table."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import structlog
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from flink_autoscaler.clients.flink.decode import JobOverview, UnreadableJob
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread, run_all
from flink_autoscaler.core.errors import ConfigError, FlinkRestError, JobGoneError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import Aggregate
from flink_autoscaler.core.model.topology import JobDetails, VertexDetails
from flink_autoscaler.pipeline.data_source.read_options import ReadOptions, parse_options
from flink_autoscaler.pipeline.data_source.tables import JOBS, METRICS, TABLES

_log = structlog.get_logger(__name__)

JOBS_AT_ONCE: Final = 16
"""Jobs whose rows are gathered together: bounds memory, and gives Spark its first rows early."""

Row = dict[str, Any]
Accepted = Mapping[str, frozenset[str]]
"""By column the values that it may have; other columns may have any."""

NAME: Final = "flink_metrics"
_CONDITIONS: Final = frozenset({"cluster", "job_id", "job_name", "metric"})
"""Columns whose conditions save requests or rows."""


@dataclass
class ClusterShare(InputPartition):
    """One task's share of a cluster: the jobs whose ids fall on its index. Holds no credentials."""

    cluster: str
    index: int


def read_share(choices: ReadOptions, share: ClusterShare, accepted: Accepted) -> Iterator[pa.RecordBatch]:
    """Give the rows of a share.

    Raises:
        FlinkRestError: The cluster does not answer as documented, unless that is to be skipped. A job that goes
            meanwhile has no rows.
        ConfigError: A file for TLS or Kerberos cannot be used.
    """
    loop = EventLoopThread("flink-metrics")
    reading = _Reading(choices, share, accepted, FlinkRestClient(choices.clusters[share.cluster]))
    try:
        jobs = loop.run(reading.jobs())
        if unreadable := reading.unreadable_rows():
            yield pa.RecordBatch.from_pylist(unreadable, TABLES[choices.table].schema)
        for start in range(0, len(jobs), JOBS_AT_ONCE):
            rows = loop.run(reading.rows(jobs[start : start + JOBS_AT_ONCE]))
            if rows:
                yield pa.RecordBatch.from_pylist(rows, TABLES[choices.table].schema)
    except FlinkRestError as error:
        if not choices.skips_unreachable:
            raise FlinkRestError(f"cluster {share.cluster}: {error}") from error
    finally:
        loop.run(reading.client.aclose())
        loop.close()


class _Reading:
    """One share being read."""

    def __init__(self, choices: ReadOptions, share: ClusterShare, accepted: Accepted, client: FlinkRestClient) -> None:
        self._choices = choices
        self._share = share
        self._accepted = accepted
        self.client = client
        self.unreadable: list[UnreadableJob] = []
        self._observed_us = time.time_ns() // 1_000

    async def jobs(self) -> list[JobOverview]:
        if not self._accepts("cluster", self._share.cluster):
            return []
        listing = await self.client.job_listing()
        self.unreadable = [job for job in listing.unreadable if self._may_be_wanted(job)]
        return [job for job in listing.jobs if self._is_wanted(job)]

    def unreadable_rows(self) -> list[Row]:
        """Return the rows of jobs whose entry cannot be read; where the table has none for them, they are told."""
        if self._choices.table == JOBS.name:
            return [self._unreadable_row(job) for job in self.unreadable]
        for job in self.unreadable:
            _log.warning("job_skipped", cluster=self._share.cluster, job_id=job.job_id, error=str(job.error))
        return []

    async def rows(self, jobs: Sequence[JobOverview]) -> list[Row]:
        if self._choices.table == JOBS.name:
            return [self._job_row(job) for job in jobs]
        found = await run_all({job.job_id: self._rows_of(job) for job in jobs})
        return [row for rows in found.values() for row in rows]

    def _is_wanted(self, job: JobOverview) -> bool:
        wanted = self._choices.jobs
        return (
            int(job.job_id[:8], 16) % self._choices.partitions == self._share.index
            and (not wanted or not wanted.isdisjoint((job.job_id, job.name)))
            and self._accepts("job_id", job.job_id)
            and self._accepts("job_name", job.name)
            and (self._choices.table == JOBS.name or not JobStatus.of(job.state).is_terminal)
        )

    def _may_be_wanted(self, job: UnreadableJob) -> bool:
        """Tell whether a job of which little is known belongs to the share; without an id it is the first one's."""
        wanted = self._choices.jobs
        index = 0 if job.job_id is None else int(job.job_id[:8], 16) % self._choices.partitions
        is_known = job.job_id is not None and job.name is not None
        return (
            index == self._share.index
            and (not wanted or not is_known or not wanted.isdisjoint((job.job_id, job.name)))
            and self._accepts("job_id", job.job_id or "")
            and self._accepts("job_name", job.name or "")
        )

    def _accepts(self, column: str, value: str) -> bool:
        return column not in self._accepted or value in self._accepted[column]

    def _job_row(self, job: JobOverview) -> Row:
        return {
            **self._about(job),
            "state": job.state,
            "job_type": job.job_type,
            "scheduler_type": job.scheduler_type,
            "tasks_total": job.tasks.get("total"),
            "tasks_running": job.tasks.get("running"),
            "started_at": _instant(job.start_ms),
            "ended_at": _instant(job.end_ms),
        }

    def _unreadable_row(self, job: UnreadableJob) -> Row:
        return {
            "cluster": self._share.cluster,
            "job_id": job.job_id,
            "job_name": job.name,
            "error": str(job.error),
            "observed_at": self._observed_us,
        }

    def _about(self, job: JobOverview) -> Row:
        return {
            "cluster": self._share.cluster,
            "job_id": job.job_id,
            "job_name": job.name,
            "observed_at": self._observed_us,
        }

    async def _rows_of(self, job: JobOverview) -> list[Row]:
        try:
            details = await self.client.job_details(job.job_id)
            if self._choices.table != METRICS.name:
                return [self._vertex_row(job, details, vertex) for vertex in details.vertices]
            found = await run_all({v.vertex_id: self._metrics(job, v) for v in details.vertices})
        except JobGoneError:
            return []
        return [
            {**self._about_vertex(job, vertex), "metric": metric, **_numbers(value)}
            for vertex in details.vertices
            for metric, value in found[vertex.vertex_id].items()
        ]

    def _about_vertex(self, job: JobOverview, vertex: VertexDetails) -> Row:
        return {**self._about(job), "vertex_id": vertex.vertex_id, "vertex_name": vertex.name}

    def _vertex_row(self, job: JobOverview, details: JobDetails, vertex: VertexDetails) -> Row:
        io = vertex.io
        inputs = [edge for node in details.plan if node.vertex_id == vertex.vertex_id for edge in node.inputs]
        return {
            **self._about_vertex(job, vertex),
            "status": vertex.status,
            "parallelism": vertex.parallelism,
            "max_parallelism": vertex.max_parallelism if vertex.max_parallelism > 0 else None,
            "slot_sharing_group": vertex.slot_sharing_group,
            "inputs": [{"vertex_id": upstream, "ship_strategy": str(strategy)} for upstream, strategy in inputs],
            "records_in": io.records_in if io.is_complete else None,
            "records_out": io.records_out if io.is_complete else None,
            "busy_ms": _known(io.busy_ms),
        }

    async def _metrics(self, job: JobOverview, vertex: VertexDetails) -> dict[str, Aggregate]:
        names = await self.client.vertex_metric_names(job.job_id, vertex.vertex_id)
        wanted = self._choices.metrics
        chosen = [name for name in names if (not wanted or name in wanted) and self._accepts("metric", name)]
        return {name: value async for name, value in self._values(job, vertex, sorted(chosen))}

    async def _values(
        self, job: JobOverview, vertex: VertexDetails, names: Sequence[str]
    ) -> AsyncIterator[tuple[str, Aggregate]]:
        """Give metrics that have a value. One without empties a whole answer, so it is looked for in halves."""
        found = await self.client.vertex_metrics(job.job_id, vertex.vertex_id, names) if names else {}
        for item in found.items():
            yield item
        if not found and len(names) > 1:
            middle = len(names) // 2
            for half in (names[:middle], names[middle:]):
                async for item in self._values(job, vertex, half):
                    yield item


def _numbers(value: Aggregate) -> Row:
    return {name: _known(number) for name, number in value._asdict().items()}


def _known(number: float | None) -> float | None:
    return None if number is None or math.isnan(number) else number


def _instant(milliseconds: int) -> int | None:
    """Return an instant as Arrow counts it, in microseconds; Flink's 0 and -1 mean never."""
    return milliseconds * 1000 if milliseconds > 0 else None


class FlinkMetrics(DataSource):
    """Live jobs, vertices and metrics of Flink clusters; ``choices.OPTIONS`` lists the options.

    Nothing is asked while a query is planned, so that its tasks see the state of the instant in which they run.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the chosen table.

        Raises:
            ConfigError: An option cannot be used.
        """
        return from_arrow_schema(TABLES[parse_options(self.options).table].schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader.

        Raises:
            ConfigError: An option cannot be used, or somebody gave another schema.
        """
        choices = parse_options(self.options)
        if schema.names != self.schema().names:
            raise ConfigError(f"{NAME}: the table {choices.table!r} has a schema of its own, so none can be given")
        return FilteringReader(choices) if choices.pushes_down else MetricsReader(choices)


class MetricsReader(DataSourceReader):
    """Reads a table, one task per cluster and share of its jobs."""

    def __init__(self, choices: ReadOptions) -> None:
        self._choices = choices

    def partitions(self) -> Sequence[InputPartition]:
        """Return the shares."""
        return [ClusterShare(name, index) for name in self._clusters() for index in range(self._choices.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Ask the cluster.

        Raises:
            AutoscalerError: It does not answer as documented, and that is not to be skipped.
        """
        assert isinstance(partition, ClusterShare)  # noqa: S101 - as made above
        yield from read_share(self._choices, partition, self._accepts())

    def _clusters(self) -> Iterable[str]:
        return self._choices.clusters

    def _accepts(self) -> dict[str, frozenset[str]]:
        """Return the values that columns may have, without those that may have any."""
        return {}


class FilteringReader(MetricsReader):
    """Also takes conditions from Spark. Apart, because Spark refuses such readers unless that is switched on."""

    def __init__(self, choices: ReadOptions) -> None:
        super().__init__(choices)
        self._conditions: dict[str, frozenset[str]] = {}

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:  # noqa: N802 - Spark's
        """Take conditions that compare one column with texts; return the others, which Spark evaluates itself."""
        for condition in filters:
            column, values = _condition(condition)
            if column in _CONDITIONS and values is not None:
                self._conditions[column] = self._conditions.get(column, values) & values
            else:
                yield condition

    def partitions(self) -> Sequence[InputPartition]:
        """Return the shares that may have rows, at least one."""
        return super().partitions() or [ClusterShare(next(iter(self._choices.clusters)), 0)]

    def _clusters(self) -> Iterable[str]:
        allowed = self._conditions.get("cluster")
        return [name for name in self._choices.clusters if allowed is None or name in allowed]

    def _accepts(self) -> dict[str, frozenset[str]]:
        return self._conditions


def _condition(condition: datasource.Filter) -> tuple[str, frozenset[str] | None]:
    """Return the column of a condition and the values that it allows; None where it is of another kind."""
    match condition:
        case datasource.EqualTo(attribute=(column,), value=str(value)):
            return column, frozenset({value})
        case datasource.In(attribute=(column,), value=values) if all(isinstance(value, str) for value in values):
            return column, frozenset(values)
        case _:
            return "", None
