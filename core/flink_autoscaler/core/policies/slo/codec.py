"""Frozen dataclasses as JSON values: fields in their order, bytes as base64, each text once; damage is told."""

from __future__ import annotations

import math
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
_EXACT: Final = 1e5
"""Numbers below are kept to six digits; those above are instants and counters."""


def encode(value: Any) -> list[Any]:
    """Return a value as JSON values: numbers, texts, bytes, tuples, mappings, and dataclasses of these."""
    texts = dict[str, int]()
    encoded = _encoded(value, texts)
    return [list(texts), encoded]


def _encoded(value: Any, texts: dict[str, int]) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if -_EXACT < value < _EXACT else value
    if isinstance(value, str):
        return texts.setdefault(value, len(texts))
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    if isinstance(value, tuple):
        return [_encoded(each, texts) for each in value]
    if isinstance(value, Mapping):
        return [[_encoded(key, texts), _encoded(each, texts)] for key, each in value.items()]
    return [_encoded(getattr(value, name), texts) for name, _ in _hints(value.__class__)]


@cache
def _hints(kind: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((each.name, hints[each.name]) for each in fields(kind))


def decode(kind: Callable[..., T], stored: Any) -> T:
    """Return the value of a type that :func:`encode` was given.

    Raises:
        ValueError: It is something else, or has a number that is not finite.
    """
    try:
        texts, encoded = stored
        found: T = _decoder(kind)(encoded, tuple([_exactly(str, each) for each in texts]))
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise ValueError(f"no {kind}") from error
    return found


@cache
def _decoder(kind: Any) -> Any:
    """Return what reads values of a type, given the texts that they name by number."""
    arguments: tuple[Any, ...] = get_args(kind)
    if hasattr(kind, "__dataclass_fields__"):
        readers = [_decoder(hint) for _, hint in _hints(kind)]
        return lambda stored, texts: kind(*[read(each, texts) for read, each in zip(readers, stored, strict=True)])
    if get_origin(kind) is UnionType:
        read = _decoder(next(each for each in arguments if each is not NoneType))
        return lambda stored, texts: None if stored is None else read(stored, texts)
    if get_origin(kind) is tuple and arguments[-1] is ...:
        read = _decoder(arguments[0])
        return lambda stored, texts: tuple([read(each, texts) for each in _exactly(list, stored)])
    if get_origin(kind) is tuple:
        readers = [_decoder(each) for each in arguments]
        return lambda stored, texts: tuple([read(each, texts) for read, each in zip(readers, stored, strict=True)])
    if arguments:
        key, value = map(_decoder, arguments)
        return lambda stored, texts: {key(name, texts): value(each, texts) for name, each in stored}
    if kind is str:
        return lambda stored, texts: texts[_exactly(int, stored)]
    if kind is float:
        return lambda stored, _: _number(stored)
    if kind is bytes:
        return lambda stored, _: a2b_base64(stored)
    return lambda stored, _: _exactly(kind, stored)


def _number(stored: Any) -> float:
    if isinstance(stored, bool) or not math.isfinite(stored):
        raise ValueError(stored)
    return float(stored)


def _exactly(kind: Any, stored: Any) -> Any:
    if type(stored) is not kind:
        raise ValueError(stored)
    return stored
