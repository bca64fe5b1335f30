"""The numbers behind events, as rows beside the table of events, which is the Java process's as well."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection, delete, func, insert, inspect, select

from flink_autoscaler.core.model.events import Figures, ScalingReport, VertexReport
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.numbers import NAN, finite
from flink_autoscaler.stores.sql.tables import EVENT_FIGURES, SCALINGS

NAME_LENGTH: Final = 100
"""Characters of the name of a figure."""


@dataclass(frozen=True, slots=True)
class EventFigures:
    """The numbers of one event.

    Attributes:
        figures: Numbers by name; None where one is not known or is infinite.
        vertices: The vertices of a scaling report by id, NaN where a rate is not known or is infinite.
        is_executed: Whether a scaling report is carried out; None for other events.
    """

    figures: Mapping[str, float | None] = field(default_factory=dict)
    vertices: Mapping[VertexId, VertexReport] = field(default_factory=dict)
    is_executed: bool | None = None


NO_FIGURES: Final = EventFigures()


def put_figures(connection: Connection, event_id: int, figures: Figures) -> None:
    """Write the figures of an event instead of those that it has."""
    connection.execute(delete(EVENT_FIGURES).where(EVENT_FIGURES.c.event_id == event_id))
    rows = [{"event_id": event_id, "name": name[:NAME_LENGTH], "value": finite(value)} for name, value in figures]
    if rows:
        connection.execute(insert(EVENT_FIGURES), rows)


def put_vertices(connection: Connection, event_id: int, job_key: JobKey, report: ScalingReport, at_ms: int) -> None:
    """Write the vertices of a scaling report instead of those that its event has."""
    connection.execute(delete(SCALINGS).where(SCALINGS.c.event_id == event_id))
    shared = {"event_id": event_id, "job_key": job_key, "at_ms": at_ms, "is_executed": int(report.is_executed)}
    rows = [{**shared, "vertex_id": vertex_id, **_row(vertex)} for vertex_id, vertex in report.vertices.items()]
    if rows:
        connection.execute(insert(SCALINGS), rows)


def figures_of(connection: Connection, event_ids: Sequence[int]) -> Mapping[int, EventFigures]:
    """Return the numbers of some events, of those that have any; none in a schema that is older than they are."""
    if not event_ids or not inspect(connection).has_table(SCALINGS.name):
        return {}
    figures, vertices, executed = defaultdict[int, dict[str, float | None]](dict), _vertices(), dict[int, bool]()
    for row in connection.execute(select(EVENT_FIGURES).where(EVENT_FIGURES.c.event_id.in_(event_ids))):
        figures[row.event_id][row.name] = row.value
    found = select(SCALINGS).where(SCALINGS.c.event_id.in_(event_ids)).order_by(SCALINGS.c.vertex_name)
    for row in connection.execute(found):
        executed[row.event_id] = bool(row.is_executed)
        vertices[row.event_id][row.vertex_id] = VertexReport(
            row.vertex_name,
            row.current_parallelism,
            row.new_parallelism,
            *(NAN if value is None else value for value in (row.capacity, row.expected_capacity, row.target_rate)),
        )
    return {
        each: EventFigures(figures.get(each, {}), vertices.get(each, {}), executed.get(each))
        for each in figures.keys() | vertices.keys()
    }


def _vertices() -> defaultdict[int, dict[VertexId, VertexReport]]:
    return defaultdict(dict)


def first_with_figures(connection: Connection) -> int | None:
    """Return the least id of an event that has figures; None where none has."""
    least = [connection.scalar(select(func.min(table.c.event_id))) for table in (SCALINGS, EVENT_FIGURES)]
    return min((each for each in least if each is not None), default=None)


def remove_figures(connection: Connection, start: int, end: int) -> int:
    """Remove what belongs to the events with ids from ``start`` to before ``end``; return how many rows that were."""
    return sum(
        connection.execute(delete(table).where(table.c.event_id >= start, table.c.event_id < end)).rowcount
        for table in (SCALINGS, EVENT_FIGURES)
    )


def _row(vertex: VertexReport) -> dict[str, object]:
    return {
        "vertex_name": storable_text(vertex.name),
        "current_parallelism": vertex.current,
        "new_parallelism": vertex.new,
        "capacity": finite(vertex.capacity),
        "expected_capacity": finite(vertex.expected_capacity),
        "target_rate": finite(vertex.target_rate),
    }


def storable_text(text: str) -> str:
    """Replace what no database, or not every one, takes as text: NUL and halves of characters."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode("utf-8")
