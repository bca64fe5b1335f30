"""Prometheus series of vertices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.standalone.observability.job_series import NAME_LIMIT, PREFIX

T = TypeVar("T")

MAX_VERTICES: Final = 20_000
"""Vertices that are shown; beyond it, those of further jobs are left out and counted."""

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
_VERTEX: Final = ("cluster", "job_key", "vertex_id", "vertex_name")
_NOTHING: Final = EvaluatedMetrics({}, {})
_number: Final = cast("Callable[[float], str]", floatToGoString)
"""Writes a number as Prometheus reads it."""


@dataclass(slots=True)
class _Vertices:
    """Series of the vertices of one job.

    Attributes:
        parallelism: By id and name, for a label; of the last graph.
        evaluated: Ids and names of those that were there when metrics were evaluated last.
        metrics: Of that evaluation.
        is_shown: Whether they are still true: the job has run since.
    """

    parallelism: Mapping[tuple[VertexId, str], int] = field(default_factory=dict)
    evaluated: Mapping[VertexId, str] = field(default_factory=dict)
    metrics: EvaluatedMetrics = _NOTHING
    is_shown: bool = False

    def __len__(self) -> int:
        return max(len(self.parallelism), len(self.evaluated))


class VertexMetrics(Collector):
    """Keeps the latest graph and evaluation of every job and writes them as gauges when Prometheus asks.

    So a large fleet costs nothing in a pass. Thread-safe.

    Args:
        most_vertices: Vertices that are shown.
    """

    def __init__(self, most_vertices: int = MAX_VERTICES) -> None:
        self._most_vertices = most_vertices
        self._lock = threading.Lock()
        self._jobs: dict[tuple[str, JobKey], _Vertices] = {}

    def put_graph(self, cluster: str, job_key: JobKey, topology: JobTopology) -> None:
        """Replace the graph of a job."""
        parallelism = {(v, vertex.name[:NAME_LIMIT]): vertex.parallelism for v, vertex in topology.vertices.items()}
        with self._lock:
            job = self._jobs.setdefault((cluster, job_key), _Vertices())
            job.parallelism = parallelism
            if job.evaluated.items() != parallelism.keys():
                job.evaluated = {v: name for v, name in job.evaluated.items() if (v, name) in parallelism}

    def put(self, cluster: str, job_key: JobKey, names: Mapping[VertexId, str], metrics: EvaluatedMetrics) -> None:
        """Replace the metrics of a job; the names of the vertices to show are short enough for a label."""
        with self._lock:
            job = self._jobs.setdefault((cluster, job_key), _Vertices())
            job.evaluated, job.metrics, job.is_shown = names, metrics, True

    def put_evaluation(self, cluster: str, job_key: JobKey, metrics: EvaluatedMetrics) -> None:
        """Replace the metrics of a job whose graph is known."""
        with self._lock:
            job = self._jobs.setdefault((cluster, job_key), _Vertices())
            job.evaluated, job.metrics, job.is_shown = dict(job.parallelism.keys()), metrics, True

    def hide(self, cluster: str, job_key: JobKey) -> None:
        """Show no metrics of a job any more: it does not run."""
        with self._lock:
            if (cluster, job_key) in self._jobs:
                self._jobs[cluster, job_key].is_shown = False

    def forget(self, cluster: str, job_key: JobKey) -> None:
        """Show nothing more of a job: it is gone."""
        with self._lock:
            self._jobs.pop((cluster, job_key), None)

    def job_keys(self, cluster: str) -> set[JobKey]:
        """Return the jobs of a cluster that are known."""
        with self._lock:
            return {job_key for name, job_key in self._jobs if name == cluster}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Write all gauges: metrics over the window show their average, the others their latest value."""
        for family, values in self._series(lambda *labels: labels):
            for labels, value in values:
                family.add_metric(labels, value)
            yield family

    def texts(self) -> Iterator[str]:
        """Write all gauges in the text format of Prometheus, name by name.

        The library would take five times as long. There may be a hundred thousand of them: passes wait only until they
        are found, and no more than those of one name are held as text.
        """
        for family, values in self._series(_labels):
            head = f"# HELP {family.name} {family.documentation}\n# TYPE {family.name} gauge\n"
            yield head + "".join([f"{family.name}{labels} {_number(value)}\n" for labels, value in values])

    def _series(self, labels: Callable[..., T]) -> Iterator[tuple[GaugeMetricFamily, list[tuple[T, float]]]]:
        """Yield every gauge with its labels, written as asked, and its values."""
        with self._lock:
            jobs, left_out = self._within_limit()
            current: list[tuple[T, float]] = [
                (labels(*job, *vertex), parallelism)
                for job, vertices in jobs.items()
                for vertex, parallelism in vertices.parallelism.items()
            ]
            evaluated = [
                (labels(*job, *vertex), vertices.metrics.vertices.get(vertex[0], {}), vertices.is_shown)
                for job, vertices in jobs.items()
                for vertex in vertices.evaluated.items()
            ]
        current_family, advised_family = _size_families()
        yield current_family, current
        advised = ((written, vertex.get(ScalingMetric.RECOMMENDED_PARALLELISM)) for written, vertex, _ in evaluated)
        yield advised_family, [(written, metric.current if metric else NAN) for written, metric in advised]
        for metric in (*WITH_AVERAGE, *CURRENT_ONLY):
            place = 1 if metric in WITH_AVERAGE else 0
            known = [
                (written, vertex[metric][place])
                for written, vertex, is_shown in evaluated
                if is_shown and metric in vertex
            ]
            yield _family(metric), known
        text = "Vertices beyond the limit of this page."
        yield GaugeMetricFamily(f"{PREFIX}vertex_metrics_left_out", text, labels=()), [(labels(), left_out)]

    def _within_limit(self) -> tuple[dict[tuple[str, JobKey], _Vertices], int]:
        shown, total, left_out = {}, 0, 0
        for job, vertices in self._jobs.items():
            total += len(vertices)
            if total <= self._most_vertices:
                shown[job] = vertices
            else:
                left_out += len(vertices)
        return shown, left_out


def _size_families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    current = GaugeMetricFamily(f"{PREFIX}vertex_parallelism", "Parallelism.", labels=_VERTEX)
    return current, GaugeMetricFamily(f"{PREFIX}vertex_recommended_parallelism", "Parallelism advised.", labels=_VERTEX)


def _labels(*values: str) -> str:
    """Write the labels of a vertex; their names are in alphabetical order."""
    if not values:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(_VERTEX, values, strict=True)) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _family(metric: ScalingMetric) -> GaugeMetricFamily:
    text = WITH_AVERAGE.get(metric) or CURRENT_ONLY[metric]
    return GaugeMetricFamily(f"{PREFIX}vertex_{metric.lower()}", text, labels=_VERTEX)
