"""What Flink reports of an execution that it has not measured for long enough: values to be taken for unknown.

A task is *busy* for all the time in which it is neither without input nor held up. Both are measured every five
seconds, and are zero before: a task that has just been started, and one that restores its state, say that they are
busy all the time. Rates are those of the last 60 s, divided by 60 s also where the task is younger: a source that began
10 s ago reports a sixth of its rate (``TaskIOMetricGroup``, ``TimerGauge`` and ``MeterView`` of Flink 1.18 to 2.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, VertexId
from flink_autoscaler.core.model.numbers import INFINITY
from flink_autoscaler.core.model.reading import VertexAggregates
from flink_autoscaler.core.model.topology import JobDetails, VertexDetails

SHARES_AFTER_MS: Final = 10_000
"""Age from which shares of time are measured: two intervals of Flink's, since the first one begins anywhere."""

RATES_AFTER_MS: Final = 60_000
"""Age from which rates are those of a whole minute."""

_SINCE: Final[Mapping[FlinkMetric, int]] = {
    FlinkMetric.BUSY_TIME: SHARES_AFTER_MS,
    FlinkMetric.BACKPRESSURE_TIME: SHARES_AFTER_MS,
    FlinkMetric.SOURCE_RECORDS_IN_RATE: RATES_AFTER_MS,
    FlinkMetric.SOURCE_RECORDS_OUT_RATE: RATES_AFTER_MS,
    FlinkMetric.RECORDS_IN_RATE: RATES_AFTER_MS,
}
_UNKNOWN: Final = Aggregate()


def ages_of(details: JobDetails, now_ms: int, passed_ms: int = 0) -> dict[VertexId, float]:
    """Return for how many milliseconds the tasks of each vertex had run when they were measured.

    None while one of them is not running yet.

    Clocks that contradict each other tell nothing, which counts as long enough.

    Args:
        details: Of a job that runs.
        now_ms: The instant of the pass, for a JobManager that does not tell the time.
        passed_ms: For how long what Flink answers with had been gathered by then.
    """
    now_ms = now_ms if details.now_ms is None else details.now_ms
    running_at_ms = details.running_at_ms or 0
    return {
        vertex.vertex_id: _age(vertex, now_ms - max(running_at_ms, vertex.start_ms), passed_ms)
        for vertex in details.vertices
    }


def _age(vertex: VertexDetails, age_ms: int, passed_ms: int) -> float:
    if not vertex.is_settled:
        return 0.0
    return max(0, age_ms - passed_ms) if age_ms >= 0 else INFINITY


def measured_by(age_ms: float, answers: VertexAggregates) -> VertexAggregates:
    """Return the metrics of a vertex of an age; those that Flink cannot have measured by then are unknown."""
    if age_ms >= RATES_AFTER_MS:
        return answers
    return {metric: _UNKNOWN if age_ms < _SINCE.get(metric, 0) else aggregate for metric, aggregate in answers.items()}
