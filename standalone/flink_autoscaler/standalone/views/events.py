"""What happened: events of a database, and those of the last hours in memory."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, computed_field

from flink_autoscaler.core.rescale.operator_commands import COMMAND_EVENTS
from flink_autoscaler.standalone.views.base import Number, Text, Value, View

if TYPE_CHECKING:
    from flink_autoscaler.stores.sql.events.log import StoredEvent


class EventView(View):
    """Something that happened: when last, and how often."""

    at_ms: int
    job_key: str
    type: str
    reason: str
    message: Text
    count: int = 1

    @computed_field(description="Whether it tells of a command of a person.")
    def is_command(self) -> bool:
        """Whether it tells of a command of a person."""
        return self.reason in COMMAND_EVENTS


class EventsView(View):
    """Events, the newest first."""

    events: list[EventView]
    source: str = Field(description="memory or database.")


def _local(at: datetime) -> str:
    return at.astimezone().isoformat()


class StoredEventView(View):
    """A row of the database, with the numbers behind its text."""

    id: int
    created_at: Annotated[str, BeforeValidator(_local)]
    updated_at: Annotated[str, BeforeValidator(_local)]
    job_key: Text
    type: Text
    reason: Text
    count: int
    key: Text
    message: Text
    figures: dict[str, Number]
    is_executed: bool | None
    vertices: list[dict[str, Value]]


def event_view(row: StoredEvent) -> EventView:
    """Describe an event of the database as one that the daemon remembers."""
    return EventView(
        at_ms=round(row.updated_at.timestamp() * 1000),
        job_key=row.job_key,
        type=row.event_type,
        reason=row.reason,
        message=row.message,
        count=row.count,
    )


def stored_event_view(row: StoredEvent) -> StoredEventView:
    """Describe an event of the database with all that is known of it."""
    names = ("id", "created_at", "updated_at", "job_key", "reason", "count", "key", "message")
    vertices = [{"vertex_id": key, **asdict(vertex)} for key, vertex in row.figures.vertices.items()]
    fields: dict[str, Any] = {
        **{name: getattr(row, name) for name in names},
        "type": row.event_type,
        "figures": row.figures.figures,
        "is_executed": row.figures.is_executed,
        "vertices": vertices,
    }
    return StoredEventView.model_validate(fields)
