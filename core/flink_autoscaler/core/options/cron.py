"""Cron expressions in the dialect of Quartz, with six or seven fields."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import lru_cache

_MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
_DAYS = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), 1)}
_NO_NAMES: Mapping[str, int] = {}
_FIELDS = ((0, 59), (0, 59), (0, 23))
_YEARS = (1970, 2199)
_WEEK = 7
_MAX_WEEKS = 5

_NEAREST_WEEKDAY = re.compile(r"(\d{1,2})W", re.ASCII)
_FROM_LAST = re.compile(r"L(?:-(\d{1,2}))?(W)?", re.ASCII)
_NTH = re.compile(r"(\w{1,3})#(\d)", re.ASCII)
_LAST_DAY = re.compile(r"(\w{1,3})L", re.ASCII)
_NUMBER = re.compile(r"\d++", re.ASCII)
_MAX_DIGITS = 4
"""Of the greatest number that a field knows, a year."""


DayRule = Callable[[date], bool]
"""Tells whether a day is one of those that a field means."""


class _InvalidError(ValueError):
    """Not a cron expression."""


def _number(text: str, low: int, high: int, names: Mapping[str, int] = _NO_NAMES) -> int:
    number = names.get(text)
    if number is None:
        digits = text.lstrip("0") or text[-1:]
        if not _NUMBER.fullmatch(text) or len(digits) > _MAX_DIGITS:
            raise _InvalidError(text)
        number = int(digits)
    if not low <= number <= high:
        raise _InvalidError(text)
    return number


def _values(text: str, low: int, high: int, names: Mapping[str, int] = _NO_NAMES) -> frozenset[int]:
    """Read a list of numbers, ranges (that may wrap) and steps."""
    values: set[int] = set()
    for item in text.split(","):
        span, has_step, step_text = item.partition("/")
        step = _number(step_text, 1, high) if has_step else 1
        start_text, is_range, end_text = span.partition("-")
        if span == "*" or (not span and has_step):
            values.update(range(low, high + 1, step))
            continue
        start = _number(start_text, low, high, names)
        end = _number(end_text, low, high, names) if is_range else high if has_step else start
        if end < start:
            end += high - low + 1
        values.update(low + (value - low) % (high - low + 1) for value in range(start, end + 1, step))
    return frozenset(values)


def _day_of_month(text: str) -> DayRule:
    """Read days of a month: numbers, a day before the last, or the weekday nearest to a day."""
    if last := _FROM_LAST.fullmatch(text):
        offset = _number(last[1] or "0", 0, 30)
        if last[2]:
            return lambda day: _nearest_weekday(day, _last_of(day) - offset) == day.day
        return lambda day: _last_of(day) - day.day == offset
    if nearest := _NEAREST_WEEKDAY.fullmatch(text):
        number = _number(nearest[1], 1, 31)
        return lambda day: _nearest_weekday(day, min(number, _last_of(day))) == day.day
    days = _values(text, 1, 31)
    return lambda day: day.day in days


def _last_of(month: date) -> int:
    return calendar.monthrange(month.year, month.month)[1]


def _nearest_weekday(month: date, number: int) -> int | None:
    """Return the weekday nearest to a day, within its month; None where the day does not exist."""
    last = _last_of(month)
    if not 1 <= number <= last:
        return None
    weekday = month.replace(day=number).weekday()
    if weekday == calendar.SATURDAY:
        return number - 1 if number > 1 else number + 2
    if weekday == calendar.SUNDAY:
        return number + 1 if number < last else number - 2
    return number


def _day_of_week(text: str) -> DayRule:
    """Read days of the week, 1 = Sunday, or the n-th or the last such day of a month."""
    if nth := _NTH.fullmatch(text):
        wanted = _number(nth[1], 1, _WEEK, _DAYS), _number(nth[2], 1, _MAX_WEEKS)
        return lambda day: wanted == (_weekday(day), (day.day - 1) // _WEEK + 1)
    if last := _LAST_DAY.fullmatch(text):
        number = _number(last[1], 1, _WEEK, _DAYS)
        return lambda day: number == _weekday(day) and day.day + _WEEK > _last_of(day)
    days = frozenset({_WEEK}) if text == "L" else _values(text, 1, _WEEK, _DAYS)
    return lambda day: _weekday(day) in days


def _weekday(day: date) -> int:
    return day.isoweekday() % _WEEK + 1


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A parsed expression; see :meth:`parse`."""

    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    months: frozenset[int]
    day: DayRule
    years: frozenset[int] = field(default_factory=frozenset)

    @staticmethod
    @lru_cache(maxsize=256)
    def parse(text: str) -> CronExpression | None:
        """Read ``second minute hour day-of-month month day-of-week [year]``; None when it is not valid.

        Exactly one of the two day fields must be ``?``.
        """
        parts = text.upper().split()
        if len(parts) not in (6, 7) or (parts[3] == "?") == (parts[5] == "?"):
            return None
        try:
            seconds, minutes, hours = (_values(parts[at], *_FIELDS[at]) for at in range(3))
            return CronExpression(
                seconds,
                minutes,
                hours,
                months=_values(parts[4], 1, 12, _MONTHS),
                day=_day_of_month(parts[3]) if parts[5] == "?" else _day_of_week(parts[5]),
                years=_values(parts[6], *_YEARS) if len(parts) > 6 else frozenset(),  # noqa: PLR2004
            )
        except _InvalidError:
            return None

    def matches(self, local: datetime) -> bool:
        """Tell whether a local time, cut to the second, satisfies every field."""
        return (
            local.second in self.seconds
            and local.minute in self.minutes
            and local.hour in self.hours
            and local.month in self.months
            and (not self.years or local.year in self.years)
            and self.day(local.date())
        )
