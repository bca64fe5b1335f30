"""What passes over clusters came to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Final

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.numbers import finite
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.pass_report import PassReport, problems
from flink_autoscaler.standalone.readiness.findings import Finding
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.standalone.views.jobs import job_document

PASS_COLUMNS: Final = {"JOB": "job_key", "STATUS": "status", "PHASE": "phase", "DECISION": "decision", "WHY": "why"}
"""Of :func:`pass_rows`, as ``output.show`` takes them."""


def pass_rows(reports: Iterable[PassReport]) -> Iterator[dict[str, Any]]:
    """Yield a row per job, and one per cluster, or part of one, that could not be looked at."""
    for report in reports:
        for context in report.jobs:
            if context.job_key in report.reports:
                document = _job_document(context, report)
                why = document["errors"] or [reason["text"] for reason in document["reasons"]]
                decision = _decision_text(report.reports[context.job_key].outcome)
                yield {**document, "decision": decision, "why": "; ".join(why)}
        failures = [(job_key, "error", error) for job_key, error in report.failures.items()]
        gaps = [(f"{report.cluster}: {part}", "gap", error) for part, error in report.gaps.items()]
        whole = [] if report.error is None else [(report.cluster, "error", report.error)]
        for subject, kind, problem in (*failures, *gaps, *whole):
            yield {"job_key": subject, "status": None, "phase": kind, "decision": None, "why": _text(problem)}


def _decision_text(outcome: PassOutcome) -> str:
    if not isinstance(outcome.decision, Rescale):
        return "hold"
    names = outcome.vertex_names
    return ", ".join(
        f"{names.get(vertex_id, vertex_id)} {summary.current} → {summary.new}"
        for vertex_id, summary in outcome.decision.summaries.items()
    )


def pass_document(
    reports: Sequence[PassReport], needs: Mapping[str, tuple[Finding, ...]] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the same and more as a document for JSON; numbers that are not known are null.

    Args:
        reports: Of the passes.
        needs: What jobs need before they can be scaled, by job.
    """
    return {"clusters": [_cluster_document(report, needs) for report in reports]}


def _cluster_document(report: PassReport, needs: Mapping[str, tuple[Finding, ...]]) -> dict[str, Any]:
    return {
        "cluster": report.cluster,
        "error": None if report.error is None else _text(report.error),
        "seconds": round(report.seconds, 3),
        "engine": None if report.engine is None else {"engine": report.engine.engine, "reason": report.engine.reason},
        "jobs": [
            {**_job_document(context, report), "needs": [asdict(each) for each in needs.get(context.job_key, ())]}
            for context in report.jobs
        ],
        "failures": {job_key: _text(error) for job_key, error in report.failures.items()},
        "gaps": {part: _text(error) for part, error in report.gaps.items()},
    }


def _job_document(context: JobAutoScalerContext, pass_report: PassReport) -> dict[str, Any]:
    job = {"enabled": context.is_enabled, **job_document(context)}
    report = pass_report.reports.get(context.job_key)
    if report is None:
        return job
    outcome = report.outcome
    return {
        **job,
        "phase": outcome.phase.value,
        "decision": outcome.decision.kind,
        "reasons": [
            {"code": reason.code, "text": masked(reason.text), "vertex_id": reason.vertex_id}
            for reason in outcome.decision.reasons
        ],
        "samples": outcome.sample_count,
        "vertices": _vertex_documents(outcome),
        "requested": {} if report.realization is None else dict(report.realization.requested),
        "errors": [masked(text) for text in problems(report)],
    }


def _vertex_documents(outcome: PassOutcome) -> list[dict[str, Any]]:
    if outcome.topology is None:
        return []
    evaluated = {} if outcome.evaluation is None else outcome.evaluation.metrics.vertices
    documents = []
    for vertex_id, vertex in outcome.topology.vertices.items():
        metric = evaluated.get(vertex_id, {}).get(ScalingMetric.RECOMMENDED_PARALLELISM)
        recommended = None if metric is None else finite(metric.current)
        documents.append(
            {
                "vertex_id": vertex_id,
                "name": vertex.name,
                "parallelism": vertex.parallelism,
                "recommended": None if recommended is None else int(recommended),
            }
        )
    return documents


def _text(error: Exception) -> str:
    return str(masked(str(error)))
