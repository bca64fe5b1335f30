"""``@value``: a frozen dataclass with slots, made and changed quickly. A pass makes a hundred, of up to thirty fields.

A frozen dataclass sets its fields one by one through ``object.__setattr__``, and ``dataclasses.replace`` looks at each
of them before that. Here the fields are set while the object has an open class of the same slots, as quickly as those
of any object. What comes of it is the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

__all__ = ["replace", "value"]

T = TypeVar("T")

_Copy = Callable[[Any, dict[str, Any]], Any]

_COPIES: dict[type, _Copy] = {}

_SET_CLASS = object.__setattr__


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(kind: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots whose objects are made and changed quickly.

    Args:
        kind: A class without base classes that have fields; all its fields are parameters of ``__init__``.

    Raises:
        TypeError: It is none.
    """
    kind = dataclass(frozen=True, slots=True)(kind)
    known = fields(kind)  # type: ignore[arg-type]
    names = tuple(each.name for each in known)
    if kind.__dict__["__slots__"] != names or not all(each.init and not each.kw_only for each in known):
        raise TypeError(f"{kind.__name__} has fields that are inherited, or no parameters")
    given: dict[str, Any] = {
        "_open": type(f"_Open{kind.__name__}", (), {"__slots__": names}),
        "_kind": kind,
        "_new": object.__new__,
        "_set_class": _SET_CLASS,
        "_unset": _UNSET,
        **{f"_default_{each.name}": each.default for each in known if each.default is not dataclasses.MISSING},
        **{f"_make_{each.name}": each.default_factory for each in known if _is_made(each)},
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

    def replace(known: T, /, **changes: object) -> T:
        """Do what ``dataclasses.replace`` does."""
        copy = _COPIES.get(type(known))
        return dataclasses.replace(known, **changes) if copy is None else copy(known, changes)


_UNSET = object()


def _is_made(known: Field[Any]) -> bool:
    return known.default_factory is not dataclasses.MISSING


def _source(known: tuple[Field[Any], ...], *, has_check: bool) -> Iterator[str]:
    """Yield the lines of ``__init__`` and of a function that copies an object and changes the copy."""
    yield f"def __init__(self, {', '.join(map(_parameter, known))}):"
    yield "    _set_class(self, '__class__', _open)"
    for each in known:
        name = each.name
        yield f"    self.{name} = {f'_make_{name}() if {name} is _unset else {name}' if _is_made(each) else name}"
    yield "    self.__class__ = _kind"
    if has_check:
        yield "    self.__post_init__()"
    yield "def _copy(value, changes):"
    yield "    copy = _new(_open)"
    yield from (f"    copy.{each.name} = value.{each.name}" for each in known)
    yield "    for name in changes:"
    yield "        setattr(copy, name, changes[name])"
    yield "    copy.__class__ = _kind"
    if has_check:
        yield "    copy.__post_init__()"
    yield "    return copy"


def _parameter(known: Field[Any]) -> str:
    if _is_made(known):
        return f"{known.name}=_unset"
    return known.name if known.default is dataclasses.MISSING else f"{known.name}=_default_{known.name}"
