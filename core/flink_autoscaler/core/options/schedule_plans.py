"""Plans of the policy ``schedule``: at which times they hold, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.load_profile import zone_named
from flink_autoscaler.core.model.vertex_patterns import checked_pattern
from flink_autoscaler.core.options.calendar import time_of_day
from flink_autoscaler.core.options.declare import number_from

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAMES: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UTC: Final = ZoneInfo("UTC")
_EVERY_DAY: Final = frozenset(range(7))
_MINUTES: Final = 1_440
_SEPARATORS: Final = re.compile(r"[\s,;|+]+")
EVERY_VERTEX: Final = "*"
MOST_PLANS: Final = 1_000


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """One plan.

    Attributes:
        days: On which it begins; 0 is Monday.
        start: Minute of the day at which it begins.
        end: Minute at which it ends, 1 to 1440; on the next day where that is not after ``start``.
        timezone: Of days and minutes.
        vertex: Id or name pattern of the vertices that it is about.
        min_parallelism: Of each of them; None says nothing.
        max_parallelism: The same.
        min_rate: Records/s that each source among them has to sustain; None says nothing.
        text: How it was written.
    """

    days: frozenset[int] = _EVERY_DAY
    start: int = 0
    end: int = _MINUTES
    timezone: tzinfo = _UTC
    vertex: str = EVERY_VERTEX
    min_parallelism: int | None = None
    max_parallelism: int | None = None
    min_rate: float | None = None
    text: str = field(default="", compare=False)

    def holds_at(self, now: float, lead: float = 0.0) -> bool:
        """Tell whether an instant is in the plan, or less than ``lead`` seconds before it begins."""
        first = datetime.fromtimestamp(now, self.timezone).date() - timedelta(days=1)
        last = datetime.fromtimestamp(now + lead, self.timezone).date()
        return any(begin - lead <= now < end for begin, end in self._spans(first, last))

    def _spans(self, first: date, last: date) -> Iterator[tuple[float, float]]:
        """Yield begin and end, epoch seconds, of the plan on every of its days between two dates."""
        for number in range((last - first).days + 1):
            day = first + timedelta(days=number)
            if day.weekday() in self.days:
                until = day if self.end > self.start else day + timedelta(days=1)
                yield min(self._instants(day, self.start)), max(self._instants(until, self.end))

    def _instants(self, day: date, minute: int) -> tuple[float, ...]:
        """Return when it is a minute of a day: twice where clocks are put back.

        A minute that is skipped where clocks are put forward is the one as long after the last one that was not.
        """
        days, rest = divmod(minute, _MINUTES)
        wall = datetime.combine(day + timedelta(days=days), time(*divmod(rest, 60)), self.timezone)
        first, second = wall.timestamp(), wall.replace(fold=1).timestamp()
        return (first, second) if second > first else (first,)


def parse_plans(text: str) -> tuple[SchedulePlan, ...]:
    """Read ``days=mon-fri, from=07:00, to=19:00, min-parallelism=8; ...``.

    Raises:
        ValueError: It cannot be read, or a plan says nothing.
    """
    parts = [part for part in syntax.parse_list(text) if part.strip()]
    if len(parts) > MOST_PLANS:
        raise ValueError(f"at most {MOST_PLANS} plans, not {len(parts)}")
    return tuple(map(_plan, parts))


def format_plans(plans: Iterable[Mapping[str, str]]) -> str:
    """Write plans, each given as texts by the name of the field, so that :func:`parse_plans` can read them.

    Several days may be separated by blanks, commas, or semicolons, as Flink writes lists. A comma in the name of a
    vertex becomes a pattern that fits it.
    """
    return syntax.format_list([", ".join(f"{name}={_written(name, plan[name])}" for name in plan) for plan in plans])


def plan_problems(plan: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong with a plan that is given as texts by the name of the field.

    Returns:
        Messages by the name of the field as it is given; under an empty name, where the fields are well each by
        itself, what is wrong with the plan. Empty for a plan that :func:`parse_plans` can read.
    """
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name, text in plan.items():
        try:
            attribute, value = _field(name, text)
            if attribute in values:
                raise ValueError("is given twice")
            values[attribute] = value
        except ValueError as error:
            problems[name] = str(error)
    if not problems:
        try:
            _sensible(SchedulePlan(**values))
        except ValueError as error:
            problems[""] = str(error)
    return problems


