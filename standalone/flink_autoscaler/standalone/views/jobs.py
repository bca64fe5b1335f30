"""A job as people and programs see it. Instants are epoch milliseconds, rates records/s; null is not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Final, TypeVar

from pydantic import Field

from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import EvaluatedVertex, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import finite
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, SupervisionPhase
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.settings.secrets import mask_value
from flink_autoscaler.standalone.views.base import Number, Text, View
from flink_autoscaler.standalone.views.fleet import POINT_MS, POINTS, JobNow
from flink_autoscaler.standalone.views.outcomes import (
    headline_of,
    names_of,
    next_steps,
    other_parallelism,
    why,
)
from flink_autoscaler.standalone.views.series import PointView

T = TypeVar("T")
_HOURS_MS: Final = POINTS * POINT_MS

_BLIND: Final = frozenset({PassPhase.ERROR, PassPhase.INVALID_CONFIG})
_TROUBLED: Final = frozenset({SupervisionPhase.PAUSED, SupervisionPhase.ROLLING_BACK})
_SHORT: Final = frozenset({"HEADROOM_REACHED", "SLOTS_MISSING", "SCALING_LIMITED", "QUOTA_REACHED"})
"""Codes of reasons for which a job may get less than its load asks for."""

_LIMITED: Final = frozenset({*_SHORT, "SLO_LIMITED", "FAIR_SHARE", "DATA_SKEW"})
"""Codes of reasons for which a job can get no more, or for which more would not help."""


class JobHealth(StrEnum):
    """How a job is, what is worst first."""

    FAILING = "failing"
    BEHIND = "behind"
    LIMITED = "at limit"
    SUSPENDED = "suspended"
    UNKNOWN = "unknown"
    HEALTHY = "healthy"


class ReasonView(View):
    """Why a pass decided as it did."""

    code: str
    text: Text
    vertex_id: str | None
    vertex: str | None = Field(description="Name of the vertex that it is about.")


class ExpectedView(View):
    """Something that may happen next."""

    text: Text
    at_ms: int | None = Field(description="From when on; null where no instant is known.")


class VertexView(View):
    """A vertex of a job. Shares are those of the time, 0..1."""

    vertex_id: str
    name: str
    parallelism: int
    wanted: int | None
    max_parallelism: int
    inputs: list[str] = Field(description="Ids of the vertices before it.")
    slot_sharing_group: str | None
    busy: Number
    idle: Number
    backpressured: Number
    needed_rate: Number
    capacity: Number
    is_bottleneck: bool


class RescaleTickView(View):
    """When a job was rescaled, and whether any vertex grew."""

    at_ms: int
    is_up: bool


class JobView(View):
    """A job as the last pass over its cluster found it."""

    job_key: str
    cluster: str
    name: str
    job_id: str | None
    status: str
    enabled: bool | None = Field(description="Whether it is managed; null where its configuration does not tell.")
    labels: dict[str, str]
    at_ms: int
    health: JobHealth
    phase: str | None
    decision: str | None = Field(description="rescale or hold.")
    headline: Text
    reasons: list[ReasonView]
    concerns: list[Text] = Field(description="Why a person should look at it; empty where nobody need.")
    expected: list[ExpectedView]
    suspensions: list[ExpectedView]
    load: Number
    capacity: Number
    lag: Number = Field(description="Records that wait.")
    lag_seconds: Number
    lag_limit_seconds: Number
    slots: int | None
    parallelism: int | None = Field(description="Of the widest vertex.")
    requested: int | None = Field(description="The same with what is wanted; null where that is what there is.")
    rescaling: str | None = Field(description="How far the rescale that is under way came; null where none is.")
    rescales: list[RescaleTickView] = Field(description="Of the last two hours.")
    wanted: dict[str, int] = Field(description="By vertex, where another parallelism is wanted than there is.")
    points: list[PointView] = Field(description="The last two hours.")


class JobDetailView(JobView):
    """A job with its graph and its configuration."""

    vertices: list[VertexView]
    options: dict[str, str] = Field(description="What the configuration of the job sets, secrets masked.")


class JobsView(View):
    """A page of the jobs."""

    version: int
    total: int = Field(description="Jobs that fit, on all pages.")
    jobs: list[JobView]


def job_view(job: JobNow) -> JobView:
    """Describe a job."""
    return JobView.model_validate(_described(job))


def job_detail_view(job: JobNow) -> JobDetailView:
    """Describe a job with its graph and its options."""
    options = {key: mask_value(key, text) for key, text in sorted(job.context.configuration.items())}
    ours = {key: text for key, text in options.items() if key.startswith("job.autoscaler.")}
    return JobDetailView.model_validate({**_described(job), "vertices": list(_vertices(job)), "options": ours})


def reason_views(reasons: Iterable[Reason], names: Mapping[VertexId, str]) -> list[ReasonView]:
    """Describe reasons, with the names of vertices."""
    return [
        ReasonView(
            code=reason.code,
            text=reason.text,
            vertex_id=reason.vertex_id,
            vertex=None if reason.vertex_id is None else names.get(reason.vertex_id, reason.vertex_id),
        )
        for reason in reasons
    ]


def concerns_of(job: JobNow) -> list[str]:
    """Return why a person should look at a job; nothing where an option of it cannot be read."""
    nobody: list[str] = []
    return _safely(lambda: list(_concerns(job)), nobody)


def health_of(job: JobNow) -> JobHealth:
    """Return how a job is: the worst of what holds."""
    if job.failure:
        return JobHealth.FAILING
    if job.report is None:
        return JobHealth.UNKNOWN
    outcome, late = job.report.outcome, job.figures.lag_seconds
    if outcome.phase in _BLIND or outcome.state.supervision.phase in _TROUBLED or job.report.errors:
        return JobHealth.FAILING
    limit = _safely(lambda: job.context.options.slo_lag.exact_seconds, None)
    if late is not None and limit is not None and late > limit:
        return JobHealth.BEHIND
    if any(reason.code in _LIMITED for reason in outcome.decision.reasons):
        return JobHealth.LIMITED
    is_managed = _safely(lambda: job.context.options.enabled, True)
    return JobHealth.SUSPENDED if job.report.suspensions or not is_managed else JobHealth.HEALTHY


def _described(job: JobNow) -> dict[str, Any]:
    context, report = job.context, job.report
    outcome = None if report is None else report.outcome
    names, supervision = names_of(outcome), NO_SUPERVISION if outcome is None else outcome.state.supervision
    under_way, recent = supervision.under_way, job.at_ms - _HOURS_MS
    return {
        "job_key": context.job_key,
        "cluster": context.cluster,
        "name": context.job_name,
        "job_id": context.job_id,
        "status": context.status.value,
        "enabled": _safely(lambda: context.options.enabled, None),
        "labels": context.labels,
        "at_ms": job.at_ms,
        "health": health_of(job),
        "phase": None if outcome is None else outcome.phase.value,
        "decision": None if outcome is None else outcome.decision.kind,
        "headline": headline_of(outcome) if outcome is not None else job.failure or "not looked at yet",
        "reasons": [] if outcome is None else reason_views(why(outcome), names),
        "concerns": concerns_of(job),
        "expected": _expected(job, outcome),
        "suspensions": [{"text": e.text, "at_ms": e.until_ms} for e in (() if report is None else report.suspensions)],
        **asdict(job.figures),
        "lag_limit_seconds": _safely(lambda: context.options.slo_lag.exact_seconds, None),
        "parallelism": _widest(outcome),
        "requested": _requested(outcome),
        "rescaling": None if under_way is None else under_way.stage.value,
        "rescales": [
            {"at_ms": each.decided_ms, "is_up": each.is_up}
            for each in supervision.rescales
            if each.decided_ms >= recent
        ],
        "wanted": {} if outcome is None else {names[v]: number for v, number in other_parallelism(outcome).items()},
        "points": job.points,
    }


def _safely(read: Callable[[], T], otherwise: T) -> T:
    """Return a value, or something else where an option or a text of the job cannot be read."""
    found = try_call(read)
    return otherwise if isinstance(found, AutoscalerError) else found


def _expected(job: JobNow, outcome: PassOutcome | None) -> list[dict[str, Any]]:
    """Return what may happen next to a job, the soonest known first."""
    request = job.request
    if request is None or outcome is None:
        return []
    nothing: list[tuple[str, int | None]] = []
    found = _safely(lambda: list(next_steps(request, outcome)), nothing)
    found.sort(key=lambda each: math.inf if each[1] is None else each[1])
    return [{"text": text, "at_ms": at_ms} for text, at_ms in found]


def _concerns(job: JobNow) -> Iterator[str]:
    if job.failure:
        yield job.failure
    if job.report is None:
        return
    outcome = job.report.outcome
    if outcome.phase in _BLIND:
        yield from (reason.text for reason in outcome.decision.reasons[:1])
    if outcome.state.supervision.phase in _TROUBLED:
        yield f"it is {outcome.state.supervision.phase.value} after a rescale that did not work"
    late = job.figures.lag_seconds
    limit = job.context.options.slo_lag.exact_seconds
    for reason in outcome.decision.reasons:
        if reason.code in _SHORT and late is not None and late > limit:
            yield f"it is {late:.0f} s late and gets no more: {reason.text}"
    yield from (str(error) for error in job.report.errors if outcome.phase not in _BLIND)


def _widest(outcome: PassOutcome | None) -> int | None:
    if outcome is None or outcome.observation.topology is None:
        return None
    return max((vertex.parallelism for vertex in outcome.observation.topology.vertices.values()), default=None)


def _requested(outcome: PassOutcome | None) -> int | None:
    if outcome is None or outcome.observation.topology is None or not (wanted := other_parallelism(outcome)):
        return None
    sizes = {vertex_id: vertex.parallelism for vertex_id, vertex in outcome.observation.topology.vertices.items()}
    most = max({**sizes, **wanted}.values())
    return None if most == max(sizes.values()) else most


def _vertices(job: JobNow) -> Iterator[dict[str, Any]]:
    outcome = None if job.report is None else job.report.outcome
    if outcome is None or outcome.observation.topology is None:
        return
    needed = {v: _average(metrics, ScalingMetric.TARGET_DATA_RATE) for v, metrics in outcome.evaluated.items()}
    rates = {v: _average(metrics, ScalingMetric.TRUE_PROCESSING_RATE) for v, metrics in outcome.evaluated.items()}
    shares = {v: need / rates[v] for v, need in needed.items() if need is not None and rates[v]}  # type: ignore[operator]
    wanted = other_parallelism(outcome)
    # The vertex that is busy all the time first when load rises.
    bottleneck = max(shares, key=shares.__getitem__, default=None)
    for vertex_id, vertex in outcome.observation.topology.vertices.items():
        spent = job.shares.get(vertex_id)
        yield {
            "vertex_id": vertex_id,
            "name": vertex.name,
            "parallelism": vertex.parallelism,
            "wanted": wanted.get(vertex_id),
            "max_parallelism": vertex.max_parallelism,
            "inputs": list(vertex.inputs),
            "slot_sharing_group": vertex.slot_sharing_group,
            **({"busy": None, "idle": None, "backpressured": None} if spent is None else asdict(spent)),
            "needed_rate": needed.get(vertex_id),
            "capacity": rates.get(vertex_id),
            "is_bottleneck": vertex_id == bottleneck,
        }


def _average(metrics: EvaluatedVertex, metric: ScalingMetric) -> float | None:
    return finite(metrics[metric].average) if metric in metrics else None
