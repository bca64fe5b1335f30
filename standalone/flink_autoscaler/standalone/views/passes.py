"""What passes came to: those of ``once``, and those that are recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from pydantic import Field, RootModel

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.numbers import finite
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.pass_report import PassReport, report_problems
from flink_autoscaler.standalone.readiness.checks import Finding
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.standalone.views.base import Text, Value, View
from flink_autoscaler.standalone.views.explanation import PassView
from flink_autoscaler.standalone.views.jobs import ReasonView, reason_views
from flink_autoscaler.standalone.views.outcomes import names_of
from flink_autoscaler.standalone.views.series import RescaleView

PASS_COLUMNS: Final = {"JOB": "job_key", "STATUS": "status", "PHASE": "phase", "DECISION": "decision", "WHY": "why"}
"""Of :func:`pass_rows`, as ``output.show`` takes them."""


class PassSummaryView(View):
    """A recorded pass."""

    at_ms: int
    phase: str
    decision: str


class PassesView(View):
    """The recorded passes over a job, the newest first."""

    job_key: str
    passes: list[PassSummaryView]


class ExplainedPassView(View):
    """A recorded pass, explained."""

    job_key: str
    at_ms: int
    is_latest: bool
    explanation: PassView


class RecordView(RootModel[dict[str, Any]]):
    """A recorded pass as ``explain --export`` writes it and ``replay --record`` reads it."""


class JobRescaleView(RescaleView):
    """A rescale, and why it was done."""

    settled_ms: int | None
    reason: Text
    changes: str


class RescalesView(View):
    """The last rescales of a job, the newest first."""

    job_key: str
    rescales: list[JobRescaleView]


class PassVertexView(View):
    """A vertex in one pass."""

    vertex_id: str
    name: str
    parallelism: int
    recommended: int | None


class JobPassView(View):
    """One pass over one job; where it failed, nothing behind ``labels`` is known."""

    enabled: bool | None
    job_key: str
    job_id: str | None
    status: str
    labels: dict[str, str]
    phase: str | None = None
    decision: str | None = None
    reasons: list[ReasonView] = Field(default_factory=list)
    samples: int | None = None
    vertices: list[PassVertexView] = Field(default_factory=list)
    requested: dict[str, int] = Field(default_factory=dict)
    errors: list[Text] = Field(default_factory=list)
    needs: list[Value] = Field(default_factory=list)


class EngineView(View):
    """Where a pass was evaluated, and why there."""

    engine: str
    reason: str


class ClusterPassView(View):
    """One pass over a cluster."""

    cluster: str
    error: Text | None
    seconds: float
    engine: EngineView | None
    jobs: list[JobPassView]
    failures: dict[str, Text]
    gaps: dict[str, Text]


def pass_document(
    reports: Sequence[PassReport], needs: Mapping[str, tuple[Finding, ...]] = MappingProxyType({})
) -> dict[str, Any]:
    """Return what passes came to as a document for JSON; numbers that are not known are null.

    Args:
        reports: Of the passes.
        needs: What jobs need before they can be scaled, by job.
    """
    return {"clusters": [_cluster_view(report, needs).model_dump(exclude_unset=True) for report in reports]}


def pass_rows(reports: Iterable[PassReport]) -> Iterator[dict[str, Any]]:
    """Yield a row per job, and one per cluster, or part of one, that could not be looked at."""
    for report in reports:
        for context in report.jobs:
            if context.job_key in report.reports:
                view = _job_view(context, report, ())
                why = view.errors or [reason.text for reason in view.reasons]
                decision = _changes_text(report.reports[context.job_key].outcome)
                yield {**view.model_dump(), "decision": decision, "why": "; ".join(why)}
        failures = [(job_key, "error", error) for job_key, error in report.failures.items()]
        gaps = [(f"{report.cluster}: {part}", "gap", error) for part, error in report.gaps.items()]
        whole = [] if report.error is None else [(report.cluster, "error", report.error)]
        for subject, kind, problem in (*failures, *gaps, *whole):
            yield {"job_key": subject, "status": None, "phase": kind, "decision": None, "why": mask_secrets(problem)}


def _changes_text(outcome: PassOutcome) -> str:
    if not isinstance(outcome.decision, Rescale):
        return outcome.decision.kind
    names = names_of(outcome)
    changes = outcome.decision.summaries.items()
    return ", ".join(f"{names.get(v, v)} {summary.current} → {summary.new}" for v, summary in changes)


def _cluster_view(report: PassReport, needs: Mapping[str, tuple[Finding, ...]]) -> ClusterPassView:
    return ClusterPassView.model_validate(
        {
            "cluster": report.cluster,
            "error": report.error,
            "seconds": round(report.seconds, 3),
            "engine": None
            if report.engine is None
            else {"engine": report.engine.engine, "reason": report.engine.reason},
            "jobs": [_job_view(context, report, needs.get(context.job_key, ())) for context in report.jobs],
            "failures": report.failures,
            "gaps": report.gaps,
        }
    )


def _job_view(context: JobAutoScalerContext, pass_report: PassReport, needs: Sequence[Finding]) -> JobPassView:
    report = pass_report.reports.get(context.job_key)
    known: dict[str, Any] = {
        "enabled": context.is_enabled,
        "job_key": context.job_key,
        "job_id": context.job_id,
        "status": context.status.value,
        "labels": context.labels,
        "needs": needs,
    }
    if report is not None:
        outcome = report.outcome
        known |= {
            "phase": outcome.phase.value,
            "decision": outcome.decision.kind,
            "reasons": reason_views(outcome.decision.reasons, names_of(outcome)),
            "samples": outcome.observation.sample_count,
            "vertices": list(_vertex_views(outcome)),
            "requested": {} if report.realization is None else report.realization.requested,
            "errors": report_problems(report),
        }
    return JobPassView.model_validate(known)


def _vertex_views(outcome: PassOutcome) -> Iterator[PassVertexView]:
    for vertex_id, vertex in (outcome.observation.vertices).items():
        metric = outcome.evaluated.get(vertex_id, {}).get(ScalingMetric.RECOMMENDED_PARALLELISM)
        number = None if metric is None else finite(metric.current)
        yield PassVertexView(
            vertex_id=vertex_id,
            name=vertex.name,
            parallelism=vertex.parallelism,
            recommended=None if number is None else int(number),
        )
