"""The documents of the API about days of a job: how it went, and what it would have come to."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from flink_autoscaler.standalone.views.models import Document


class SeriesPointDoc(Document):
    """What a job was like in one step of time."""

    at_ms: int = Field(description="Where the step begins.")
    load: float | None = Field(description="Records/s that arrived, mean.")
    capacity: float | None = Field(description="Records/s that could have, mean.")
    lag: float | None = Field(description="Records that waited, at most.")
    lag_seconds: float | None = Field(description="Age of the oldest of them, at most.")
    slots: int | None


class SizeDoc(Document):
    """How many subtasks a vertex had."""

    at_ms: int
    parallelism: int


class VertexSeriesDoc(Document):
    """The parallelism of a vertex over time."""

    vertex_id: str
    name: str
    sizes: list[SizeDoc] = Field(description="Where it changed, and at the end.")


class SeriesRescaleDoc(Document):
    """A rescale, by parallelism of vertices."""

    decided_ms: int
    origin: str
    stage: str
    outage_ms: int | None
    is_reverted: bool
    before: dict[str, int]
    target: dict[str, int]


class ExpectedLoadDoc(Document):
    """What is expected to arrive."""

    at_ms: int
    median: float = Field(description="Records/s, the medians of the sources summed.")
    upper: float = Field(description="Records/s, the upper quantiles of the sources summed.")


class ForecastDoc(Document):
    """How the load goes on, as the last pass expects it from the load profiles."""

    made_ms: int = Field(description="End of the history that the oldest profile was made of.")
    is_trusted: bool = Field(description="Whether it was right enough lately to be planned with.")
    points: list[ExpectedLoadDoc]


class SeriesDoc(Document):
    """How a job went."""

    job_key: str
    source: Literal["memory", "history"]
    since_ms: int
    until_ms: int
    step_ms: int
    points: list[SeriesPointDoc] = Field(description="Steps of which nothing is known are left out.")
    vertices: list[VertexSeriesDoc]
    rescales: list[SeriesRescaleDoc]
    forecast: ForecastDoc | None = Field(description="Null where forecasts are off, or a source has no profile.")
    damaged: list[str] = Field(description="Files of the history that were left out.")
