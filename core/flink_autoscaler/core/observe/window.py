"""The metric window: which samples count, and rates and averages over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexId, VertexMetrics
from flink_autoscaler.core.model.numbers import INFINITY, NAN
from flink_autoscaler.core.model.quick import quick

RECORD_COUNTERS = (ScalingMetric.NUM_RECORDS_IN, ScalingMetric.NUM_RECORDS_OUT)
COUNTERS = frozenset({*RECORD_COUNTERS, ScalingMetric.ACCUMULATED_BUSY_TIME})


class MetricWindow:
    """Rates and averages over the samples of one job, each computed once.

    Args:
        samples: Oldest first; samples from before the window was stable take part like all others.
    """

    def __init__(self, samples: Sequence[MetricSample]) -> None:
        self.samples = samples
        self._rates: dict[tuple[ScalingMetric, VertexId], float] = {}
        self._vertices: dict[VertexId, list[VertexMetrics]] = {}

    def rate(self, metric: ScalingMetric, vertex_id: VertexId) -> float:
        """Return the growth per second between the first and the last known value.

        Returns:
            Records/s (or milliseconds/s of busy time); negative where a counter went back; NaN with fewer than
            two known values.
        """
        key = (metric, vertex_id)
        found = self._rates.get(key)
        if found is None:
            found = self._rates[key] = self._rate(metric, vertex_id)
        return found

    def _rate(self, metric: ScalingMetric, vertex_id: VertexId) -> float:
        first = self._first_known(self.samples, metric, vertex_id)
        last = self._first_known(reversed(self.samples), metric, vertex_id)  # type: ignore[arg-type]
        if first is None or last is None or first[0] == last[0]:
            return NAN
        return 1000.0 * (last[1] - first[1]) / max(1, last[0] - first[0])

    @staticmethod
    def _first_known(
        samples: Sequence[MetricSample], metric: ScalingMetric, vertex_id: VertexId
    ) -> tuple[int, float] | None:
        for sample in samples:
            vertex = sample.vertices.get(vertex_id)
            value = NAN if vertex is None else vertex.get(metric, NAN)
            if value == value:  # noqa: PLR0124 - NaN does not
                return sample.at_ms, value
        return None

    def average(self, metric: ScalingMetric, vertex_id: VertexId, minimum: int = 1) -> float:
        """Return the mean of the known finite values of a vertex (see :func:`mean_of`)."""
        return mean_of([vertex[metric] for vertex in self._vertex(vertex_id) if metric in vertex], minimum)

    def _vertex(self, vertex_id: VertexId) -> list[VertexMetrics]:
        """Return what the samples have of one vertex, oldest first."""
        found = self._vertices.get(vertex_id)
        if found is None:
            found = [s.vertices[vertex_id] for s in self.samples if vertex_id in s.vertices]
            self._vertices[vertex_id] = found
        return found

    def global_average(self, metric: ScalingMetric) -> float:
        """Return the mean of the known finite values of a cluster-wide metric."""
        return mean_of([s.globals_[metric] for s in self.samples if metric in s.globals_], 1)

    def latest(self, metric: ScalingMetric, vertex_id: VertexId) -> float | None:
        """Return the value of the newest sample, None where it has none."""
        vertex = self.samples[-1].vertices.get(vertex_id)
        return None if vertex is None else vertex.get(metric)


def mean_of(values: Sequence[float], minimum: int) -> float:
    """Return the mean of the finite values.

    Returns:
        NaN with fewer than ``minimum`` finite values, +infinity with no finite value but an infinite one.
    """
    total = _sum(values)
    if total - total != 0.0:  # some value is not finite: leave those out
        finite = [value for value in values if value - value == 0.0]
        if not finite and (INFINITY in values or -INFINITY in values):
            return INFINITY
        values, total = finite, _sum(finite)
    return total / len(values) if len(values) >= max(1, minimum) else NAN


def _sum(values: Sequence[float]) -> float:
    """Add from left to right; ``sum`` compensates rounding errors since Python 3.12, which changes the last digit."""
    total = 0.0
    for value in values:
        total += value
    return total


@quick
@dataclass(frozen=True, slots=True)
class WindowSettings:
    """How long samples count.

    Attributes:
        stable_at_ms: First instant whose samples make the window full.
        length_ms: Length of the window.
        keeps_edge: Keep the newest sample at or before the start of the window, so that a full window stays full
            when passes jitter.
    """

    stable_at_ms: int
    length_ms: int
    keeps_edge: bool


def full_at_ms(samples: Sequence[MetricSample], settings: WindowSettings, now_ms: int) -> int:
    """Return the instant from which the window counts as full, judged before the sample of this pass is added."""
    for sample in samples:
        if sample.at_ms >= settings.stable_at_ms:
            return sample.at_ms + settings.length_ms
    return now_ms + settings.length_ms


def trim(samples: tuple[MetricSample, ...], settings: WindowSettings, now_ms: int) -> tuple[MetricSample, ...]:
    """Drop the samples that are older than a full window."""
    start_ms = now_ms - settings.length_ms
    older = 0
    while older < len(samples) and samples[older].at_ms < start_ms:
        older += 1
    if settings.keeps_edge and older and samples[older : older + 1] and samples[older].at_ms > start_ms:
        older -= 1
    return samples[older:]
