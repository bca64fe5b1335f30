"""Pickle for our own dataclasses: small, quick, and read by an unpickler that knows nothing but our classes.

A dataclass is written as its class and the values of its fields. What Python does by itself for a frozen one with slots
asks for its fields one by one, in Python, at either end, which takes longer than all the rest.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any, Final

PROTOCOL: Final = 5

CORE: Final = "flink_autoscaler.core."
LOADED: Final = (CORE, "flink_autoscaler.pipeline.backtest.", "flink_autoscaler.pipeline.simulator.")
"""Modules whose classes are loaded."""

_PLAIN: Final = frozenset({("builtins", "set"), ("builtins", "frozenset"), ("builtins", "complex")})
_GENERATED: Final = "dataclasses"
"""Where ``__getstate__`` of a dataclass comes from that has none of its own."""

_WAYS: Final = ("__getstate__", "__reduce__", "__reduce_ex__")

_Reduced = Callable[[Any], tuple[type, tuple[object, ...]]]


def dumps(value: object) -> memoryview:
    """Pickle a value. Raises whatever the code of the value raises."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, PROTOCOL)
    pickler.dispatch_table = _REDUCTIONS
    pickler.dump(value)
    return buffer.getbuffer()


def loads(data: bytes) -> object:
    """Return the value of a pickle that is made of plain values and our classes alone.

    Raises nearly anything where that is not so; no foreign code has run then.
    """
    return _Unpickler(io.BytesIO(data)).load()


class _Reductions(dict[type, _Reduced]):
    """Writers of the values of a class; classes without one are left to Python."""

    def __missing__(self, kind: type) -> _Reduced:
        reduced = _reduction(kind)
        if reduced is None:
            raise KeyError(kind)
        self[kind] = reduced
        return reduced


_REDUCTIONS: Final = _Reductions()


def _reduction(kind: type) -> _Reduced | None:
    if not kind.__module__.startswith(LOADED):
        return None
    if issubclass(kind, Enum):
        return lambda member: (kind, (member.value,))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return lambda value: (kind, tuple(value))
    return _dataclass_reduction(kind) if is_dataclass(kind) and not _has_a_way_of_its_own(kind) else None


def _dataclass_reduction(kind: type) -> _Reduced | None:
    if not all(field.init and not field.kw_only for field in fields(kind)):
        return None
    names = [field.name for field in fields(kind)]
    if len(names) == 1:
        return lambda value: (kind, (getattr(value, names[0]),))
    values = attrgetter(*names) if names else lambda _: ()
    return lambda value: (kind, values(value))


def _has_a_way_of_its_own(kind: type) -> bool:
    """Tell whether a class has said itself how it is written."""
    ways = [(name, base.__dict__[name]) for base in kind.__mro__[:-1] for name in _WAYS if name in base.__dict__]
    return any(name != "__getstate__" or way.__module__ != _GENERATED for name, way in ways)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        return _found(module, name)


@cache
def _found(module: str, name: str) -> object:
    is_ours = module.startswith(LOADED) and name.isidentifier()
    if not is_ours and (module, name) not in _PLAIN:
        raise pickle.UnpicklingError(f"{module}.{name} is not a class of ours")
    found = getattr(import_module(module), name)
    if not isinstance(found, type):
        raise pickle.UnpicklingError(f"{module}.{name} is not a class")
    return found
