"""All options, as flat lists of keys: those of the daemon, of the core and of its plug-ins."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final, NamedTuple, TypeGuard, get_args, get_origin

from pydantic.fields import FieldInfo

from flink_autoscaler.core.model.syntax import shortened
from flink_autoscaler.core.options import option as core_option
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import Option, nearest
from flink_autoscaler.standalone.settings.removed import removed_key
from flink_autoscaler.standalone.settings.schema.settings import DaemonSettings
from flink_autoscaler.standalone.settings.schema.types import (
    EXPECTED,
    OldKeys,
    OptionSection,
    Syntax,
    either,
    syntax_of,
)

PREFIX: Final = "autoscaler."
INDEX: Final = "<n>"
FREE: Final = "<key>"
JOB_PREFIXES: Final = (core_option.PREFIX, core_option.LEGACY_PREFIX + core_option.PREFIX)
PLUGIN_FAMILIES: Final = (
    "metrics.custom-evaluator.",
    "scaling.custom-executor.",
    "scaling.parallelism-alignment.mode.",
)
_BOUNDS: Final = {"ge": "at least", "gt": "more than", "le": "at most"}
_PLUGIN_PARAMETER: Final = re.compile(
    f"({'|'.join(map(re.escape, JOB_PREFIXES))})({'|'.join(map(re.escape, PLUGIN_FAMILIES))})" + r"[^.]+\..+", re.DOTALL
)
LISTS: Final[Mapping[str, str]] = {
    f"{PREFIX}clusters": "cluster",
    f"{PREFIX}notifications.targets": "target",
    f"{PREFIX}notifications.rules": "rule",
    f"{PREFIX}kafka": "Kafka cluster",
    f"{PREFIX}numbers": "service",
}
"""The keys of lists of sections, and what one entry is called."""

_NUMBER: Final = re.compile(r"0|[1-9]\d{0,3}", re.ASCII)
_NUMBERED: Final = re.compile(rf"(?P<list>{'|'.join(map(re.escape, LISTS))})\.(?P<number>\d+)\.", re.ASCII)
_CLUSTER_OPTION: Final = re.compile(
    re.escape(PREFIX) + r"clusters\.(0|[1-9]\d{0,3})\.options\.(?P<option>.+)", re.DOTALL
)
_TYPO_SIMILARITY: Final = 0.9
_PARTS_OF_OURS: Final = tuple("autoscaler"[at : at + 3] for at in range(8))
_LEAST_PARTS: Final = 3
MOST_COMPARED: Final = 50
"""Unknown keys of a layer for which a similar known one is looked for: each takes milliseconds."""


@dataclass(frozen=True)
class DocumentedOption:
    """An option as the documents and the error messages show it; those of the daemon say where their values go.

    Attributes:
        key: The key; has ``<n>`` for the number of a list entry and ``<key>`` for any key.
        default_text: The default as a user would write it; empty when unset.
        allowed: What is accepted, as the end of "expected ...".
        old_keys: Keys that are looked up where the key is not set.
        path: Where the value goes in the nested input of :class:`DaemonSettings`; placeholders as in the key.
        is_required: Whether it has to be set wherever its section is there.
        section: What declares it; None for an option of the core.
    """

    key: str
    default_text: str
    allowed: str
    old_keys: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    is_required: bool = False
    section: type[OptionSection] | None = None

    @property
    def description(self) -> str:
        """One sentence, from the ``descriptions.toml`` of the core or of this package."""
        if self.section is None:
            return job_keys()[self.key].description
        name = self.path[-2 if self.path[-1] == FREE else -1]
        tables = descriptions()
        # A section has the options of those that it is made of.
        return next(table[name] for kind in self.section.__mro__ if name in (table := tables.get(kind.__name__, {})))

    @property
    def is_pattern(self) -> bool:
        """True when the key has placeholders."""
        return INDEX in self.key or FREE in self.key


class OptionPlace(NamedTuple):
    """Option that a key sets.

    Attributes:
        option: The option.
        template: The key with placeholders: that of the option or an old one.
        filled: What stands for the placeholders.
    """

    option: DocumentedOption
    template: str
    filled: tuple[str, ...]

    @property
    def better_keys(self) -> tuple[str, ...]:
        """Keys of the same option that count instead of this one where they are set, the best one first."""
        ranked = (self.option.key, *self.option.old_keys)
        return tuple(_with(self.filled, each) for each in ranked[: ranked.index(self.template)])


@cache
def descriptions() -> Mapping[str, Mapping[str, str]]:
    """Descriptions of the options of each section, by the name of its class and the key in it."""
    return tomllib.loads(resources.files(__package__).joinpath("descriptions.toml").read_text(encoding="utf-8"))


def _with(filled: Iterable[str], key: str) -> str:
    texts = iter(filled)
    return re.sub(f"{INDEX}|{FREE}", lambda _: next(texts, ""), key)


@cache
def daemon_options() -> tuple[DocumentedOption, ...]:
    """Every option of the daemon, in the order of declaration."""
    return tuple(_walk(DaemonSettings, ()))


def _walk(section: type[OptionSection], path: tuple[str, ...]) -> Iterator[DocumentedOption]:
    for name, field in section.model_fields.items():
        here = (*path, str(field.validation_alias or name))
        origin, parts = get_origin(field.annotation), get_args(field.annotation)
        if _is_section(field.annotation):
            yield from _walk(field.annotation, here)
        elif origin is tuple and _is_section(parts[0]):
            yield from _walk(parts[0], (*here, INDEX))
        elif field.discriminator:
            yield from _walk_kinds([get_args(kind)[0] for kind in parts], here)
        else:
            yield _leaf(section, field, here)


def _is_section(annotation: Any) -> TypeGuard[type[OptionSection]]:
    return isinstance(annotation, type) and issubclass(annotation, OptionSection)


def _walk_kinds(kinds: Sequence[type[OptionSection]], path: tuple[str, ...]) -> Iterator[DocumentedOption]:
    """Yield the options of sections of which ``kind`` chooses one, each once: several may have the same."""
    options: dict[str, DocumentedOption] = {}
    for option in itertools.chain.from_iterable(_walk(section, path) for section in kinds):
        options.setdefault(option.path[-1], option)
    words = either(section.model_fields["kind"].default for section in kinds)
    yield from (options | {"kind": replace(options["kind"], allowed=words)}).values()


def _leaf(section: type[OptionSection], field: FieldInfo, path: tuple[str, ...]) -> DocumentedOption:
    syntax = syntax_of(field)
    full_path = (*path, FREE) if syntax.is_map else path
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    return DocumentedOption(
        key=PREFIX + ".".join(full_path),
        default_text="" if default is None else syntax.write(default),
        allowed=_allowed_by(field, syntax),
        old_keys=next((item.keys for item in field.metadata if isinstance(item, OldKeys)), ()),
        path=full_path,
        is_required=field.is_required(),
        section=section,
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
def daemon_keys() -> dict[str, DocumentedOption]:
    """Every key without placeholders that sets an option of the daemon, old keys too, and the option."""
    plain = (option for option in daemon_options() if not option.is_pattern)
    return {key: option for option in plain for key in (option.key, *option.old_keys)}


@cache
def _templates() -> dict[str, DocumentedOption]:
    """Every key that sets an option of the daemon, old ones too, with placeholders."""
    return {key: option for option in daemon_options() for key in (option.key, *option.old_keys)}


@lru_cache(maxsize=4096)
def place_of(key: str) -> OptionPlace | None:
    """Tell which option of the daemon a key sets; None where no option has it."""
    templates = _templates()
    filled: tuple[str, ...] = ()
    if numbered := _NUMBERED.match(key):
        if not _NUMBER.fullmatch(numbered["number"]):
            return None
        filled = (numbered["number"],)
        key = f"{numbered['list']}.{INDEX}.{key[numbered.end() :]}"
    elif INDEX in key:
        return None
    if FREE not in key and key in templates:
        return OptionPlace(templates[key], key, filled)
    for dot in (at for at, character in enumerate(key[:-1], start=1) if character == "."):
        if (template := key[:dot] + FREE) in templates:
            return OptionPlace(templates[template], template, (*filled, key[dot:]))
    return None


def daemon_option(key: str) -> DocumentedOption | None:
    """Return the option of the daemon that a key sets, or None."""
    place = place_of(key)
    return None if place is None else place.option


def current_key(key: str) -> str | None:
    """Return the key by which to call an option that is set by an old one; None for every other key."""
    if inner := _CLUSTER_OPTION.fullmatch(key):
        current = current_key(inner["option"])
        return None if current is None else key.removesuffix(inner["option"]) + current
    if (place := place_of(key)) is not None:
        return next(iter(place.better_keys), None)
    known = job_keys().get(key)
    return known.key if known is not None and key in known.deprecated_keys else None


def is_daemon_key(key: str) -> bool:
    """Tell whether a key belongs to the daemon and not to jobs, be it known or not."""
    return key.startswith(PREFIX) or key in daemon_keys()


def is_ours(key: str) -> bool:
    """Tell whether a key is that of an option of the daemon or of the core, be it known or not."""
    return is_daemon_key(key) or key.startswith(JOB_PREFIXES)


def unknown_key(key: str, *, is_compared: bool = True) -> str | None:
    """Return what is wrong with a key below our prefixes that no option has; None for every other key.

    Args:
        key: The key.
        is_compared: Whether the message names a known key that is similar.
    """
    if key.startswith(PREFIX):
        return _unknown_daemon_key(key, is_compared=is_compared)
    return _unknown_job_key(key, is_compared=is_compared)


def _unknown_daemon_key(key: str, *, is_compared: bool) -> str | None:
    if inner := _CLUSTER_OPTION.fullmatch(key):
        if is_daemon_key(inner["option"]):
            return f"'{inner['option']}' belongs to the daemon and cannot be set for the jobs of a cluster"
        return _unknown_job_key(inner["option"], is_compared=is_compared)
    if daemon_option(key) is not None:
        return None
    if message := removed_key(key):
        return message
    numbered = _NUMBERED.match(key)
    number = numbered["number"] if numbered else "0"
    if numbered and not _NUMBER.fullmatch(number):
        return f"'{shortened(number)}' is not the number of a {LISTS[numbered['list']]}, expected 0 to 9999"
    known = (option.key.replace(INDEX, number) for option in daemon_options() if FREE not in option.key)
    return "unknown key" + (nearest(key, known) if is_compared else "")


def _unknown_job_key(key: str, *, is_compared: bool) -> str | None:
    if not key.startswith(JOB_PREFIXES) or key in job_keys() or _PLUGIN_PARAMETER.fullmatch(key):
        return None
    return removed_key(key) or "unknown key" + (nearest(key, job_keys()) if is_compared else "")


def resembles_ours(key: str) -> bool:
    """Tell at once whether a foreign key may be a misspelling: it shares parts of our name, or has no sections."""
    lowered = key.lower()
    return "." not in key or sum(part in lowered for part in _PARTS_OF_OURS) >= _LEAST_PARTS


def probably_ours(key: str) -> str | None:
    """Return the known key that a foreign key is a likely misspelling of, such as ``autoscaller.http.port``."""
    if key.startswith((PREFIX, *JOB_PREFIXES)) or is_daemon_key(key):
        return None
    known = [*daemon_keys(), *job_keys()]
    return next(iter(get_close_matches(key, known, n=1, cutoff=_TYPO_SIMILARITY)), None)
