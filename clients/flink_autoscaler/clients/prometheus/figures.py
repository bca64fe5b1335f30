"""Answers about many jobs, sorted by job and vertex while they come, and what they come to in a reading of a job."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.clients.prometheus.questions import (
    AT,
    COUNTERS,
    FIGURE,
    JOB,
    OPERATOR,
    SUBTASKS,
    TOPIC,
    VERTEX,
    Questions,
)
from flink_autoscaler.clients.prometheus.vectors import VectorReader
from flink_autoscaler.core.errors import AutoscalerError, MissingMetricError
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, VertexId
from flink_autoscaler.core.model.reading import VertexAggregates
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, JobTopology, Vertex, VertexDetails
from flink_autoscaler.core.model.value import replace

Figures = dict[str, float]
"""Figure to value of one vertex; those of operators by ``figure operator``, topics by ``topic name``."""

_BETWEEN: Final = "},{"
_LAST: Final = '"]},{'
"""The end of a series behind which there is another one. No text of JSON has a bare quote in it."""


@dataclass(slots=True)
class JobFigures:
    """Answers about one job.

    Attributes:
        at: The instant that counters are of, by the server's clock, seconds; None where the server has no series.
        vertices: Figures of every vertex that has any.
        doubts: Why this may not be all.
        error: Why nothing is known.
    """

    at: float | None = None
    vertices: dict[VertexId, Figures] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    error: AutoscalerError | None = None

    def add(self, other: JobFigures) -> None:
        """Take what another answer has about the job."""
        if other.at is not None:
            self.at = other.at if self.at is None else min(self.at, other.at)
        for vertex_id, figures in other.vertices.items():
            self.vertices.setdefault(vertex_id, {}).update(figures)


class FigureReader(VectorReader):
    """Takes the body of an answer about jobs. The vector that it makes has no series: they are in ``found``.

    Series that look as Prometheus writes them, with the labels in alphabetical order, are found all at once by a
    pattern, which takes less than half of the time; whatever else comes is decoded one by one.

    Args:
        questions: Know what the labels are called.
        jobs: Ids of those asked about; others are left out.

    Attributes:
        found: By job.
    """

    def __init__(self, questions: Questions, jobs: Collection[str]) -> None:
        super().__init__()
        self.found: dict[str, JobFigures] = {}
        self._jobs = frozenset(jobs)
        self._names = [*map(questions.label, (JOB, VERTEX, OPERATOR, TOPIC)), FIGURE]
        in_order = sorted(self._names)
        self._places = [in_order.index(name) for name in self._names]
        self._plain = _pattern(tuple(in_order))
        self._known: dict[str, str] = {}

    def _take_plain(self, text: str, place: int) -> int:
        """Take series as Prometheus writes them, and return where the first one begins that is not taken."""
        end = text.rfind(_LAST, place) + len('"]}')
        if end <= place + len('"]}') or not text.startswith('{"metric"', place):
            return place
        part = text[place:end]
        found = self._plain.findall(part)
        if part.count(_BETWEEN) != len(found) - 1:
            return place
        self._count(len(found))
        self._take_rows(found)
        return end

    def _take_rows(self, rows: Sequence[tuple[str, ...]]) -> None:
        job, vertex, operator, topic, figure = self._places
        key, figures = ("", ""), dict[str, float]()
        for row in rows:
            try:
                value = float(row[-1])
            except ValueError:
                self._note_strange(row)
                continue
            if row[operator] or row[topic] or row[figure] == AT:
                self._sort(row[job], row[vertex], row[operator], row[topic], row[figure], value)
                continue
            if key != (key := (row[job], row[vertex])):  # series of one vertex may come one after the other
                figures = self._figures(*key)
            figures[self._known.setdefault(row[figure], row[figure])] = value

    def _figures(self, job: str, vertex: str) -> Figures:
        """Return what takes the figures of a vertex; they are forgotten where nobody asked about the job."""
        if job not in self._jobs:
            return {}
        mine = self.found.get(job)
        if mine is None:
            mine = self.found[job] = JobFigures()
        return mine.vertices.setdefault(vertex, {})

    def _take_entry(self, labels: Mapping[str, str], value: float) -> None:
        job, vertex, operator, topic, figure = (labels.get(name, "") for name in self._names)
        self._sort(job, vertex, operator, topic, figure, value)

    def _sort(self, job: str, vertex: str, operator: str, topic: str, figure: str, value: float) -> None:
        if job not in self._jobs:
            return
        mine = self.found.get(job)
        if mine is None:
            mine = self.found[job] = JobFigures()
        if figure == AT:
            at = value if math.isfinite(value) else -math.inf  # no instant: older than anything
            mine.at = at if mine.at is None else min(mine.at, at)
            return
        part = topic if figure == TOPIC else operator
        name = f"{figure} {part}" if part else figure
        self._figures(job, vertex)[self._known.setdefault(name, name)] = value


def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds series with these labels, all of them optional; the last group is the value.

    What was taken is never given back: no other way through a series could fit.
    """
    labels = ",?".join(f'(?:"{re.escape(name)}":"([^"\\\\{{}}]*+)")?+' for name in names)
    return re.compile(rf'\{{"metric":\{{{labels}\}},"value":\[[0-9.]++,"([^"\\{{}}]*+)"\]\}}')


