"""What the daemon tells Prometheus about clusters, jobs and vertices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.errors import NotReadyError
from flink_autoscaler.core.model.decision import Evaluation, PassPhase, Rescale
from flink_autoscaler.core.model.job import JobAutoScalerContext, JobKey
from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.standalone.history.status import HistoryMetrics, HistoryStatus
from flink_autoscaler.standalone.observability.vertex_metrics import VertexMetrics

PREFIX = "flink_autoscaler_"
NAME_LIMIT = 80
_STAGE_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
_PASS_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_JOB = ("cluster", "job_key")  # not "job": Prometheus puts its own label of that name on everything it scrapes
_VERTEX = (*_JOB, "vertex_id", "vertex_name")
_LABELS = ("yarn_application_id", "yarn_queue", "yarn_user")


class Gauges:
    """All series of the daemon, in a registry of their own.

    Series of a job exist from its first pass until it is forgotten, those of a vertex as long as it is in the job
    graph. Calls for one cluster come from one thread at a time.

    Args:
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._evaluated_at: dict[tuple[str, JobKey], float] = {}
        self._vertices: dict[tuple[str, JobKey], dict[VertexId, str]] = {}
        self._identities: dict[tuple[str, JobKey], tuple[str, ...]] = {}
        self._metrics = VertexMetrics()
        self.registry.register(self._metrics)
        self._declare_passes()
        self._declare_jobs()

    def record_pass(self, cluster: str, seconds: float, *, succeeded: bool) -> None:
        """Count one pass of a cluster."""
        self._passes.labels(cluster, "succeeded" if succeeded else "failed").inc()
        self._pass_seconds.labels(cluster).observe(seconds)
        self._up.labels(cluster).set(1 if succeeded else 0)

    def record_list(self, cluster: str, *, listed: int, unreadable: int, stuck: int, gaps: int = 0) -> None:
        """Set what the list of a cluster's jobs came to.

        Args:
            cluster: Its name.
            listed: Jobs that it has.
            unreadable: Jobs that could not be looked at.
            stuck: Those of them that are still under way from an earlier pass.
            gaps: Parts of the cluster that could not be listed.
        """
        self._jobs.labels(cluster, "listed").set(listed)
        self._jobs.labels(cluster, "unreadable").set(unreadable)
        self._jobs.labels(cluster, "stuck").set(stuck)
        self._gaps.labels(cluster).set(gaps)

    def record_overrun(self, cluster: str) -> None:
        """Count a pass that was due while the one before it was still running."""
        self._overruns.labels(cluster).inc()

    def record_fallback(self) -> None:
        """Count a pass that was meant for Spark and ran in this process."""
        self._fallbacks.inc()

    def follow_store(self, is_up: Callable[[], bool]) -> None:
        """Show whether the state store works, at every scrape."""
        gauge = self._gauge("store_up", "Whether the state store works; without it nothing is scaled.", ())
        gauge.set_function(is_up)

    def follow_set_aside(self, count: Callable[[], int]) -> None:
        """Show how many stored values could not be read and were kept aside, at every scrape."""
        gauge = self._gauge("values_set_aside", "Stored values that could not be read and were kept aside.", ())
        gauge.set_function(count)

    def follow_leadership(self, is_leader: Callable[[], bool]) -> None:
        """Show whether this daemon is the one that acts, at every scrape."""
        gauge = self._gauge("leader", "Whether this daemon leads; the others of its group stand by.", ())
        gauge.set_function(is_leader)

    def follow_history(self, status: Callable[[], HistoryStatus | None]) -> None:
        """Show how the keeping of the history goes, at every scrape."""
        self.registry.register(HistoryMetrics(status))

    def record_identity(self, context: JobAutoScalerContext) -> None:
        """Show who a job is at present: its id, and its YARN application where it has one."""
        job = (context.cluster, context.job_key)
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
        self._remove((self._errors, self._scalings, self._balanced, self._age), labels)
        for vertex in self._vertices.pop(labels, {}).items():
            self._forget_vertex(labels, vertex)
        identity = self._identities.pop(labels, None)
        if identity is not None:
            self._remove((self._info,), (*labels, *identity))
        self._evaluated_at.pop(labels, None)
        self._metrics.forget(*labels)

    def forget_cluster(self, cluster: str) -> None:
        """Remove all series of a cluster that is not looked after any more."""
        passes = (
            self._up,
            self._passes,
            self._overruns,
            self._jobs,
            self._gaps,
            self._pass_seconds,
            self._stage_seconds,
        )
        jobs = (self._errors, self._scalings, self._balanced, self._age, self._info, self._current, self._recommended)
        for family in (*passes, *jobs):
            family.remove_by_labels({"cluster": cluster})
        # Other threads add jobs of other clusters meanwhile.
        known = {*self._evaluated_at.copy(), *self._vertices.copy(), *self._identities.copy()}
        for job in known:
            if job[0] == cluster:
                self.forget_job(*job)

    def render(self) -> bytes:
        """Return all series in the text format of Prometheus."""
        return generate_latest(self.registry)

    def _declare_passes(self) -> None:
        cluster = ("cluster",)
        self._up = self._gauge("cluster_up", "Whether the last pass could list the jobs and look at them.", cluster)
        self._passes = self._counter("passes", "Passes over a cluster.", ("cluster", "result"))
        self._overruns = self._counter("pass_overruns", "Passes left out: the one before was still running.", cluster)
        self._fallbacks = self._counter("spark_fallbacks", "Passes meant for Spark that ran in the daemon.", ())
        self._jobs = self._gauge("jobs", "Jobs of a cluster: listed, unreadable, stuck.", ("cluster", "kind"))
        self._gaps = self._gauge("list_gaps", "Parts of a cluster that could not be listed.", cluster)
        self._pass_seconds = Histogram(
            PREFIX + "pass_seconds", "Duration of a pass.", cluster, registry=self.registry, buckets=_PASS_BUCKETS
        )
        self._stage_seconds = Histogram(
            PREFIX + "stage_seconds",
            "Duration of a stage of one job's pass.",
            ("cluster", "stage"),
            registry=self.registry,
            buckets=_STAGE_BUCKETS,
        )

    def _declare_jobs(self) -> None:
        self._errors = self._counter("job_errors", "Errors of a job's passes.", _JOB)
        self._scalings = self._counter("job_scalings", "Decisions to rescale.", _JOB)
        self._balanced = self._counter("job_balanced", "Decisions that the job is fine as it is.", _JOB)
        self._age = self._gauge("job_last_evaluation_age_seconds", "Time since the metrics were last evaluated.", _JOB)
        self._info = self._gauge("job_info", "Who a job is; always 1.", (*_JOB, "job_id", *_LABELS))
        self._current = self._gauge("vertex_parallelism", "Parallelism.", _VERTEX)
        self._recommended = self._gauge("vertex_recommended_parallelism", "Parallelism advised.", _VERTEX)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(PREFIX + name, text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(PREFIX + name, text, labels, registry=self.registry)

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
