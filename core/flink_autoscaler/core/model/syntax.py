"""How Flink writes values in its configuration: durations, memory sizes, lists, maps, numbers.

Everything here takes time in proportion to the length of the text, whatever is in it, and raises nothing but
ValueError: texts come from the authors of jobs. The expressions below are possessive where they could be taken back.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeVar

_E = TypeVar("_E", bound=StrEnum)

LONGEST: Final = 1 << 16
"""Characters of the value of one option: enough for the parallelism of 1,500 vertices by their ids."""

_LONGEST_SHOWN: Final = 200
_INT = re.compile(r"([+-]?)(\d++)", re.ASCII)
_DOUBLE = re.compile(r"[+-]?+(NaN|Infinity|(\d++(\.\d*+)?+|\.\d++)([eE][+-]?+\d++)?+[dDfF]?+)", re.ASCII)
_QUANTITY = re.compile(r"(\d++)\s*+(\S.*+)?+", re.ASCII | re.DOTALL)
_TIME_PART = re.compile(r"(\d{1,40}+(?:\.\d{1,40}+)?+|\.\d{1,40}+)\s*+([a-zµ]++)", re.ASCII)
_TIME = re.compile(rf"(?:{_TIME_PART.pattern}\s*+)++", re.ASCII)
_QUOTED = {quote: re.compile(f"{quote}((?:[^{quote}]++|{quote}{quote})*+){quote}") for quote in "'\""}
_OUTSIDE_QUOTES = re.compile(r"""(?:[^,'"]++|'[^']*+'?+|"[^"]*+"?+)*+""")
_QUOTED_TEXT = r"""'(?:[^']++|'')*+'|"[^"]*+\""""
_ITEM = re.compile(rf"""( *+)- ++(?:({_QUOTED_TEXT}) *+(?:#.*+)?+|(?!['"@`*&!|>%,\]}}#])(\S.*+))""")
_NO_ITEMS = frozenset({"~", "null", "Null", "NULL"})
_INT32 = range(-(2**31), 2**31)
_INT64_MAX = 2**63 - 1
_INT64_DIGITS = 19
_BLANKS = " \t\n\r\f\v"
_BLANK_RUN = re.compile(f"[{_BLANKS}]*+")

_DURATION_UNITS = {
    unit: nanoseconds
    for nanoseconds, units in {
        86_400_000_000_000: ("d", "day", "days"),
        3_600_000_000_000: ("h", "hour", "hours"),
        60_000_000_000: ("m", "min", "minute", "minutes"),
        1_000_000_000: ("s", "sec", "secs", "second", "seconds"),
        1_000_000: ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
        1_000: ("µs", "micro", "micros", "microsecond", "microseconds"),
        1: ("ns", "nano", "nanos", "nanosecond", "nanoseconds"),
    }.items()
    for unit in units
}
_MEMORY_UNITS = {
    unit: size
    for size, units in {
        1: ("", "b", "bytes"),
        1 << 10: ("k", "kb", "kibibytes"),
        1 << 20: ("m", "mb", "mebibytes"),
        1 << 30: ("g", "gb", "gibibytes"),
        1 << 40: ("t", "tb", "tebibytes"),
    }.items()
    for unit in units
}


@dataclass(frozen=True, order=True)
class Duration:
    """A length of time, exact to the nanosecond."""

    nanoseconds: int

    @cached_property
    def ms(self) -> int:
        """Whole milliseconds, rounded toward minus infinity."""
        return self.nanoseconds // 1_000_000

    @cached_property
    def seconds(self) -> int:
        """Whole seconds, rounded toward minus infinity."""
        return self.nanoseconds // 1_000_000_000

    @cached_property
    def exact_seconds(self) -> float:
        """Seconds with their fraction, for timeouts and intervals."""
        return self.nanoseconds / 1e9

    def __str__(self) -> str:
        for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
            if self.ms and self.nanoseconds % (size * 1_000_000) == 0:
                return f"{self.ms // size} {unit}"
        return f"{self.ms} ms" if self.nanoseconds % 1_000_000 == 0 else f"{self.nanoseconds} ns"


def abbreviate(text: str) -> str:
    """Return a text as a message shows it: the beginning of one that is long, and how long it is."""
    if len(text) <= _LONGEST_SHOWN:
        return text
    return f"{text[: _LONGEST_SHOWN - 40]}... ({len(text)} characters)"


def escape_text(text: str) -> str:
    r"""Return a foreign text as people may see it, on terminals, in logs and in messages: the one place for that.

    What moves the cursor, turns the direction of writing, hides, or is half a character becomes its escape, such as
    ``\x1b`` or ``\u202e``. Line ends and tabs stay: whoever writes a line of its own takes them out.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in text
    )


def escape_json(text: str) -> str:
    """Return JSON text in which programs read the same and people see no such character."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else json.dumps(each)[1:-1] for each in text)


def _number(digits: str) -> int:
    """Return a number; one that has no place in 64 bits becomes another one that has not."""
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= _INT64_DIGITS else _INT64_MAX + 1


def _quantity(text: str, units: dict[str, int]) -> int:
    match = _QUANTITY.fullmatch(text.strip(_BLANKS))
    if match is None:
        raise ValueError("a whole number with an optional unit")
    size = units.get((match[2] or "").strip(_BLANKS).lower())
    number = _number(match[1])
    if size is None or number > _INT64_MAX:
        raise ValueError(f"unit must be one of {', '.join(unit for unit in units if unit)}")
    return number * size


def parse_duration(text: str) -> Duration:
    """Read ``10 s``, ``5min``, ``100`` (milliseconds), as Flink does. No fractions, no sign, no ISO 8601."""
    try:
        return Duration(_quantity(text, _DURATION_UNITS))
    except ValueError as error:
        raise ValueError("a whole number and a unit, such as '90 s', '1500 ms' or '2 h'") from error


def parse_time(text: str) -> Duration:
    """Read what Flink reads and what people write besides, ``1.5 s`` or ``1h 30min``: for what Flink never sees."""
    stripped = text.strip(_BLANKS).lower()
    if stripped.isdecimal():
        return parse_duration(stripped)
    if not _TIME.fullmatch(stripped):
        raise ValueError("a duration such as '10 s', '1.5 min' or '1h 30min'")
    parts = [(Decimal(number), _DURATION_UNITS.get(unit)) for number, unit in _TIME_PART.findall(stripped)]
    if any(size is None for _, size in parts):
        raise ValueError(f"unit must be one of {', '.join(unit for unit in _DURATION_UNITS if unit)}")
    total = sum((number * (size or 0) for number, size in parts), Decimal())
    if total > _INT64_MAX:
        raise ValueError("a duration of at most 292 years")
    return Duration(round(total))


def parse_memory(text: str) -> int:
    """Read ``2g``, ``512 mb``, ``100`` as bytes; units are powers of 1024."""
    return _quantity(text, _MEMORY_UNITS)


def parse_bool(text: str) -> bool:
    """Read ``true`` or ``false`` in any case; nothing else."""
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("true or false")
    return lowered == "true"


def parse_int(text: str) -> int:
    """Read a 32-bit integer in decimal digits, without blanks."""
    match = _INT.fullmatch(text)
    number = _number(match[2]) if match else _INT64_MAX
    if match and match[1] == "-":
        number = -number
    if number not in _INT32:
        raise ValueError("a whole number of at most 32 bits")
    return number


def parse_double(text: str) -> float:
    """Read a decimal number; blanks around it, ``NaN``, ``Infinity`` and an ``f``/``d`` suffix are fine."""
    stripped = text.strip(_BLANKS)
    if not _DOUBLE.fullmatch(stripped):
        raise ValueError("a decimal number")
    return float(stripped if stripped.endswith(("NaN", "Infinity")) else stripped.rstrip("dDfF"))


def parse_float32(text: str) -> float:
    """Read a decimal number as a 32-bit float, widened to a double (0.1 is 0.10000000149011612)."""
    value = parse_double(text)
    try:
        widened: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return widened


def parse_enum(text: str, kind: type[_E]) -> _E:
    """Read a name of an enumeration in any case."""
    wanted = text.upper()
    for member in kind:
        if member.value.upper() == wanted:
            return member
    raise ValueError(f"one of {', '.join(member.value for member in kind)}")


def split_quoted(text: str, delimiter: str) -> list[str]:
    """Split at a delimiter that is not inside quotes; parts are trimmed, empty ones at the end dropped."""
    parts: list[str] = []
    at: int | None = 0
    while at is not None:
        part, at = _part(text, at, delimiter)
        parts.append(part)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _part(text: str, start: int, delimiter: str) -> tuple[str, int | None]:
    """Return the part that begins at a position, and where the next one does, None behind the last."""
    start = _past_blanks(text, start)
    if text[start : start + 1] in _QUOTED:
        part, end = _read_quoted(text, start)
        end = _past_blanks(text, end)
        if end < len(text) and not text.startswith(delimiter, end):
            raise ValueError(f"{delimiter!r} must follow a closing quote")
        return part, end + 1 if end < len(text) else None
    end = text.find(delimiter, start)
    if end < 0:
        return text[start:].strip(_BLANKS), None
    return text[start:end].strip(_BLANKS), end + 1


def _past_blanks(text: str, at: int) -> int:
    match = _BLANK_RUN.match(text, at)
    return match.end() if match else at


def _read_quoted(text: str, start: int) -> tuple[str, int]:
    """Return what stands between quotes, and where it ends; a doubled quote inside stands for one."""
    quote = text[start]
    match = _QUOTED[quote].match(text, start)
    if match is None:
        raise ValueError("a quote is not closed")
    return match[1].replace(quote * 2, quote), match.end()


def _flow(text: str, brackets: str) -> str | None:
    """Return the inside of a YAML flow list or map, or None when the text is not one."""
    stripped = text.strip(_BLANKS)
    if len(stripped) > 1 and stripped[0] == brackets[0] and stripped[-1] == brackets[1]:
        return stripped[1:-1]
    return None


def _block(text: str) -> tuple[str, ...] | None:
    """Return the items of a YAML list with a line ``- item`` for each, or None when the text is not one."""
    lines = [line for line in text.splitlines() if line.strip(_BLANKS)]
    items = [item for line in lines if (item := _ITEM.fullmatch(line))]
    texts = [_read_quoted(item[2], 0)[0] if item[2] else item[3].partition(" #")[0].rstrip(_BLANKS) for item in items]
    is_list = bool(items) and len(items) == len(lines) and len({item[1] for item in items}) == 1
    return None if not is_list or set(texts) & _NO_ITEMS else tuple(texts)


def parse_list(text: str) -> tuple[str, ...]:
    """Read ``a;b;c``, ``[a, b, c]`` or lines ``- a``. A comma alone does not separate."""
    inside = _flow(text, "[]")
    if inside is not None:
        return tuple(split_quoted(inside, ","))
    block = _block(text) if text.lstrip(_BLANKS).startswith("-") else None
    return tuple(split_quoted(text, ";")) if block is None else block


def _split_outside_quotes(text: str) -> list[str]:
    """Split at commas that are not inside quotes; the quotes stay, blank parts are dropped."""
    parts, at = list[str](), 0
    while at <= len(text):
        match = _OUTSIDE_QUOTES.match(text, at)
        end = match.end() if match else len(text)
        parts.append(text[at:end])
        at = end + 1
    return [part for part in parts if part.strip(_BLANKS)]


def parse_map(text: str) -> dict[str, str]:
    """Read ``k:v,k2:v2`` or ``{k: v, k2: v2}``; each key once, as Flink demands it."""
    inside = _flow(text, "{}")
    pairs = split_quoted(text, ",") if inside is None else _split_outside_quotes(inside)
    result: dict[str, str] = {}
    for pair in pairs:
        parts = split_quoted(pair, ":")
        if len(parts) != 2:  # noqa: PLR2004 - a key and a value
            raise ValueError("pairs of key:value, separated by commas")
        if parts[0] in result:
            raise ValueError(f"each key once; '{abbreviate(parts[0])}' is there more than once")
        result[parts[0]] = parts[1]
    return result


def format_map(values: Mapping[str, str]) -> str:
    """Write a map so that :func:`parse_map` reads it back."""
    pairs = (f"{_quote(key, ':')}:{_quote(value, ':')}" for key, value in values.items())
    return ",".join(_quote(pair, ",") for pair in pairs)


def format_list(values: tuple[str, ...] | list[str]) -> str:
    """Write a list so that :func:`parse_list` reads it back."""
    return ";".join(_quote(value, ";") for value in values)


def _quote(value: str, delimiter: str) -> str:
    is_special = value[:1] in ("'", '"', "[") or value == "-" or value.startswith("- ")
    if not value or delimiter in value or is_special or value != value.strip(_BLANKS):
        return "'" + value.replace("'", "''") + "'"
    return value
