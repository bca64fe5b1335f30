"""Prometheus series of jobs: identity, phases, reasons, rescales, and what suspends the scaling of a job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.errors import ConfigError, NotReadyError
from flink_autoscaler.core.model.decision import PassPhase, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.supervision import Stage, Supervision
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.rescale.suspension import Suspension

MAX_CODES: Final = 40
"""Reasons of one job that are shown: a plug-in may give as many as it likes."""
CODE_LIMIT: Final = 80
NAME_LIMIT: Final = 80

MAX_JOBS: Final = 10_000
"""Jobs that are shown."""

PREFIX: Final = "flink_autoscaler_"
_PREFIX: Final = f"{PREFIX}job_"
LABELS: Final = ("yarn_application_id", "yarn_queue", "yarn_user")
_JOB: Final = ("cluster", "job_key")
_BOUNDED: Final = frozenset({"SCALING_LIMITED", "SLO_LIMITED"})
"""Codes of policies whose plan is cut to what a vertex may have."""
_FINAL: Final = tuple(stage for stage in Stage if stage.is_final)
_GAUGES: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "pass_phase": (("phase",), "How far the last pass came; 1 for that phase, no series for others."),
    "reason": (("code",), "Reasons of the last decision; 1 for each, no series for others."),
    "rescale_phase": (("phase",), "Whether the job is trusted after its last rescale; 1 for that phase, no others."),
    "scaling_suspended": (("what",), "What suspends the scaling of the job; 1 for each, no series for others."),
    "rescale_under_way_seconds": ((), "Time since the rescale that is under way was decided; 0 where none is."),
    "at_bounds": ((), "Whether a vertex needs more parallelism than its bounds, partitions or key groups allow."),
    "last_evaluation_age_seconds": ((), "Time since the metrics were last evaluated."),
    "info": (("job_id", *LABELS), "Who a job is; always 1."),
    "lag_limit_seconds": ((), "Lag above which the job counts as late: slo.lag."),
}
_COUNTERS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "rescales": (("stage",), "Rescales that ended, by how."),
    "rollbacks": ((), "Rollbacks that began."),
    "errors": ((), "Errors of a job's passes."),
    "scalings": ((), "Decisions to rescale."),
    "balanced": ((), "Decisions that the job is fine as it is."),
}
"""Series by name: their labels behind cluster and job, and what they say."""

_Sample = tuple[str, tuple[str, ...], float]
"""Name of the series, values of its labels behind cluster and job, and the number."""


class _LastPass(NamedTuple):
    """Reports of the last pass over a job."""

    phase: PassPhase
    reasons: tuple[Reason, ...]
    supervision: Supervision
    suspensions: tuple[Suspension, ...]

    def samples(self, now_ms: float) -> Iterator[_Sample]:
        yield "pass_phase", (self.phase.value,), 1
        for code in islice(dict.fromkeys(reason.code[:CODE_LIMIT] for reason in self.reasons), MAX_CODES):
            yield "reason", (code,), 1
        yield "rescale_phase", (self.supervision.phase.value,), 1
        for what in dict.fromkeys(each.what for each in self.suspensions):
            yield "scaling_suspended", (what,), 1
        current = self.supervision.under_way
        seconds = 0.0 if current is None else max(0.0, (now_ms - current.decided_ms) / 1000)
        yield "rescale_under_way_seconds", (), seconds
        yield "at_bounds", (), any(map(_is_bounded, self.reasons))


@dataclass(slots=True)
class _Counters:
    """Rescales and rollbacks since the start of the daemon, and up to which instant they are counted."""

    settled_ms: int
    rollback_ms: int
    stages: dict[Stage, int] = field(default_factory=lambda: dict.fromkeys(_FINAL, 0))
    rollbacks: int = 0

    def add_new(self, supervision: Supervision) -> None:
        """Count what has been remembered since the last time."""
        for record in supervision.rescales:
            if record.stage.is_final and (record.settled_ms or 0) > self.settled_ms:
                self.stages[record.stage] += 1
        self.settled_ms = max(self.settled_ms, *(record.settled_ms or 0 for record in supervision.rescales), 0)
        self.rollbacks += sum(at_ms > self.rollback_ms for at_ms in supervision.rollbacks_ms)
        self.rollback_ms = max(self.rollback_ms, *supervision.rollbacks_ms, 0)

    def samples(self) -> Iterator[_Sample]:
        yield "rollbacks", (), self.rollbacks
        yield from (("rescales", (stage.value,), count) for stage, count in self.stages.items())


@dataclass(slots=True)
class _Job:
    """Series of one job.

    Attributes:
        last_pass: By the last pass; None before the first one.
        counters: The same.
        identity: Its id and labels; None where nobody has said who it is.
        lag_limit: Seconds; None where its option cannot be read.
        evaluated_at: When its metrics were evaluated last, by a clock that never goes back; None where they were not.
        errors: Of its passes, so far.
        scalings: Decisions to rescale, so far.
        balanced: Decisions that it is fine as it is, so far.
    """

    last_pass: _LastPass | None = None
    counters: _Counters | None = None
    identity: tuple[str, ...] | None = None
    lag_limit: float | None = None
    evaluated_at: float | None = None
    errors: int = 0
    scalings: int = 0
    balanced: int = 0

    def samples(self, now_ms: float, ticks: float) -> Iterator[_Sample]:
        if self.last_pass is not None:
            yield from self.last_pass.samples(now_ms)
            yield from (("errors", (), self.errors), ("scalings", (), self.scalings), ("balanced", (), self.balanced))
        if self.counters is not None:
            yield from self.counters.samples()
        if self.evaluated_at is not None:
            yield "last_evaluation_age_seconds", (), ticks - self.evaluated_at
        if self.identity is not None:
            yield "info", self.identity, 1
        if self.lag_limit is not None:
            yield "lag_limit_seconds", (), self.lag_limit


class JobMetricsCollector(Collector):
    """Keeps what the latest pass over every job showed, and writes it as series when Prometheus asks. Thread-safe.

    So a pass over a large fleet does not pay for them. Of jobs beyond a limit there are none; they are counted.

    Args:
        clock: Epoch seconds.
        ticks: Seconds of a clock that never goes back.
        max_jobs: Jobs that are shown: those that were there first.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
        max_jobs: int = MAX_JOBS,
    ) -> None:
        self._clock = clock
        self._ticks = ticks
        self._max_jobs = max_jobs
        self._since_ms = round(1000 * clock())
        self._lock = threading.Lock()
        self._jobs: dict[tuple[str, JobKey], _Job] = {}

    def record(self, cluster: str, report: JobPassReport) -> None:
        """Take what a pass over a job came to."""
        outcome = report.outcome
        supervision, is_evaluated = outcome.state.supervision, outcome.metrics is not None
        told = _LastPass(outcome.phase, outcome.decision.reasons, supervision, report.suspensions)
        errors = sum(not isinstance(error, NotReadyError) for error in report.errors)
        is_decided, is_rescale = outcome.phase is PassPhase.EXECUTED, isinstance(outcome.decision, Rescale)
        with self._lock:
            job = self._job(cluster, report.job_key)
            job.last_pass = told
            job.counters = job.counters or _Counters(self._since_ms, self._since_ms)
            job.counters.add_new(supervision)
            job.errors += errors
            job.scalings += is_decided and is_rescale
            job.balanced += is_decided and not is_rescale
            job.evaluated_at = self._ticks() if is_evaluated else job.evaluated_at

    def identify(self, context: JobAutoScalerContext) -> None:
        """Take who a job is at present, and which lag is acceptable for it."""
        texts = (context.job_id or "", *(context.labels.get(name, "")[:NAME_LIMIT] for name in LABELS))
        lag_limit = _lag_limit(context)
        with self._lock:
            job = self._job(context.cluster, context.job_key)
            job.identity, job.lag_limit = texts, lag_limit

    def forget(self, cluster: str, job_key: JobKey) -> None:
        """Show nothing more of a job."""
        with self._lock:
            self._jobs.pop((cluster, job_key), None)

    def job_keys(self, cluster: str) -> set[JobKey]:
        """Return the jobs of a cluster that are known."""
        with self._lock:
            return {job_key for name, job_key in self._jobs if name == cluster}

    def collect(self) -> Iterator[Metric]:
        """Write all series."""
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {
            name: kind(_PREFIX + name, text, labels=(*_JOB, *labels))
            for kind, declared in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS))
            for name, (labels, text) in declared.items()
        }
        now_ms, ticks = 1000 * self._clock(), self._ticks()
        with self._lock:
            for job, each in islice(self._jobs.items(), self._max_jobs):
                for name, labels, value in each.samples(now_ms, ticks):
                    families[name].add_metric([*job, *labels], value)
            left_out = max(0, len(self._jobs) - self._max_jobs)
        yield from families.values()
        text = "Jobs beyond the limit of this page, of which there are no series."
        yield GaugeMetricFamily(f"{PREFIX}jobs_skipped", text, value=left_out)

    def _job(self, cluster: str, job_key: JobKey) -> _Job:
        return self._jobs.setdefault((cluster, job_key), _Job())


def _lag_limit(context: JobAutoScalerContext) -> float | None:
    try:
        return context.options.slo_lag.exact_seconds
    except ConfigError:  # said elsewhere: the job is not managed with such an option
        return None


def _is_bounded(reason: Reason) -> bool:
    """Tell whether a vertex gets less than it needs; the default policy says so in figures alone."""
    if reason.code in _BOUNDED:
        return True
    figures = dict(reason.figures)
    return figures.get("wanted", NAN) > figures.get("aligned", NAN)
