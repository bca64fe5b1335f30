"""How a job went, and how its load is expected to go on."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field

from flink_autoscaler.standalone.views.base import Number, Text, View


class PointView(View):
    """What a job was like at an instant, or in the step of time that begins there."""

    at_ms: int
    load: Number = Field(description="Records/s that arrived, mean.")
    lag_seconds: Number = Field(description="Age of the oldest record that waited, at most.")
    slots: int | None


class SeriesPointView(PointView):
    """The same with what could have arrived, and what waited."""

    capacity: Number = Field(description="Records/s that could have arrived, mean.")
    lag: Number = Field(description="Records that waited, at most.")


class SizeView(View):
    """How many subtasks a vertex had."""

    at_ms: int
    parallelism: int


class SharesView(View):
    """How the subtasks of a vertex spent their time at an instant, or in the step that begins there, 0..1 each."""

    at_ms: int
    busy: Number
    idle: Number = Field(description="Not in the metric history.")
    backpressured: Number = Field(description="Not in the metric history.")


class VertexSeriesView(View):
    """The parallelism of a vertex over time."""

    vertex_id: str
    name: str
    sizes: list[SizeView] = Field(description="Where it changed, and at the end.")


class RescaleView(View):
    """A rescale, by parallelism of vertices."""

    decided_ms: int
    origin: str
    stage: str
    outage_ms: int | None
    is_reverted: bool = Field(validation_alias=AliasChoices("is_reverted", "reverted"))
    before: dict[str, int]
    target: dict[str, int]


class ExpectedLoadView(View):
    """What is expected to arrive."""

    at_ms: int
    median: float = Field(description="Records/s, the medians of the sources summed.")
    upper: float = Field(description="Records/s, the upper quantiles of the sources summed.")


class ForecastView(View):
    """How the load goes on, as the last pass expects it from the load profiles."""

    made_ms: int = Field(description="End of the history that the oldest profile was made of.")
    is_trusted: bool = Field(description="Whether it was right enough lately to be planned with.")
    points: list[ExpectedLoadView]


class SeriesView(View):
    """How a job went."""

    job_key: str
    source: Literal["memory", "history"]
    since_ms: int
    until_ms: int
    step_ms: int
    points: list[SeriesPointView] = Field(description="Steps of which nothing is known are left out.")
    vertices: list[VertexSeriesView]
    shares: list[SharesView] = Field(description="Of the vertex that was asked for, where known.")
    rescales: list[RescaleView]
    forecast: ForecastView | None = Field(description="Null where forecasts are off, or a source has no profile.")
    damaged: list[Text] = Field(description="Files of the history that were left out.")
