"""Tells people and machines what a pass came to: log lines when something changed, gauges and health always."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import structlog
from structlog.contextvars import bound_contextvars

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.decision import PassOutcome
from flink_autoscaler.core.errors import AutoscalerError, PluginError, StoreError
from flink_autoscaler.core.job import JobAutoScalerContext, JobKey
from flink_autoscaler.core.ports import RealizeResult
from flink_autoscaler.standalone.changes import Changes
from flink_autoscaler.standalone.cluster_pass import PassReport, problems
from flink_autoscaler.standalone.gauges import Gauges
from flink_autoscaler.standalone.health import Health

log = structlog.get_logger(__name__)

_CLUSTER = ("cluster", "")


class Announcer:
    """Speaks for one cluster. Belongs to the thread of its passes.

    What lasts is said once: a cluster that does not answer is one warning, and one line when it is back.

    Args:
        gauges: Set after every pass.
        health: Told after every pass.
        is_store_in_doubt: Tells whether the state store may be away: that is said elsewhere, once for all jobs.
    """

    def __init__(
        self, *, gauges: Gauges, health: Health, is_store_in_doubt: Callable[[], bool] = lambda: False
    ) -> None:
        self._gauges = gauges
        self._health = health
        self._is_store_in_doubt = is_store_in_doubt
        self._changes = Changes()

    def announce(self, report: PassReport) -> None:
        """Log what is new, and set gauges and health."""
        with bound_contextvars(cluster=report.cluster):
            self._announce_cluster(report.cluster, report.error)
            for context in report.gone:
                log.info("job_gone", job_key=context.job_key, job_id=context.job_id)
                self._gauges.forget_job(report.cluster, context.job_key)
            for job_key in report.deleted:
                log.info("job_state_deleted", job_key=job_key)
            if report.error is None:
                self._announce_list(report)
                if report.is_acting:
                    self._announce_jobs(report)
            log.debug("pass_finished", jobs=len(report.jobs), seconds=round(report.seconds, 3))
        self._gauges.record_pass(report.cluster, report.seconds, succeeded=report.error is None)

    def _announce_cluster(self, cluster: str, error: AutoscalerError | None) -> None:
        if error is None:
            self._health.succeeded(cluster)
            if self._changes.is_over(_CLUSTER):
                log.info("cluster_recovered")
            return
        self._health.failed(cluster, str(error))
        if self._changes.is_news(_CLUSTER, str(error)):
            log.warning("cluster_failed", error=str(error), kind=type(error).__name__, exc_info=_surprise((error,)))

    def _announce_list(self, report: PassReport) -> None:
        self._gauges.record_list(
            report.cluster, listed=len(report.jobs), unreadable=len(report.failures), stuck=report.stuck
        )

    def _announce_jobs(self, report: PassReport) -> None:
        """Tell about the jobs; of those that another daemon looks after, that one tells."""
        for context in report.jobs:
            with bound_contextvars(job_key=context.job_key):
                self._announce_job(context, report.reports.get(context.job_key))
        self._announce_failures(report.failures)
        self._forget_absent(report)

    def _announce_job(self, context: JobAutoScalerContext, report: JobPassReport | None) -> None:
        if self._changes.is_news(("job", context.job_key), str(context.job_id)):
            log.info("job_found", job_id=context.job_id, status=context.status.value)
        if report is None:
            return
        self._gauges.record_job(context.cluster, report)
        if report.realization is not None and report.realization.result is RealizeResult.REQUESTED:
            log.info("job_rescale_requested", parallelism=dict(report.realization.requested))
        write = log.info if self._changes.is_news(("phase", context.job_key), report.outcome.phase) else log.debug
        write("job_phase", phase=report.outcome.phase.value, reasons=_reasons(report.outcome))
        shown = replace(report, errors=tuple(error for error in report.errors if not self._is_said_elsewhere(error)))
        self._announce_errors(context.job_key, "; ".join(problems(shown)), _surprise(shown.errors))

    def _announce_failures(self, failures: Mapping[JobKey, AutoscalerError]) -> None:
        for job_key, error in failures.items():
            if self._is_said_elsewhere(error):
                continue
            with bound_contextvars(job_key=job_key):
                self._announce_errors(job_key, str(error))

    def _is_said_elsewhere(self, error: AutoscalerError) -> bool:
        return isinstance(error, StoreError) and self._is_store_in_doubt()

    def _announce_errors(self, job_key: JobKey, text: str, surprise: BaseException | None = None) -> None:
        subject = ("error", job_key)
        if not text:
            if self._changes.is_over(subject):
                log.info("job_recovered")
        elif self._changes.is_news(subject, text):
            log.warning("job_failed", error=text, exc_info=surprise)

    def _forget_absent(self, report: PassReport) -> None:
        keys = {context.job_key for context in report.jobs} | report.failures.keys()
        self._changes.keep_only({(kind, key) for key in keys for kind in ("job", "phase", "error")} | {_CLUSTER})


def _surprise(errors: Iterable[AutoscalerError]) -> BaseException | None:
    """Return what foreign code raised: only that is worth a traceback."""
    return next((error.__cause__ for error in errors if isinstance(error, PluginError)), None)


def _reasons(outcome: PassOutcome) -> list[str]:
    """Return the reasons of a decision, those about a vertex with its name in front."""
    vertices = outcome.topology.vertices if outcome.topology is not None else {}
    names = {vertex_id: vertex.name or vertex_id for vertex_id, vertex in vertices.items()}
    return [
        reason.text if reason.vertex_id is None else f"{names.get(reason.vertex_id, reason.vertex_id)}: {reason.text}"
        for reason in outcome.decision.reasons
    ]
