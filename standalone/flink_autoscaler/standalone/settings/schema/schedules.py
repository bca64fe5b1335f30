"""Schedules as cron writes them: five fields, minute, hour, day of the month, month, day of the week."""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Any, Final

AUTO: Final = "auto"
OFF: Final = "off"
EXPECTED: Final = "auto, off, or minute, hour, day, month and weekday as in cron, such as '10 3 * * *'"

_FIELDS: Final = 5
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NUMBERED: Final = re.compile(r"([0-7])(?:-([0-7]))?(?:/(\d+))?")


def parse_schedule(text: str) -> str:
    """Read a schedule, as a word or as an expression, with single blanks.

    Raises:
        ValueError: It is neither.
    """
    words = text.split()
    if len(words) == 1 and words[0].lower() in (AUTO, OFF):
        return words[0].lower()
    expression = " ".join(words)
    try:
        cron_trigger(expression, None)
    except ValueError as error:
        raise ValueError(EXPECTED) from error
    return expression


def cron_trigger(expression: str, zone: tzinfo | None) -> Any:
    """Return the trigger of the scheduler for an expression; ``zone`` None takes that of the machine.

    Raises:
        ValueError: Not five fields that can be read, or both a day of the month and one of the week.
    """
    # Imported here: commands that run no schedule do not pay for the scheduler.
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415

    fields = expression.split()
    if len(fields) != _FIELDS:
        raise ValueError(EXPECTED)
    minute, hour, day, month, weekday = fields
    if day != "*" and weekday != "*":
        # Cron takes either of the two then, the scheduler both: nobody would get what he means.
        raise ValueError("a day of the month or one of the week, not both")
    return CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=_named(weekday), timezone=zone)


def _named(weekdays: str) -> str:
    """Return days of the week by name: cron counts from Sunday, the scheduler from Monday."""
    return ",".join(_names(part) for part in weekdays.lower().split(","))


def _names(part: str) -> str:
    found = _NUMBERED.fullmatch(part)
    if found is None:
        return part
    first = int(found[1])
    last = int(found[2]) if found[2] else first
    if last < first:
        raise ValueError(f"no days from {first} to {last}")
    return ",".join(dict.fromkeys(_DAYS[day] for day in range(first, last + 1, int(found[3] or 1) or 1)))