def _written(name: str, text: str) -> str:
    key = _key(name)
    if key == "days":
        return " ".join(_SEPARATORS.split(text.strip()))
    return text.strip().replace(",", "?") if key == "vertex" else text.strip()


def _plan(text: str) -> SchedulePlan:
    values: dict[str, Any] = {"text": text}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            shown = syntax.shortened(part.strip())
            raise ValueError(f"{shown!r} is not one of {', '.join(_FIELDS)}, an equals sign and a value")
        attribute, parsed = _field(name, value)
        if attribute in values:
            raise ValueError(f"{_key(name)} is given twice in {syntax.shortened(text)!r}")
        values[attribute] = parsed
    try:
        return _sensible(SchedulePlan(**values))
    except ValueError as error:
        raise ValueError(f"{syntax.shortened(text)!r} {error}") from error


def _field(name: str, text: str) -> tuple[str, Any]:
    """Return the attribute that a field sets, and its value."""
    key = _key(name)
    if key not in _FIELDS:
        raise ValueError(f"{syntax.shortened(name.strip())!r} is not one of {', '.join(_FIELDS)}")
    attribute, parse = _FIELDS[key]
    return attribute, parse(text.strip())


def _key(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _sensible(plan: SchedulePlan) -> SchedulePlan:
    if (plan.min_parallelism, plan.max_parallelism, plan.min_rate) == (None, None, None):
        raise ValueError("has none of min-parallelism, max-parallelism and min-rate")
    if plan.max_parallelism is not None and (plan.min_parallelism or 1) > plan.max_parallelism:
        raise ValueError("has a least parallelism above the greatest")
    return plan


def _days(text: str) -> frozenset[int]:
    """Read ``mon-fri``, ``sat sun``, ``fri-mon``; whole names will do as well."""
    days: set[int] = set()
    for word in _SEPARATORS.split(text.lower()):
        first, dash, last = word.partition("-")
        start = _day(first)
        days.update((start + step) % 7 for step in range((_day(last) - start) % 7 + 1 if dash else 1))
    return frozenset(days)


def _day(word: str) -> int:
    if word not in _DAYS and word not in _NAMES:
        raise ValueError(f"{syntax.shortened(word)!r} is not one of {', '.join(_DAYS)}")
    return _DAYS.index(word[:3])


def _minute(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        minute, rest = divmod(time_of_day(text), 60_000)
        if rest or not least <= minute <= most:
            raise ValueError(
                f"{syntax.shortened(text)!r} is not a whole minute from {least // 60}:00 to {most // 60}:{most % 60:02}"
            )
        return minute

    return parse


def _timezone(text: str) -> tzinfo:
    try:
        return zone_named(text)
    except ConfigError as error:
        raise ValueError(f"{syntax.shortened(text)!r} is not a time zone such as Europe/Berlin") from error


def _parallelism(text: str) -> int:
    number = syntax.parse_int(text)
    if number < 1:
        raise ValueError(f"a parallelism of {number} is not possible")
    return number


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "days": ("days", _days),
    "from": ("start", _minute(0, _MINUTES - 1)),
    "to": ("end", _minute(1, _MINUTES)),
    "timezone": ("timezone", _timezone),
    "vertex": ("vertex", checked_pattern),
    "min-parallelism": ("min_parallelism", _parallelism),
    "max-parallelism": ("max_parallelism", _parallelism),
    "min-rate": ("min_rate", number_from(0.0)),
}
