"""What one job needs: to be enabled and valid, to run, checkpoints, and what its vertices allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.standalone.readiness.cluster_checks import cluster_findings
from flink_autoscaler.standalone.readiness.facts import ClusterFacts, JobFacts
from flink_autoscaler.standalone.readiness.findings import Finding, Fix, Place, Weight, by_weight, limit, needed, note
from flink_autoscaler.standalone.readiness.vertex_checks import vertex_findings

ENABLING_LINE: Final = f"{AutoscalerOptions.enabled.key}: true"
_UNSETTLED: Final = 20.0
"""Seconds after its start for which rates of a job do not mean much."""

_BATCH: Final = "BATCH"
_ADAPTIVE: Final = "adaptive"


def job_findings(facts: JobFacts) -> tuple[Finding, ...]:
    """Return what is to be known about a job beyond its cluster; little more where its configuration is invalid."""
    problem = _problem(facts)
    if problem is not None:
        enabling = () if enabled_or_none(facts) is None else _enabled(facts)
        return (needed("INVALID_CONFIG", f"the configuration of the job cannot be used: {problem}"), *enabling)
    found = tuple(finding for check in _CHECKS for finding in check(facts))
    return by_weight((*found, *vertex_findings(facts)))


def is_ready(findings: tuple[Finding, ...]) -> bool:
    """Tell whether nothing is needed before the daemon scales the job."""
    return not any(finding.weight is Weight.NEEDED for finding in findings)


def _problem(facts: JobFacts) -> str | None:
    """Return what is wrong with the options of the job, as it will be when the job is enabled."""
    try:
        _ = facts.context.options.enabled
    except ValueParseError as error:
        return str(error)
    return validate(AutoscalerOptions({**facts.context.configuration, AutoscalerOptions.enabled.key: "true"}))


def _enabled(facts: JobFacts) -> Iterator[Finding]:
    if facts.context.options.enabled:
        return
    option = AutoscalerOptions.enabled
    if facts.own and option.find(facts.own):
        yield needed(
            "NOT_ENABLED", "the job itself says that it is not to be scaled", Fix(Place.JOB, f"{option.key}:true")
        )
    elif facts.reported and option.find(facts.reported):
        text = (
            "the configuration of its Flink cluster says that it is not to be scaled, which wins over autoscaler.yaml"
        )
        yield needed("NOT_ENABLED", text, Fix(Place.FLINK, ENABLING_LINE))
    else:
        yield needed("NOT_ENABLED", "the autoscaler is not enabled for the job", Fix(Place.DAEMON, ENABLING_LINE))


def _running(facts: JobFacts) -> Iterator[Finding]:
    status = facts.context.status
    if status is JobStatus.CREATED:
        text = "not all tasks of the job run, often for lack of slots; it is looked at when they do"
        yield needed("NOT_RUNNING", text)
    elif status is not JobStatus.RUNNING:
        yield needed("NOT_RUNNING", f"the job is {status.value}; only a job that is RUNNING is scaled")


def _scheduler(facts: JobFacts) -> Iterator[Finding]:
    """Tell what the cluster's configuration alone does not: a job may run with another scheduler than is set."""
    if facts.job_type == _BATCH:
        yield needed("BATCH_JOB", "this is a batch job; only streaming jobs are scaled")
    elif facts.refusal and _is_set_up(facts):
        other = facts.scheduler if facts.scheduler and facts.scheduler.lower() != _ADAPTIVE else None
        text = f"the cluster refuses to change the parallelism of this job: {facts.refusal}"
        if other is not None:
            text = f"this job runs with the scheduler {other}, although the cluster's is adaptive; submit it again"
        yield needed("RESCALE_REFUSED", text)


def _is_set_up(facts: JobFacts) -> bool:
    """Tell whether the cluster is configured for rescales, so that a refusal is news."""
    flink = facts.context.flink_options
    return flink.scheduler.strip().lower() == _ADAPTIVE and not flink.scheduler_mode.strip()


def _advice_only(facts: JobFacts) -> Iterator[Finding]:
    options = facts.context.options
    if not options.scaling_enabled:
        fix = Fix(Place.DAEMON, f"{AutoscalerOptions.scaling_enabled.key}: true")
        yield needed("ADVICE_ONLY", "decisions about the job are advice, because scaling is switched off for it", fix)
    if options.excluded_periods:
        periods = "; ".join(options.excluded_periods)
        yield note("EXCLUDED_PERIODS", f"decisions about the job are advice while an excluded period lasts: {periods}")


def _checkpoints(facts: JobFacts) -> Iterator[Finding]:
    if facts.checkpoints is not None and not facts.checkpoints.is_enabled:
        text = "the job makes no checkpoints, so every rescale starts it with empty state"
        yield limit("NO_CHECKPOINTS", text, Fix(Place.FLINK, "execution.checkpointing.interval: 30s"))


def _age(facts: JobFacts) -> Iterator[Finding]:
    if facts.age is not None and facts.age < _UNSETTLED and facts.metrics is not None:
        yield note("JUST_STARTED", f"the job has run for {facts.age:.0f} s only, so its numbers have not settled yet")


def _patience(facts: JobFacts) -> Iterator[Finding]:
    options = facts.context.options
    seconds = options.stabilization_interval.exact_seconds + options.metrics_window.exact_seconds
    keys = (AutoscalerOptions.stabilization_interval.key, AutoscalerOptions.metrics_window.key)
    text = f"the first decision comes when it has run and been watched for {Duration(round(seconds * 1e9))}"
    yield note("FIRST_DECISION", f"{text} ({' and '.join(keys)})")


_CHECKS: Final[tuple[Callable[[JobFacts], Iterator[Finding]], ...]] = (
    _enabled,
    _running,
    _scheduler,
    _advice_only,
    _checkpoints,
    _age,
    _patience,
)


def enabled_or_none(facts: JobFacts) -> bool | None:
    """Tell whether the job is looked after; None when its configuration does not say true or false."""
    try:
        return facts.context.options.enabled
    except ValueParseError:
        return None


def needs_of(context: JobAutoScalerContext, *, has_provider: bool = False) -> tuple[Finding, ...]:
    """Return what a job needs before it can be scaled, as far as its configuration and status tell.

    Args:
        context: The job.
        has_provider: Whether somebody who starts TaskManagers is configured for its cluster.
    """
    cluster = ClusterFacts(None, context.configuration, context.capacity, has_provider)
    found = (*cluster_findings(cluster), *job_findings(JobFacts(context, cluster)))
    return tuple(finding for finding in found if finding.weight is Weight.NEEDED)
