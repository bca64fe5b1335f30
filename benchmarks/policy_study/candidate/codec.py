"""Frozen dataclasses as JSON values: fields in their order, bytes as base64; what was damaged is never misread."""

from __future__ import annotations

import math
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def encode(value: Any) -> Any:
    """Return a value as JSON values: numbers, texts, bytes, tuples, mappings, and dataclasses of these."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    if isinstance(value, tuple):
        return [encode(each) for each in value]
    if isinstance(value, Mapping):
        return [[encode(key), encode(each)] for key, each in value.items()]
    return [encode(getattr(value, name)) for name, _ in _hints(value.__class__)]


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
        found: T = _decoder(kind)(stored)
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise ValueError(f"no {kind}") from error
    return found


@cache
def _decoder(kind: Any) -> Any:
    """Return what reads values of a type."""
    arguments: tuple[Any, ...] = get_args(kind)
    if hasattr(kind, "__dataclass_fields__"):
        readers = [_decoder(hint) for _, hint in _hints(kind)]
        return lambda stored: kind(*[read(each) for read, each in zip(readers, stored, strict=True)])
    if get_origin(kind) is UnionType:
        read = _decoder(next(each for each in arguments if each is not NoneType))
        return lambda stored: None if stored is None else read(stored)
    if get_origin(kind) is tuple and arguments[-1] is ...:
        read = _decoder(arguments[0])
        return lambda stored: tuple([read(each) for each in _list(stored)])
    if get_origin(kind) is tuple:
        readers = [_decoder(each) for each in arguments]
        return lambda stored: tuple([read(each) for read, each in zip(readers, stored, strict=True)])
    if arguments:
        key, value = map(_decoder, arguments)
        return lambda stored: {key(name): value(each) for name, each in stored}
    return {float: _number, bytes: a2b_base64}.get(kind, lambda stored: _exactly(kind, stored))


def _number(stored: Any) -> float:
    if isinstance(stored, bool) or not math.isfinite(stored):
        raise ValueError(stored)
    return float(stored)


def _list(stored: Any) -> list[Any]:
    return list(stored) if isinstance(stored, list) else _exactly(list, stored)


def _exactly(kind: Any, stored: Any) -> Any:
    if type(stored) is not kind:
        raise ValueError(stored)
    return stored
