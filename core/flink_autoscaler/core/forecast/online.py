"""What a profile says about the near future, corrected by how the last hour went, from rates gathered by quarter hours.

The correction is a factor that fades: what is unusual now is less so in some hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from flink_autoscaler.core.model.codec import Rounded, row
from flink_autoscaler.core.model.load_profile import AHEAD, BUCKET, MIN_MINUTES, LoadProfile, bucket_start
from flink_autoscaler.core.model.policy_values import Outage, SourceForecast
from flink_autoscaler.core.model.value import value
from flink_autoscaler.core.options.forecast import ForecastParams

RECENT: Final = 4
"""Quarter hours that the correction looks back."""
MIN_RECENT: Final = 2
"""With fewer of them there is no correction."""
STEP: Final = 300
"""Seconds between the instants at which a maximum is looked for."""
MIN_DOWN: Final = 3600.0
"""Shortest horizon of a scale-down, seconds."""


@row
@value
class Bucket:
    """A complete quarter hour: its beginning, and the mean rate in records/s."""

    start: int
    rate: Rounded


@value
class Horizons:
    """How far to look ahead, seconds.

    Attributes:
        up: Until a scale-up decided now would have caught up.
        down: The same for a scale-down, an hour at least.
    """

    up: float
    down: float

    @classmethod
    def of(cls, outage: Outage, catch_up: float) -> Horizons:
        """Make horizons from what a rescale costs and the seconds in which the backlog is to be worked off.

        They end after a day: the load of a day later is that of another day.
        """
        up = min(outage.delay + outage.q90 + catch_up, AHEAD)
        return cls(up, max(up, MIN_DOWN))


def correction(profile: LoadProfile, recent: Sequence[Bucket], now: float, settings: ForecastParams) -> float:
    """Return how much more arrived in the last hour than usual.

    Args:
        profile: Of the source.
        recent: Complete quarter hours; others than the last four before ``now`` do not count.
        now: The present.
        settings: Its bounds.
    """
    ratios = [
        each.rate / usual
        for each in recent
        if _is_recent(each, now)
        and (share := profile.q50[profile.slot(each.start)]) is not None
        and (usual := share * profile.base(each.start)) > 0.0
    ]
    return bounded_median(ratios, settings.correction_bounds)


def _is_recent(bucket: Bucket, now: float) -> bool:
    end = bucket_start(now)
    return end - RECENT * BUCKET <= bucket.start < end


def bounded_median(ratios: Sequence[float], bounds: tuple[float, float]) -> float:
    """Return the median within bounds, 1 when there are too few ratios to tell."""
    if len(ratios) < MIN_RECENT:
        return 1.0
    return min(max(median(ratios), bounds[0]), bounds[1])


def decayed(k: float, lead: float, tau: float) -> float:
    """Return what is left of a correction after ``lead`` seconds."""
    return 1.0 + (k - 1.0) * math.exp(-lead / tau)


def expected_rate(
    profile: LoadProfile, shares: Sequence[float | None], at: float, *, now: float, k: float, tau: float
) -> float | None:
    """Return the rate expected at an instant, records/s; None where the profile does not know.

    Args:
        profile: Of the source.
        shares: The quantile: ``profile.q50`` or ``profile.q90``.
        at: Not before ``now``.
        now: The present.
        k: The correction.
        tau: How fast it fades, seconds.
    """
    share = shares[profile.slot(at)]
    return None if share is None else profile.base(at) * share * decayed(k, at - now, tau)


def peak_rate(profile: LoadProfile, now: float, horizon: float, *, k: float, tau: float) -> float | None:
    """Return the greatest upper quantile from now to the horizon; None when nothing of that is known.

    Looked for every five minutes and at every beginning of a quarter hour, so that a longer horizon never gives less.
    """
    found = (expected_rate(profile, profile.q90, at, now=now, k=k, tau=tau) for at in _instants(now, horizon))
    return max((each for each in found if each is not None), default=None)


def _instants(now: float, horizon: float) -> Iterator[float]:
    end = now + horizon
    yield from (now + step for step in range(0, math.floor(horizon) + 1, STEP))
    yield from range(bucket_start(now) + BUCKET, math.floor(end) + 1, BUCKET)


def source_forecast(
    profile: LoadProfile, recent: Sequence[Bucket], now: float, horizons: Horizons, settings: ForecastParams
) -> SourceForecast | None:
    """Return what the profile says about the time until a rescale has settled; None when it knows nothing about it.

    Raises:
        ConfigError: This machine does not know the profile's time zone.
    """
    k = correction(profile, recent, now, settings)
    up, down = (peak_rate(profile, now, each, k=k, tau=settings.decay_time) for each in (horizons.up, horizons.down))
    return None if up is None or down is None else SourceForecast(up, down, profile.level)


@row
@value
class OpenBucket:
    """A quarter hour that is not over, or whose end nobody has noticed yet.

    Attributes:
        start: Its beginning.
        minutes: One bit for every minute that has a sample.
        count: Samples.
        total: Sum of their rates.
    """

    start: int
    minutes: int = 0
    count: int = 0
    total: float = 0.0

    def with_sample(self, at: float, rate: float) -> OpenBucket:
        """Return the quarter hour with one more sample of it."""
        minute = 1 << int(at - self.start) // 60
        return OpenBucket(self.start, self.minutes | minute, self.count + 1, self.total + rate)

    def complete(self) -> Bucket | None:
        """Return the quarter hour as complete; None when too many minutes are missing."""
        if self.minutes.bit_count() < MIN_MINUTES:
            return None
        return Bucket(self.start, self.total / self.count)


def add_sample(bucket: OpenBucket | None, at: float, rate: float | None) -> tuple[OpenBucket, Bucket | None]:
    """Add a sample to the quarter hour of its instant.

    Args:
        bucket: The last one; None at first.
        at: Instant of the sample.
        rate: Records/s; None when it is not known.

    Returns:
        The quarter hour of the instant, and the one before that is complete now, if there is one.
    """
    start = bucket_start(at)
    is_same = bucket is not None and bucket.start == start
    current = bucket if bucket is not None and is_same else OpenBucket(start)
    over = bucket.complete() if bucket is not None and bucket.start < start else None
    return (current if rate is None else current.with_sample(at, rate)), over
