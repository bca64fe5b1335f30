"""The metric window: the samples of a job in arrays, which of them count, and rates, averages and waits over them.

A window is mostly the scaling metrics of vertices. A dictionary per vertex takes ten times the memory of an array of
doubles per sample, and each of them is an object that the garbage collector looks at. Which vertices and metrics there
are is the same in nearly all samples of a job: a :class:`Layout` says it once for all.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import add, attrgetter, itemgetter
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from flink_autoscaler.core.memoize import memoize_last
from flink_autoscaler.core.model.metrics import MetricSample, NonBusyTime, ScalingMetric, VertexId, VertexMetrics
from flink_autoscaler.core.model.numbers import INFINITY, NAN
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.core.model.value import value

Shape = tuple[tuple[VertexId, tuple[ScalingMetric, ...]], ...]
"""The metrics of every vertex, in order."""

_Places = Mapping[ScalingMetric, int]


class Layout:
    """Where the metrics of the vertices of a sample are; the same object wherever they are the same.

    Attributes:
        shape: The metrics of every vertex, in order.
        rows: Where the values of a vertex begin, and where each of its metrics is from there.
    """

    __slots__ = ("__weakref__", "rows", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.rows: dict[VertexId, tuple[int, _Places]] = {}
        start = 0
        for vertex_id, metrics in shape:
            self.rows[vertex_id] = start, _places(metrics)
            start += len(metrics)

    @staticmethod
    def of(shape: Shape) -> Layout:
        """Return the layout of a shape."""
        found = _LAYOUTS.get(shape)
        if found is None:
            found = Layout(tuple((v, tuple(_places(metrics))) for v, metrics in shape))
            # Under its own shape: the one that was asked with would live as long as the layout.
            _LAYOUTS[found.shape] = found
        return found


_LAYOUTS: Final[WeakValueDictionary[Shape, Layout]] = WeakValueDictionary()
"""Those that some sample has."""

_KNOWN_PLACES: Final[dict[tuple[ScalingMetric, ...], _Places]] = {}
"""Few: vertices of all jobs have one of some sets of metrics."""


def _places(metrics: tuple[ScalingMetric, ...]) -> _Places:
    found = _KNOWN_PLACES.get(metrics)
    return found or _KNOWN_PLACES.setdefault(metrics, {metric: place for place, metric in enumerate(metrics)})


class VertexRow(Mapping[ScalingMetric, float]):
    """The metrics of one vertex, as a view of the array of its sample. Equal values are equal, and so are NaNs."""

    __slots__ = ("_places", "_start", "_values")

    def __init__(self, values: array[float], start: int, places: _Places) -> None:
        self._values = values
        self._start = start
        self._places = places

    def __getitem__(self, metric: ScalingMetric) -> float:
        return self._values[self._start + self._places[metric]]

    def __iter__(self) -> Iterator[ScalingMetric]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, metric: object) -> bool:
        return metric in self._places

    def items(self) -> ItemsView[ScalingMetric, float]:
        """Return metrics and values."""
        numbers = self._values[self._start : self._start + len(self._places)]
        return dict(zip(self._places, numbers, strict=True)).items()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return len(self) == len(other) and all(
            metric in other and _is_same(value, other[metric]) for metric, value in self.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(dict(self.items()))


def _is_same(value: float, other: object) -> bool:
    return value == other or (value != value and other != other)  # noqa: PLR0124 - both are NaN


class VertexTable(Mapping[VertexId, VertexMetrics]):
    """The metrics of all vertices of a sample. Nothing in it changes.

    Attributes:
        layout: Where they are.
        numbers: All of them, vertex by vertex.
    """

    __slots__ = ("layout", "numbers")

    def __init__(self, layout: Layout, numbers: array[float]) -> None:
        self.layout = layout
        self.numbers = numbers

    @classmethod
    def of(cls, vertices: Mapping[VertexId, VertexMetrics]) -> VertexTable:
        """Make a table of a map per vertex; a table stays the same object."""
        if isinstance(vertices, cls):
            return vertices
        numbers = array("d")
        for metrics in vertices.values():
            numbers.extend(metrics.values())
        return cls(Layout.of(tuple([(v, tuple(metrics)) for v, metrics in vertices.items()])), numbers)

    def __getitem__(self, vertex_id: VertexId) -> VertexRow:
        start, places = self.layout.rows[vertex_id]
        return VertexRow(self.numbers, start, places)

    def __iter__(self) -> Iterator[VertexId]:
        return iter(self.layout.rows)

    def __len__(self) -> int:
        return len(self.layout.rows)

    def __contains__(self, vertex_id: object) -> bool:
        return vertex_id in self.layout.rows

    def __eq__(self, other: object) -> bool:
        if isinstance(other, VertexTable) and self.layout is other.layout and self.numbers == other.numbers:
            return True
        if not isinstance(other, Mapping):
            return NotImplemented
        return len(self) == len(other) and all(v in other and row == other[v] for v, row in self.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr({v: dict(row.items()) for v, row in self.items()})

    def __getstate__(self) -> tuple[Shape, bytes]:
        return self.layout.shape, self.numbers.tobytes()

    def __setstate__(self, state: tuple[Shape, bytes]) -> None:
        # Layouts are compared by identity: what comes from another process finds the one of this process.
        shape, numbers = state
        self.layout = Layout.of(shape)
        self.numbers = array("d")
        self.numbers.frombytes(numbers)


RECORD_COUNTERS = (ScalingMetric.NUM_RECORDS_IN, ScalingMetric.NUM_RECORDS_OUT)
COUNTERS = frozenset({*RECORD_COUNTERS, ScalingMetric.ACCUMULATED_BUSY_TIME})


class MetricWindow:
    """Rates and averages over the samples of one job, each computed once.

    Args:
        samples: Oldest first; samples from before the window was stable take part like all others.

    Attributes:
        instants: Of the samples, epoch milliseconds.
    """

    __slots__ = ("_averages", "_rates", "_runs", "instants", "samples")

    def __init__(self, samples: Sequence[MetricSample]) -> None:
        self.samples = samples
        self.instants = list(map(_INSTANT, samples))
        # A stage of the pass asks for the same rate that another one has asked for.
        self._rates: dict[tuple[ScalingMetric, VertexId], float] = {}
        self._averages: dict[tuple[ScalingMetric, VertexId, int], float] = {}
        # Samples with the same vertices and metrics follow each other: their arrays are read at the same place.
        tables = [table if type(table := each.vertices) is VertexTable else VertexTable.of(table) for each in samples]
        by_layout = groupby(tables, _LAYOUT)
        self._runs = [(layout.rows, list(map(_NUMBERS, run))) for layout, run in by_layout]

    def values(self, metric: ScalingMetric, vertex_id: VertexId) -> list[float]:
        """Return the values of a metric of a vertex, one per sample, NaN where there is none."""
        values: list[float] = []
        # One look-up for all samples of a run: their arrays are laid out alike.
        for places, arrays in self._runs:
            start, offsets = places.get(vertex_id, _NOWHERE)
            known = metric in offsets
            values += map(itemgetter(start + offsets[metric]), arrays) if known else [NAN] * len(arrays)
        return values

    def rate(self, metric: ScalingMetric, vertex_id: VertexId) -> float:
        """Return the growth per second between the first and the last known value.

        Returns:
            Records/s (or milliseconds/s of busy time); negative where a counter went back; NaN with fewer than
            two known values.
        """
        key = (metric, vertex_id)
        found = self._rates.get(key)
        if found is not None:
            return found
        instants, growth, passed_ms = self.instants, NAN, 0
        if len(self._runs) == 1:  # mostly all samples tell the same, and the first and the last value are known
            places, arrays = self._runs[0]
            start, offsets = places.get(vertex_id, _NOWHERE)
            if metric in offsets:
                place = start + offsets[metric]
                growth, passed_ms = arrays[-1][place] - arrays[0][place], instants[-1] - instants[0]
        if growth != growth:  # noqa: PLR0124 - it is NaN
            values = self.values(metric, vertex_id)
            known = [number for number, value in enumerate(values) if value == value]  # noqa: PLR0124 - NaN is not
            if known:
                first, last = known[0], known[-1]
                growth, passed_ms = values[last] - values[first], instants[last] - instants[first]
        rate = self._rates[key] = 1000.0 * growth / max(1, passed_ms) if passed_ms else NAN
        return rate

    def average(self, metric: ScalingMetric, vertex_id: VertexId, minimum: int = 1) -> float:
        """Return the mean of the known finite values of a vertex (see :func:`mean_of`)."""
        key = (metric, vertex_id, minimum)
        found = self._averages.get(key)
        if found is None:
            found = self._averages[key] = mean_of(self.values(metric, vertex_id), minimum)
        return found

    def latest(self, metric: ScalingMetric, vertex_id: VertexId) -> float | None:
        """Return the value of the newest sample, None where it has none."""
        if not self._runs:
            return None
        places, arrays = self._runs[-1]
        start, offsets = places.get(vertex_id, _NOWHERE)
        return arrays[-1][start + offsets[metric]] if metric in offsets else None


_INSTANT: Final = attrgetter("at_ms")
_LAYOUT: Final = attrgetter("layout")
_NUMBERS: Final = attrgetter("numbers")
_NOWHERE: Final[tuple[int, _Places]] = (0, {})


@memoize_last
def window_of(samples: Sequence[MetricSample]) -> MetricWindow:
    """Return the window of some samples; the stages of a pass look at the same one."""
    return MetricWindow(samples)


def mean_of(values: Sequence[float], minimum: int) -> float:
    """Return the mean of the finite values.

    Returns:
        NaN with fewer than ``minimum`` finite values, +infinity with no finite value but an infinite one.
    """
    # From left to right; ``sum`` compensates rounding errors since Python 3.12, which changes the last digit.
    total = reduce(add, values, 0.0)
    if total - total != 0.0:  # some value is not finite: leave those out
        finite = [value for value in values if value - value == 0.0]
        if not finite and (INFINITY in values or -INFINITY in values):
            return INFINITY
        values, total = finite, reduce(add, finite, 0.0)
    return total / len(values) if len(values) >= max(1, minimum) else NAN


@value
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
    # The first stable sample begins the window, even where later ones are missing: passes may be far apart.
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
    # Without the one before the edge a pass that is a second late would find the window no longer full.
    if settings.keeps_edge and older and samples[older : older + 1] and samples[older].at_ms > start_ms:
        older -= 1
    return samples[older:]


class NonBusyShares(NamedTuple):
    """Shares of time of the average subtask, 0..1; the rest of the time it is busy."""

    idle: float
    backpressured: float


def non_busy_times(vertices: Iterable[Vertex]) -> dict[VertexId, NonBusyTime]:
    """Return how long vertices waited, of those that run and whose subtasks all have reported it."""
    times = {}
    for vertex in vertices:
        idle_ms, held_ms = vertex.io.idle_ms, vertex.io.backpressured_ms
        if vertex.is_finished or not vertex.io.is_complete or idle_ms is None or held_ms is None:
            continue
        if math.isfinite(idle_ms) and math.isfinite(held_ms):
            times[vertex.vertex_id] = NonBusyTime(idle_ms, held_ms)
    return times


def non_busy_shares(window: MetricWindow, vertex_id: VertexId, working: float = 1.0) -> NonBusyShares | None:
    """Return how a vertex spent the metric window.

    The three times come from the same reports, so their sum is the time that passed, however late the reports are.

    Args:
        window: Of one execution of the job.
        vertex_id: Whose.
        working: Share of its subtasks that have anything to do; the others are idle all the time and left out.

    Returns:
        None until two samples of one attempt of all subtasks tell, as after a restart.
    """
    first, last, first_busy_ms, last_busy_ms = None, None, 0.0, 0.0
    busy_times = window.values(ScalingMetric.ACCUMULATED_BUSY_TIME, vertex_id)
    for sample, busy_ms in zip(window.samples, busy_times, strict=True):
        time = sample.waited.get(vertex_id)
        if time is not None and math.isfinite(busy_ms):
            # No wait goes back within one attempt; busy time may by some milliseconds, since it is a rest.
            if first is None or last is None or time[0] < last[0] or time[1] < last[1]:
                first, first_busy_ms = time, busy_ms
            last, last_busy_ms = time, busy_ms
    if first is None or last is None:
        return None
    idle, backpressured = max(0.0, last[0] - first[0]), max(0.0, last[1] - first[1])
    busy = max(0.0, last_busy_ms - first_busy_ms)
    total = idle + backpressured + busy
    idle, total = max(0.0, idle - total * (1.0 - working)), total * working
    return NonBusyShares(idle / total, backpressured / total) if 0 < total < math.inf else None
