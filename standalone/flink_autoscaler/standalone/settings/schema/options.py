"""Which options there are, as flat lists of keys: those of the daemon, of the core and of its plug-ins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache
from typing import Any, Final, get_args, get_origin

from pydantic.fields import FieldInfo

from flink_autoscaler.core.options import option as core_option
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import Option, nearest
from flink_autoscaler.standalone.settings.schema.settings import DaemonSettings
from flink_autoscaler.standalone.settings.schema.types import EXPECTED, OldKeys, OptionSection, Syntax, syntax_of

PREFIX: Final = "autoscaler."
INDEX: Final = "<n>"
FREE: Final = "<key>"
JOB_PREFIXES: Final = (core_option.PREFIX, core_option.LEGACY_PREFIX + core_option.PREFIX)
PLUGIN_FAMILIES: Final = (
    "metrics.custom-evaluator.",
    "scaling.custom-executor.",
    "scaling.parallelism-alignment.mode.",
)
_PLACEHOLDERS: Final = {INDEX: r"(0|[1-9]\d{0,3})", FREE: r"(.+)"}
_BOUNDS: Final = {"ge": "at least", "gt": "more than", "le": "at most"}
_PLUGIN_PARAMETER: Final = re.compile(
    f"({'|'.join(map(re.escape, JOB_PREFIXES))})({'|'.join(map(re.escape, PLUGIN_FAMILIES))})" + r"[^.]+\..+", re.DOTALL
)
_CLUSTER_OPTION: Final = re.compile(re.escape(PREFIX) + r"clusters\.\d+\.options\.(.+)", re.DOTALL)
_TYPO_SIMILARITY: Final = 0.9
_MOST_KEYS: Final = 16_384
"""Keys whose option is remembered: every check asks for it again, and a list of clusters has many."""


@dataclass(frozen=True)
class DocumentedOption:
    """An option as the documents and the error messages show it.

    Attributes:
        key: The key.
        default_text: The default as a user would write it; empty when unset.
        allowed: What is accepted, as the end of "expected ...".
        description: One line.
        old_keys: Keys that are looked up where the key is not set.
    """

    key: str
    default_text: str
    allowed: str
    description: str
    old_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class DaemonOption(DocumentedOption):
    """One option of the daemon; its key has ``<n>`` for the number of a list entry and ``<key>`` for any key.

    Attributes:
        path: Where the value goes in the nested input of :class:`DaemonSettings`; placeholders as in the key.
        is_required: Whether it has to be set wherever its section is there.
    """

    path: tuple[str, ...] = ()
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


@cache
def daemon_options() -> tuple[DaemonOption, ...]:
    """Every option of the daemon, in the order of declaration."""
    return tuple(_walk(DaemonSettings, ()))


def _walk(section: type[OptionSection], path: tuple[str, ...]) -> Iterator[DaemonOption]:
    for name, field in section.model_fields.items():
        here = (*path, str(field.validation_alias or name))
        nested, is_list = _nested(field.annotation)
        if nested is None:
            yield _leaf(field, here)
        else:
            yield from _walk(nested, (*here, INDEX) if is_list else here)


def _nested(annotation: Any) -> tuple[type[OptionSection] | None, bool]:
    """Return the section that a field holds, and whether it holds a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, OptionSection):
        return annotation, False
    if get_origin(annotation) is tuple and issubclass(entry := get_args(annotation)[0], OptionSection):
        return entry, True
    return None, False


def _leaf(field: FieldInfo, path: tuple[str, ...]) -> DaemonOption:
    syntax = syntax_of(field)
    full_path = (*path, FREE) if syntax.is_map else path
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    return DaemonOption(
        key=PREFIX + ".".join(full_path),
        default_text="" if default is None else syntax.write(default),
        allowed=_allowed_by(field, syntax),
        description=field.description or "",
        old_keys=next((item.keys for item in field.metadata if isinstance(item, OldKeys)), ()),
        path=full_path,
        is_required=field.is_required(),
    )


def _allowed_by(field: FieldInfo, syntax: Syntax) -> str:
    bounds = [
        f"{words} {syntax.write(getattr(metadata, name))}"
        for metadata in field.metadata
        for name, words in _BOUNDS.items()
        if hasattr(metadata, name)
    ]
    return ", ".join([syntax.expected, *bounds])


def allowed(option: Option[Any]) -> str:
    """Return what an option of the core accepts, as the end of "expected ..."; named values are listed."""
    kind = EXPECTED.get(option.parse)
    if kind is None and option.range_text.startswith(("[", "(")):
        return f"a value in {option.range_text}"
    if kind is None:
        return f"one of {option.range_text}"
    return f"{kind}, {option.range_text}" if option.range_text else kind


@cache
def job_keys() -> dict[str, Option[Any]]:
    """Every key that sets an option of the core, and the option."""
    return {key: option for option in AutoscalerOptions.declared() for key in option.keys}


@cache
def daemon_keys() -> dict[str, DaemonOption]:
    """Every key without placeholders that sets an option of the daemon, old keys too, and the option."""
    plain = (option for option in daemon_options() if not option.is_pattern)
    return {key: option for option in plain for key in (option.key, *option.old_keys)}


@lru_cache(maxsize=_MOST_KEYS)
def daemon_option(key: str) -> DaemonOption | None:
    """Return the option of the daemon that a key sets, or None."""
    patterns = (option for option in daemon_options() if option.is_pattern)
    return daemon_keys().get(key) or next((option for option in patterns if option.pattern.fullmatch(key)), None)


def is_daemon_key(key: str) -> bool:
    """Tell whether a key belongs to the daemon and not to jobs, be it known or not."""
    return key.startswith(PREFIX) or key in daemon_keys()


def unknown_key(key: str) -> str | None:
    """Return what is wrong with a key below our prefixes that no option has; None for every other key."""
    return _unknown_daemon_key(key) if key.startswith(PREFIX) else _unknown_job_key(key)


def _unknown_daemon_key(key: str) -> str | None:
    if inner := _CLUSTER_OPTION.fullmatch(key):
        if is_daemon_key(inner[1]):
            return f"'{inner[1]}' belongs to the daemon and cannot be set for the jobs of a cluster"
        return _unknown_job_key(inner[1])
    if daemon_option(key) is not None:
        return None
    numbers = re.match(re.escape(PREFIX) + r"clusters\.(\d+)\.", key)
    candidates = [option.key.replace(INDEX, numbers[1] if numbers else "0") for option in daemon_options()]
    return "unknown key" + nearest(key, [candidate for candidate in candidates if FREE not in candidate])


def _unknown_job_key(key: str) -> str | None:
    if not key.startswith(JOB_PREFIXES) or key in job_keys() or _PLUGIN_PARAMETER.fullmatch(key):
        return None
    return "unknown key" + nearest(key, job_keys())


def probably_ours(key: str) -> str | None:
    """Return the known key that a foreign key is a likely misspelling of, such as ``autoscaller.http.port``."""
    if key.startswith((PREFIX, *JOB_PREFIXES)) or is_daemon_key(key):
        return None
    known = [*daemon_keys(), *job_keys()]
    return next(iter(get_close_matches(key, known, n=1, cutoff=_TYPO_SIMILARITY)), None)
