"""What gets through a source whose partitions lag unevenly: it is sized for more than ever comes along."""

from __future__ import annotations

import math
from collections.abc import Mapping

from flink_autoscaler.core.model.metrics import EvaluatedMetric, EvaluatedVertex, FlinkMetric, ScalingMetric, VertexId
from flink_autoscaler.core.ports.passes import EvaluatedJob


def passed_on(job: EvaluatedJob) -> Mapping[VertexId, EvaluatedVertex]:
    """Return the metrics of a job in which sources have to catch up with what waits there, and no more."""
    catch_up, metrics = job.context.options.catch_up_duration.seconds, job.metrics.vertices
    if catch_up <= 0:
        return metrics
    uneven = [v for v, told in job.reading.aggregates.items() if FlinkMetric.SLOWEST_PARTITION in told and v in metrics]
    return {**metrics, **{v: _even(metrics[v], catch_up) for v in uneven}} if uneven else metrics


def _even(metrics: EvaluatedVertex, catch_up: int) -> EvaluatedVertex:
    rate, lag = metrics[ScalingMetric.CATCH_UP_DATA_RATE], metrics[ScalingMetric.LAG].current
    if not (math.isfinite(lag) and lag / catch_up < rate.current):
        return metrics
    return {**metrics, ScalingMetric.CATCH_UP_DATA_RATE: EvaluatedMetric(lag / catch_up, rate.average)}
