"""Instants and durations as the Java process writes and reads them; in memory they are whole milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z", re.ASCII | re.IGNORECASE)
_DURATION = re.compile(
    r"(-)?PT(?:([+-]?\d{1,12})H)?(?:([+-]?\d{1,12})M)?(?:([+-]?\d{1,15}(?:\.\d{1,9})?)S)?", re.ASCII | re.IGNORECASE
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LONGEST_SECONDS = Decimal(253_402_300_799)
"""The end of the year 9999: what is later cannot be shown."""


def instant_text(at_ms: int) -> str:
    """Write an instant as a key: ``2024-01-02T03:04:05.123Z``, without a fraction when that is zero."""
    seconds, milliseconds = divmod(at_ms, 1000)
    moment = _EPOCH + timedelta(seconds=seconds)
    fraction = f".{milliseconds:03d}" if milliseconds else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def parse_instant(text: str) -> int:
    """Read an instant with up to nine digits of a second; what is finer than a millisecond is cut off.

    Raises:
        ValueError: It is not an instant in UTC of the years 1 to 9999.
    """
    if _INSTANT.fullmatch(text) is None:
        raise ValueError(f"'{text[:40]}' is not an instant")
    return (datetime.fromisoformat(text.upper()) - _EPOCH) // _MILLISECOND


def seconds_text(milliseconds: int) -> str:
    """Write an instant or a duration as a value: seconds with nine digits of a fraction."""
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}000000"


def parse_seconds(value: object) -> int:
    """Read an instant or a duration that is a value: seconds as a number or text, or ISO text.

    Returns:
        Milliseconds, rounded down.

    Raises:
        ValueError: It is neither.
    """
    text = str(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise ValueError(f"'{text[:40]}' is not a time")
    if text[:1] in "Pp-" and text.lstrip("-")[:1] in ("P", "p"):
        return _parse_duration(text)
    if text[4:5] == "-":
        return parse_instant(text)
    try:
        seconds = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"'{text[:40]}' is not a time") from None
    if not seconds.is_finite() or abs(seconds) > _LONGEST_SECONDS:
        raise ValueError(f"'{text[:40]}' is not a time")
    return int((seconds * 1000).to_integral_value("ROUND_FLOOR"))


def is_instant(at_ms: int) -> bool:
    """Tell whether milliseconds are an instant of the years 1970 to 9999, which all texts about instants can name."""
    return 0 <= at_ms <= _LONGEST_SECONDS * 1000


def _parse_duration(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:]):
        raise ValueError(f"'{text[:40]}' is not a duration")
    sign, hours, minutes, seconds = match.groups(default="0")
    total = int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds)
    return int(total * 1000 * (-1 if sign == "-" else 1) // 1)
