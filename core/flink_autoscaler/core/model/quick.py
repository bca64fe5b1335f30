"""Frozen dataclasses that are made and changed quickly: a pass makes a hundred of them, of up to thirty fields each.

A frozen dataclass sets its fields one by one through ``object.__setattr__``, and ``dataclasses.replace`` looks at each
of them before that. Here the fields are set while the object has an open class of the same slots, as quickly as those
of any object. What comes of it is the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["quick", "replace"]

T = TypeVar("T")

_Copy = Callable[[Any, dict[str, Any]], Any]

_COPIES: dict[type, _Copy] = {}

_SET_CLASS = object.__setattr__


def quick(kind: type[T]) -> type[T]:
    """Let objects of a class be made and changed quickly.

    Args:
        kind: A frozen dataclass with slots, all of them its own, all parameters of ``__init__``; without subclasses.

    Raises:
        TypeError: It is none.
    """
    known = fields(kind)  # type: ignore[arg-type]
    names = tuple(field.name for field in known)
    if kind.__dict__.get("__slots__") != names or not all(field.init and not field.kw_only for field in known):
        raise TypeError(f"{kind.__name__} is no frozen dataclass with slots that can be made quickly")
    given: dict[str, Any] = {
        "_open": type(f"_Open{kind.__name__}", (), {"__slots__": names}),
        "_kind": kind,
        "_new": object.__new__,
        "_set_class": _SET_CLASS,
        "_unset": _UNSET,
        **{f"_default_{field.name}": field.default for field in known if field.default is not dataclasses.MISSING},
        **{f"_make_{field.name}": field.default_factory for field in known if _is_made(field)},
    }
    exec("\n".join(_source(known, has_check=hasattr(kind, "__post_init__"))), given)  # noqa: S102 - as dataclasses do
    init = given["__init__"]
    init.__qualname__, init.__annotations__ = f"{kind.__qualname__}.__init__", kind.__init__.__annotations__
    kind.__init__ = init  # type: ignore[method-assign]
    _COPIES[kind] = given["_copy"]
    return kind


if TYPE_CHECKING:  # so that the names and types of fields are checked
    from dataclasses import replace
else:

    def replace(value: T, /, **changes: object) -> T:
        """Do what ``dataclasses.replace`` does."""
        copy = _COPIES.get(type(value))
        return dataclasses.replace(value, **changes) if copy is None else copy(value, changes)


_UNSET = object()


def _is_made(field: Field[Any]) -> bool:
    return field.default_factory is not dataclasses.MISSING


def _source(known: tuple[Field[Any], ...], *, has_check: bool) -> Iterator[str]:
    """Yield the lines of ``__init__`` and of a function that copies an object and changes the copy."""
    yield f"def __init__(self, {', '.join(map(_parameter, known))}):"
    yield "    _set_class(self, '__class__', _open)"
    for field in known:
        name = field.name
        yield f"    self.{name} = {f'_make_{name}() if {name} is _unset else {name}' if _is_made(field) else name}"
    yield "    self.__class__ = _kind"
    if has_check:
        yield "    self.__post_init__()"
    yield "def _copy(value, changes):"
    yield "    copy = _new(_open)"
    yield from (f"    copy.{field.name} = value.{field.name}" for field in known)
    yield "    for name in changes:"
    yield "        setattr(copy, name, changes[name])"
    yield "    copy.__class__ = _kind"
    if has_check:
        yield "    copy.__post_init__()"
    yield "    return copy"


def _parameter(field: Field[Any]) -> str:
    if _is_made(field):
        return f"{field.name}=_unset"
    return field.name if field.default is dataclasses.MISSING else f"{field.name}=_default_{field.name}"
