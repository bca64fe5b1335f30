"""Excluded periods: daily ranges, cron expressions, and both joined by ``&&``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, tzinfo

from flink_autoscaler.core.model.syntax import shortened
from flink_autoscaler.core.options.cron import CronExpression

_TIME = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?::(\d{1,3}))?)?"
_DAILY = re.compile(rf"{_TIME}-{_TIME}", re.ASCII)
_LIMITS = (24, 60, 60, 1000)
_MS = (3_600_000, 60_000, 1_000, 1)


def parse_daily(text: str) -> tuple[int, int] | None:
    """Read ``start-end`` as milliseconds of the day, both ends included; None when it is not a daily range."""
    match = _DAILY.fullmatch(text)
    if match is None:
        return None
    start, end = (_time_of_day(match.groups()[at : at + 4]) for at in (0, 4))
    return (start, end) if start is not None and end is not None and start < end else None


def _time_of_day(parts: Sequence[str | None]) -> int | None:
    numbers = [int(part or 0) for part in parts]
    if any(number >= limit for number, limit in zip(numbers, _LIMITS, strict=True)):
        return None
    return sum(number * size for number, size in zip(numbers, _MS, strict=True))


def _split(expression: str) -> list[str]:
    parts = expression.split("&&")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [part.strip() for part in parts]


def invalid_period(expression: str) -> str | None:
    """Return what is wrong with an excluded period, None when nothing is."""
    parts = _split(expression)
    is_daily = [parse_daily(part) is not None for part in parts]
    if len(parts) > 2:  # noqa: PLR2004 - a daily range and a cron expression
        return "at most two expressions can be joined by &&"
    for part, daily in zip(parts, is_daily, strict=True):
        if not daily and CronExpression.parse(part) is None:
            return f"'{shortened(part)}' is neither a daily range such as 9:00-17:30 nor a Quartz cron expression"
    if len(parts) > 1 and len(set(is_daily)) == 1:
        return "&& joins one daily range and one cron expression"
    return None


def is_excluded(expressions: Sequence[str], now_ms: int, timezone: tzinfo | None = None) -> bool:
    """Tell whether an instant lies in one of the periods.

    Args:
        expressions: Valid expressions.
        now_ms: The instant, epoch milliseconds.
        timezone: Time zone of the expressions; None for the zone of the process.
    """
    if not expressions:
        return False
    seconds, ms = divmod(now_ms, 1000)
    local = datetime.fromtimestamp(seconds, timezone)
    return any(all(_matches(part, local, ms) for part in _split(expression)) for expression in expressions)


def _matches(part: str, local: datetime, ms: int) -> bool:
    daily = parse_daily(part)
    if daily is not None:
        at = local.hour * _MS[0] + local.minute * _MS[1] + local.second * _MS[2] + ms
        return daily[0] <= at <= daily[1]
    cron = CronExpression.parse(part)
    if cron is None:
        raise ValueError(f"'{part}' is not an excluded period")
    return cron.matches(local)
