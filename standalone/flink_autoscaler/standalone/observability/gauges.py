"""Prometheus metrics of the daemon about clusters, jobs and vertices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.observability.job_series import MAX_JOBS, PREFIX, JobMetricsCollector
from flink_autoscaler.standalone.observability.status_series import StatusMetrics, StatusSeries
from flink_autoscaler.standalone.observability.vertex_series import MAX_VERTICES, VertexMetrics

Family = TypeVar("Family", bound=MetricWrapperBase)

NO_ENGINE: Final = "none"
"""Label of passes that had no job to read."""

GAUGES: Final = {
    "loop_up": "Whether schedules are kept; what /healthz says.",
    "store_up": "Whether the state store works; without it nothing is scaled.",
    "leader": "Whether this daemon leads; the others of its group stand by.",
    "values_quarantined": "Stored values that could not be read and were kept aside.",
    "spark_up": "Whether passes meant for Spark run there; not a number where there are none.",
}
"""Gauges that are asked for at every scrape."""

_STAGE_BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
_PASS_BUCKETS: Final = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_CLUSTER: Final = ("cluster",)


class _Registry(CollectorRegistry):
    """Remembers what is registered, in that order."""

    def __init__(self) -> None:
        super().__init__()
        self.collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        """Add a collector."""
        super().register(collector)
        self.collectors.append(collector)


class _SingleFamily(Collector):
    """The series of one name."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        """Return them."""
        yield self._family


class Gauges:
    """All series of the daemon, in a registry of their own.

    Series of a job exist from its first pass until it is forgotten, those of a vertex as long as it is in the job
    graph. Calls for one cluster come from one thread at a time.

    Args:
        clock: Seconds that never go back.
        max_jobs: Jobs with series of their own; those that come later have none.
        max_vertices: The same for vertices.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        max_jobs: int = MAX_JOBS,
        max_vertices: int = MAX_VERTICES,
    ) -> None:
        self.registry = _Registry()
        self._of_clusters: list[MetricWrapperBase] = []
        self._metrics = VertexMetrics(max_vertices)
        self.registry.register(self._metrics)
        self._series = JobMetricsCollector(ticks=clock, max_jobs=max_jobs)
        self.registry.register(self._series)
        ProcessCollector(namespace=PREFIX.rstrip("_"), registry=self.registry)
        self._declare_passes()

    def record_pass(self, cluster: str, seconds: float, *, succeeded: bool, engine: str = NO_ENGINE) -> None:
        """Count one pass of a cluster, by the engine that evaluated its jobs."""
        self._passes.labels(cluster, "succeeded" if succeeded else "failed", engine).inc()
        self._pass_seconds.labels(cluster).observe(seconds)
        self._overruns.labels(
            cluster
        )  # there from the first pass on: an increase from nothing to 1 is none to Prometheus
        self._up.labels(cluster).set(1 if succeeded else 0)

    def record_list(self, cluster: str, *, listed: int, unreadable: int, stuck: int, gaps: int = 0) -> None:
        """Set how many jobs a cluster has, could not be looked at, and are still under way from an earlier pass.

        ``gaps`` counts the parts of the cluster that could not be listed.
        """
        for kind, count in {"listed": listed, "unreadable": unreadable, "stuck": stuck}.items():
            self._jobs.labels(cluster, kind).set(count)
        self._gaps.labels(cluster).set(gaps)

    def record_overrun(self, cluster: str) -> None:
        """Count a pass that was due while the one before it was still running."""
        self._overruns.labels(cluster).inc()

    def record_fallback(self) -> None:
        """Count a pass that was meant for Spark and ran in this process."""
        self._fallbacks.inc()

    def register_gauge(self, name: str, value: Callable[[], float]) -> None:
        """Show a value at every scrape, under one of the names in :data:`GAUGES`."""
        Gauge(PREFIX + name, GAUGES[name], registry=self.registry).set_function(value)

    def set_ha_group(self, name: str) -> None:
        """Show of which group of daemons this one is; one that is alone is of none."""
        text = "The group of daemons of which one leads; always 1."
        Gauge(PREFIX + "ha_info", text, ("ha_group",), registry=self.registry).labels(name).set(1)

    def register_status(self, series: StatusSeries, status: Callable[[], object]) -> None:
        """Show the fields of a status at every scrape, see :class:`StatusMetrics`."""
        self.registry.register(StatusMetrics(series, status))

    def record_identity(self, context: JobAutoScalerContext) -> None:
        """Show who a job is at present: its id, its YARN application where it has one, and its acceptable lag."""
        self._series.identify(context)

    def record_job(self, cluster: str, report: JobPassReport) -> None:
        """Take what one pass found out about one job."""
        outcome, job = report.outcome, (cluster, report.job_key)
        self._series.record(cluster, report)
        for stage, seconds in outcome.seconds.items():
            self._stage_seconds.labels(cluster, stage).observe(seconds)
        if outcome.observation.topology is not None:
            self._metrics.put_graph(*job, outcome.observation.topology)
        if outcome.metrics is not None:
            self._metrics.put_evaluation(*job, outcome.metrics)
        elif outcome.phase is PassPhase.NOT_RUNNING:
            self._metrics.hide(*job)

    def forget_job(self, cluster: str, job_key: JobKey) -> None:
        """Remove the series of a job that is gone."""
        self._series.forget(cluster, job_key)
        self._metrics.forget(cluster, job_key)

    def forget_jobs(self, cluster: str) -> None:
        """Remove the series of all jobs of a cluster: another daemon tells about them."""
        for job_key in self._series.job_keys(cluster) | self._metrics.job_keys(cluster):
            self.forget_job(cluster, job_key)

    def forget_cluster(self, cluster: str) -> None:
        """Remove all series of a cluster that is not managed any more."""
        for family in self._of_clusters:
            family.remove_by_labels({"cluster": cluster})
        self.forget_jobs(cluster)

    def texts(self) -> Iterator[bytes]:
        """Write all series in the text format of Prometheus, name by name."""
        for text in self._metrics.texts():
            yield text.encode()
        for collector in list(self.registry.collectors):
            if collector is not self._metrics:
                yield from (generate_latest(_SingleFamily(family)) for family in collector.collect())

    def _declare_passes(self) -> None:
        self._up = self._gauge("cluster_up", "Whether the last pass could list the jobs and look at them.", _CLUSTER)
        self._passes = self._counter("passes", "Passes over a cluster.", ("cluster", "result", "engine"))
        self._overruns = self._counter("pass_overruns", "Passes left out: the one before was still running.", _CLUSTER)
        self._fallbacks = Counter(
            PREFIX + "spark_fallbacks", "Passes meant for Spark that ran in the daemon.", registry=self.registry
        )
        self._jobs = self._gauge("jobs", "Jobs of a cluster: listed, unreadable, stuck.", ("cluster", "kind"))
        self._gaps = self._gauge("list_gaps", "Parts of a cluster that could not be listed.", _CLUSTER)
        self._pass_seconds = self._histogram("pass_seconds", "Duration of a pass.", _CLUSTER, _PASS_BUCKETS)
        self._stage_seconds = self._histogram(
            "stage_seconds", "Duration of a stage of one job's pass.", ("cluster", "stage"), _STAGE_BUCKETS
        )

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return self._of_cluster(Gauge(PREFIX + name, text, labels, registry=self.registry))

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return self._of_cluster(Counter(PREFIX + name, text, labels, registry=self.registry))

    def _histogram(self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
        return self._of_cluster(Histogram(PREFIX + name, text, labels, registry=self.registry, buckets=buckets))

    def _of_cluster(self, family: Family) -> Family:
        self._of_clusters.append(family)
        return family
