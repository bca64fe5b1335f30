"""One declaration per option: key, type, default, limits and description, and how a value is found.

An options class is a plain class whose attributes are :class:`Option` objects. An instance wraps one
flat configuration (key to text) and parses a value when it is first read, so that a bad value of an
option that nobody needs does not stop a job.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final, Generic, Self, TypeVar, overload

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.syntax import LONGEST, abbreviate, format_map, parse_map

T = TypeVar("T")

PREFIX = "job.autoscaler."
LEGACY_PREFIX = "kubernetes.operator."


class ValueParseError(ConfigError):
    """A value does not have the syntax of its option; of a long one only the beginning is kept."""

    def __init__(self, key: str, value: str, expected: str) -> None:
        self.key = key
        self.value = abbreviate(value)
        super().__init__(f"Could not parse value '{self.value}' for key '{key}': expected {expected}")
        self.expected = expected

    def __reduce__(self) -> tuple[type[ValueParseError], tuple[str, str, str]]:
        return ValueParseError, (self.key, self.value, self.expected)


@cache
def option_descriptions() -> Mapping[str, str]:
    """What every option is for, by key; of the autoscaler and of Flink."""
    return tomllib.loads(resources.files(__package__).joinpath("descriptions.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, eq=False)
class Option(Generic[T]):
    """An option of a configuration.

    Attributes:
        key: The canonical key.
        parse: Reads the text of a value; raises ValueError whose text says what is expected.
        default: The value when no key is set; None where "unset" means something.
        default_text: The default as a user would write it; empty when unset.
        fallback_keys: Older keys, best first.
        deprecated_keys: Keys that still work and are looked up last.
        range_text: The permitted range, for the reference page; empty when any value goes.
    """

    key: str
    parse: Callable[[str], T]
    default: T
    default_text: str
    fallback_keys: tuple[str, ...] = ()
    deprecated_keys: tuple[str, ...] = ()
    range_text: str = ""
    name: str = field(default="", init=False)

    def __set_name__(self, owner: type, name: str) -> None:
        object.__setattr__(self, "name", name)

    @property
    def description(self) -> str:
        """One sentence for the reference page and the sample file, read from ``descriptions.toml`` when asked for."""
        return option_descriptions()[self.key]

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that sets this option, the one that wins first."""
        return (self.key, *self.fallback_keys, *self.deprecated_keys)

    def find(self, configuration: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the key that is set and its text, or None."""
        for key in self.keys:
            if key in configuration:
                return key, configuration[key]
        return self._spread(configuration) if self.parse is parse_map else None

    def _spread(self, configuration: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the text of a map that is written as a YAML map, and so has one key per entry, as Flink reads it."""
        prefix = f"{self.key}."
        entries = {key.removeprefix(prefix): text for key, text in configuration.items() if key.startswith(prefix)}
        return (self.key, format_map(entries)) if entries else None

    def read(self, configuration: Mapping[str, str]) -> T:
        """Return the value.

        Raises:
            ValueParseError: The text cannot be read.
        """
        found = self.find(configuration)
        if found is None:
            return self.default
        if len(found[1]) > LONGEST:
            raise ValueParseError(self.key, found[1], f"at most {LONGEST} characters")
        try:
            return self.parse(found[1])
        except ValueError as error:
            raise ValueParseError(self.key, found[1], str(error)) from error

    @overload
    def __get__(self, instance: None, owner: type) -> Option[T]: ...
    @overload
    def __get__(self, instance: OptionSet, owner: type) -> T: ...
    def __get__(self, instance: OptionSet | None, owner: type) -> Option[T] | T:
        if instance is None:
            return self
        value = self.read(instance.configuration)
        instance.__dict__[self.name] = value
        return value


KEPT: Final = 2048
"""Configurations whose options are kept, some kilobytes each: what one pass has read, the next does not read again."""

_NOT_MADE: Any = object()


@lru_cache(maxsize=KEPT)
def _cached_options(kind: Callable[[Mapping[str, str]], Any], configuration: tuple[tuple[str, str], ...]) -> Any:
    return kind(dict(configuration))


class OptionSet:
    """Typed view of one flat configuration; attributes are parsed when first read."""

    def __init__(self, configuration: Mapping[str, str]) -> None:
        self.configuration = configuration
        self._derived: dict[Callable[[Any], Any], Any] = {}

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> Self:
        """Return the options of a configuration; the same object for as long as the configuration says the same."""
        kind: Any = cls
        found: Self = _cached_options(kind, tuple(configuration.items()))
        return found

    def derive(self, make: Callable[[Self], T]) -> T:
        """Return what a function makes of these options; it is made once, an error is raised every time."""
        found: T = self._derived.get(make, _NOT_MADE)
        if found is _NOT_MADE:
            found = self._derived[make] = make(self)
        return found

    @classmethod
    def all_options(cls) -> tuple[Option[Any], ...]:
        """Every option of this class and of those that it is made of, in the order of declaration."""
        parts = (part for kind in reversed(cls.__mro__) for part in vars(kind).values())
        return tuple(part for part in parts if isinstance(part, Option))

    def is_set(self, option: Option[Any]) -> bool:
        """Tell whether any key of the option is present."""
        return option.find(self.configuration) is not None

    def with_changes(self, overrides: Mapping[str, str], removals: Iterable[str] = ()) -> Self:
        """Return the options after removing some keys and then setting others."""
        gone = frozenset(removals)
        kept = {key: value for key, value in self.configuration.items() if key not in gone}
        return type(self)({**kept, **overrides})


def closest_key(key: str, known: Iterable[str]) -> str:
    """Return a half-sentence that names the most similar known key, or nothing."""
    close = get_close_matches(key, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
