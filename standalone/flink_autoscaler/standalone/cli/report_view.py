"""Shows what a pass found out: as a table for people, as JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.model.decision import PassOutcome, Rescale
from flink_autoscaler.core.model.job import JobAutoScalerContext
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.standalone.daemon.cluster_pass import PassReport, problems
from flink_autoscaler.standalone.fetchers.job_keys import printable
from flink_autoscaler.standalone.observability.logs import masked

_WIDTH_WITHOUT_TERMINAL = 160
_LABELS = {"yarn_application_id": "APPLICATION", "yarn_queue": "QUEUE", "yarn_user": "USER"}


def pass_table(reports: Iterable[PassReport]) -> Table:
    """Return one row per job, and one per cluster, or part of one, that could not be looked at."""
    table = table_of("JOB", "STATUS", "PHASE", "DECISION", "WHY")
    for report in reports:
        for context in report.jobs:
            if context.job_key in report.reports:
                add_row(table, *_job_row(context, report.reports[context.job_key]))
        for job_key, error in report.failures.items():
            add_row(table, job_key, "-", "error", "-", masked(str(error)))
        for part, error in report.gaps.items():
            add_row(table, f"{report.cluster}: {part}", "-", "gap", "-", masked(str(error)))
        if report.error is not None:
            add_row(table, report.cluster, "-", "error", "-", masked(str(report.error)))
    return table


def job_table(documents: Iterable[Mapping[str, Any]]) -> Table:
    """Return one row per job of a list of jobs; columns of YARN only where a job is there."""
    jobs = list(documents)
    labels = {name: title for name, title in _LABELS.items() if any(name in job["labels"] for job in jobs)}
    table = table_of("JOB", "JOB ID", "STATUS", "ENABLED", "PARALLELISM", *labels.values())
    for job in jobs:
        enabled = {True: "yes", False: "no", None: "invalid"}[job["enabled"]]
        parallelism = "-" if job["parallelism"] is None else str(job["parallelism"])
        facts = [job["labels"].get(name, "-") for name in labels]
        add_row(table, job["job_key"], job["job_id"] or "-", job["status"], enabled, parallelism, *facts)
    return table


def pass_document(reports: Sequence[PassReport]) -> dict[str, Any]:
    """Return the same and more as a document for JSON; numbers that are not known are null."""
    return {"clusters": [_cluster_document(report) for report in reports]}


def is_enabled(context: JobAutoScalerContext) -> bool | None:
    """Tell whether a job is looked after; None when its configuration does not say true or false."""
    try:
        return context.options.enabled
    except ValueParseError:
        return None


def table_of(*titles: str) -> Table:
    """Return an empty table."""
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def add_row(table: Table, *cells: str) -> None:
    """Add a row of texts as they are: what looks like markup or a control sequence comes from a job's author."""
    table.add_row(*(Text(printable(cell)) for cell in cells))


def print_table(table: Table) -> None:
    """Print a table to standard output; lines are wide where no terminal limits them."""
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    Console(width=width).print(table)


def print_document(document: object) -> None:
    """Print a document as JSON to standard output."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def print_error(text: str) -> None:
    """Print one line about something that went wrong to standard error."""
    sys.stderr.write(f"error: {masked(text)}\n")


def _job_row(context: JobAutoScalerContext, report: JobPassReport) -> tuple[str, ...]:
    why = "; ".join(problems(report)) or "; ".join(reason.text for reason in report.outcome.decision.reasons)
    return (
        context.job_key,
        context.status.value,
        report.outcome.phase.value,
        _decision_text(report.outcome),
        masked(why),
    )


def _decision_text(outcome: PassOutcome) -> str:
    if not isinstance(outcome.decision, Rescale):
        return "hold"
    names = {} if outcome.topology is None else {key: vertex.name for key, vertex in outcome.topology.vertices.items()}
    return ", ".join(
        f"{names.get(vertex_id, vertex_id)} {summary.current} → {summary.new}"
        for vertex_id, summary in outcome.decision.summaries.items()
    )


def _cluster_document(report: PassReport) -> dict[str, Any]:
    return {
        "cluster": report.cluster,
        "error": None if report.error is None else masked(str(report.error)),
        "seconds": round(report.seconds, 3),
        "jobs": [_job_document(context, report) for context in report.jobs],
        "failures": {job_key: masked(str(error)) for job_key, error in report.failures.items()},
        "gaps": {part: masked(str(error)) for part, error in report.gaps.items()},
    }


def _job_document(context: JobAutoScalerContext, pass_report: PassReport) -> dict[str, Any]:
    job = {"enabled": is_enabled(context), **job_document(context)}
    report = pass_report.reports.get(context.job_key)
    if report is None:
        return job
    outcome = report.outcome
    return {
        **job,
        "phase": outcome.phase.value,
        "decision": "rescale" if isinstance(outcome.decision, Rescale) else "hold",
        "reasons": [
            {"code": reason.code, "text": masked(reason.text), "vertex_id": reason.vertex_id}
            for reason in outcome.decision.reasons
        ],
        "samples": outcome.sample_count,
        "vertices": _vertex_documents(outcome),
        "requested": {} if report.realization is None else dict(report.realization.requested),
        "errors": [masked(text) for text in problems(report)],
    }


def job_document(context: JobAutoScalerContext) -> dict[str, Any]:
    """Return who a job is."""
    return {
        "job_key": context.job_key,
        "job_id": context.job_id,
        "status": context.status.value,
        "labels": dict(context.labels),
    }


def _vertex_documents(outcome: PassOutcome) -> list[dict[str, Any]]:
    if outcome.topology is None:
        return []
    evaluated = {} if outcome.evaluation is None else outcome.evaluation.metrics.vertices
    documents = []
    for vertex_id, vertex in outcome.topology.vertices.items():
        metric = evaluated.get(vertex_id, {}).get(ScalingMetric.RECOMMENDED_PARALLELISM)
        is_known = metric is not None and math.isfinite(metric.current)
        documents.append(
            {
                "vertex_id": vertex_id,
                "name": vertex.name,
                "parallelism": vertex.parallelism,
                "recommended": int(metric.current) if metric is not None and is_known else None,
            }
        )
    return documents
