"""The profiles that the nightly job would have made at the beginning of a simulated period, and every day after it.

Each is made of what had arrived by then. What is found is kept for the next configurations of the same job.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from flink_autoscaler.core.model.load_profile import (
    BUCKET,
    BUCKETS_PER_DAY,
    BUCKETS_PER_WEEK,
    DAY,
    LoadProfile,
    ProfileResult,
    bucket_start,
)
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.pipeline.backtest.arrivals import Quarters
from flink_autoscaler.pipeline.backtest.subject import Subject
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.fit import History, Series
from flink_autoscaler.pipeline.profiles.source import learned, missing_share, shape_of

_KEPT: Final = 8
"""Jobs times settings whose profiles are kept; a few megabytes each."""


@dataclass(frozen=True, slots=True)
class Night:
    """Result of one night.

    Attributes:
        days: Days of arrivals that were learned from.
    """

    result: ProfileResult
    days: float


def nights_of(subject: Subject, configuration: Mapping[str, str]) -> tuple[Night, ...]:
    """Return the nights of all sources of a job, by source and time; none where its forecasts are off.

    Raises:
        ConfigError: An option cannot be read, or this machine does not know the time zone.
    """
    options = AutoscalerOptions(configuration)
    if not options.forecast_enabled:
        return ()
    start = subject.start_ms / 1000
    asofs = range(bucket_start(start), math.ceil(start + subject.workload.duration), round(DAY))
    settings = ProfileSettings.of(options, start)
    return _nights(subject.job_key, tuple(subject.past.items()), settings, asofs)


@lru_cache(maxsize=_KEPT)
def _nights(
    job_key: str, past: tuple[tuple[VertexId, Quarters], ...], settings: ProfileSettings, asofs: range
) -> tuple[Night, ...]:
    sources = [_Source(job_key, source, quarters, settings) for source, quarters in past]
    return tuple(source.at(asof) for source in sources for asof in asofs)


class _Source:
    """One source, looked at night after night."""

    def __init__(self, job_key: str, source: VertexId, quarters: Quarters, settings: ProfileSettings) -> None:
        self._job_key, self._source = job_key, source
        self._quarters, self._settings = quarters, settings
        self._series = quarters.series(settings)
        self._history = History(self._series, settings)

    def at(self, asof: int) -> Night:
        """Look at what was known at an instant, the beginning of a quarter hour."""
        end = asof // BUCKET
        if end - 1 in self._quarters.late:
            return _Source(self._job_key, self._source, self._quarters.before(end), self._settings).at(asof)
        settings = replace(self._settings, asof=asof)
        found = learned(self._history, self._series, settings)
        problem = found.get("problem")
        profile = self._profile(found, end) if problem is None else None
        return Night(
            ProfileResult(self._job_key, self._source, found["asof"], profile, problem), _days(self._series, settings)
        )

    def _profile(self, found: Mapping[str, Any], end: int) -> LoadProfile:
        shares = shape_of(self._history, end)
        return LoadProfile(
            tuple(None if each is None else each.q50 for each in shares),
            tuple(None if each is None else each.q90 for each in shares),
            weeks=found["weeks"],
            level=found["level"],
            growth=found["growth"],
            asof=found["asof"],
            timezone=found["timezone"],
            missing=self._missing(end),
            wape=found.get("wape"),
            exceed=found.get("exceed"),
        )

    def _missing(self, end: int) -> float:
        index = self._quarters.index
        since, until = bisect_left(index, end - BUCKETS_PER_WEEK), bisect_left(index, end)
        return missing_share(index[0] if until else None, until - since, end)


def _days(series: Series, settings: ProfileSettings) -> float:
    end = settings.asof // BUCKET
    since, until = (bisect_left(series.index, at) for at in (end - settings.weeks * BUCKETS_PER_WEEK, end))
    return (until - since) / BUCKETS_PER_DAY


def remarks(nights: Sequence[Night], names: Mapping[VertexId, str]) -> Iterator[str]:
    """Yield what is to be said about nights, by source and time, in full sentences."""
    for source in dict.fromkeys(night.result.source_id for night in nights):
        of_source = [night for night in nights if night.result.source_id == source]
        yield from _remarks(of_source, names[source])


def _remarks(nights: Sequence[Night], name: str) -> Iterator[str]:
    made = [night.days for night in nights if night.result.profile is not None]
    if made:
        days = f"{made[0]:.1f}" if len(made) == 1 else f"{made[0]:.1f} to {made[-1]:.1f}"
        profiles = f"{len(made)} nightly profile{'' if len(made) == 1 else 's'}"
        yield f"Forecasts of {name}: {profiles}, made of {days} days of arrivals."
    problems = [night.result.problem for night in nights if night.result.problem is not None]
    if problems:
        yield f"Forecasts of {name}: no profile in {len(problems)} of {len(nights)} nights: {problems[0]}."
