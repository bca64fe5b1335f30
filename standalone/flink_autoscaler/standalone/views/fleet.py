"""What a daemon remembers of its last passes, for those who look at it: bounded, and cheap while nobody does."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import Final, NamedTuple

from pydantic import Field

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import FlinkMetric, VertexId
from flink_autoscaler.core.model.orders import Orders
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.core.rescale.suspension import suspensions
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.standalone.views.base import Text, View
from flink_autoscaler.standalone.views.figures import JobMetrics, Shares, job_metrics, pack_shares, time_shares

POINTS: Final = 120
"""Points of the small line of a job."""

POINT_MS: Final = 60_000
"""Between two of them: the last two hours."""

MAX_POINTS: Final = 240_000
"""Points of all jobs of a cluster together; with more than 2,000 jobs each of them has fewer."""

MAX_FAILURES: Final = 20
"""Failures of a cluster that are kept: the newest ones."""

_MAX_CAUSE_LENGTH: Final = 500
"""Characters of the cause of a failure."""


@dataclass(frozen=True, slots=True)
class Point:
    """What a job was like at an instant (epoch milliseconds).

    Attributes:
        shares: How the vertices of ``parallelism``, in its order, spent their time (:func:`pack_shares`).
    """

    at_ms: int
    load: float | None
    lag_seconds: float | None
    slots: int | None
    capacity: float | None = None
    lag: float | None = None
    parallelism: Mapping[VertexId, int] = field(default_factory=dict)
    shares: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class JobNow:
    """A job as the last pass over its cluster found it; it is equal to itself alone.

    Attributes:
        request: What that pass was asked; None where the job was not looked at.
        report: What came of it; None where it failed before.
        figures: Those of the last pass that found any.
        failure: Why there is no report; empty where there is one.
        at_ms: When it was looked at last.
        points: What it was like, the oldest first.
        shares: How its vertices spent their time lately, as far as they tell.
    """

    context: JobAutoScalerContext
    at_ms: int
    request: PassRequest | None = None
    report: JobPassReport | None = None
    figures: JobMetrics = field(default_factory=JobMetrics)
    failure: str = ""
    points: tuple[Point, ...] = ()
    shares: Mapping[VertexId, Shares] = field(default_factory=dict)


class FailureView(View):
    """Something that was asked of a cluster and failed."""

    at_ms: int = Field(description="When it did last.")
    what: str = Field(description="The cluster, a part of it, or the key of a job.")
    text: str
    count: int = Field(description="How often with the same cause, as long as it was among the newest.")


class PromiseView(View):
    """Slots that a job is about to have; others may not take them meanwhile."""

    job_key: str
    slots: int
    because: str


class ClusterState(View):
    """A cluster as the last pass found it."""

    name: str
    at_ms: int = Field(description="When that pass ended.")
    seconds: float = Field(description="How long it took.")
    error: Text | None = Field(description="Why it did not get to the jobs.")
    gaps: dict[str, Text] = Field(description="Parts of it that could not be listed, and why.")
    engine: str | None
    engine_reason: str | None
    is_acting: bool
    failed_ms: int | None = Field(description="When a pass did not get to the jobs last.")
    last_error: Text | None = Field(description="Why.")
    failures: list[FailureView] = Field(description="What failed lately, the newest first.")
    promised: list[PromiseView]


class Fleet:
    """Keeps the last pass over every job. Calls may come from any thread.

    Args:
        now_ms: The clock, epoch milliseconds.

    Attributes:
        version: Grows with every pass; who has seen it knows all there is.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._jobs: dict[str, dict[JobKey, _Latest]] = {}
        self._clusters: dict[str, ClusterState] = {}
        self._listeners: list[Callable[[int], None]] = []
        self.version = 0

    def add_listener(self, listener: Callable[[int], None]) -> None:
        """Tell somebody the new version after every pass, from the thread of the pass."""
        self._listeners.append(listener)

    def record_pass(self, report: PassReport) -> None:
        """Remember what a pass came to."""
        now_ms = self._now_ms()
        with self._lock:
            before = self._jobs.get(report.cluster, {})
            self._clusters[report.cluster] = _cluster(report, self._clusters.get(report.cluster), now_ms)
            if report.error is None:
                self._jobs[report.cluster] = dict(_jobs(report, before, now_ms))
            self.version += 1
            version = self.version
        for listener in self._listeners:
            listener(version)

    def update_orders(self, job_key: JobKey, orders: Orders) -> None:
        """Show at once what a job is suspended for after a command, and tell those who follow.

        Args:
            job_key: Of the job.
            orders: All orders for it, those of the settings included.
        """
        now_ms = self._now_ms()
        with self._lock:
            for jobs in self._jobs.values():
                if job_key in jobs:
                    jobs[job_key] = jobs[job_key].with_orders(orders, now_ms)
            self.version += 1
            version = self.version
        for listener in self._listeners:
            listener(version)

    def forget(self, cluster: str) -> None:
        """Forget a cluster that is managed no more."""
        with self._lock:
            self._jobs.pop(cluster, None)
            self._clusters.pop(cluster, None)
            self.version += 1

    def jobs(self) -> list[JobNow]:
        """Return all jobs, by cluster and in its order."""
        with self._lock:
            found = [job for jobs in self._jobs.values() for job in jobs.values()]
        return [job.snapshot() for job in found]

    def job_count(self) -> int:
        """Return how many jobs there are."""
        with self._lock:
            return sum(map(len, self._jobs.values()))

    def job(self, job_key: JobKey) -> JobNow | None:
        """Return a job; None where no cluster has it."""
        with self._lock:
            found = next((jobs[job_key] for jobs in self._jobs.values() if job_key in jobs), None)
        return None if found is None else found.snapshot()

    def clusters(self) -> list[ClusterState]:
        """Return all clusters that a pass has been over."""
        with self._lock:
            return list(self._clusters.values())


