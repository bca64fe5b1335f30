"""The endpoints of the API: what they take, what they answer, and how they are described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from flink_autoscaler.standalone.web.api import models
from flink_autoscaler.standalone.web.api.answers import MOST, Answers
from flink_autoscaler.standalone.web.api.series import Asked

PREFIX: Final = "/api/v1"
LATEST_MS: Final = 253_402_300_799_000
"""The end of the year 9999, epoch milliseconds."""


class Query(BaseModel):
    """Parameters of a request."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class JobsQuery(Query):
    """Which jobs, in which order."""

    cluster: str = Field("", max_length=200)
    search: str = Field("", max_length=200, description="Part of the key or the name.")
    sort: Literal["concern", "name", "lag", "load", "slots"] = "concern"
    limit: int = Field(100, ge=1, le=MOST)
    offset: int = Field(0, ge=0, le=1_000_000)


class JobQuery(Query):
    """A job."""

    job: str = Field(min_length=1, max_length=1000, description="Its key, such as main/orders.")


class SeriesQuery(JobQuery):
    """A time."""

    from_ms: int | None = Field(None, ge=0, le=LATEST_MS, description="Unless given, what is in memory.")
    to_ms: int | None = Field(None, ge=0, le=LATEST_MS, description="Now unless given.")
    points: int = Field(240, ge=2, le=500, description="How many steps at most.")
    ahead: float = Field(2.0, ge=0, le=24, description="Hours of the forecast.")


class PassesQuery(JobQuery):
    """A page of recorded passes."""

    before_ms: int | None = Field(None, ge=0, le=LATEST_MS)
    limit: int = Field(100, ge=1, le=MOST)


class PassQuery(JobQuery):
    """A recorded pass."""

    at_ms: int | None = Field(None, ge=0, le=LATEST_MS, description="The latest at or before; else the newest.")


class EventsQuery(Query):
    """Which events."""

    job: str = Field("", max_length=1000, description="Key or name; * and ? match.")
    reason: str = Field("", max_length=200)
    since_ms: int = Field(0, ge=0, le=LATEST_MS)
    limit: int = Field(100, ge=1, le=MOST)


class OrdersQuery(Query):
    """Whose orders."""

    job: str = Field("", max_length=1000, description="Key of a job; all unless given.")


@dataclass(frozen=True)
class Endpoint:
    """One thing that can be asked.

    Attributes:
        query: Parameters of the URL.
        body: What is sent; None for a question.
        answer: What comes back.
        handle: Works it out, given parameters or body and the asker's name and role; may take a while.
        is_order: Whether it needs the right to order.
        is_of_fleet: Whether its answer changes with the passes only.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    summary: str
    answer: type[BaseModel]
    handle: Callable[[Answers, Any, str, str], BaseModel]
    query: type[Query] = Query
    body: type[BaseModel] | None = None
    is_order: bool = False
    is_of_fleet: bool = False


ENDPOINTS: Final = (
    Endpoint(
        "GET", "/about", "The daemon, and what you may do.", models.AboutDoc, lambda a, _, __, role: a.about(role)
    ),
    Endpoint("GET", "/clusters", "All clusters.", models.ClustersDoc, lambda a, _, *__: a.clusters(), is_of_fleet=True),
    Endpoint(
        "GET",
        "/jobs",
        "A page of the jobs.",
        models.JobsDoc,
        lambda a, q, *_: a.jobs(cluster=q.cluster, search=q.search, sort=q.sort, limit=q.limit, offset=q.offset),
        JobsQuery,
        is_of_fleet=True,
    ),
    Endpoint("GET", "/job", "A job.", models.JobDetailDoc, lambda a, q, *_: a.job(q.job), JobQuery, is_of_fleet=True),
    Endpoint(
        "GET",
        "/passes",
        "The recorded passes over a job, the newest first.",
        models.PassesDoc,
        lambda a, q, *_: a.passes(q.job, before_ms=q.before_ms, limit=q.limit),
        PassesQuery,
    ),
    Endpoint(
        "GET",
        "/pass",
        "A pass with every term.",
        models.PassDoc,
        lambda a, q, *_: a.explanation(q.job, q.at_ms),
        PassQuery,
    ),
    Endpoint(
        "GET",
        "/record",
        "A recorded pass, as explain --export writes it.",
        models.RecordDoc,
        lambda a, q, *_: a.exported(q.job, q.at_ms),
        PassQuery,
    ),
    Endpoint(
        "GET",
        "/rescales",
        "The last rescales of a job.",
        models.RescalesDoc,
        lambda a, q, *_: a.rescales(q.job),
        JobQuery,
        is_of_fleet=True,
    ),
    Endpoint(
        "GET",
        "/series",
        "How a job went: from memory, and further back from the metric history.",
        models.SeriesDoc,
        lambda a, q, *_: a.series(q.job, Asked(q.from_ms, q.to_ms, q.points, q.ahead)),
        SeriesQuery,
    ),
    Endpoint(
        "GET",
        "/events",
        "What happened, the newest first.",
        models.EventsDoc,
        lambda a, q, *_: a.events(job=q.job, reason=q.reason, since_ms=q.since_ms, limit=q.limit),
        EventsQuery,
    ),
    Endpoint("GET", "/orders", "What is ordered now.", models.OrdersDoc, lambda a, q, *_: a.orders(q.job), OrdersQuery),
    Endpoint(
        "GET",
        "/configuration",
        "What the daemon was configured with.",
        models.ConfigurationDoc,
        lambda a, _, *__: a.configuration(),
    ),
    Endpoint(
        "POST",
        "/what-if",
        "What a recorded pass would have decided with other options; changes nothing.",
        models.WhatIfDoc,
        lambda a, body, *_: a.what_if(body),
        body=models.WhatIfRequest,
    ),
    Endpoint(
        "POST",
        "/orders",
        "Give an order for a job; needs the role operator.",
        models.OrderedDoc,
        lambda a, body, name, _: a.order(body, name),
        body=models.OrderRequest,
        is_order=True,
    ),
)
