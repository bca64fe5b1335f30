"""The evaluated metrics of every vertex, for Prometheus.

They are written when Prometheus asks, from the latest evaluation, so that a large fleet costs nothing in a pass.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, EvaluatedVertex, ScalingMetric, VertexId

PREFIX: Final = "flink_autoscaler_vertex_"
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


@dataclass(frozen=True, slots=True)
class _Evaluated:
    names: dict[VertexId, str]
    metrics: EvaluatedMetrics


class VertexMetrics(Collector):
    """Keeps the latest evaluation of every job and writes it as gauges."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._evaluations: dict[tuple[str, JobKey], _Evaluated] = {}

    def put(self, cluster: str, job_key: JobKey, names: dict[VertexId, str], metrics: EvaluatedMetrics) -> None:
        """Replace the metrics of a job.

        Args:
            cluster: Its cluster.
            job_key: The job.
            names: Names of the vertices to show, short enough for a label.
            metrics: Their evaluated metrics.
        """
        with self._lock:
            self._evaluations[cluster, job_key] = _Evaluated(names, metrics)

    def forget(self, cluster: str, job_key: JobKey) -> None:
        """Show nothing more of a job: it is gone, or it does not run."""
        with self._lock:
            self._evaluations.pop((cluster, job_key), None)

    def describe(self) -> list[GaugeMetricFamily]:
        """Declare the gauges without values."""
        return [_family(metric) for metric in (*WITH_AVERAGE, *CURRENT_ONLY)]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Write all gauges."""
        with self._lock:
            shown, left_out = self._within_limit()
        for metric in (*WITH_AVERAGE, *CURRENT_ONLY):
            family = _family(metric)
            for labels, vertex in shown:
                _add(family, labels, vertex, metric)
            yield family
        yield GaugeMetricFamily(PREFIX + "metrics_left_out", "Vertices beyond the limit of this page.", value=left_out)

    def _within_limit(self) -> tuple[list[tuple[list[str], EvaluatedVertex]], int]:
        shown: list[tuple[list[str], EvaluatedVertex]] = []
        total = 0
        for (cluster, job_key), evaluated in self._evaluations.items():
            total += len(evaluated.names)
            if total <= MAX_VERTICES:
                shown += [
                    ([cluster, job_key, vertex_id, name], evaluated.metrics.vertices.get(vertex_id, {}))
                    for vertex_id, name in evaluated.names.items()
                ]
        return shown, total - len(shown)


def _family(metric: ScalingMetric) -> GaugeMetricFamily:
    labels = ["cluster", "job_key", "vertex_id", "vertex_name"]
    text = WITH_AVERAGE.get(metric) or CURRENT_ONLY[metric]
    return GaugeMetricFamily(PREFIX + metric.lower(), text, labels=labels)


def _add(family: GaugeMetricFamily, labels: list[str], vertex: EvaluatedVertex, metric: ScalingMetric) -> None:
    """Add one value; metrics over the window show their average, the others their latest value."""
    evaluated = vertex.get(metric)
    if evaluated is not None:
        family.add_metric(labels, evaluated.average if metric in WITH_AVERAGE else evaluated.current)