def _cluster(report: PassReport, before: ClusterState | None, now_ms: int) -> ClusterState:
    engine, earlier = report.engine, [] if before is None else before.failures
    failed: tuple[int | None, object] = (None, None) if before is None else (before.failed_ms, before.last_error)
    failed_ms, last_error = failed if report.error is None else (now_ms, report.error)
    return ClusterState.model_validate(
        {
            "name": report.cluster,
            "at_ms": now_ms,
            "seconds": report.seconds,
            "error": report.error,
            "gaps": report.gaps,
            "engine": None if engine is None else engine.engine,
            "engine_reason": None if engine is None else engine.reason,
            "is_acting": report.is_acting,
            "failed_ms": failed_ms,
            "last_error": last_error,
            "failures": _failures(report, earlier, now_ms),
            "promised": [
                {"job_key": e.job_key, "slots": e.slots, "because": e.kind.value} for e in report.reservations
            ],
        }
    )


def _failures(report: PassReport, before: Sequence[FailureView], now_ms: int) -> list[FailureView]:
    """Put what failed in a pass before what failed earlier."""
    known = {(each.what, each.text): each.count for each in before}
    found = {}
    for what, error in islice(_errors_of(report), MAX_FAILURES):
        text = mask_secrets(str(error))[:_MAX_CAUSE_LENGTH]
        found[what, text] = FailureView(at_ms=now_ms, what=what, text=text, count=1 + known.get((what, text), 0))
    older = (each for each in before if (each.what, each.text) not in found)
    return list(islice(chain(found.values(), older), MAX_FAILURES))


def _errors_of(report: PassReport) -> Iterator[tuple[str, AutoscalerError]]:
    if report.error is not None:
        yield report.cluster, report.error
    yield from report.gaps.items()
    yield from ((key, error) for key, error in report.failures.items() if not isinstance(error, NotReadyError))
    for job_key, done in report.reports.items():
        yield from ((job_key, error) for error in done.errors if not isinstance(error, NotReadyError))


class _Earlier(NamedTuple):
    """What the passes before the last one came to.

    Attributes:
        topology: That the time of the vertices is measured from; None where it is not known.
    """

    figures: JobMetrics = JobMetrics()
    points: tuple[Point, ...] = ()
    shares: Mapping[VertexId, Shares] = MappingProxyType({})
    topology: JobTopology | None = None


@dataclass(slots=True)
class _Latest:
    """The last pass over a job. What people see of it is worked out when somebody looks.

    Attributes:
        unknown_lags: Sources whose lag nobody tells.
        now: What somebody has seen; None while nobody has looked.
    """

    context: JobAutoScalerContext
    at_ms: int
    max_points: int
    earlier: _Earlier
    request: PassRequest | None = None
    report: JobPassReport | None = None
    failure: str = ""
    unknown_lags: frozenset[VertexId] = frozenset()
    now: JobNow | None = None

    def snapshot(self) -> JobNow:
        """Return the job as people see it. From any thread: two that look at once come to the same."""
        now = self.now or self._compute_snapshot()
        self.now = now
        return now

    def with_orders(self, orders: Orders, now_ms: int) -> _Latest:
        """Return the same pass with what other orders leave the job alone for."""
        if self.report is None:
            return self
        alone = suspensions(orders, self.report.outcome.state.supervision, now_ms)
        report = replace(self.report, suspensions=alone)
        return replace(self, report=report, now=None if self.now is None else replace(self.now, report=report))

    def as_earlier(self, at_ms: int, report: JobPassReport | None) -> _Earlier:
        """Return what the next pass, at an instant, has to know.

        A pass that nobody has looked at is left out where the point of the next one takes the place of its own.
        """
        points = self.earlier.points
        is_replaced = len(points) > 1 and at_ms - points[-2].at_ms < POINT_MS
        if self.now is None and is_replaced and report is not None and report.outcome.metrics is not None:
            return self.earlier
        now = self.snapshot()
        return _Earlier(now.figures, now.points, now.shares, _topology(now.report))

    def _compute_snapshot(self) -> JobNow:
        done, (known, points, _, _) = self.report, self.earlier
        shares = _shares(done, self.earlier)
        figures = JobMetrics() if done is None else job_metrics(done.outcome, shares, self.unknown_lags)
        if figures.load is None and points:
            figures = replace(figures, load=known.load) if figures.slots else known
        sizes = _sizes(done, points)
        point = Point(
            self.at_ms,
            figures.load,
            figures.lag_seconds,
            figures.slots,
            figures.capacity,
            figures.lag,
            sizes,
            pack_shares(sizes, {} if _topology(done) is None else shares),
        )
        points = _with_point(points, point, self.max_points)
        return JobNow(self.context, self.at_ms, self.request, done, figures, self.failure, points, shares)


