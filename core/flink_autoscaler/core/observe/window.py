"""The metric window: which samples count, and rates and averages over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import add, attrgetter, itemgetter
from typing import Final

from flink_autoscaler.core.last import keeping_last
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import INFINITY, NAN
from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.observe.vertex_table import VertexTable

RECORD_COUNTERS = (ScalingMetric.NUM_RECORDS_IN, ScalingMetric.NUM_RECORDS_OUT)
COUNTERS = frozenset({*RECORD_COUNTERS, ScalingMetric.ACCUMULATED_BUSY_TIME})


class Columns:
    """The samples of a window metric by metric.

    Args:
        samples: Oldest first.

    Attributes:
        instants: Of the samples, epoch milliseconds.
    """

    __slots__ = ("_runs", "instants")

    def __init__(self, samples: Sequence[MetricSample]) -> None:
        self.instants = [sample.at_ms for sample in samples]
        tables = [VertexTable.of(sample.vertices) for sample in samples]
        by_layout = groupby(tables, _LAYOUT)
        self._runs = [(layout, [table.numbers for table in run]) for layout, run in by_layout]

    def column(self, metric: ScalingMetric, vertex_id: VertexId) -> list[float]:
        """Return the values of a metric, one per sample, NaN where there is none."""
        values: list[float] = []
        for layout, rows in self._runs:
            place = layout.place(metric, vertex_id)
            values += [NAN] * len(rows) if place is None else map(itemgetter(place), rows)
        return values

    def ends(self, metric: ScalingMetric, vertex_id: VertexId) -> tuple[float, float] | None:
        """Return the first and the last value of a metric; None where not all samples tell the same metrics."""
        if len(self._runs) != 1:
            return None
        layout, rows = self._runs[0]
        place = layout.place(metric, vertex_id)
        return None if place is None else (rows[0][place], rows[-1][place])

    def latest(self, metric: ScalingMetric, vertex_id: VertexId) -> float | None:
        """Return the value of the newest sample, None where it has none."""
        if not self._runs:
            return None
        layout, rows = self._runs[-1]
        place = layout.place(metric, vertex_id)
        return None if place is None else rows[-1][place]


_LAYOUT: Final = attrgetter("layout")


class MetricWindow:
    """Rates and averages over the samples of one job, each computed once.

    Args:
        samples: Oldest first; samples from before the window was stable take part like all others.
    """

    def __init__(self, samples: Sequence[MetricSample]) -> None:
        self.samples = samples
        self._rates: dict[tuple[ScalingMetric, VertexId], float] = {}
        self._averages: dict[tuple[ScalingMetric, VertexId, int], float] = {}
        self._columns = Columns(samples)

    def values(self, metric: ScalingMetric, vertex_id: VertexId) -> list[float]:
        """Return the values of a metric of a vertex, one per sample, NaN where there is none."""
        return self._columns.column(metric, vertex_id)

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
        instants, ends = self._columns.instants, self._columns.ends(metric, vertex_id)
        if ends is not None:
            growth = ends[1] - ends[0]
            if growth == growth:  # noqa: PLR0124 - both are known
                return _per_second(growth, instants[-1] - instants[0])
        values = self._columns.column(metric, vertex_id)
        known = [number for number, value in enumerate(values) if value == value]  # noqa: PLR0124 - NaN is not
        if not known:
            return NAN
        first, last = known[0], known[-1]
        return _per_second(values[last] - values[first], instants[last] - instants[first])

    def average(self, metric: ScalingMetric, vertex_id: VertexId, minimum: int = 1) -> float:
        """Return the mean of the known finite values of a vertex (see :func:`mean_of`)."""
        key = (metric, vertex_id, minimum)
        found = self._averages.get(key)
        if found is None:
            found = self._averages[key] = mean_of(self._columns.column(metric, vertex_id), minimum)
        return found

    def latest(self, metric: ScalingMetric, vertex_id: VertexId) -> float | None:
        """Return the value of the newest sample, None where it has none."""
        return self._columns.latest(metric, vertex_id)


@keeping_last
def window_of(samples: Sequence[MetricSample]) -> MetricWindow:
    """Return the window of some samples; the stages of a pass look at the same one."""
    return MetricWindow(samples)


def _per_second(growth: float, passed_ms: int) -> float:
    return 1000.0 * growth / max(1, passed_ms) if passed_ms else NAN


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
    return reduce(add, values, 0.0)


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
