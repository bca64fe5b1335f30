"""Types of the daemon's options: their syntax, reading and description, and what all their sections have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self, TypeVar, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import AliasGenerator, BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.vertex_patterns import parse_patterns
from flink_autoscaler.core.options.declare import positive_duration, time_zone

T = TypeVar("T")

AUTO: Final = "auto"
OFF: Final = "off"
SCHEDULE: Final = "auto, off, or minute, hour, day, month and weekday as in cron, such as '10 3 * * *'"

_CRON_FIELDS: Final = 5
_DAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAYS: Final = re.compile(r"([0-7])(?:-([0-7]))?(?:/(\d+))?")


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
        raise ValueError(SCHEDULE) from error
    return expression


def cron_trigger(expression: str, zone: tzinfo | None) -> Any:
    """Return the trigger of the scheduler for an expression; ``zone`` None takes that of the machine.

    Raises:
        ValueError: Not five fields that can be read, or both a day of the month and one of the week.
    """
    # Imported here: commands that run no schedule do not pay for the scheduler.
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415

    fields = expression.split()
    if len(fields) != _CRON_FIELDS:
        raise ValueError(SCHEDULE)
    minute, hour, day, month, weekday = fields
    if day != "*" and weekday != "*":
        # Cron takes either of the two then, the scheduler both: nobody would get what he means.
        raise ValueError("a day of the month or one of the week, not both")
    return CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=_weekdays(weekday), timezone=zone)


def _weekdays(weekdays: str) -> str:
    """Return days of the week by name: cron counts from Sunday, the scheduler from Monday."""
    return ",".join(_by_name(part) for part in weekdays.lower().split(","))


def _by_name(part: str) -> str:
    found = _WEEKDAYS.fullmatch(part)
    if found is None:
        return part
    first = int(found[1])
    last = int(found[2]) if found[2] else first
    if last < first:
        raise ValueError(f"no days from {first} to {last}")
    return ",".join(dict.fromkeys(_DAY_NAMES[day] for day in range(first, last + 1, int(found[3] or 1) or 1)))


EXPECTED: Final[Mapping[Callable[[str], Any], str]] = {
    syntax.parse_bool: "true or false",
    syntax.parse_int: "a whole number",
    syntax.parse_double: "a decimal number",
    syntax.parse_duration: "a whole number and a unit, such as '90 s', '1500 ms' or '2 h'",
    syntax.parse_time: "a duration such as '10 s', '1.5 min' or '1h 30min'",
    positive_duration: "a duration above 0, such as '10 s'",
    syntax.parse_memory: "a memory size such as '512m'",
    syntax.parse_list: "a list such as 'a;b'",
    parse_patterns: "a list such as 'a;b'",
    syntax.parse_map: "pairs such as 'a:1,b:2'",
    str: "text",
}
"""What functions that read values accept, as the end of "expected ..."; for options of the daemon and of the core."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_BASE_URL: Final = "http:// or https://, a host, a port and path if needed, no user or password"


@dataclass(frozen=True)
class Syntax:
    """Syntax of a type's values: for reading them, the reference page and the error messages.

    Attributes:
        expected: What is accepted, as the end of "expected ...".
        parse: Reads text; values of another type come from code and are taken as they are.
        write: Turns a value into the text that reads back as the same value.
        is_map: Whether the option is a group of free keys.
    """

    expected: str
    parse: Callable[[str], Any] = str
    write: Callable[[Any], str] = str
    is_map: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def _read(self, value: object) -> object:
        return self.parse(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class OldKeys:
    """Keys of earlier versions that still set the field; the current key wins."""

    keys: tuple[str, ...]


class Choice(StrEnum):
    """Names of which an option takes one, in any case."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return next((member for member in cls if isinstance(value, str) and member.value == value.lower()), None)


class OptionSection(BaseModel):
    """A group of options. Keys are the field names with hyphens, unless a field says otherwise."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        hide_input_in_errors=True,
        # Sections are read as parts of the settings, whose schema has theirs in it.
        defer_build=True,
        alias_generator=AliasGenerator(validation_alias=lambda name: name.replace("_", "-")),
    )


