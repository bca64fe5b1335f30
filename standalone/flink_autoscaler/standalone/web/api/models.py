"""The documents of the API. Instants are epoch milliseconds, rates records/s; null is not known."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel


class Document(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(Document):
    """Why a request was not answered."""

    error: str = Field(description="For people; names what to change.")


class ReasonDoc(Document):
    """Why a pass decided as it did."""

    code: str
    text: str
    vertex: str | None = Field(description="Name of the vertex that it is about.")


class ExpectedDoc(Document):
    """Something that may happen next."""

    text: str
    at_ms: int | None = Field(description="From when on; null where no instant is known.")


class VertexDoc(Document):
    """A vertex of a job. Shares are those of the time, 0..1."""

    vertex_id: str
    name: str
    parallelism: int
    wanted: int | None
    max_parallelism: int
    inputs: list[str] = Field(description="Ids of the vertices before it.")
    slot_sharing_group: str | None
    busy: float | None
    idle: float | None
    backpressured: float | None
    needed_rate: float | None
    capacity: float | None
    is_bottleneck: bool


class PointDoc(Document):
    """What a job was like at an instant."""

    at_ms: int
    load: float | None
    lag_seconds: float | None
    slots: int | None


class JobDoc(Document):
    """A job as the last pass over its cluster found it."""

    job_key: str
    cluster: str
    name: str
    job_id: str | None
    status: str
    enabled: bool | None = Field(description="Whether it is looked after; null where its configuration does not tell.")
    labels: dict[str, str]
    at_ms: int
    phase: str | None
    decision: str | None = Field(description="rescale or hold.")
    headline: str
    reasons: list[ReasonDoc]
    concerns: list[str] = Field(description="Why a person should look at it; empty where nobody need.")
    expected: list[ExpectedDoc]
    left_alone: list[ExpectedDoc]
    load: float | None
    capacity: float | None
    lag: float | None = Field(description="Records that wait.")
    lag_seconds: float | None
    lag_limit_seconds: float | None
    slots: int | None
    parallelism: int | None = Field(description="Of the widest vertex.")
    wanted: dict[str, int] = Field(description="By vertex, where another parallelism is wanted than there is.")
    points: list[PointDoc] = Field(description="The last two hours.")


class JobDetailDoc(JobDoc):
    """A job with its graph and its configuration."""

    vertices: list[VertexDoc]
    options: dict[str, str] = Field(description="What the configuration of the job sets, secrets masked.")


class JobsDoc(Document):
    """A page of the jobs."""

    version: int
    total: int = Field(description="Jobs that fit, on all pages.")
    jobs: list[JobDoc]


class HolderDoc(Document):
    """A job and the slots that it takes."""

    job_key: str
    slots: int


class PromiseDoc(Document):
    """Slots that a job is about to have; others may not take them meanwhile."""

    job_key: str
    slots: int
    because: str


class WaitingDoc(Document):
    """A job that waits for slots, or gets fewer than it wants."""

    job_key: str
    code: str
    text: str
    slots_missing: int | None


class HeadroomDoc(Document):
    """What can still be given to jobs beyond what they have; null does not count."""

    source: str = Field(description="Who says so, such as a queue of YARN.")
    cpu: float | None
    memory: int | None = Field(description="Bytes.")
    taskmanagers: int | None
    slots: int | None


class FailureDoc(Document):
    """Something that was asked of a cluster and failed."""

    at_ms: int = Field(description="When it did last.")
    what: str = Field(description="The cluster, a part of it, or the key of a job.")
    text: str
    count: int = Field(description="How often with the same cause.")


class ClusterDoc(Document):
    """A cluster as the last pass over it found it."""

    name: str
    at_ms: int
    seconds: float
    error: str | None
    gaps: dict[str, str]
    engine: str | None
    engine_reason: str | None
    is_acting: bool
    failed_ms: int | None
    last_error: str | None
    jobs: int
    url: str | None
    type: str | None = Field(description="How jobs are found, such as flink or yarn.")
    auth: str | None = Field(description="How requests prove who sends them, such as kerberos; never a secret.")
    interval: float | None = Field(description="Seconds from the start of one pass to the next.")
    timeout: float | None = Field(description="Seconds that a request may take.")
    taskmanagers: int | None
    slots: int | None
    free_slots: int | None
    promised_slots: int = Field(description="Slots that jobs are about to have.")
    is_fixed: bool | None = Field(description="Whether nobody adds TaskManagers by themselves as jobs ask for more.")
    holders: list[HolderDoc]
    promised: list[PromiseDoc]
    waiting: list[WaitingDoc] = Field(description="Jobs that want more slots than they get.")
    headroom: list[HeadroomDoc]
    failures: list[FailureDoc] = Field(description="What failed lately, the newest first.")


class ClustersDoc(Document):
    """All clusters."""

    version: int
    clusters: list[ClusterDoc]


class PassSummaryDoc(Document):
    """A recorded pass."""

    at_ms: int
    phase: str
    decision: str


class PassesDoc(Document):
    """The recorded passes over a job, the newest first."""

    job_key: str
    passes: list[PassSummaryDoc]


class PassDoc(Document):
    """One pass with every term, as ``explain --json`` shows it."""

    job_key: str
    at_ms: int
    is_latest: bool
    explanation: dict[str, Any]


class RecordDoc(RootModel[dict[str, Any]]):
    """A recorded pass as ``explain --export`` writes it and ``replay --record`` reads it."""


class RescaleDoc(Document):
    """A rescale, by parallelism of vertices."""

    decided_ms: int
    settled_ms: int | None
    origin: str
    stage: str
    reason: str
    outage_ms: int | None
    is_reverted: bool
    changes: str
    before: dict[str, int]
    target: dict[str, int]


class RescalesDoc(Document):
    """The last rescales of a job, the newest first."""

    job_key: str
    rescales: list[RescaleDoc]


class EventDoc(Document):
    """Something that happened."""

    at_ms: int
    job_key: str
    type: str
    reason: str
    message: str
    count: int


class EventsDoc(Document):
    """Events, the newest first."""

    events: list[EventDoc]
    source: str = Field(description="memory or database.")


class OrderDoc(Document):
    """What a person ordered, or what else makes the daemon leave a job alone."""

    job_key: str
    order: str
    by: str
    since_ms: int
    until: str
    reason: str


class OrdersDoc(Document):
    """Everything that is ordered now."""

    orders: list[OrderDoc]


class ValueDoc(Document):
    """One line of the configuration."""

    key: str
    value: str | None
    origin: str


class ConfigurationDoc(Document):
    """What the daemon was configured with, secrets masked."""

    values: list[ValueDoc]


class AboutDoc(Document):
    """The daemon."""

    version: str
    python: str
    now_ms: int
    started_ms: int
    is_leader: bool
    is_dry_run: bool
    store: str | None = Field(description="Why the database does not work; null where it does.")
    spark: str | None
    clusters: int
    jobs: int
    role: str = Field(description="What you may do: viewer or operator.")


class OrderRequest(Document):
    """An order for a job."""

    job_key: str = Field(max_length=1000)
    order: str = Field(pattern="^(pause|resume|pin|unpin|dry-run|live|rollback|reset)$")
    reason: str = Field("", max_length=1000)
    direction: str = Field("both", pattern="^(both|up|down)$", description="Of a pause.")
    seconds: float | None = Field(None, gt=0, le=366 * 86_400, description="Of a pause; null lasts until resumed.")
    vertices: dict[str, int] = Field(
        default_factory=dict, max_length=1000, description="Of a pin: parallelism by name; of an unpin: any number."
    )
    force: bool = Field(False, description="Pin although the job cannot have it.")


class OrderedDoc(Document):
    """What came of an order."""

    job_key: str
    text: str
    is_refused: bool


class WhatIfRequest(Document):
    """A recorded pass, and other options for it."""

    job_key: str = Field(max_length=1000)
    at_ms: int | None = Field(
        None, ge=0, le=1 << 53, description="The latest pass at or before; the newest unless given."
    )
    options: dict[str, str] = Field(default_factory=dict, max_length=200)


class WhatIfVertexDoc(Document):
    """What would become of a vertex."""

    vertex_id: str
    name: str
    parallelism: int
    decided: int
    would_be: int


class WhatIfDoc(Document):
    """What a recorded pass would have decided with other options. Nothing is changed by asking."""

    job_key: str
    at_ms: int
    decided: str
    would_be: str
    vertices: list[WhatIfVertexDoc]
    reasons: list[ReasonDoc]
    changes: list[str] = Field(description="The lines of the configuration that differ, to copy.")


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
