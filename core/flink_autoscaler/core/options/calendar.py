"""Periods: daily ranges, cron expressions, both joined by ``&&``, or days and times by name, in a time zone.

One syntax for excluded periods and the plans of ``schedule.plans``. Under ``compat: reference`` an
expression means what it means to the Java program, which knows no range over midnight, no 24:00, no zone and no names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.load_profile import zone_named
from flink_autoscaler.core.model.syntax import abbreviate
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
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAMES: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NEXT_FIELD: Final = re.compile(r",(?=[^,=]*=)")
SEPARATORS: Final = re.compile(r"[\s,;|+]+")

Fields = Mapping[str, tuple[str, Callable[[str], Any]]]
"""By the name of a field, the attribute that it sets and what reads its value."""


@dataclass(frozen=True, slots=True)
class Period:
    """A recurring period.

    Attributes:
        days: On which it begins; 0 is Monday.
        start: Millisecond of the day at which it begins.
        end: First that is not in it, 1 to that of 24:00; on the next day where that is not after ``start``.
        zone: Of days and times; None is the zone that is usual where the period stands.
        cron: Has to match as well, to the second; on the day on which the range began.
        is_wall: What the clock on the wall shows counts alone, as for the Java program: an hour that is skipped never
            comes, one that comes twice is in it twice.
    """

    days: frozenset[int] = frozenset(range(7))
    start: int = 0
    end: int = DAY_MS
    zone: tzinfo | None = None
    cron: CronExpression | None = None
    is_wall: bool = False

    def holds_at(self, now_ms: int, zone: tzinfo | None = None, lead_ms: int = 0) -> bool:
        """Tell whether an instant is in it, or at most ``lead_ms`` before its range begins.

        Args:
            now_ms: The instant, epoch milliseconds.
            zone: Counts where the period has none of its own.
            lead_ms: What counts as begun before it begins.
        """
        zone = self.zone or zone
        local = _local(now_ms, zone)
        if self.is_wall:
            at = _ms_of(local) + now_ms % 1000
            return self.start <= at < self.end and (self.cron is None or self.cron.matches(local))
        # A range over midnight may have begun the day before.
        spans = self._spans(local.date() - _DAY, _local(now_ms + lead_ms, zone).date(), zone)
        return any(
            begin - lead_ms <= now_ms < end and self._matches(day, max(now_ms, begin), zone)
            for day, begin, end in spans
        )

    def _spans(self, day: date, last: date, zone: tzinfo | None) -> Iterator[tuple[date, int, int]]:
        """Yield day, begin and end, epoch milliseconds, of the range on each of its days."""
        while day <= last:
            if day.weekday() in self.days:
                until = day if self.end > self.start else day + _DAY
                yield day, min(_instants(day, self.start, zone)), max(_instants(until, self.end, zone))
            day += _DAY

    def _matches(self, day: date, now_ms: int, zone: tzinfo | None) -> bool:
        return self.cron is None or self.cron.matches(datetime.combine(day, _local(now_ms, zone).time()))


def _local(now_ms: int, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(now_ms // 1000, zone)


def _ms_of(local: datetime) -> int:
    return local.hour * _MS[0] + local.minute * _MS[1] + local.second * _MS[2]


def _instants(day: date, ms: int, zone: tzinfo | None) -> tuple[int, ...]:
    """Return when it is a millisecond of a day: twice where clocks are put back.

    A time that is skipped where clocks are put forward is the one as long after the last one that was not.
    """
    days, rest = divmod(ms, DAY_MS)
    wall = datetime.combine(day + timedelta(days=days), time(), zone) + timedelta(seconds=rest // 1000)
    first, second = (round(wall.replace(fold=fold).timestamp()) * 1000 + rest % 1000 for fold in (0, 1))
    return (first, second) if second > first else (first,)


def time_of_day(text: str) -> int:
    """Read ``H:MM[:SS[:mmm]]``, up to 24:00, as milliseconds after midnight. May raise ValueError."""
    match = _TIME.fullmatch(text)
    if match is not None:
        numbers = [int(part or 0) for part in match.groups()]
        ms = sum(number * size for number, size in zip(numbers, _MS, strict=True))
        if numbers == [24, 0, 0, 0] or all(number < limit for number, limit in zip(numbers, _LIMITS, strict=True)):
            return ms
    raise ValueError(f"{abbreviate(text)!r} is not a time of day from 0:00 to 24:00, such as 07:30")


def parse_period(expression: str, *, is_reference: bool = False) -> Period:
    """Read ``22:00-6:00``, a Quartz cron expression, or both joined by ``&&``; with a zone, ``... in Europe/Berlin``.

    ``days=mon-fri, from=22:00, to=6:00, timezone=Europe/Berlin`` is one as well, with any of these. A range holds its
    end, ``to`` is the first time that is not in it. A range that ends in the last minute of the day ends at midnight.

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
    if "=" in expression and not is_reference:
        return Period(**read_fields(expression, PERIOD_FIELDS))
    found = _ZONE.fullmatch(expression)
    zone = None
    if found is not None:
        if is_reference:
            raise ValueError("a time zone is known to compat: improved only")
        expression, zone = found[1], _zone(found[2])
    parts = expression.split("&&")
    while len(parts) > 1 and not parts[-1]:  # as Java splits a text
        parts.pop()
    parts = [part.strip() for part in parts]
    if len(parts) > 2:  # noqa: PLR2004 - a daily range and a cron expression
        raise ValueError("at most two expressions can be joined by &&")
    daily = [_daily(part, is_reference) for part in parts if _DAILY.fullmatch(part)]
    cron = [_cron(part) for part in parts if not _DAILY.fullmatch(part)]
    if len(daily) > 1 or len(cron) > 1:
        raise ValueError("&& joins one daily range and one cron expression")
    start, end = daily[0] if daily else (0, DAY_MS)
    return Period(start=start, end=end, zone=zone, cron=next(iter(cron), None), is_wall=is_reference)


