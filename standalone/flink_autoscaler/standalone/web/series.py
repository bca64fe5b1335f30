"""How a job went: from the memory of the daemon, and further back from the metric history."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.forecast.forecast_curve import forecast_curve
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.pipeline.tables.files import is_local
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.standalone.views.figures import unpack_shares
from flink_autoscaler.standalone.views.fleet import POINT_MS, POINTS, JobNow, Point
from flink_autoscaler.standalone.views.outcomes import names_of
from flink_autoscaler.standalone.views.series import (
    ExpectedLoadView,
    ForecastView,
    RescaleView,
    SeriesPointView,
    SeriesView,
    SharesView,
    SizeView,
    VertexSeriesView,
)
from flink_autoscaler.standalone.web.app_state import AppState
from flink_autoscaler.standalone.web.errors import StateConflictError
from flink_autoscaler.standalone.web.requests import SeriesQuery

if TYPE_CHECKING:
    from flink_autoscaler.pipeline.tables.job_series import JobHistorySeries, SeriesPoint, Span

MEMORY_MS: Final = POINTS * POINT_MS
"""How far back memory reaches."""

MAX_RANGE_MS: Final = 31 * 86_400_000
_MINUTE_MS: Final = 60_000
_CACHE_SIZE: Final = 16
_READ_TIMEOUT: Final = 3.0
"""Seconds to wait while something else is read."""

_MAX_RESCALES: Final = 500


def history_problem(history: HistorySettings) -> str | None:
    """Return why nothing can be looked up in the history; None where it can."""
    if history.path is None:
        return (
            "no history is kept: set autoscaler.history.enabled: true and autoscaler.history.path to a folder, and ask "
            "again when an hour or more is recorded"
        )
    if not is_local(history.path):
        return (
            f"the history is at {mask_secrets(history.path)}, which only Spark reaches: run flink-autoscaler"
            " backtest or "
            "report for it"
        )
    return None


class SeriesReader:
    """Reads how jobs went. What was read from files is kept for as long as it says the same; one is read at a time.

    Args:
        site: The daemon.
    """

    def __init__(self, site: AppState) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._read: OrderedDict[tuple[str, Span], JobHistorySeries] = OrderedDict()

    def series(self, job: JobNow, asked: SeriesQuery) -> SeriesView:
        """Return how a job went.

        Args:
            job: As it is now.
            asked: Which time.

        Raises:
            ConfigError: The time ends before it begins, or is longer than a month.
            ConflictError: No history is kept, only Spark reaches it, or others are reading.
            StoreError: The history cannot be read, or there is too much of it.
        """
        now_ms = self._site.now_ms()
        since_ms, until_ms = _time_range(asked, now_ms)
        if since_ms < now_ms - MEMORY_MS:
            return self._from_history(job, since_ms, until_ms, asked)
        # A daemon that was started lately has a shorter memory than the history.
        is_short = not job.points or job.points[0].at_ms - since_ms > 2 * POINT_MS
        if is_short and history_problem(self._site.settings().history) is None:
            with suppress(StateConflictError, StoreError):
                found = self._from_history(job, since_ms, until_ms, asked)
                if found.points and (not job.points or found.points[0].at_ms < job.points[0].at_ms - POINT_MS):
                    return found
        return _from_memory(job, since_ms, until_ms, asked)

    def _from_history(self, job: JobNow, since_ms: int, until_ms: int, asked: SeriesQuery) -> SeriesView:
        from flink_autoscaler.pipeline.tables.job_series import Span  # noqa: PLC0415 - brings Arrow

        history = self._site.settings().history
        if problem := history_problem(history):
            raise StateConflictError(problem)
        minutes = math.ceil((until_ms - since_ms) // _MINUTE_MS / asked.points)
        step_ms = max(1, minutes) * _MINUTE_MS
        # Whole steps, so that what was read can be shown again until the present one is over.
        first, last = since_ms // step_ms * step_ms, -(-until_ms // step_ms) * step_ms
        found = self._read_cached(history.path or "", job, Span(first, last, step_ms))
        return SeriesView(
            job_key=job.context.job_key,
            source="history",
            since_ms=since_ms,
            until_ms=until_ms,
            step_ms=step_ms,
            points=list(_with_latest(job, found, Span(first, last, step_ms)))[-asked.points :],
            vertices=[
                VertexSeriesView(vertex_id=each.vertex_id, name=each.name, sizes=_sizes(each.parallelism))
                for each in found.vertices
            ],
            shares=_shares(job, found, asked.vertex, Span(first, last, step_ms)),
            rescales=_rescales(job, found, since_ms, until_ms),
            forecast=forecast_view(job, asked.ahead),
            damaged=list(found.damaged[:10]),
        )

    def _read_cached(self, path: str, job: JobNow, span: Span) -> JobHistorySeries:
        from flink_autoscaler.pipeline.tables.job_series import read_job_series  # noqa: PLC0415 - brings Arrow

        key = (job.context.job_key, span)
        if not self._lock.acquire(timeout=_READ_TIMEOUT):  # who waits keeps a thread of the endpoint
            raise StateConflictError("others are reading the history: ask again")
        try:
            found = self._read.pop(key, None) or read_job_series(path, (job.context.cluster, job.context.job_key), span)
            self._read[key] = found  # the latest comes last
            if len(self._read) > _CACHE_SIZE:
                self._read.popitem(last=False)
            return found
        finally:
            self._lock.release()


def _time_range(asked: SeriesQuery, now_ms: int) -> tuple[int, int]:
    """Return the first and the last instant that are meant.

    Raises:
        ConfigError: The time ends before it begins, or is longer than a month.
    """
    until_ms = now_ms if asked.to_ms is None else min(asked.to_ms, now_ms)
    since_ms = now_ms - MEMORY_MS if asked.from_ms is None else asked.from_ms
    if since_ms >= until_ms:
        raise ConfigError("from_ms: the time ends before it begins")
    if until_ms - since_ms > MAX_RANGE_MS:
        raise ConfigError(f"from_ms: {MAX_RANGE_MS // 86_400_000} days at most")
    return since_ms, until_ms


def _from_memory(job: JobNow, since_ms: int, until_ms: int, asked: SeriesQuery) -> SeriesView:
    points = [each for each in job.points if since_ms <= each.at_ms <= until_ms]
    names = names_of(None if job.report is None else job.report.outcome)
    return SeriesView(
        job_key=job.context.job_key,
        source="memory",
        since_ms=since_ms,
        until_ms=until_ms,
        step_ms=POINT_MS,
        points=[_point(each, each.at_ms) for each in points[-asked.points :]],
        vertices=[
            VertexSeriesView(
                vertex_id=vertex,
                name=names.get(vertex, vertex),
                sizes=_sizes([(each.at_ms, each.parallelism[vertex]) for each in points if vertex in each.parallelism]),
            )
            for vertex in _vertices(each.parallelism for each in points)
        ],
        shares=[_shares_view(each, asked.vertex, each.at_ms) for each in points if asked.vertex in each.parallelism],
        rescales=_rescales(job, None, since_ms, until_ms),
        forecast=forecast_view(job, asked.ahead),
        damaged=[],
    )


def _point(point: Point | SeriesPoint, at_ms: int) -> SeriesPointView:
    return SeriesPointView.model_validate(replace(point, at_ms=at_ms))


def _with_latest(job: JobNow, found: JobHistorySeries, span: Span) -> Iterator[SeriesPointView]:
    """Yield what was read, and behind it what is in memory and not written yet: of each step the last point."""
    last_ms = found.points[-1].at_ms if found.points else span.since_ms - 1
    yield from (_point(each, each.at_ms) for each in found.points)
    steps = {span.begin(each.at_ms): each for each in job.points}
    later = {at_ms: each for at_ms, each in steps.items() if last_ms < at_ms < span.until_ms}
    yield from (_point(each, at_ms) for at_ms, each in later.items())


def _shares_view(point: Point, vertex_id: str, at_ms: int) -> SharesView:
    spent = unpack_shares(point.shares, list(point.parallelism).index(vertex_id))
    values = {"busy": None, "idle": None, "backpressured": None} if spent is None else asdict(spent)
    return SharesView(at_ms=at_ms, **values)


def _shares(job: JobNow, found: JobHistorySeries, vertex_id: str, span: Span) -> list[SharesView]:
    """Describe how a vertex spent its time: memory goes before the history, which has its busy time alone."""
    busy = next((each.busy for each in found.vertices if each.vertex_id == vertex_id), ())
    views = {at_ms: SharesView(at_ms=at_ms, busy=share, idle=None, backpressured=None) for at_ms, share in busy}
    if span.step_ms == POINT_MS:
        for point in job.points:
            at_ms = span.begin(point.at_ms)
            if vertex_id in point.parallelism and span.since_ms <= at_ms < span.until_ms and point.shares:
                views[at_ms] = _shares_view(point, vertex_id, at_ms)
    return [views[at_ms] for at_ms in sorted(views)]


def forecast_view(job: JobNow, hours: float) -> ForecastView | None:
    """Describe how the load goes on as the last pass over a job expects it; None where it expects nothing."""
    if job.request is None or job.report is None:
        return None
    course = forecast_curve(job.request, job.report.outcome, hours * 3600)
    if course is None:
        return None
    return ForecastView(
        made_ms=round(1000 * course.asof),
        is_trusted=course.is_trusted,
        points=[
            ExpectedLoadView(at_ms=round(1000 * each.at), median=each.median, upper=each.upper)
            for each in course.points
        ],
    )


def _vertices(sizes: Iterable[Mapping[VertexId, int]]) -> list[VertexId]:
    return list(dict.fromkeys(vertex for each in sizes for vertex in each))


def _sizes(sizes: Sequence[tuple[int, int]]) -> list[SizeView]:
    """Describe of sizes at instants the first, those that differ from the one before, and the last."""
    return [
        SizeView(at_ms=at_ms, parallelism=size)
        for number, (at_ms, size) in enumerate(sizes)
        if number in (0, len(sizes) - 1) or size != sizes[number - 1][1]
    ]


def _rescales(job: JobNow, found: JobHistorySeries | None, since_ms: int, until_ms: int) -> list[RescaleView]:
    """Describe the rescales within a time; what the daemon knows itself goes before what is written."""
    recorded = () if found is None else found.rescales
    remembered = () if job.report is None else job.report.outcome.state.supervision.rescales
    views = map(RescaleView.model_validate, (*recorded, *remembered))
    known = {each.decided_ms: each for each in views}
    within = [each for at_ms, each in sorted(known.items()) if since_ms <= at_ms <= until_ms]
    return within[-_MAX_RESCALES:]
