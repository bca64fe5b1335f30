"""From what the daemon knows to the documents of the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from flink_autoscaler.core.border import attempted
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import EvaluatedVertex, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import finite
from flink_autoscaler.core.model.supervision import RescaleRecord, described
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.records.explain import rescale_text
from flink_autoscaler.standalone.settings.secrets import masked, shown
from flink_autoscaler.standalone.web.api.models import (
    ExpectedDoc,
    JobDetailDoc,
    JobDoc,
    PointDoc,
    ReasonDoc,
    RescaleDoc,
    VertexDoc,
)
from flink_autoscaler.standalone.web.fleet import JobNow, Point
from flink_autoscaler.standalone.web.outlook import Expected, concerns, expected, other_parallelism, why

T = TypeVar("T")


def job_document(job: JobNow, *, with_points: bool = True) -> JobDoc:
    """Describe a job."""
    return JobDoc(**_job_fields(job, with_points=with_points))


def job_detail(job: JobNow) -> JobDetailDoc:
    """Describe a job with its graph and its options."""
    options = {key: shown(key, text) for key, text in sorted(job.context.configuration.items())}
    ours = {key: text for key, text in options.items() if key.startswith("job.autoscaler.")}
    return JobDetailDoc(**_job_fields(job, with_points=True), vertices=list(_vertices(job)), options=ours)


def reason_documents(reasons: Iterable[Reason], names: Mapping[VertexId, str]) -> list[ReasonDoc]:
    """Describe reasons, with the names of vertices."""
    return [
        ReasonDoc(
            code=reason.code,
            text=masked(reason.text),
            vertex=None if reason.vertex_id is None else names.get(reason.vertex_id, reason.vertex_id),
        )
        for reason in reasons
    ]


def point_document(point: Point) -> PointDoc:
    """Describe what a job was like at an instant."""
    return PointDoc(at_ms=point.at_ms, load=point.load, lag_seconds=point.lag_seconds, slots=point.slots)


def rescale_document(record: RescaleRecord, names: Mapping[VertexId, str]) -> RescaleDoc:
    """Describe a rescale."""
    return RescaleDoc(
        decided_ms=record.decided_ms,
        settled_ms=record.settled_ms,
        origin=record.origin.value,
        stage=record.stage.value,
        reason=masked(record.reason),
        outage_ms=record.outage_ms,
        is_reverted=record.reverted,
        changes=described(names, record.before, record.target),
        before=dict(record.before),
        target=dict(record.target),
    )


def _job_fields(job: JobNow, *, with_points: bool) -> dict[str, Any]:
    context, figures = job.context, job.figures
    outcome = None if job.report is None else job.report.outcome
    alone = () if job.report is None else job.report.left_alone
    names = {} if outcome is None else outcome.vertex_names
    nothing: list[Expected] = []
    soon = _safely(lambda: list(expected(job.request, outcome)), nothing)
    return {
        "job_key": context.job_key,
        "cluster": context.cluster,
        "name": context.job_name,
        "job_id": context.job_id,
        "status": context.status.value,
        "enabled": _safely(lambda: context.options.enabled, None),
        "labels": dict(context.labels),
        "at_ms": job.at_ms,
        "phase": None if outcome is None else outcome.phase.value,
        "decision": None if outcome is None else outcome.decision.kind,
        "headline": masked(_headline(job)),
        "reasons": [] if outcome is None else reason_documents(why(outcome), names),
        "concerns": [masked(text) for text in concerns_of(job)],
        "expected": [ExpectedDoc(text=masked(text), at_ms=at_ms) for text, at_ms in soon],
        "left_alone": [ExpectedDoc(text=masked(each.text), at_ms=each.until_ms) for each in alone],
        "load": figures.load,
        "capacity": figures.capacity,
        "lag": figures.lag,
        "lag_seconds": figures.lag_seconds,
        "lag_limit_seconds": _safely(lambda: context.options.slo_lag.exact_seconds, None),
        "slots": figures.slots,
        "parallelism": _widest(outcome),
        "wanted": {} if outcome is None else {names[v]: number for v, number in other_parallelism(outcome).items()},
        "points": [point_document(each) for each in (job.points if with_points else ())],
    }


def concerns_of(job: JobNow) -> list[str]:
    """Return why a person should look at a job; nothing where an option of it cannot be read."""
    nobody: list[str] = []
    return _safely(lambda: list(concerns(job)), nobody)


def _point(point: Point) -> PointDoc:
    """Describe a point as it is; there are many of them, and nothing in it to check."""
    return PointDoc.model_construct(
        at_ms=point.at_ms, load=point.load, lag_seconds=point.lag_seconds, slots=point.slots
    )


def _safely(read: Callable[[], T], otherwise: T) -> T:
    """Return a value, or something else where an option or a text of the job cannot be read."""
    found = attempted(read)
    return otherwise if isinstance(found, AutoscalerError) else found


def _headline(job: JobNow) -> str:
    """Return what was done to a job in the last pass, or why nothing was."""
    if job.report is None:
        return job.failure or "not looked at yet"
    return headline_of(job.report.outcome)


def headline_of(outcome: PassOutcome) -> str:
    """Return what a pass did, or why it did nothing, in one line."""
    rescale = rescale_text(outcome, outcome.vertex_names)
    return rescale or next((reason.text for reason in why(outcome)), outcome.phase.value)


def _widest(outcome: PassOutcome | None) -> int | None:
    if outcome is None or outcome.topology is None:
        return None
    return max((vertex.parallelism for vertex in outcome.topology.vertices.values()), default=None)


def _vertices(job: JobNow) -> Iterator[VertexDoc]:
    outcome = None if job.report is None else job.report.outcome
    if outcome is None or outcome.topology is None:
        return
    wanted, bottleneck = other_parallelism(outcome), _bottleneck(outcome)
    for vertex in outcome.topology.vertices.values():
        yield _vertex(vertex, job, wanted.get(vertex.vertex_id), is_bottleneck=vertex.vertex_id == bottleneck)


def _vertex(vertex: Vertex, job: JobNow, wanted: int | None, *, is_bottleneck: bool) -> VertexDoc:
    outcome = None if job.report is None else job.report.outcome
    evaluation = None if outcome is None else outcome.evaluation
    metrics = {} if evaluation is None else evaluation.metrics.vertices.get(vertex.vertex_id, {})
    shares = job.shares.get(vertex.vertex_id)
    return VertexDoc(
        vertex_id=vertex.vertex_id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        wanted=wanted,
        max_parallelism=vertex.max_parallelism,
        inputs=list(vertex.inputs),
        slot_sharing_group=vertex.slot_sharing_group,
        busy=None if shares is None else shares.busy,
        idle=None if shares is None else shares.idle,
        backpressured=None if shares is None else shares.backpressured,
        needed_rate=_average(metrics, ScalingMetric.TARGET_DATA_RATE),
        capacity=_average(metrics, ScalingMetric.TRUE_PROCESSING_RATE),
        is_bottleneck=is_bottleneck,
    )


def _bottleneck(outcome: PassOutcome) -> VertexId | None:
    """Return the vertex that is busy all the time first when load rises; None where nothing was evaluated."""
    evaluated = {} if outcome.evaluation is None else outcome.evaluation.metrics.vertices
    needed = {v: _average(metrics, ScalingMetric.TARGET_DATA_RATE) for v, metrics in evaluated.items()}
    rates = {v: _average(metrics, ScalingMetric.TRUE_PROCESSING_RATE) for v, metrics in evaluated.items()}
    shares = {v: needed[v] / rate for v, rate in rates.items() if rate and needed[v] is not None}  # type: ignore[operator]
    return max(shares, key=shares.__getitem__, default=None)


def _average(metrics: EvaluatedVertex, metric: ScalingMetric) -> float | None:
    return finite(metrics[metric].average) if metric in metrics else None