_REQUIRED_OF_SOURCES: Final = (
    FlinkMetric.BUSY_TIME,
    FlinkMetric.BACKPRESSURE_TIME,
    FlinkMetric.SOURCE_RECORDS_IN_RATE,
    FlinkMetric.SOURCE_RECORDS_IN,
)
_OF_SOURCES: Final = {
    "source_in": FlinkMetric.SOURCE_RECORDS_IN,
    "source_out": FlinkMetric.SOURCE_RECORDS_OUT,
    "source_in_rate": FlinkMetric.SOURCE_RECORDS_IN_RATE,
}
_MOST_SHOWN: Final = 3
_UNKNOWN: Final = IoMetrics(busy_ms=math.nan, is_complete=False)
"""The counters of a vertex of which the server does not know all subtasks."""


@dataclass(frozen=True, slots=True)
class Told:
    """Result of reading the figures of a job.

    Attributes:
        details: With the counters of the server.
        aggregates: Of the vertices all of whose subtasks are there; of others it is empty.
        gaps: What is wrong with the others, one text each.
        missing: A metric that the job does not export and that is needed; None where there is none.
    """

    details: JobDetails
    aggregates: Mapping[VertexId, VertexAggregates]
    gaps: tuple[str, ...]
    missing: MissingMetricError | None


def told(details: JobDetails, topology: JobTopology, figures: JobFigures) -> Told:
    """Put the figures of a job into its details, and into metrics by their meaning.

    The counters that the details have already are of another moment and are not used.
    """
    running = {v: vertex for v, vertex in topology.vertices.items() if not vertex.is_finished}
    gaps = {v: gap for v, each in running.items() if (gap := _gap(each, figures.vertices.get(v, {})))}
    whole = {v: vertex for v, vertex in running.items() if v not in gaps}
    aggregates = {v: _aggregates(vertex, figures.vertices[v]) for v, vertex in whole.items()}
    vertices = tuple(
        replace(each, io=_counters(figures.vertices.get(each.vertex_id, {}), is_whole=each.vertex_id in whole))
        if each.vertex_id in running
        else _with(each, _UNKNOWN)
        for each in details.vertices
    )
    missing = next(_missing(whole, aggregates), None)
    return Told(
        replace(details, vertices=vertices),
        {**aggregates, **{vertex_id: {} for vertex_id in gaps}},
        tuple(gaps.values()),
        missing,
    )


