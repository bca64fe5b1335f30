"""The load that a source usually has at every quarter hour of the week.

A profile is a level, a growth per week, and by quarter hour of the local week two quantiles of the ratio between what
arrived and the level. Quarter hours are counted from Monday 00:00.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache, lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.syntax import abbreviate
from flink_autoscaler.core.model.value import replace

_ZONE_NAME: Final = re.compile(r"[A-Za-z0-9_+/-]{1,100}", re.ASCII)

BUCKET: Final = 900
"""Seconds of the quarter hours over which rates are averaged; they begin at multiples of it."""
MINUTE: Final = 60
MINUTES: Final = BUCKET // MINUTE
"""Of a quarter hour."""
BUCKETS_PER_DAY: Final = 96
BUCKETS_PER_WEEK: Final = 672
DAY: Final = 86_400.0
WEEK: Final = 604_800.0

MIN_MINUTES: Final = 10
"""Minutes of a quarter hour with a sample; with fewer it counts as missing."""
MIN_OF_WEEK: Final = math.ceil(0.8 * BUCKETS_PER_WEEK)
"""Quarter hours of a week with which it counts as usable."""
MIN_OF_DAYS: Final = 3 * BUCKETS_PER_DAY
"""Quarter hours within a week from which a time-of-day profile can be made."""
MIN_WEEKS: Final = 2
"""Usable weeks from which on days of the week are told apart."""
FULL_WEEKS: Final = 4
"""Usable weeks from which on a week speaks for itself, and growth is estimated."""

AHEAD: Final = DAY
"""How far a pass looks ahead at most, seconds."""
BEHIND: Final = 5
"""Quarter hours that a pass looks back at most."""

VERSION: Final = 1
"""Of how profiles are made; one of another version is not used."""


@dataclass(frozen=True, slots=True)
class LoadProfile:
    """What one source usually has to take.

    Attributes:
        q50: Median of rate / level by quarter hour of the week, 672 of them; None where nothing was ever seen.
        q90: The same for the upper quantile, which is 0.9 unless the options say otherwise.
        weeks: Usable weeks behind it; with fewer than two, all days are alike.
        level: Records/s half a week before ``asof``.
        growth: Factor by which the level grows per week.
        asof: End of the history it was made from.
        timezone: In which the quarter hours of the week are counted.
        missing: Share of the quarter hours of the last seven days that were missing, 0..1.
        wape: Error of the medians in the backtest, as a share of what arrived; None when there was nothing to test.
        exceed: Share of the backtest in which more arrived than the upper quantile; None as for ``wape``.
    """

    q50: tuple[float | None, ...]
    q90: tuple[float | None, ...]
    weeks: int
    level: float
    growth: float
    asof: float
    timezone: str = "UTC"
    missing: float = 0.0
    wape: float | None = None
    exceed: float | None = None

    def damage(self) -> str | None:
        """Return what makes the profile useless, whoever has written it; None when nothing does."""
        wrong = [
            name for name in ("level", "growth") if not _is_number(getattr(self, name)) or getattr(self, name) <= 0
        ]
        wrong += [name for name in ("asof", "missing") if not _is_number(getattr(self, name))]
        wrong += [name for name in ("wape", "exceed") if not _is_number(getattr(self, name) or 0.0)]
        wrong += [name for name in ("q50", "q90") if not _are_shares(getattr(self, name))]
        wrong += [] if isinstance(self.weeks, int) else ["weeks"]
        wrong += [] if isinstance(self.timezone, str) and self.timezone else ["timezone"]
        return f"no usable value of {', '.join(wrong)}" if wrong else None

    def base(self, at: float) -> float:
        """Return the level of an instant, records/s."""
        return base_rate(self.level, self.growth, (at - self.asof) / WEEK)

    def around(self, now: float) -> LoadProfile:
        """Return what a pass looks at: the hour before an instant and the day after it, the rest being None.

        It goes with every pass to where that is evaluated, and into its record: a hundred quarter hours, not 672.

        Raises:
            ConfigError: This machine does not know the time zone.
        """
        slots = _slots_around(bucket_start(now), self.timezone)
        q50, q90 = (
            tuple(share if slot in slots else None for slot, share in enumerate(shares))
            for shares in (self.q50, self.q90)
        )
        return replace(self, q50=q50, q90=q90)

    def slot(self, at: float) -> int:
        """Return the quarter hour of the week of an instant.

        Raises:
            ConfigError: This machine does not know the time zone.
        """
        return slot_of(at, zone_named(self.timezone))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _are_shares(shares: Sequence[float | None]) -> bool:
    return len(shares) == BUCKETS_PER_WEEK and all(
        share is None or (_is_number(share) and share >= 0.0) for share in shares
    )


def base_rate(level: float, growth: float, weeks_ahead: float) -> float:
    """Return the level so many weeks after the end of the history, in the middle of whose last week it was measured."""
    return float(level * growth ** (weeks_ahead + 0.5))


def bucket_start(at: float) -> int:
    """Return the beginning of the quarter hour of an instant."""
    return math.floor(at / BUCKET) * BUCKET


def slot_of(at: float, zone: tzinfo) -> int:
    """Return the quarter hour of the local week of an instant, 0..671."""
    return _slot_from(bucket_start(at), zone)


@lru_cache(maxsize=8192)
def _slot_from(start: int, zone: tzinfo) -> int:
    """Return that of a whole quarter hour; clocks are set by whole ones only."""
    local = datetime.fromtimestamp(start, zone)
    return (local.weekday() * 24 + local.hour) * 4 + local.minute // 15


@lru_cache(maxsize=64)
def _slots_around(start: int, timezone: str) -> frozenset[int]:
    """Return the quarter hours of the week that a pass looks at in the quarter hour that begins at an instant."""
    zone = zone_named(timezone)
    instants = range(start - BEHIND * BUCKET, start + round(AHEAD) + 2 * BUCKET, BUCKET)
    return frozenset(slot_of(at, zone) for at in instants)


@cache
def zone_named(name: str) -> tzinfo:
    """Return a time zone by its IANA name.

    Raises:
        ConfigError: This machine does not know it.
    """
    try:
        if not _ZONE_NAME.fullmatch(name):  # ZoneInfo looks for a package of such a name, as deep as it has dots
            raise ValueError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(f"the time zone '{abbreviate(name)}' is not known on this machine") from error


def upper_quantile(ordered: Sequence[float], quantile: float) -> float:
    """Return the least of some values, in ascending order, that the share ``quantile`` of them does not exceed."""
    return ordered[max(0, math.ceil(quantile * len(ordered) - 1e-9) - 1)]


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """What the nightly job came to about one source.

    Attributes:
        source_id: The source's vertex.
        asof: End of the history it looked at.
        profile: None where there is none.
        problem: Why there is none; None where there is one.
        is_readable: Whether what the store has could be used; not where another version wrote it, or it is damaged.
    """

    job_key: JobKey
    source_id: VertexId
    asof: float
    profile: LoadProfile | None = None
    problem: str | None = None
    is_readable: bool = True

    @property
    def revision(self) -> str:
        """Sixteen hex digits that another result of the source does not have, be its ``asof`` the same."""
        return hashlib.blake2b(repr(self).encode(), digest_size=8).hexdigest()
