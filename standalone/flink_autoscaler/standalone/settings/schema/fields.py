"""Field types of the daemon's settings: how a value is written, read and described."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator

from flink_autoscaler.core.model import syntax

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


@dataclass(frozen=True)
class Syntax:
    """What the reference page and the error messages say about values of a type.

    Attributes:
        expected: What is accepted, as the end of "expected ...".
        write: Turns a value into the text that reads back as the same value.
        is_map: Whether the option is a group of free keys.
    """

    expected: str
    write: Callable[[Any], str] = field(default=str)
    is_map: bool = False


@dataclass(frozen=True)
class OldKeys:
    """Keys of earlier versions that still set the field; the current key wins."""

    keys: tuple[str, ...]


def _reads(parse: Callable[[str], T]) -> BeforeValidator:
    """Parse text; values of another type come from code and are taken as they are."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def _write_seconds(value: float) -> str:
    return str(syntax.Duration(round(value * 1e9))) if value else "0 s"


def _write_memory(value: int) -> str:
    for unit, size in (("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)):
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return f"{value} bytes"


def _seconds(text: str) -> float:
    return syntax.parse_duration(text).exact_seconds


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("1 to 64 letters, digits, dots, underscores or hyphens")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("text that is not blank")
    return text.strip()


def _base_url(text: str) -> str:
    """Return a URL without slashes at its end. The messages leave the URL out: it may hold a password."""
    try:
        parts = urlsplit(text.strip())
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("http:// or https:// with a host")
    return _bare(parts)


def _bare(parts: SplitResult) -> str:
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL without user name and password")
    if parts.query or parts.fragment or any(character.isspace() for character in parts.geturl()):
        raise ValueError("a URL without query, fragment and blanks")
    return parts.geturl().rstrip("/")


def _base_urls(text: str) -> tuple[str, ...]:
    """Read one URL or a list of them; no comma or semicolon stands in a base URL."""
    return tuple(
        _base_url(part) for part in syntax.parse_list(text if text.lstrip().startswith("[") else text.replace(",", ";"))
    )


def _write_list(value: tuple[str, ...]) -> str:
    return syntax.format_list(list(value)) if value else ""


def _texts(text: str) -> tuple[str, ...]:
    return tuple(syntax.parse_list(text))


Flag = Annotated[bool, _reads(syntax.parse_bool), Syntax("true or false", lambda value: str(value).lower())]
OptionalFlag = Annotated[
    bool | None, _reads(syntax.parse_bool), Syntax("true or false", lambda value: str(value).lower())
]
Count = Annotated[int, _reads(syntax.parse_int), Syntax("a whole number")]
Seconds = Annotated[float, _reads(_seconds), Syntax("a duration such as '10 s'", _write_seconds)]
OptionalSeconds = Annotated[float | None, _reads(_seconds), Syntax("a duration such as '10 s'", _write_seconds)]
MemorySize = Annotated[int, _reads(syntax.parse_memory), Syntax("a memory size such as '512m'", _write_memory)]
Text = Annotated[str, _reads(_not_blank), Syntax("text that is not blank")]
OptionalText = Annotated[str | None, _reads(_not_blank), Syntax("text that is not blank")]
ClusterName = Annotated[str, _reads(_name), Syntax("1 to 64 letters, digits, dots, underscores or hyphens")]
BaseUrl = Annotated[
    str, _reads(_base_url), Syntax("http:// or https://, a host, a port and path if needed, no user or password")
]
BaseUrls = Annotated[
    tuple[str, ...],
    _reads(_base_urls),
    Syntax(
        "http:// or https://, a host, a port and path if needed, no user or password; several as a list", _write_list
    ),
]
Texts = Annotated[tuple[str, ...], _reads(_texts), Syntax("a list such as 'a;b'", _write_list)]
TextMap = Annotated[Mapping[str, str], Syntax("any text", lambda _: "", is_map=True)]


def member_of(kind: type[StrEnum]) -> BeforeValidator:
    """Read the name of a member in any case; other values are left to pydantic."""
    return BeforeValidator(lambda value: syntax.parse_enum(value, kind) if isinstance(value, str) else value)


def _plugin_name(value: object) -> object:
    """Map the Java names to ours; names of plug-ins are in lower case."""
    if not isinstance(value, str):
        return value
    return {"memory": "heap"}.get(value.strip().lower(), value.strip().lower())


def _write_plugin(value: str) -> str:
    return {"heap": "MEMORY", "logging": "LOGGING"}.get(value, value)


PluginName = Annotated[str, BeforeValidator(_plugin_name), Syntax("the name of an installed plug-in", _write_plugin)]
