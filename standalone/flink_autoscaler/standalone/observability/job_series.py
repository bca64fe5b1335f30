"""How jobs are, as Prometheus sees it: who they are, phases, reasons, rescales, and what leaves a job alone."""

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
from flink_autoscaler.core.supervise.left_alone import LeftAlone

MAX_CODES: Final = 40
"""Reasons of one job that are shown: a plug-in may give as many as it likes."""
CODE_LIMIT: Final = 80
NAME_LIMIT: Final = 80

MOST_JOBS: Final = 10_000
"""Jobs that are shown."""

PREFIX: Final = "flink_autoscaler_"
_PREFIX: Final = f"{PREFIX}job_"
LABELS: Final = ("yarn_application_id", "yarn_queue", "yarn_user")
_JOB: Final = ("cluster", "job_key")
_BOUNDED: Final = frozenset({"SCALING_LIMITED", "SLO_LIMITED"})
"""Codes of policies whose plan is cut to what a vertex may have."""
_FINAL: Final = tuple(stage for stage in Stage if stage.is_final)
_WHICH: Final = {
    "pass_phase": ("phase", "How far the last pass came; 1 for that phase, no series for others."),
    "reason": ("code", "Reasons of the last decision; 1 for each, no series for others."),
    "rescale_phase": ("phase", "Whether the job is trusted after its last rescale; 1 for that phase, no others."),
    "left_alone": ("what", "What makes the daemon leave the job alone; 1 for each, no series for others."),
}


class _Told(NamedTuple):
    """What the last pass over a job told of it."""

    phase: PassPhase
    reasons: tuple[Reason, ...]
    supervision: Supervision
    left_alone: tuple[LeftAlone, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What that shows.

    Attributes:
        which: By name of the series, the values of its label.
        begun_ms: When the rescale that is under way was decided; None where none is.
        is_at_bounds: Whether a vertex needs more than it may have.
    """

    which: dict[str, tuple[str, ...]]
    begun_ms: int | None
    is_at_bounds: bool


@dataclass(slots=True)
class _Counted:
    """Rescales and rollbacks since the start of the daemon, and up to which instant they are counted."""

    settled_ms: int
    rollback_ms: int
    stages: dict[Stage, int] = field(default_factory=lambda: dict.fromkeys(_FINAL, 0))
    rollbacks: int = 0

    def take(self, supervision: Supervision) -> None:
        """Count what has been remembered since the last time."""
        for record in supervision.rescales:
            if record.stage.is_final and (record.settled_ms or 0) > self.settled_ms:
                self.stages[record.stage] += 1
        self.settled_ms = max(self.settled_ms, *(record.settled_ms or 0 for record in supervision.rescales), 0)
        self.rollbacks += sum(at_ms > self.rollback_ms for at_ms in supervision.rollbacks_ms)
        self.rollback_ms = max(self.rollback_ms, *supervision.rollbacks_ms, 0)


@dataclass(slots=True)
class _Job:
    """What is kept of one job.

    Attributes:
        told: By the last pass; None before the first one.
        counted: The same.
        identity: Its id and labels; None where nobody has said who it is.
        lag_limit: Seconds; None where its option cannot be read.
        evaluated_at: When its metrics were evaluated last, by a clock that never goes back; None where they were not.
        errors: Of its passes, so far.
        scalings: Decisions to rescale, so far.
        balanced: Decisions that it is fine as it is, so far.
    """

    told: _Told | None = None
    counted: _Counted | None = None
    identity: tuple[str, ...] | None = None
    lag_limit: float | None = None
    evaluated_at: float | None = None
    errors: int = 0
    scalings: int = 0
    balanced: int = 0


class JobSeries(Collector):
    """Keeps what the latest pass over every job showed, and writes it as series when Prometheus asks. Thread-safe.

    So a pass over a large fleet does not pay for them. Of jobs beyond a limit there are none; they are counted.

    Args:
        clock: Epoch seconds.
        ticks: Seconds of a clock that never goes back.
        most_jobs: Jobs that are shown: those that were there first.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
        most_jobs: int = MOST_JOBS,
    ) -> None:
        self._clock = clock
        self._ticks = ticks
        self._most_jobs = most_jobs
        self._since_ms = round(1000 * clock())
        self._lock = threading.Lock()
        self._jobs: dict[tuple[str, JobKey], _Job] = {}

    def put(self, cluster: str, report: JobPassReport) -> None:
        """Take what a pass over a job came to."""
        outcome = report.outcome
        supervision, is_evaluated = outcome.state.supervision, outcome.evaluation is not None
        told = _Told(outcome.phase, outcome.decision.reasons, supervision, report.left_alone)
        errors = sum(not isinstance(error, NotReadyError) for error in report.errors)
        is_decided, is_rescale = outcome.phase is PassPhase.EXECUTED, isinstance(outcome.decision, Rescale)
        with self._lock:
            job = self._job(cluster, report.job_key)
            job.told = told
            job.counted = job.counted or _Counted(self._since_ms, self._since_ms)
            job.counted.take(supervision)
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

    def describe(self) -> list[Metric]:
        """Declare the series without values."""
        return list(self._families({}, 0))

    def collect(self) -> list[Metric]:
        """Write all series."""
        with self._lock:
            shown = dict(islice(self._jobs.items(), self._most_jobs))
            return list(self._families(shown, len(self._jobs) - len(shown)))

    def _job(self, cluster: str, job_key: JobKey) -> _Job:
        return self._jobs.setdefault((cluster, job_key), _Job())

    def _families(self, shown: Mapping[tuple[str, JobKey], _Job], left_out: int) -> Iterator[Metric]:
        seen = {job: _seen(each.told) for job, each in shown.items() if each.told is not None}
        for name, (label, text) in _WHICH.items():
            family = GaugeMetricFamily(_PREFIX + name, text, labels=(*_JOB, label))
            for job, last in seen.items():
                for value in last.which[name]:
                    family.add_metric([*job, value], 1)
            yield family
        yield self._under_way(seen)
        yield _bounds(seen)
        yield from _counters({job: each.counted for job, each in shown.items() if each.counted is not None})
        yield from _decisions({job: each for job, each in shown.items() if each.told is not None})
        yield from self._of_context(shown)
        text = "Jobs beyond the limit of this page, of which there are no series."
        yield GaugeMetricFamily(f"{PREFIX}jobs_left_out", text, value=left_out)

    def _of_context(self, shown: Mapping[tuple[str, JobKey], _Job]) -> Iterator[Metric]:
        age = "Time since the metrics were last evaluated."
        ages = GaugeMetricFamily(_PREFIX + "last_evaluation_age_seconds", age, labels=_JOB)
        infos = GaugeMetricFamily(_PREFIX + "info", "Who a job is; always 1.", labels=(*_JOB, "job_id", *LABELS))
        limit = "Lag above which the job counts as late: slo.lag."
        limits = GaugeMetricFamily(_PREFIX + "lag_limit_seconds", limit, labels=_JOB)
        now = self._ticks()
        for job, each in shown.items():
            if each.evaluated_at is not None:
                ages.add_metric(job, now - each.evaluated_at)
            if each.identity is not None:
                infos.add_metric([*job, *each.identity], 1)
            if each.lag_limit is not None:
                limits.add_metric(job, each.lag_limit)
        yield from (ages, infos, limits)

    def _under_way(self, seen: dict[tuple[str, JobKey], _Seen]) -> Metric:
        text = "Time since the rescale that is under way was decided; 0 where none is."
        family = GaugeMetricFamily(_PREFIX + "rescale_under_way_seconds", text, labels=_JOB)
        for job, shown in seen.items():
            begun_ms = shown.begun_ms
            family.add_metric(job, 0.0 if begun_ms is None else max(0.0, self._clock() - begun_ms / 1000))
        return family


