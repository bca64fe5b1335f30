"""What page and API can be asked: parameters of URLs, and bodies."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_ENTRIES: Final = 1000
"""Entries of a page of an answer."""

MAX_INSTANT_MS: Final = 253_402_300_799_000
"""The end of the year 9999, epoch milliseconds."""


class Query(BaseModel):
    """Parameters of a request: none but those that are named."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class JobsQuery(Query):
    """Which jobs, in which order."""

    cluster: str = Field(default="", max_length=200)
    search: str = Field(
        default="", max_length=200, description="Part of the key, of the name, or of a label such as queue=nightly."
    )
    health: Literal["", "failing", "behind", "at limit", "suspended", "unknown", "healthy"] = ""
    team: str = Field(default="", max_length=200, description="One of autoscaler.http.teams.")
    sort: Literal["concern", "name", "lag", "load", "slots"] = "concern"
    limit: int = Field(default=100, ge=1, le=MAX_ENTRIES)
    offset: int = Field(default=0, ge=0, le=1_000_000)


class JobQuery(Query):
    """A job."""

    job: str = Field(min_length=1, max_length=1000, description="Its key, such as main/orders.")


class SeriesQuery(JobQuery):
    """How a job went in a time, and goes on."""

    from_ms: int | None = Field(default=None, ge=0, le=MAX_INSTANT_MS, description="Unless given, what is in memory.")
    to_ms: int | None = Field(default=None, ge=0, le=MAX_INSTANT_MS, description="Now unless given.")
    vertex: str = Field(default="", max_length=64, description="Id of the vertex whose time is told.")
    points: int = Field(default=240, ge=2, le=500, description="How many steps at most.")
    ahead: float = Field(default=2.0, ge=0, le=24, description="Hours of the forecast.")


class PassesQuery(JobQuery):
    """A page of recorded passes."""

    before_ms: int | None = Field(default=None, ge=0, le=MAX_INSTANT_MS)
    limit: int = Field(default=100, ge=1, le=MAX_ENTRIES)


class PassQuery(JobQuery):
    """A recorded pass."""

    at_ms: int | None = Field(
        default=None, ge=0, le=MAX_INSTANT_MS, description="The latest at or before; else the newest."
    )


class EventsQuery(Query):
    """Which events."""

    job: str = Field(default="", max_length=3000, description="Key or name; * and ? match.")
    reason: str = Field(default="", max_length=200)
    since_ms: int = Field(default=0, ge=0, le=MAX_INSTANT_MS)
    limit: int = Field(default=100, ge=1, le=MAX_ENTRIES)


class OrdersQuery(Query):
    """Whose orders."""

    job: str = Field(default="", max_length=1000, description="Key of a job; all unless given.")


class OrderRequest(Query):
    """An order for a job."""

    job_key: str = Field(max_length=1000)
    order: str = Field(pattern="^(pause|resume|pin|unpin|dry-run|live|rollback|reset)$")
    reason: str = Field(default="", max_length=1000)
    direction: str = Field(default="both", pattern="^(both|up|down)$", description="Of a pause.")
    seconds: float | None = Field(default=None, gt=0, le=366 * 86_400, description="Of a pause; null has no end.")
    vertices: dict[str, int] = Field(
        default_factory=dict, max_length=1000, description="Of a pin: parallelism by name; of an unpin: any number."
    )
    force: bool = Field(default=False, description="Pin although the job cannot have it.")


class WhatIfRequest(Query):
    """A recorded pass, and other options for it."""

    job_key: str = Field(max_length=1000)
    at_ms: int | None = Field(
        default=None, ge=0, le=1 << 53, description="The latest pass at or before; the newest unless given."
    )
    options: dict[str, str] = Field(default_factory=dict, max_length=200)
