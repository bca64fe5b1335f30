"""The scaling metrics of all vertices of one sample in one array of doubles: a metric window is mostly these.

A dictionary per vertex takes ten times the memory, and each of them is an object that the garbage collector looks at.
Which vertices and metrics there are is the same in nearly all samples of a job: a :class:`Layout` says it once for all.
"""

from __future__ import annotations

from array import array
from collections.abc import ItemsView, Iterator, Mapping
from typing import Final
from weakref import WeakValueDictionary

from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId, VertexMetrics

Shape = tuple[tuple[VertexId, tuple[ScalingMetric, ...]], ...]
"""The metrics of every vertex, in order."""

_Places = Mapping[ScalingMetric, int]


class Layout:
    """Where the metrics of the vertices of a sample are; the same object wherever they are the same.

    Attributes:
        shape: The metrics of every vertex, in order.
        rows: Where the values of a vertex begin, and where each of its metrics is from there.
        size: Values of all vertices.
    """

    __slots__ = ("__weakref__", "rows", "shape", "size")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.rows: dict[VertexId, tuple[int, _Places]] = {}
        start = 0
        for vertex_id, metrics in shape:
            self.rows[vertex_id] = start, _places(metrics)
            start += len(metrics)
        self.size = start

    def place(self, metric: ScalingMetric, vertex_id: VertexId) -> int | None:
        """Return where a metric of a vertex is; None where there is none."""
        row = self.rows.get(vertex_id)
        if row is None:
            return None
        place = row[1].get(metric)
        return None if place is None else row[0] + place

    @staticmethod
    def of(shape: Shape) -> Layout:
        """Return the layout of a shape."""
        found = _LAYOUTS.get(shape)
        if found is None:
            found = Layout(tuple((v, tuple(_places(metrics))) for v, metrics in shape))
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
        shape, numbers = state
        self.layout = Layout.of(shape)
        self.numbers = array("d")
        self.numbers.frombytes(numbers)
