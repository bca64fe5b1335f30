"""Typed access to decoded JSON; every mismatch is a :class:`ResponseError` that names the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from flink_autoscaler.core.errors import ResponseError

Fields = Mapping[str, object]

_MISSING = object()
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SHOWN = 40


def wrong(where: str, expected: str, value: object) -> ResponseError:
    """Make the error for a value of the wrong type."""
    if value is _MISSING:
        return ResponseError(f"{where} is missing, expected {expected}")
    shown = repr(value)
    return ResponseError(f"{where} is {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}, expected {expected}")


def object_of(value: object, where: str) -> Fields:
    """Return a JSON object."""
    if isinstance(value, dict):
        return cast("Fields", value)
    raise wrong(where, "an object", value)


def array_of(value: object, where: str) -> list[object]:
    """Return a JSON array."""
    if isinstance(value, list):
        return value
    raise wrong(where, "an array", value)


def objects_in(value: object, where: str) -> list[Fields]:
    """Return a JSON array of objects."""
    return [object_of(item, where) for item in array_of(value, where)]


def optional_object(fields: Fields, name: str, where: str) -> Fields:
    """Return a field that is a JSON object; an empty one where it is missing or null."""
    value = fields.get(name)
    return {} if value is None else object_of(value, f"{where}.{name}")


def optional_objects(fields: Fields, name: str, where: str) -> list[Fields]:
    """Return a field that is a JSON array of objects; an empty one where it is missing or null."""
    value = fields.get(name)
    return [] if value is None else objects_in(value, f"{where}.{name}")


def text(fields: Fields, name: str, where: str) -> str:
    """Return a required text. Halves of surrogate pairs, which nobody could print or store, become ``?``."""
    value = fields.get(name, _MISSING)
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    raise wrong(f"{where}.{name}", "text", value)


def optional_text(fields: Fields, name: str, where: str) -> str | None:
    """Return a text, None where it is missing or null."""
    return None if fields.get(name) is None else text(fields, name, where)


def integer(fields: Fields, name: str, where: str, default: int | None = None) -> int:
    """Return an integer; the default where it is missing or null, without a default it is required."""
    value = fields.get(name, _MISSING)
    if type(value) is int:
        return value
    if default is not None and (value is None or value is _MISSING):
        return default
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise wrong(f"{where}.{name}", "an integer", value)


def number(fields: Fields, name: str, where: str) -> float | None:
    """Return a number, None where it is missing or null. Flink writes NaN and infinities as text."""
    value = fields.get(name)
    if type(value) is float or value is None:
        return value
    if type(value) is int:
        return _as_float(value)
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    raise wrong(f"{where}.{name}", "a number", value)


def flag(fields: Fields, name: str, where: str) -> bool:
    """Return a boolean, True where it is missing or null."""
    value = fields.get(name)
    if value is None or isinstance(value, bool):
        return value is not False
    raise wrong(f"{where}.{name}", "true or false", value)


def texts(fields: Fields, where: str) -> dict[str, str]:
    """Return an object whose values are texts; other plain values become their JSON text."""
    return {name: _plain(item, f"{where}.{name}") for name, item in fields.items()}


def _plain(value: object, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise wrong(where, "text", value)


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