def _jobs(report: PassReport, before: Mapping[JobKey, _Latest], now_ms: int) -> Iterator[tuple[JobKey, _Latest]]:
    most = max(2, min(POINTS, MAX_POINTS // max(1, len(report.jobs))))
    for context in report.jobs:
        job_key = context.job_key
        yield job_key, _job(context, report, before.get(job_key), now_ms, most)
    listed = {context.job_key for context in report.jobs}
    for job_key, error in report.failures.items():
        known = before.get(job_key)
        if job_key not in listed and known is not None:  # its entry of the list could not be read this time
            yield job_key, _with_failure(known, mask_secrets(str(error)))


def _job(
    context: JobAutoScalerContext, report: PassReport, before: _Latest | None, now_ms: int, max_points: int
) -> _Latest:
    whole, request = report.reports.get(context.job_key), report.requests.get(context.job_key)
    unknown, done = _unknown_lags(whole, before), _without_inputs(whole)
    error = report.failures.get(context.job_key)
    at_ms = now_ms if request is None else request.now_ms
    earlier = _Earlier() if before is None else before.as_earlier(at_ms, done)
    failure = "" if error is None else mask_secrets(str(error))
    return _Latest(context, at_ms, max_points, earlier, request, done, failure, unknown)


def _with_failure(known: _Latest, failure: str) -> _Latest:
    now = replace(known.snapshot(), failure=failure, report=None)
    return replace(known, failure=failure, report=None, now=now)


def _topology(done: JobPassReport | None) -> JobTopology | None:
    return None if done is None else done.outcome.observation.topology


def _sizes(done: JobPassReport | None, points: tuple[Point, ...]) -> Mapping[VertexId, int]:
    """Return the parallelism of the vertices; while it stays, all points share one mapping."""
    topology = _topology(done)
    known = points[-1].parallelism if points else {}
    sizes = {} if topology is None else {v: vertex.parallelism for v, vertex in topology.vertices.items()}
    return known if sizes == known else sizes


def _unknown_lags(report: JobPassReport | None, before: _Latest | None) -> frozenset[VertexId]:
    """Return the sources that answered without a lag: samples have 0 for them, as the reference has.

    Only a pass that is recorded has the answers; what it told holds until the next one.
    """
    outcome = None if report is None else report.outcome
    reading = None if outcome is None or outcome.inputs is None else outcome.inputs.reading
    if outcome is None or reading is None or outcome.observation.topology is None:
        return frozenset() if before is None else before.unknown_lags
    answers = reading.aggregates
    sources = (v for v, vertex in outcome.observation.topology.vertices.items() if vertex.is_source)
    return frozenset(v for v in sources if v in answers and FlinkMetric.PENDING_RECORDS not in answers[v])


def _without_inputs(report: JobPassReport | None) -> JobPassReport | None:
    """Leave out what the cluster answered: records have that."""
    if report is None or report.outcome.inputs is None:
        return report
    return replace(report, outcome=replace(report.outcome, inputs=None))


def _shares(done: JobPassReport | None, earlier: _Earlier) -> Mapping[VertexId, Shares]:
    topology = _topology(done)
    return earlier.shares if topology is None else {**earlier.shares, **time_shares(topology, earlier.topology)}


def _with_point(points: tuple[Point, ...], point: Point, most: int) -> tuple[Point, ...]:
    """Add a point where the last one is a minute old; else it takes the place of the newest."""
    kept = deque(points, most)
    if len(kept) > 1 and point.at_ms - kept[-2].at_ms < POINT_MS:
        kept.pop()
    kept.append(point)
    return tuple(kept)
