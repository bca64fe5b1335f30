"""Answers about many jobs, sorted by job and vertex while they come, so that no list of their series is ever held."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.clients.prometheus.questions import AT, FIGURE, JOB, OPERATOR, TOPIC, VERTEX, Questions
from flink_autoscaler.clients.prometheus.vectors import VectorReader
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.metrics import VertexId

Figures = dict[str, float]
"""Figure to value of one vertex; those of operators by ``figure operator``, topics by ``topic name``."""

_BETWEEN: Final = "},{"
_LAST: Final = '"]},{'
"""The end of a series behind which there is another one. No text of JSON has a bare quote in it."""


@dataclass(slots=True)
class JobFigures:
    """What was answered about one job.

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