def either(words: Iterable[str]) -> str:
    """Return what accepts one of some words, as the end of "expected ..."."""
    *others, last = words
    return f"{', '.join(others)} or {last}"


def syntax_of(field: FieldInfo) -> Syntax:
    """Return how values of a field are written; of named values all are listed."""
    kinds = (field.annotation, *get_args(field.annotation))
    for kind in kinds:
        if get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, StrEnum)):
            return Syntax(either(get_args(kind) or tuple(kind)))
    optional = (item for part in kinds[1:] for item in getattr(part, "__metadata__", ()))
    return next(item for item in (*field.metadata, *optional) if isinstance(item, Syntax))


def _write_seconds(value: float) -> str:
    return str(syntax.Duration(round(value * 1e9))) if value else "0 s"


def _write_memory(value: int) -> str:
    for unit, size in (("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)):
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return f"{value} bytes"


def _seconds(text: str) -> float:
    return syntax.parse_time(text).exact_seconds


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("1 to 64 letters, digits, dots, underscores or hyphens")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("text that is not blank")
    return text.strip()


def base_urls(text: str) -> tuple[str, ...]:
    """Read one URL or a list of them; no comma or semicolon stands in a base URL."""
    listed = text if text.lstrip().startswith("[") else text.replace(",", ";")
    return tuple(map(_base_url, syntax.parse_list(listed)))


def _base_url(text: str) -> str:
    """Return a URL without slashes at its end. The messages leave the URL out: it may hold a password."""
    try:
        parts = urlsplit(text.strip())
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError("http:// or https:// with a host")
    if "@" in text:  # anywhere: behind a slash it is no user to a URL, but one to whoever wrote it
        raise ValueError("a URL without user name and password")
    if parts.query or parts.fragment or any(character.isspace() for character in parts.geturl()):
        raise ValueError("a URL without query, fragment and blanks")
    return parts.geturl().rstrip("/")


def write_list(value: tuple[str, ...]) -> str:
    """Write a list as :func:`syntax.parse_list` reads it."""
    return syntax.format_list(list(value)) if value else ""


def _plugin_name(text: str) -> str:
    """Map the Java names to ours; names of plug-ins are in lower case."""
    lowered = text.strip().lower()
    return "heap" if lowered == "memory" else lowered


def _plugin_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_plugin_name, syntax.parse_list(text))))


def _write_plugin(value: str) -> str:
    return {"heap": "MEMORY", "logging": "LOGGING"}.get(value, value)


OneOf = Annotated[T, Syntax("", str.lower)]
"""One of the words of a ``Literal``, in any case."""

Flag = Annotated[bool, Syntax(EXPECTED[syntax.parse_bool], syntax.parse_bool, lambda value: str(value).lower())]
Count = Annotated[int, Syntax(EXPECTED[syntax.parse_int], syntax.parse_int)]
Seconds = Annotated[float, Syntax(EXPECTED[syntax.parse_time], _seconds, _write_seconds)]
MemorySize = Annotated[int, Syntax(EXPECTED[syntax.parse_memory], syntax.parse_memory, _write_memory)]
Text = Annotated[str, Syntax("text that is not blank", _not_blank)]
Schedule = Annotated[str, Syntax(SCHEDULE, parse_schedule)]
TimeZone = Annotated[str, Syntax("a time zone such as Europe/Berlin", time_zone)]
ClusterName = Annotated[str, Syntax("1 to 64 letters, digits, dots, underscores or hyphens", _name)]
BaseUrls = Annotated[tuple[str, ...], Syntax(f"{_BASE_URL}; several as a list", base_urls, write_list)]
Texts = Annotated[tuple[str, ...], Syntax(EXPECTED[syntax.parse_list], syntax.parse_list, write_list)]
TextMap = Annotated[Mapping[str, str], Syntax("any text", write=lambda _: "", is_map=True)]
PluginNames = Annotated[
    tuple[str, ...], Syntax("names of installed plug-ins as a list such as 'a;b'", _plugin_names, write_list)
]
PluginName = Annotated[str, Syntax("the name of an installed plug-in", _plugin_name, _write_plugin)]