def read_fields(text: str, fields: Fields) -> dict[str, Any]:
    """Read ``days=mon-fri, from=07:00``, values by attribute. Raises ValueError where it is none, or says one twice."""
    values: dict[str, Any] = {}
    for part in _NEXT_FIELD.split(text):
        name, equals, value = part.partition("=")
        if not equals:
            shown = abbreviate(part.strip())
            raise ValueError(f"{shown!r} is not one of {', '.join(fields)}, an equals sign and a value")
        key = field_key(name)
        if key not in fields:
            raise ValueError(f"{abbreviate(name.strip())!r} is not one of {', '.join(fields)}")
        attribute, parse = fields[key]
        if attribute in values:
            raise ValueError(f"{key} is given twice in {abbreviate(text)!r}")
        values[attribute] = parse(value.strip())
    return values


def field_key(name: str) -> str:
    """Return the name of a field as it is listed."""
    return name.strip().lower().replace("_", "-")


def _days(text: str) -> frozenset[int]:
    """Read ``mon-fri``, ``sat sun``, ``fri-mon``; whole names will do as well."""
    days: set[int] = set()
    for word in SEPARATORS.split(text.lower()):
        first, dash, last = word.partition("-")
        start = _day(first)
        days.update((start + step) % 7 for step in range((_day(last) - start) % 7 + 1 if dash else 1))
    return frozenset(days)


def _day(word: str) -> int:
    if word not in _DAYS and word not in _NAMES:
        raise ValueError(f"{abbreviate(word)!r} is not one of {', '.join(_DAYS)}")
    return _DAYS.index(word[:3])


def _start(text: str) -> int:
    ms = time_of_day(text)
    if ms == DAY_MS:
        raise ValueError(f"{abbreviate(text)!r} is not before 24:00")
    return ms


def _end(text: str) -> int:
    ms = time_of_day(text)
    if not ms:
        raise ValueError(f"{abbreviate(text)!r} is not after 0:00")
    return ms


def _zone(text: str) -> tzinfo:
    try:
        return zone_named(text)
    except ConfigError as error:
        raise ValueError(f"{error}; expected one such as Europe/Berlin") from error


PERIOD_FIELDS: Final[Fields] = {
    "days": ("days", _days),
    "from": ("start", _start),
    "to": ("end", _end),
    "timezone": ("zone", _zone),
}
"""The words of a period that is written by name."""


def _daily(text: str, is_reference: bool) -> tuple[int, int]:
    start, end = map(time_of_day, text.split("-"))
    if start in (DAY_MS, end):
        raise ValueError(
            f"'{abbreviate(text)}' has to end at another time of day than it begins, which is before 24:00"
        )
    if is_reference and (start > end or end == DAY_MS):
        first = text.split("-", maxsplit=1)[0]
        rest = "" if end == DAY_MS else f";0:00-{text.rpartition('-')[2]}"
        raise ValueError(
            f"'{abbreviate(text)}' reaches midnight, which is known to compat: improved only; write"
            f" '{abbreviate(first)}-23:59:59:999{abbreviate(rest)}'"
        )
    # A range holds its end, and one that ends in the last minute leaves none open before midnight.
    return start, DAY_MS if end >= _LAST_MINUTE_MS and not is_reference else end + 1


def _cron(text: str) -> CronExpression:
    found = CronExpression.parse(text)
    if found is None:
        raise ValueError(
            f"'{abbreviate(text)}' is neither a daily range such as 9:00-17:30 nor a Quartz cron expression"
        )
    return found


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
