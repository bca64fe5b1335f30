"""``run`` and ``once``: passes over all clusters, again and again or a single one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flink_autoscaler.standalone.cli.command import (
    ClusterOption,
    DryRunOption,
    GivenSettings,
    GivenUrls,
    JsonOption,
    command,
    mistake,
    valued,
)
from flink_autoscaler.standalone.cli.jobs import job_document
from flink_autoscaler.standalone.cli.output import (
    Row,
    Rows,
    print_document,
    print_error,
    print_table,
    told_once,
    write_error,
    write_out,
)

if TYPE_CHECKING:
    from flink_autoscaler.core.autoscaler import JobPassReport
    from flink_autoscaler.core.options.context import JobAutoScalerContext
    from flink_autoscaler.core.ports.passes import PassOutcome
    from flink_autoscaler.standalone.daemon.cluster_pass import PassReport
    from flink_autoscaler.standalone.readiness.findings import Finding
    from flink_autoscaler.standalone.settings.schema.settings import Settings

app = typer.Typer()


@command(
    app,
    "flink-autoscaler run --config /etc/flink-autoscaler/autoscaler.yaml",
    "flink-autoscaler run --set autoscaler.engine.kind=inline --dry-run",
    short_help="Look after all clusters.",
)
def run(given: GivenSettings, dry_run: DryRunOption = False) -> int:
    """Look after all clusters until stopped with SIGTERM or Ctrl-C. SIGHUP has it read the configuration again."""
    from flink_autoscaler.standalone.daemon.signals import hold_reloads

    hold_reloads()
    from flink_autoscaler.standalone.daemon.service import serve

    loader = given.loader(is_dry_run=dry_run)
    return serve(
        loader.read_for_daemon(),
        lambda: loader.read_for_daemon(is_running=True),
        configuration=loader.configuration,
        greet=write_out,
    )


@command(
    app,
    "flink-autoscaler once --url http://jobmanager:8081",
    "flink-autoscaler once --config autoscaler.yaml --dry-run",
    "flink-autoscaler once --config autoscaler.yaml --cluster main --job 'orders*' --json",
    "flink-autoscaler once --config autoscaler.yaml --dry-run --spark",
    codes="0 when everything could be read, 1 when a cluster or job failed.",
    short_help="Look at every job once and show what it needs.",
)
def once(
    given: GivenSettings,
    urls: GivenUrls,
    dry_run: DryRunOption = False,
    cluster: ClusterOption = None,
    job: Annotated[
        str | None, valued("--job", metavar="PATTERN", text="Only jobs with this key, name or id; * and ? match.")
    ] = None,
    as_json: JsonOption = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Evaluate on Spark, which takes some seconds to start, as the daemon does.")
    ] = False,
) -> int:
    """Do one pass over all clusters, in this process, and show what it found.

    A single pass does not wait for Spark, whatever autoscaler.engine.kind is, unless --spark is given.
    What was decided is carried out, unless --dry-run is given. With --url nothing is ever changed, and no
    configuration is needed: what each job needs before it can be scaled is told.
    """
    if urls.url:
        return _look(given, urls, cluster=cluster, job=job, as_json=as_json)
    if urls.access():
        raise mistake("--ca-file, --user, --token-file and the like go with --url; a file says it per cluster")
    from concurrent.futures import ThreadPoolExecutor

    from flink_autoscaler.standalone.daemon.wiring import WHY_NOT_SPARK, Wiring
    from flink_autoscaler.standalone.fetchers.listing import chosen_clusters
    from flink_autoscaler.standalone.settings.schema.clusters import EngineKind

    prepared = given.prepare(is_dry_run=dry_run)
    engine = EngineKind.SPARK if spark else EngineKind.INLINE
    with Wiring(prepared, engine=engine, inline_reason=WHY_NOT_SPARK) as wiring:
        passes = [wiring.cluster_pass(each, selects=_selection(job)) for each in chosen_clusters(prepared, cluster)]
        wiring.storage.start()
        wiring.storage.require_up()
        with ThreadPoolExecutor(len(passes)) as pool:
            reports = list(pool.map(lambda each: each.run(), passes))
    if not all(report.is_acting for report in reports):
        write_error("another daemon leads: this pass only looked on, and nothing of it was carried out\n")
    needs = _needs(reports, prepared)
    if as_json:
        print_document(pass_document(reports, needs))
    else:
        from flink_autoscaler.standalone.readiness.report import shared_lines

        print_table(*pass_table(reports), if_empty="no jobs")
        write_out("".join(f"{line}\n" for line in shared_lines(needs)))
        for use in dict.fromkeys(report.engine for report in reports if report.engine is not None):
            write_error(f"evaluated on: {use.engine} ({use.reason})\n")
    return 0 if _is_complete(reports, job) else 1


def _look(given: GivenSettings, urls: GivenUrls, *, cluster: str | None, job: str | None, as_json: bool) -> int:
    """Look at clusters given by their URLs; see :mod:`flink_autoscaler.standalone.readiness`."""
    from flink_autoscaler.standalone.fetchers.listing import chosen_clusters
    from flink_autoscaler.standalone.readiness.given import given_clusters, settings_of
    from flink_autoscaler.standalone.readiness.looking import look_at
    from flink_autoscaler.standalone.readiness.report import error_lines, look_document, look_lines

    if given.config is not None:
        raise mistake("--url needs no --config: give one of the two")
    settings = settings_of(given_clusters(urls.url or [], urls.access()), given.overrides or [])
    with told_once() as on_waiting:
        looks = look_at(chosen_clusters(settings, cluster), on_waiting=on_waiting)
    looks = [each.selected(_selection(job)) for each in looks]
    if as_json:
        print_document(look_document(looks))
    else:
        write_out("".join(f"{line}\n" for line in look_lines(looks)))
    for line in error_lines(looks):
        print_error(line)
    if job is not None and not any(look.jobs or look.failures for look in looks):
        print_error(f"no job matches '{job}'")
        return 1
    return 1 if error_lines(looks) else 0


def _needs(reports: Sequence[PassReport], settings: Settings) -> dict[str, tuple[Finding, ...]]:
    """Return what jobs of these passes need before they can be scaled, by job; ended jobs are left out."""
    from flink_autoscaler.standalone.daemon.providers import NONE
    from flink_autoscaler.standalone.readiness.checks import needs_of

    provided = {each.name for each in settings.effective_clusters() if each.settings.provider.type != NONE}
    return {
        context.job_key: needs_of(context, has_provider=report.cluster in provided)
        for report in reports
        for context in report.jobs
        if not context.status.is_terminal
    }


def _selection(pattern: str | None) -> Callable[[JobAutoScalerContext], bool]:
    if pattern is None:
        return lambda _: True
    return lambda context: any(
        fnmatchcase(text, pattern) for text in (context.job_key, context.job_name, context.job_id or "")
    )


def _is_complete(reports: Sequence[PassReport], job_pattern: str | None) -> bool:
    if job_pattern is not None and not any(report.jobs for report in reports):
        print_error(f"no job matches '{job_pattern}'")
        return False
    return all(report.is_clean for report in reports)


def pass_table(reports: Iterable[PassReport]) -> Rows:
    """Return one row per job, and one per cluster, or part of one, that could not be looked at."""
    return ("JOB", "STATUS", "PHASE", "DECISION", "WHY"), [row for report in reports for row in _rows(report)]


def _rows(report: PassReport) -> Iterator[Row]:
    for context in report.jobs:
        if context.job_key in report.reports:
            yield _job_row(context, report.reports[context.job_key])
    failures = [(job_key, "error", error) for job_key, error in report.failures.items()]
    gaps = [(f"{report.cluster}: {part}", "gap", error) for part, error in report.gaps.items()]
    whole = [] if report.error is None else [(report.cluster, "error", report.error)]
    for subject, kind, problem in (*failures, *gaps, *whole):
        yield subject, "-", kind, "-", _text(problem)


def _job_row(context: JobAutoScalerContext, report: JobPassReport) -> Row:
    from flink_autoscaler.standalone.daemon.cluster_pass import problems
    from flink_autoscaler.standalone.settings.secrets import masked

    outcome = report.outcome
    why = "; ".join(problems(report)) or "; ".join(reason.text for reason in outcome.decision.reasons)
    return context.job_key, context.status.value, outcome.phase.value, _decision_text(outcome), masked(why)


def _decision_text(outcome: PassOutcome) -> str:
    from flink_autoscaler.core.model.decision import Rescale

    if not isinstance(outcome.decision, Rescale):
        return "hold"
    names = {} if outcome.topology is None else {key: vertex.name for key, vertex in outcome.topology.vertices.items()}
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
    from flink_autoscaler.core.model.decision import Rescale
    from flink_autoscaler.standalone.daemon.cluster_pass import problems
    from flink_autoscaler.standalone.settings.secrets import masked

    job = {"enabled": context.is_enabled, **job_document(context)}
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


def _vertex_documents(outcome: PassOutcome) -> list[dict[str, Any]]:
    from flink_autoscaler.core.model.metrics import ScalingMetric

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


def _text(error: Exception) -> str:
    from flink_autoscaler.standalone.settings.secrets import masked

    return str(masked(str(error)))