def _bounds(seen: dict[tuple[str, JobKey], _Seen]) -> Metric:
    text = "Whether a vertex needs more parallelism than its bounds, partitions or key groups allow."
    family = GaugeMetricFamily(_PREFIX + "at_bounds", text, labels=_JOB)
    for job, shown in seen.items():
        family.add_metric(job, shown.is_at_bounds)
    return family


def _counters(counted: dict[tuple[str, JobKey], _Counted]) -> Iterator[Metric]:
    rescales = CounterMetricFamily(_PREFIX + "rescales", "Rescales that ended, by how.", labels=(*_JOB, "stage"))
    rollbacks = CounterMetricFamily(_PREFIX + "rollbacks", "Rollbacks that began.", labels=_JOB)
    for job, counts in counted.items():
        rollbacks.add_metric(job, counts.rollbacks)
        for stage, count in counts.stages.items():
            rescales.add_metric([*job, stage.value], count)
    yield from (rescales, rollbacks)


def _decisions(jobs: Mapping[tuple[str, JobKey], _Job]) -> Iterator[Metric]:
    errors = CounterMetricFamily(_PREFIX + "errors", "Errors of a job's passes.", labels=_JOB)
    scalings = CounterMetricFamily(_PREFIX + "scalings", "Decisions to rescale.", labels=_JOB)
    balanced = CounterMetricFamily(_PREFIX + "balanced", "Decisions that the job is fine as it is.", labels=_JOB)
    for job, each in jobs.items():
        errors.add_metric(job, each.errors)
        scalings.add_metric(job, each.scalings)
        balanced.add_metric(job, each.balanced)
    yield from (errors, scalings, balanced)


def _lag_limit(context: JobAutoScalerContext) -> float | None:
    try:
        return context.options.slo_lag.exact_seconds
    except ConfigError:  # said elsewhere: the job is not looked after with such an option
        return None


def _seen(told: _Told) -> _Seen:
    codes = dict.fromkeys(reason.code[:CODE_LIMIT] for reason in told.reasons)
    which = {
        "pass_phase": (told.phase.value,),
        "reason": tuple(codes)[:MAX_CODES],
        "rescale_phase": (told.supervision.phase.value,),
        "left_alone": tuple(dict.fromkeys(each.what for each in told.left_alone)),
    }
    under_way = told.supervision.under_way
    begun_ms = None if under_way is None else under_way.decided_ms
    return _Seen(which, begun_ms, any(map(_is_bounded, told.reasons)))


def _is_bounded(reason: Reason) -> bool:
    """Tell whether a vertex gets less than it needs; the default policy says so in figures alone."""
    if reason.code in _BOUNDED:
        return True
    figures = dict(reason.figures)
    return figures.get("wanted", NAN) > figures.get("aligned", NAN)
