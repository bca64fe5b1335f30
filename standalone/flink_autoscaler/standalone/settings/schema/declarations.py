"""The daemon's options as a flat list, derived from the models in :mod:`.sections`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from typing import Any, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from flink_autoscaler.standalone.settings.schema.fields import OldKeys, Syntax
from flink_autoscaler.standalone.settings.schema.section import Section
from flink_autoscaler.standalone.settings.schema.sections import DaemonSettings

PREFIX = "autoscaler."
INDEX = "<n>"
FREE = "<key>"
_PLACEHOLDERS = {INDEX: r"(0|[1-9]\d{0,3})", FREE: r"(.+)"}
_BOUNDS = {
    annotated_types.Ge: ("ge", "at least"),
    annotated_types.Gt: ("gt", "more than"),
    annotated_types.Le: ("le", "at most"),
    annotated_types.Lt: ("lt", "less than"),
}


@dataclass(frozen=True)
class DaemonOption:
    """One option of the daemon.

    Attributes:
        key: The key, with ``<n>`` for the number of a list entry and ``<key>`` for any key.
        path: Where the value goes in the nested input of :class:`DaemonSettings`; placeholders as in the key.
        default_text: The default as a user would write it; empty when unset.
        allowed: What is accepted, as the end of a sentence.
        description: One line.
        old_keys: Keys that are looked up where the key is not set.
        is_required: Whether it has to be set wherever its section is there.
    """

    key: str
    path: tuple[str, ...]
    default_text: str
    allowed: str
    description: str
    old_keys: tuple[str, ...] = ()
    is_required: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the keys that set this option; one group per placeholder."""
        parts = re.split(f"({INDEX}|{FREE})", self.key)
        return re.compile("".join(_PLACEHOLDERS.get(part, re.escape(part)) for part in parts), re.DOTALL)

    @property
    def is_pattern(self) -> bool:
        """Whether the key has placeholders."""
        return INDEX in self.key or FREE in self.key


def _allowed(field: FieldInfo, syntax: Syntax) -> str:
    bounds = [
        f"{words} {syntax.write(getattr(metadata, name))}"
        for metadata in field.metadata
        for kind, (name, words) in _BOUNDS.items()
        if isinstance(metadata, kind)
    ]
    return ", ".join([syntax.expected, *bounds])


def _default_text(field: FieldInfo, syntax: Syntax) -> str:
    value = None if field.is_required() else field.get_default(call_default_factory=True)
    if value is None:
        return ""
    return syntax.write(value.value if isinstance(value, Enum) else value)


def _leaf(field: FieldInfo, path: tuple[str, ...]) -> DaemonOption:
    syntax = next(item for item in field.metadata if isinstance(item, Syntax))
    old = next((item.keys for item in field.metadata if isinstance(item, OldKeys)), ())
    full_path = (*path, FREE) if syntax.is_map else path
    return DaemonOption(
        key=PREFIX + ".".join(full_path),
        path=full_path,
        default_text=_default_text(field, syntax),
        allowed=_allowed(field, syntax),
        description=field.description or "",
        old_keys=old,
        is_required=field.is_required(),
    )


def _nested(annotation: Any) -> tuple[type[Section] | None, bool]:
    """Return the section that a field holds, and whether it holds a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation, False
    if get_origin(annotation) is tuple and issubclass(entry := get_args(annotation)[0], Section):
        return entry, True
    return None, False


def _walk(section: type[Section], path: tuple[str, ...]) -> Iterator[DaemonOption]:
    for name, field in section.model_fields.items():
        here = (*path, str(field.validation_alias or name))
        nested, is_list = _nested(field.annotation)
        if nested is None:
            yield _leaf(field, here)
        else:
            yield from _walk(nested, (*here, INDEX) if is_list else here)


@cache
def daemon_options() -> tuple[DaemonOption, ...]:
    """Every option of the daemon, in the order of declaration."""
    return tuple(_walk(DaemonSettings, ()))
