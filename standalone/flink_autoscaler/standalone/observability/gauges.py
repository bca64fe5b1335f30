"""What the daemon tells Prometheus about clusters, jobs and vertices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.errors import ConfigError, NotReadyError
from flink_autoscaler.core.model.decision import Evaluation, PassPhase, Rescale
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, EvaluatedVertex, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.history.status import HistoryMetrics, HistoryStatus
from flink_autoscaler.standalone.observability.job_series import JobSeries

Family = TypeVar("Family", bound=MetricWrapperBase)

PREFIX: Final = "flink_autoscaler_"
NO_ENGINE: Final = "none"
"""Label of passes that had no job to read."""

NAME_LIMIT: Final = 80
MAX_VERTICES: Final = 20_000
"""Vertices whose metrics are shown; beyond it, those of further jobs are left out and counted."""

WITH_AVERAGE: Final = {
    ScalingMetric.LOAD: "Share of its time that the vertex is busy.",
    ScalingMetric.TRUE_PROCESSING_RATE: "Records/s that the vertex could process if always busy.",
    ScalingMetric.TARGET_DATA_RATE: "Records/s that the vertex has to sustain.",
}
CURRENT_ONLY: Final = {
    ScalingMetric.CATCH_UP_DATA_RATE: "Further records/s to drain the backlog in time.",
    ScalingMetric.LAG: "Records waiting at a source.",
    ScalingMetric.MAX_PARALLELISM: "Greatest parallelism, the number of key groups.",
    ScalingMetric.NUM_SOURCE_PARTITIONS: "Partitions of a source; 0 when unknown.",
    ScalingMetric.SCALE_UP_RATE_THRESHOLD: "Processing rate in records/s below which a scale-up is due.",
    ScalingMetric.SCALE_DOWN_RATE_THRESHOLD: "Processing rate in records/s above which a scale-down is due.",
    ScalingMetric.EXPECTED_PROCESSING_RATE: "Processing rate in records/s expected at the recommended parallelism.",
}
FOLLOWED: Final = {
    "loop_up": "Whether schedules are kept; what /healthz says.",
    "store_up": "Whether the state store works; without it nothing is scaled.",
    "leader": "Whether this daemon leads; the others of its group stand by.",
    "values_set_aside": "Stored values that could not be read and were kept aside.",
    "spark_up": "Whether passes meant for Spark run there; not a number where there are none.",
}
"""Gauges that are asked for at every scrape."""

_STAGE_BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
_PASS_BUCKETS: Final = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_CLUSTER: Final = ("cluster",)
_JOB: Final = (*_CLUSTER, "job_key")  # not "job": Prometheus puts its own label of that name on all that it scrapes
_VERTEX: Final = (*_JOB, "vertex_id", "vertex_name")
_LABELS: Final = ("yarn_application_id", "yarn_queue", "yarn_user")


class VertexMetrics(Collector):
    """Keeps the latest evaluation of every job and writes it as gauges when Prometheus asks.

    So a large fleet costs nothing in a pass.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._evaluations: dict[tuple[str, JobKey], tuple[dict[VertexId, str], EvaluatedMetrics]] = {}

    def put(self, cluster: str, job_key: JobKey, names: dict[VertexId, str], metrics: EvaluatedMetrics) -> None:
        """Replace the metrics of a job; the names of the vertices to show are short enough for a label."""
        with self._lock:
            self._evaluations[cluster, job_key] = names, metrics

    def forget(self, cluster: str, job_key: JobKey) -> None:
        """Show nothing more of a job: it is gone, or it does not run."""
        with self._lock:
            self._evaluations.pop((cluster, job_key), None)

    def describe(self) -> list[GaugeMetricFamily]:
        """Declare the gauges without values."""
        return [_family(metric) for metric in (*WITH_AVERAGE, *CURRENT_ONLY)]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Write all gauges: metrics over the window show their average, the others their latest value."""
        with self._lock:
            shown, left_out = self._within_limit()
        for metric in (*WITH_AVERAGE, *CURRENT_ONLY):
            family = _family(metric)
            for labels, vertex in shown:
                if (value := vertex.get(metric)) is not None:
                    family.add_metric(labels, value.average if metric in WITH_AVERAGE else value.current)
            yield family
        name = PREFIX + "vertex_metrics_left_out"
        yield GaugeMetricFamily(name, "Vertices beyond the limit of this page.", value=left_out)

    def _within_limit(self) -> tuple[list[tuple[list[str], EvaluatedVertex]], int]:
        shown: list[tuple[list[str], EvaluatedVertex]] = []
        total = 0
        for job, (names, metrics) in self._evaluations.items():
            total += len(names)
            if total <= MAX_VERTICES:
                shown += [([*job, *vertex], metrics.vertices.get(vertex[0], {})) for vertex in names.items()]
        return shown, total - len(shown)


def _family(metric: ScalingMetric) -> GaugeMetricFamily:
    text = WITH_AVERAGE.get(metric) or CURRENT_ONLY[metric]
    return GaugeMetricFamily(f"{PREFIX}vertex_{metric.lower()}", text, labels=_VERTEX)


class Gauges:
    """All series of the daemon, in a registry of their own.

    Series of a job exist from its first pass until it is forgotten, those of a vertex as long as it is in the job
    graph. Calls for one cluster come from one thread at a time.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._evaluated_at: dict[tuple[str, JobKey], float] = {}
        self._vertices: dict[tuple[str, JobKey], dict[VertexId, str]] = {}
        self._identities: dict[tuple[str, JobKey], tuple[str, ...]] = {}
        self._of_clusters: list[MetricWrapperBase] = []
        self._metrics = VertexMetrics()
        self.registry.register(self._metrics)
        self._series = JobSeries()
        self.registry.register(self._series)
        ProcessCollector(namespace=PREFIX.rstrip("_"), registry=self.registry)
        self._declare_passes()
        self._declare_jobs()

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

    def follow(self, name: str, value: Callable[[], float]) -> None:
        """Show a value at every scrape, under one of the names in :data:`FOLLOWED`."""
        Gauge(PREFIX + name, FOLLOWED[name], registry=self.registry).set_function(value)

    def join_group(self, name: str) -> None:
        """Show of which group of daemons this one is; one that is alone is of none."""
        text = "The group of daemons of which one leads; always 1."
        Gauge(PREFIX + "ha_info", text, ("ha_group",), registry=self.registry).labels(name).set(1)

    def follow_history(self, status: Callable[[], HistoryStatus | None]) -> None:
        """Show how the keeping of the history goes, at every scrape."""
        self.registry.register(HistoryMetrics(status))

    def record_identity(self, context: JobAutoScalerContext) -> None:
        """Show who a job is at present: its id, its YARN application where it has one, and its acceptable lag."""
        job = (context.cluster, context.job_key)
        self._record_lag_limit(job, context)
        texts = (context.job_id or "", *(context.labels.get(name, "")[:NAME_LIMIT] for name in _LABELS))
        before = self._identities.get(job)
        if before == texts:
            return
        self._identities[job] = texts
        if before is not None:
            self._remove((self._info,), (*job, *before))
        self._info.labels(*job, *texts).set(1)

    def record_job(self, cluster: str, report: JobPassReport) -> None:
        """Take what one pass found out about one job."""
        outcome = report.outcome
        job = (cluster, report.job_key)
        self._series.put(cluster, report)
        self._errors.labels(*job).inc(sum(not isinstance(error, NotReadyError) for error in report.errors))
        is_decided, is_rescale = outcome.phase is PassPhase.EXECUTED, isinstance(outcome.decision, Rescale)
        self._scalings.labels(*job).inc(is_decided and is_rescale)
        self._balanced.labels(*job).inc(is_decided and not is_rescale)
        for stage, seconds in outcome.seconds.items():
            self._stage_seconds.labels(cluster, stage).observe(seconds)
        if outcome.topology is not None:
            self._record_graph(job, outcome.topology)
        if outcome.evaluation is not None:
            self._record_evaluation(job, outcome.evaluation)
        elif outcome.phase is PassPhase.NOT_RUNNING:
            self._metrics.forget(*job)

    def forget_job(self, cluster: str, job_key: JobKey) -> None:
        """Remove the series of a job that is gone."""
        labels = (cluster, job_key)
        self._series.forget(*labels)
        self._remove((self._errors, self._scalings, self._balanced, self._age, self._lag_limit), labels)
        for vertex in self._vertices.pop(labels, {}).items():
            self._forget_vertex(labels, vertex)
        identity = self._identities.pop(labels, None)
        if identity is not None:
            self._remove((self._info,), (*labels, *identity))
        self._evaluated_at.pop(labels, None)
        self._metrics.forget(*labels)

    def forget_jobs(self, cluster: str) -> None:
        """Remove the series of all jobs of a cluster: another daemon tells about them."""
        # Other threads add jobs of other clusters meanwhile.
        known = {*self._evaluated_at.copy(), *self._vertices.copy(), *self._identities.copy()}
        job_keys = {job_key for name, job_key in known if name == cluster}
        for job_key in job_keys | self._series.job_keys(cluster):
            self.forget_job(cluster, job_key)

    def forget_cluster(self, cluster: str) -> None:
        """Remove all series of a cluster that is not looked after any more."""
        for family in self._of_clusters:
            family.remove_by_labels({"cluster": cluster})
        self.forget_jobs(cluster)

    def render(self) -> bytes:
        """Return all series in the text format of Prometheus."""
        return generate_latest(self.registry)

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

    def _declare_jobs(self) -> None:
        self._errors = self._counter("job_errors", "Errors of a job's passes.", _JOB)
        self._scalings = self._counter("job_scalings", "Decisions to rescale.", _JOB)
        self._balanced = self._counter("job_balanced", "Decisions that the job is fine as it is.", _JOB)
        self._age = self._gauge("job_last_evaluation_age_seconds", "Time since the metrics were last evaluated.", _JOB)
        self._info = self._gauge("job_info", "Who a job is; always 1.", (*_JOB, "job_id", *_LABELS))
        self._lag_limit = self._gauge("job_lag_limit_seconds", "Lag above which the job counts as late: slo.lag.", _JOB)
        self._current = self._gauge("vertex_parallelism", "Parallelism.", _VERTEX)
        self._recommended = self._gauge("vertex_recommended_parallelism", "Parallelism advised.", _VERTEX)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return self._of_cluster(Gauge(PREFIX + name, text, labels, registry=self.registry))

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return self._of_cluster(Counter(PREFIX + name, text, labels, registry=self.registry))

    def _histogram(self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
        return self._of_cluster(Histogram(PREFIX + name, text, labels, registry=self.registry, buckets=buckets))

    def _of_cluster(self, family: Family) -> Family:
        self._of_clusters.append(family)
        return family

    def _record_lag_limit(self, job: tuple[str, JobKey], context: JobAutoScalerContext) -> None:
        try:
            self._lag_limit.labels(*job).set(context.options.slo_lag.exact_seconds)
        except ConfigError:  # said elsewhere: the job is not looked after with such an option
            self._remove((self._lag_limit,), job)

    def _record_graph(self, job: tuple[str, JobKey], topology: JobTopology) -> None:
        present = {vertex_id: vertex.name[:NAME_LIMIT] for vertex_id, vertex in topology.vertices.items()}
        for gone in self._vertices.get(job, {}).items() - present.items():
            self._forget_vertex(job, gone)
        self._vertices[job] = present
        for vertex_id, name in present.items():
            self._current.labels(*job, vertex_id, name).set(topology.vertices[vertex_id].parallelism)

    def _record_evaluation(self, job: tuple[str, JobKey], evaluation: Evaluation) -> None:
        if job not in self._evaluated_at:
            self._age.labels(*job).set_function(lambda: self._clock() - self._evaluated_at.get(job, self._clock()))
        self._evaluated_at[job] = self._clock()
        self._metrics.put(*job, self._vertices.get(job, {}), evaluation.metrics)
        for vertex_id, name in self._vertices.get(job, {}).items():
            metric = evaluation.metrics.vertices.get(vertex_id, {}).get(ScalingMetric.RECOMMENDED_PARALLELISM)
            self._recommended.labels(*job, vertex_id, name).set(metric.current if metric else NAN)

    def _forget_vertex(self, job: tuple[str, JobKey], vertex: tuple[VertexId, str]) -> None:
        self._remove((self._current, self._recommended), (*job, *vertex))

    @staticmethod
    def _remove(families: Iterable[MetricWrapperBase], labels: tuple[str, ...]) -> None:
        for family in families:
            try:
                family.remove(*labels)
            except KeyError:  # never set: the job was not evaluated
                continue
