"""Results of a pass over a cluster: values that logs, gauges, pages and commands show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.decide.slot_allocation import Reservation
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import EngineUse, PassRequest


@dataclass(frozen=True)
class PassReport:
    """Result of one pass over one cluster.

    Attributes:
        jobs: The readable jobs, in the cluster's order.
        requests: What the engine was asked, by job.
        reports: What was found out, by job; jobs that failed before are missing.
        failures: Why a job has no report, by job key; also of jobs that could not be read.
        gaps: Parts of the cluster that could not be listed, and why.
        gone: Jobs that have left the cluster.
        deleted: Jobs whose state was deleted, because they have been gone for long enough.
        began: When the pass began, in seconds of ``time.monotonic``.
        seconds: How long it took.
        engine: Where its jobs were evaluated, and why there; None where there was none to read.
        promised: Slots that jobs are about to have, where the daemon keeps count of them.
        is_acting: Whether what was decided was carried out; a daemon that stands by only looks on.
        error: Why the pass did not get to the jobs at all; None when it did.
    """

    cluster: str
    jobs: tuple[JobAutoScalerContext, ...] = ()
    requests: Mapping[JobKey, PassRequest] = field(default_factory=dict)
    reports: Mapping[JobKey, JobPassReport] = field(default_factory=dict)
    failures: Mapping[JobKey, AutoscalerError] = field(default_factory=dict)
    gaps: Mapping[str, AutoscalerError] = field(default_factory=dict)
    gone: tuple[JobAutoScalerContext, ...] = ()
    deleted: tuple[JobKey, ...] = ()
    began: float = 0.0
    seconds: float = 0.0
    engine: EngineUse | None = None
    promised: tuple[Reservation, ...] = ()
    is_acting: bool = True
    error: AutoscalerError | None = None

    @property
    def is_clean(self) -> bool:
        """True when cluster and jobs could be read and nothing failed."""
        is_whole = self.error is None and not self.failures and not self.gaps
        return is_whole and not any(problems(each) for each in self.reports.values())

    @property
    def stuck(self) -> int:
        """Number of jobs that are still under way, or waited in vain for a worker."""
        return sum(isinstance(error, NotReadyError) for error in self.failures.values())


def problems(report: JobPassReport) -> tuple[str, ...]:
    """Return what a person should look at; a job that is not ready yet is none of it."""
    errors = tuple(str(error) for error in report.errors if not isinstance(error, NotReadyError))
    if report.outcome.phase is PassPhase.INVALID_CONFIG:
        return (*(reason.text for reason in report.outcome.decision.reasons), *errors)
    return errors


def job_facts(context: JobAutoScalerContext) -> dict[str, str]:
    """Return who a job is, with its labels, for every log line about it."""
    return {**context.labels, "cluster": context.cluster, "job_key": context.job_key}
