"""Typed access to decoded JSON; every mismatch is a :class:`ResponseError` that names the field."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from flink_autoscaler.clients.http.bounds import MAX_ENTRIES
from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.errors import ResponseError

T = TypeVar("T")

_MISSING: Final = object()
_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SHOWN: Final = 40

_LONGEST_WHERE: Final = 200

_LARGEST: Final = 2**63
"""Java writes no integer beyond it."""

_LARGEST_COUNT: Final = 2**31 - 1
LATEST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, the last one that is a date."""

_brief = reprlib.Repr()
_brief.maxlevel, _brief.maxdict, _brief.maxlist, _brief.maxstring, _brief.maxlong = 2, 2, 3, _SHOWN, _SHOWN
"""Shows values that may be as long as an answer, or nested as deeply."""


class JsonObject:
    """A JSON object. Fields that are not read are ignored.

    Args:
        value: Decoded JSON.
        where: What the object is, for messages.

    Raises:
        ResponseError: The value is no object.
    """

    __slots__ = ("_fields", "_where")

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise type_error(where, "an object", value)
        self._fields: Mapping[str, object] = value
        self._where = where

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def with_name(self, where: str) -> JsonObject:
        """Return the same object under another name."""
        return JsonObject(self._fields, where)

    def get(self, name: str) -> object:
        """Return a field as it is, None where it is missing."""
        return self._fields.get(name)

    def text(self, name: str) -> str:
        """Return a required text. Halves of surrogate pairs, which nobody could print or store, become ``?``."""
        value = self._fields.get(name, _MISSING)
        if isinstance(value, str):
            return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
        raise self._wrong(name, "text", value)

    def optional_text(self, name: str) -> str | None:
        """Return a text, None where it is missing or null."""
        return None if self._fields.get(name) is None else self.text(name)

    def plain_text(self, name: str) -> str:
        """Return a text, or the text of a number or truth value; empty where it is missing or null."""
        value = self._fields.get(name)
        if isinstance(value, bool | int | float):
            return str(value)
        return "" if value is None else self.text(name)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer of 64 bits; the default where it is missing or null, without a default it is required."""
        value = self._fields.get(name, _MISSING)
        if default is not None and (value is None or value is _MISSING):
            return default
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is int and -_LARGEST <= value < _LARGEST:
            return value
        raise self._wrong(name, "an integer", value)

    def count(self, name: str, default: int | None = None, *, least: int = 0) -> int:
        """Return how many there are of something, at most 2^31 - 1; the default where it is missing or null."""
        value = self._fields.get(name)
        if type(value) is int and least <= value <= _LARGEST_COUNT:  # at once: there are dozens in every answer
            return value
        value = self.integer(name, default)
        if value == default or least <= value <= _LARGEST_COUNT:
            return value
        raise self._wrong(name, f"an integer from {least} to {_LARGEST_COUNT}", value)

    def instant(self, name: str) -> int | None:
        """Return epoch milliseconds; None where it is missing or null, and for 0 and -1, which mean "never"."""
        value = self._fields.get(name)
        if type(value) is int and 0 < value <= LATEST_MS:
            return value
        value = self.integer(name, 0)
        if value in (0, -1):
            return None
        if 0 < value <= LATEST_MS:  # it was written with a point
            return value
        raise self._wrong(name, "an instant before the year 10000", value)

    def number(self, name: str) -> float | None:
        """Return a number, None where it is missing or null. Flink writes NaN and infinities as text."""
        value = self._fields.get(name)
        if type(value) is float or value is None:
            return value
        if type(value) is int:
            return _as_float(value)
        if isinstance(value, str) and value in _WORDS:
            return _WORDS[value]
        raise self._wrong(name, "a number", value)

    def flag(self, name: str) -> bool:
        """Return a boolean, True where it is missing or null."""
        value = self._fields.get(name)
        if value is None or isinstance(value, bool):
            return value is not False
        raise self._wrong(name, "true or false", value)

    def child(self, name: str, where: str | None = None) -> JsonObject:
        """Return a field that is a JSON object, under another name; an empty one where it is missing or null."""
        value = self._fields.get(name)
        if value is None:
            value = {}
        elif not isinstance(value, dict):
            raise self._wrong(name, "an object", value)
        return JsonObject(value, f"{self._where}.{name}" if where is None else where)

    def children(self, name: str, where: str | None = None) -> list[JsonObject]:
        """Return a field that is a JSON array of objects; an empty one where it is missing or null."""
        value = self._fields.get(name)
        return [] if value is None else objects_in(value, f"{self._where}.{name}", where)

    def texts(self, where: str) -> dict[str, str]:
        """Return all fields as texts; plain values that are none become their JSON text."""
        return {name: _plain(value, f"{where}.{name}") for name, value in self._fields.items()}

    def _wrong(self, name: str, expected: str, value: object) -> ResponseError:
        return type_error(f"{self._where}.{name}", expected, value)


def objects_in(value: object, where: str, each: str | None = None) -> list[JsonObject]:
    """Return the objects of a JSON array, each under a name of its own."""
    if not isinstance(value, list):
        raise type_error(where, "an array", value)
    if len(value) > MAX_ENTRIES:
        raise ResponseError(f"{where} has {len(value)} entries, {MAX_ENTRIES} are taken at most")
    for item in value:
        if not isinstance(item, dict):
            raise type_error(where, "an object", item)
    return [JsonObject(item, each or where) for item in value]


def or_unknown(read: Callable[[], T]) -> T | None:
    """Return a value that only helps; None where it is not as documented."""
    try:
        return read()
    except ResponseError:
        return None


def decode_answer(answer: object, decoder: Callable[[object], T], what: str) -> T:
    """Decode an answer; a :class:`ResponseError` then says which request it was of, too."""
    with ErrorBoundary(ResponseError, "the answer cannot be read") as boundary:
        return decoder(answer)
    raise ResponseError(f"{what}: {boundary.error}") from boundary.error


def type_error(where: str, expected: str, value: object) -> ResponseError:
    """Make the error for a value of the wrong type."""
    if value is _MISSING:
        return ResponseError(f"{where} is missing, expected {expected}")
    shown = repr(value[: _SHOWN + 1]) if isinstance(value, str) else _brief.repr(value)
    where = where if len(where) <= _LONGEST_WHERE else f"{where[:_LONGEST_WHERE]}..."
    return ResponseError(f"{where} is {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}, expected {expected}")


def _plain(value: object, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise type_error(where, "text", value)


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
