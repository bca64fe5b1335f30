"""Periods: daily ranges, cron expressions, and both joined by ``&&``, in a time zone.

One syntax for excluded periods and quiet hours; plans of the policy ``schedule`` take their times of day from here.
Under ``compat: reference`` an expression means what it means to the Java program, which knows no range over midnight,
no 24:00 and no zone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.load_profile import zone_named
from flink_autoscaler.core.model.syntax import shortened
from flink_autoscaler.core.options.cron import CronExpression

_TIME: Final = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?::(\d{1,3}))?)?", re.ASCII)
_DAILY: Final = re.compile(r"([\d:]+)-([\d:]+)", re.ASCII)
_ZONE: Final = re.compile(r"(.*\S)\s+in\s+(\S+)\s*", re.DOTALL)
_LIMITS: Final = (24, 60, 60, 1000)
_MS: Final = (3_600_000, 60_000, 1_000, 1)
DAY_MS: Final = 86_400_000
_LAST_MINUTE_MS: Final = DAY_MS - _MS[1]
_DAY: Final = timedelta(days=1)
_LONGEST: Final = 1_000


@dataclass(frozen=True, slots=True)
class Period:
    """A recurring period; at least one of ``daily`` and ``cron`` is set, and all that is set has to hold.

    Attributes:
        daily: First and last millisecond of the day, both included; over midnight where the last is before the first.
        cron: Matched to the second. With a range over midnight, on the day on which the range began.
        zone: Of both; None is the zone that is usual where the period stands.
    """

    daily: tuple[int, int] | None = None
    cron: CronExpression | None = None
    zone: tzinfo | None = None

    def holds_at(self, now_ms: int, zone: tzinfo | None = None) -> bool:
        """Tell whether an instant, epoch milliseconds, is in it; ``zone`` counts where it has none of its own."""
        seconds, ms = divmod(now_ms, 1000)
        local = datetime.fromtimestamp(seconds, self.zone or zone)
        if self.daily is not None:
            start, end = self.daily
            at = local.hour * _MS[0] + local.minute * _MS[1] + local.second * _MS[2] + ms
            is_within = start <= at <= end if start <= end else at >= start or at <= end
            if not is_within:
                return False
            if at < start:
                local -= _DAY
        return self.cron is None or self.cron.matches(local)


def time_of_day(text: str) -> int:
    """Read ``H:MM[:SS[:mmm]]``, up to 24:00, as milliseconds after midnight. May raise ValueError."""
    match = _TIME.fullmatch(text)
    if match is not None:
        numbers = [int(part or 0) for part in match.groups()]
        ms = sum(number * size for number, size in zip(numbers, _MS, strict=True))
        if numbers == [24, 0, 0, 0] or all(number < limit for number, limit in zip(numbers, _LIMITS, strict=True)):
            return ms
    raise ValueError(f"{shortened(text)!r} is not a time of day from 0:00 to 24:00, such as 07:30")


def parse_period(expression: str, *, is_reference: bool = False) -> Period:
    """Read ``22:00-6:00``, a Quartz cron expression, or both joined by ``&&``; with a zone, ``... in Europe/Berlin``.

    A range holds its end. One that ends in the last minute of the day ends at midnight.

    Args:
        expression: The text.
        is_reference: Only what the Java program knows, with the meaning that it has there (spec 6.10).

    Raises:
        ValueError: It is no period; the message says why.
    """
    if len(expression) > _LONGEST:
        raise ValueError(f"{len(expression)} characters, expected at most {_LONGEST}")
    return _parse(expression, is_reference)


@lru_cache(maxsize=1024)
def _parse(expression: str, is_reference: bool) -> Period:
    found = _ZONE.fullmatch(expression)
    zone = None
    if found is not None:
        if is_reference:
            raise ValueError("a time zone is known to compat: improved only")
        expression = found[1]
        try:
            zone = zone_named(found[2])
        except ConfigError as error:
            raise ValueError(str(error)) from error
    parts = _split(expression)
    if len(parts) > 2:  # noqa: PLR2004 - a daily range and a cron expression
        raise ValueError("at most two expressions can be joined by &&")
    daily = [_daily(part, is_reference) for part in parts if _DAILY.fullmatch(part)]
    cron = [_cron(part) for part in parts if not _DAILY.fullmatch(part)]
    if len(daily) > 1 or len(cron) > 1:
        raise ValueError("&& joins one daily range and one cron expression")
    return Period(next(iter(daily), None), next(iter(cron), None), zone)


def _split(expression: str) -> list[str]:
    parts = expression.split("&&")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [part.strip() for part in parts]


def _daily(text: str, is_reference: bool) -> tuple[int, int]:
    start, end = map(time_of_day, text.split("-"))
    if start in (DAY_MS, end):
        raise ValueError(f"'{shortened(text)}' has to end at another time of day than it begins, which is before 24:00")
    if not is_reference:
        return (start, DAY_MS - 1) if end >= _LAST_MINUTE_MS else (start, end)
    if start > end or end == DAY_MS:
        first = text.split("-", maxsplit=1)[0]
        rest = "" if end == DAY_MS else f";0:00-{text.rpartition('-')[2]}"
        raise ValueError(
            f"'{shortened(text)}' reaches midnight, which is known to compat: improved only; write"
            f" '{shortened(first)}-23:59:59:999{shortened(rest)}'"
        )
    return start, end


def _cron(text: str) -> CronExpression:
    found = CronExpression.parse(text)
    if found is None:
        raise ValueError(
            f"'{shortened(text)}' is neither a daily range such as 9:00-17:30 nor a Quartz cron expression"
        )
    return found


def invalid_period(expression: str, *, is_reference: bool = False) -> str | None:
    """Return what is wrong with a period, None when nothing is."""
    try:
        parse_period(expression, is_reference=is_reference)
    except ValueError as error:
        return str(error)
    return None


def is_excluded(
    expressions: Sequence[str], now_ms: int, timezone: tzinfo | None = None, *, is_reference: bool = False
) -> bool:
    """Tell whether an instant lies in one of the periods.

    Args:
        expressions: Valid expressions.
        now_ms: The instant, epoch milliseconds.
        timezone: Time zone of those that name none; None for the zone of the process.
        is_reference: As for :func:`parse_period`.
    """
    return any(parse_period(each, is_reference=is_reference).holds_at(now_ms, timezone) for each in expressions)
