"""How jobs are, as Prometheus sees it: phases, reasons, rescales, and what leaves a job alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.supervision import Stage, Supervision

MAX_CODES: Final = 40
"""Reasons of one job that are shown: a plug-in may give as many as it likes."""
CODE_LIMIT: Final = 80

_PREFIX: Final = "flink_autoscaler_job_"
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


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the last pass over a job showed.

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


class JobSeries(Collector):
    """Keeps what the latest pass over every job showed, and writes it as series when Prometheus asks. Thread-safe.

    Args:
        clock: Epoch seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._since_ms = round(1000 * clock())
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, JobKey], _Seen] = {}
        self._counted: dict[tuple[str, JobKey], _Counted] = {}

    def put(self, cluster: str, report: JobPassReport) -> None:
        """Take what a pass over a job came to."""
        job, supervision = (cluster, report.job_key), report.outcome.state.supervision
        with self._lock:
            self._seen[job] = _seen(report)
            self._counted.setdefault(job, _Counted(self._since_ms, self._since_ms)).take(supervision)

    def forget(self, cluster: str, job_key: JobKey) -> None:
        """Show nothing more of a job."""
        with self._lock:
            self._seen.pop((cluster, job_key), None)
            self._counted.pop((cluster, job_key), None)

    def job_keys(self, cluster: str) -> set[JobKey]:
        """Return the jobs of a cluster that are shown."""
        with self._lock:
            return {job_key for name, job_key in self._seen if name == cluster}

    def describe(self) -> list[Metric]:
        """Declare the series without values."""
        return list(self._families({}, {}))

    def collect(self) -> list[Metric]:
        """Write all series."""
        with self._lock:
            return list(self._families(self._seen, self._counted))

    def _families(
        self, seen: dict[tuple[str, JobKey], _Seen], counted: dict[tuple[str, JobKey], _Counted]
    ) -> Iterator[Metric]:
        for name, (label, text) in _WHICH.items():
            family = GaugeMetricFamily(_PREFIX + name, text, labels=(*_JOB, label))
            for job, shown in seen.items():
                for value in shown.which[name]:
                    family.add_metric([*job, value], 1)
            yield family
        yield self._under_way(seen)
        yield _bounds(seen)
        yield from _counters(counted)

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


def _seen(report: JobPassReport) -> _Seen:
    outcome, supervision = report.outcome, report.outcome.state.supervision
    codes = dict.fromkeys(reason.code[:CODE_LIMIT] for reason in outcome.decision.reasons)
    which = {
        "pass_phase": (outcome.phase.value,),
        "reason": tuple(codes)[:MAX_CODES],
        "rescale_phase": (supervision.phase.value,),
        "left_alone": tuple(dict.fromkeys(each.what for each in report.left_alone)),
    }
    under_way = supervision.under_way
    begun_ms = None if under_way is None else under_way.decided_ms
    return _Seen(which, begun_ms, any(_is_bounded(reason) for reason in outcome.decision.reasons))


def _is_bounded(reason: Reason) -> bool:
    """Tell whether a vertex gets less than it needs; the default policy says so in figures alone."""
    figures = dict(reason.figures)
    wanted, aligned = figures.get("wanted"), figures.get("aligned")
    return reason.code in _BOUNDED or (wanted is not None and aligned is not None and wanted > aligned)