def shown(gaps: tuple[str, ...]) -> str:
    """Return gaps for people: the first of them, and how many more there are."""
    more = f"; and {len(gaps) - _MOST_SHOWN} more vertices" if len(gaps) > _MOST_SHOWN else ""
    return "; ".join(gaps[:_MOST_SHOWN]) + more


def without_counters(details: JobDetails) -> JobDetails:
    """Return details whose counters, which are of another moment, are unknown."""
    return replace(details, vertices=tuple(_with(vertex, _UNKNOWN) for vertex in details.vertices))


def _with(vertex: VertexDetails, io: IoMetrics) -> VertexDetails:
    return vertex if vertex.status == "FINISHED" else replace(vertex, io=io)


def _gap(vertex: Vertex, figures: Figures) -> str:
    """Return why the figures of a vertex are not those of all its subtasks; empty where they are."""
    name, count = f"{vertex.name:.80}", figures.get(SUBTASKS, 0)
    if count < vertex.parallelism:
        return f"{name}: {count:.0f} of {vertex.parallelism} subtasks are there"
    if count > vertex.parallelism:
        return (
            f"{name}: {count:.0f} series for {vertex.parallelism} subtasks; is another cluster or replica among them?"
        )
    wrong = next((counter for counter in ("records_in", "records_out") if not _is_count(figures.get(counter))), None)
    return "" if wrong is None else f"{name}: {COUNTERS[wrong]} is {figures.get(wrong, 'missing')}"


def _is_count(value: float | None) -> bool:
    return value is not None and 0 <= value < math.inf


def _counters(figures: Figures, *, is_whole: bool) -> IoMetrics:
    if not is_whole:
        return _UNKNOWN
    idle, blocked = figures.get("idle_ms"), figures.get("backpressured_ms")
    busy = figures.get("busy_ms", math.nan)
    return IoMetrics(
        records_in=round(figures["records_in"]),
        records_out=round(figures["records_out"]),
        busy_ms=busy if busy >= 0 else math.nan,
        idle_ms=idle if _is_count(idle) else None,
        backpressured_ms=blocked if _is_count(blocked) else None,
    )


def _aggregates(vertex: Vertex, figures: Figures) -> dict[FlinkMetric, Aggregate]:
    found: dict[FlinkMetric, Aggregate] = {}
    busy = figures.get("busy_avg")
    if busy is not None:
        # The greatest of some numbers and NaN is a number, their average is not.
        known = Aggregate(figures.get("busy_min"), figures.get("busy_max"), busy, busy * vertex.parallelism)
        found[FlinkMetric.BUSY_TIME] = Aggregate() if math.isnan(busy) else known
    if not vertex.is_source:
        return found | _total(FlinkMetric.RECORDS_IN_RATE, figures.get("in_rate"))
    if (blocked := figures.get("blocked_avg")) is not None:
        found[FlinkMetric.BACKPRESSURE_TIME] = Aggregate(average=_known(blocked))
    for figure, metric in _OF_SOURCES.items():
        operators = sorted(name for name in figures if name.startswith(f"{figure} "))
        found |= _total(metric, figures[operators[0]] if operators else None)
    pending = figures.get("pending")
    if pending is not None and figures.get("pending_min", 0) < 0:
        pending = math.nan
    return found | _total(FlinkMetric.PENDING_RECORDS, pending)


def _total(metric: FlinkMetric, value: float | None) -> dict[FlinkMetric, Aggregate]:
    return {} if value is None else {metric: Aggregate(total=_known(value))}


def _known(value: float) -> float | None:
    return value if _is_count(value) else None


def _missing(
    vertices: Mapping[VertexId, Vertex], aggregates: Mapping[VertexId, VertexAggregates]
) -> Iterator[MissingMetricError]:
    for vertex_id, vertex in vertices.items():
        required = _REQUIRED_OF_SOURCES if vertex.is_source else (FlinkMetric.BUSY_TIME,)
        for metric in required:
            if metric not in aggregates[vertex_id]:
                yield MissingMetricError(vertex_id, metric.value)
