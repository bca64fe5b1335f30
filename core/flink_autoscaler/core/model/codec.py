"""Frozen dataclasses as JSON values and back: one reader and one writer per class, made of its type hints.

A dataclass is an object whose keys are the names of its fields, or what :class:`Key` says where a field was renamed, so
that a new name changes nothing that is stored. One that is marked with :func:`row` is a list of its fields in their
order, as named tuples are. Fields may hold texts, numbers, truths, ``X | None``, enumerations by their values, tuples,
frozen sets, which are sorted, mappings, bytes as base64, other dataclasses, and any JSON value where they say ``Any``.

What is read may be damaged or foreign: keys that are not known are left out, what is missing has its default, and
everything else has to be of just the type that it is written as, with finite numbers.

The functions are written as source and compiled when they are first used, as :mod:`.value` does it: a pass reads and
writes some hundred values, and a call for each of them took longer than all the rest.
"""

from __future__ import annotations

import math
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from flink_autoscaler.core.model.numbers import r3

T = TypeVar("T")
Kind = TypeVar("Kind", bound=type)

_EXACT: Final = 1e5
"""Numbers below are kept to six digits in the compact form; those above are instants and counters."""


@dataclass(frozen=True, slots=True)
class Key:
    """Under which key a field is stored, where that is not its name: ``Annotated[bool, Key("trusted")]``."""

    name: str


@dataclass(frozen=True, slots=True)
class Within:
    """Bounds of a whole number, both included."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Via:
    """A value that is stored as one of another type.

    Attributes:
        kind: The other type.
        write: Makes that of the value; None where the value is one.
        read: Makes the value of that; None where it is one.
    """

    kind: Any
    write: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None


EpochMs = Annotated[int, Within(0, 253_402_300_799_000)]
"""An instant of the years 1970 to 9999, or a duration, in milliseconds."""

Rounded = Annotated[float, Via(float, r3)]
"""A number that is stored with three decimals."""

_ROWS: Final[set[type]] = set()


def row(kind: Kind) -> Kind:
    """Store a dataclass as a list of its fields, all of them, in their order."""
    _ROWS.add(kind)
    return kind


class Codec(Generic[T]):
    """Reads and writes the values of one type.

    Args:
        kind: A dataclass.
        is_compact: Whether to write what takes the least room: every dataclass as a row, each text once, numbers with
            six digits, mappings as pairs. It is read only by the version that has just these fields.
        omits_defaults: Whether fields that have their default are left out.
    """

    def __init__(self, kind: type[T], *, is_compact: bool = False, omits_defaults: bool = False) -> None:
        self._kind, self._is_compact, self._omits_defaults = kind, is_compact, omits_defaults

    @cached_property
    def _functions(self) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
        return _Source(is_compact=self._is_compact, omits_defaults=self._omits_defaults).compile_functions(self._kind)

    def write(self, value: T) -> Any:
        """Return a value as JSON values."""
        texts = dict[str, int]()
        written = self._functions[0](value, texts)
        return [list(texts), written] if self._is_compact else written

    def read(self, stored: Any) -> T:
        """Return the value that :meth:`write` was given.

        Raises:
            ValueError: It is something else. The text names the key, and nothing of what is stored.
        """
        try:
            texts = None
            if self._is_compact:
                texts, stored = _items(stored)
                texts = tuple([each if type(each) is str else _wrong("is no text") for each in _items(texts)])
            found: T = self._functions[1](stored, texts)
        except _UNREADABLE as error:
            raise ValueError(str(_with_location("", error))) from None
        return found


class _UnreadableError(ValueError):
    """What is wrong, and the keys on the way to it."""

    def __init__(self, problem: str, *keys: str) -> None:
        super().__init__(problem)
        self.problem, self.keys = problem, keys

    def __str__(self) -> str:
        return f"{'.'.join(self.keys)} {self.problem}" if self.keys else f"it {self.problem}"


_UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def _with_location(key: str, error: Exception) -> _UnreadableError:
    """Return an error with the key that it was met under."""
    known = error if isinstance(error, _UnreadableError) else _UnreadableError("is something else")
    return _UnreadableError(known.problem, *((key,) if key else ()), *known.keys)


def _wrong(problem: str) -> Any:
    raise _UnreadableError(problem)


def _items(stored: Any) -> Any:
    return stored if isinstance(stored, list) else _wrong("is no list")


def _getter(stored: Any) -> Any:
    return stored.get if type(stored) is dict else _wrong("is no object")


def _entries(stored: Any) -> Any:
    return stored.items() if type(stored) is dict else _wrong("is no object")


def _number(stored: Any) -> float:
    if type(stored) not in (int, float) or not math.isfinite(stored):
        _wrong("is no finite number")
    return float(stored)


def _to_text(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


class _Source:
    """The source of the functions of one codec. Each takes a value and the texts of the compact form."""

    def __init__(self, *, is_compact: bool, omits_defaults: bool) -> None:
        self._is_compact, self._omits_defaults = is_compact, omits_defaults
        self._lines: list[str] = []
        self._known: dict[str, Any] = {
            "wrong": _wrong,
            "located": _with_location,
            "items": _items,
            "getter": _getter,
            "entries": _entries,
            "number": _number,
            "to_text": _to_text,
            "from_text": a2b_base64,
            "missing": MISSING,
            "unreadable": _UNREADABLE,
        }
        self._made: dict[Any, str] = {}

    def compile_functions(self, kind: Any) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
        """Return the functions that write and read values of a type."""
        write, read = self._write_expression(kind, "value"), self._read(kind, "value")
        self._lines += ["def write(value, texts):", f"    return {write}"]
        self._lines += ["def read(value, texts):", f"    return {read}"]
        exec("\n".join(self._lines), self._known)  # noqa: S102 - as dataclasses do
        return self._known["write"], self._known["read"]

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._known)}"
        self._known[name] = value
        return name

    def _write_expression(self, kind: Any, name: str) -> str:
        """Return the expression that writes the value of a name, which is the name where there is nothing to do."""
        kind, marks = _plain(kind)
        if (via := _mark(marks, Via)) is not None:
            if via.write is not None:
                name = f"{self._constant(via.write)}({name})"
            return self._write_expression(via.kind, name)
        arguments, origin = get_args(kind), get_origin(kind)
        inner = f"{name}_" if name.isidentifier() else "each"
        if origin in (Union, UnionType):
            some = self._write_expression(_optional(arguments), name)
            return name if some == name else f"(None if {name} is None else {some})"
        if _is_series(kind):
            each = self._write_expression(arguments[0], inner)
            make = "sorted" if origin is frozenset else "list"
            return f"{make}({name})" if each == inner else f"{make}([{each} for {inner} in {name}])"
        if origin is not None and issubclass(origin, Mapping):
            of_key, each = (
                self._write_expression(arguments[0], f"{inner}key"),
                self._write_expression(arguments[1], inner),
            )
            if self._is_compact:
                return f"[[{of_key}, {each}] for {inner}key, {inner} in {name}.items()]"
            is_same = (of_key, each) == (f"{inner}key", inner)
            return f"dict({name})" if is_same else f"{{{of_key}: {each} for {inner}key, {inner} in {name}.items()}}"
        return self._write_expression_alone(kind, name)

    def _write_expression_alone(self, kind: Any, name: str) -> str:
        if kind is float and self._is_compact:
            return f"(float(f'{{{name}:.6g}}') if -{_EXACT} < {name} < {_EXACT} else {name})"
        if kind is str and self._is_compact:
            return f"texts.setdefault({name}, len(texts))"
        if kind is bytes:
            return f"to_text({name})"
        if isinstance(kind, type) and issubclass(kind, Enum):
            return f"{name}._value_"
        return f"write_{self._function(kind)}({name}, texts)" if _is_made(kind) else name

    def _read(self, kind: Any, name: str) -> str:
        """Return the expression that makes a value of the stored one that has a name."""
        kind, marks = _plain(kind)
        if (via := _mark(marks, Via)) is not None:
            read = self._read(via.kind, name)
            return read if via.read is None else f"{self._constant(via.read)}({read})"
        arguments, origin, inner = get_args(kind), get_origin(kind), f"{name}_"
        if origin in (Union, UnionType):
            return f"(None if {name} is None else {self._read(_optional(arguments), name)})"
        if _is_series(kind):
            return f"{origin.__name__}([{self._read(arguments[0], inner)} for {inner} in items({name})])"
        if origin is not None and issubclass(origin, Mapping):
            of_key, each = self._read(arguments[0], f"{inner}key"), self._read(arguments[1], inner)
            entries = "items" if self._is_compact else "entries"
            return f"{{{of_key}: {each} for {inner}key, {inner} in {entries}({name})}}"
        return self._read_alone(kind, marks, name)

    def _read_alone(self, kind: Any, marks: tuple[Any, ...], name: str) -> str:
        if _is_made(kind):
            return f"read_{self._function(kind)}({name}, texts)"
        if kind is float:  # nearly all are floats already, and finite: only of these is the difference with itself 0
            return f"({name} if type({name}) is float and {name} - {name} == 0.0 else number({name}))"
        if kind is str and self._is_compact:
            return f"texts[{name} if type({name}) is int and {name} >= 0 else wrong('is no text')]"
        if kind is bytes:
            return f"from_text({name})"
        if isinstance(kind, type) and issubclass(kind, Enum):
            return f"{self._constant({each.value: each for each in kind})}[{name}]"
        if kind is Any:
            return name
        bounds = _mark(marks, Within)
        within = "" if bounds is None else f" and {bounds.minimum} <= {name} <= {bounds.maximum}"
        what = {int: "is no whole number", str: "is no text", bool: "is neither true nor false"}[kind]
        what = f"{what} from {bounds.minimum} to {bounds.maximum}" if bounds is not None else what
        return f"({name} if type({name}) is {kind.__name__}{within} else wrong({what!r}))"

    def _function(self, kind: Any) -> str:
        """Return the number of the two functions for a dataclass, a named tuple or a tuple of some length."""
        if kind not in self._made:
            self._made[kind] = number = str(len(self._made))
            is_row = not is_dataclass(kind) or self._is_compact or kind in _ROWS
            lines = self._row(kind, number) if is_row else self._object(kind, number)
            self._lines += list(lines)
        return self._made[kind]

    def _row(self, kind: Any, number: str) -> Iterator[str]:
        parts = _parts(kind)
        names = [f"value_{name}" for name in parts]
        written = [self._write_expression(hint, name) for name, hint in zip(names, parts.values(), strict=True)]
        read = [self._read(hint, name) for name, hint in zip(names, parts.values(), strict=True)]
        yield f"def write_{number}(value, texts):"
        if is_dataclass(kind):
            yield from (f"    value_{name} = value.{name}" for name in parts)
        else:
            yield f"    {', '.join(names)}, = value"
        yield f"    return [{', '.join(written)}]"
        yield f"def read_{number}(value, texts):"
        yield f"    {', '.join(names)}, = items(value)"
        yield f"    return {'' if get_origin(kind) is tuple else self._constant(kind)}({', '.join(read)},)"

    def _object(self, kind: Any, number: str) -> Iterator[str]:
        hints = _parts(kind)
        known = [(each, _key(each.name, hints[each.name]), hints[each.name]) for each in fields(kind)]
        yield f"def write_{number}(value, texts):"
        yield "    found = {}"
        for each, key, hint in known:
            yield f"    part = value.{each.name}"
            default = each.default if each.default_factory is MISSING else each.default_factory()
            is_always = default is MISSING or not self._omits_defaults
            put = f"found[{key!r}] = {self._write_expression(hint, 'part')}"
            yield f"    {put}" if is_always else f"    if part != {self._constant(default)}: {put}"
        yield "    return found"
        yield f"def read_{number}(value, texts):"
        yield "    get, key = getter(value), ''"
        yield "    try:"
        for place, (each, key, hint) in enumerate(known):
            yield f"        key = {key!r}; part = get(key, missing)"
            if each.default_factory is not MISSING:
                default = f"{self._constant(each.default_factory)}()"
            else:
                default = "wrong('is missing')" if each.default is MISSING else self._constant(each.default)
            yield f"        part_{place} = {default} if part is missing else {self._read(hint, 'part')}"
        yield f"        key = ''; return {self._constant(kind)}({', '.join(f'part_{n}' for n in range(len(known)))})"
        yield "    except unreadable as error:"
        yield "        raise located(key, error) from None"


def _plain(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without its marks, and these."""
    if get_origin(kind) is not Annotated:
        return kind, ()
    plain, *marks = get_args(kind)
    return plain, tuple(marks)


Mark = TypeVar("Mark")


def _mark(marks: tuple[Any, ...], kind: type[Mark]) -> Mark | None:
    return next((each for each in marks if isinstance(each, kind)), None)


def _key(name: str, hint: Any) -> str:
    key = _mark(_plain(hint)[1], Key)
    return name if key is None else key.name


def _optional(arguments: tuple[Any, ...]) -> Any:
    """Return the one type of a union that is not None."""
    (some,) = (each for each in arguments if each is not NoneType)
    return some


def _is_series(kind: Any) -> bool:
    return get_origin(kind) is frozenset or (get_origin(kind) is tuple and get_args(kind)[-1] is ...)


def _is_made(kind: Any) -> bool:
    return is_dataclass(kind) or hasattr(kind, "_fields") or get_origin(kind) is tuple


def _parts(kind: Any) -> dict[str, Any]:
    """Return the types of what a value is made of by name, those of a tuple by number."""
    if get_origin(kind) is tuple:
        return {str(place): each for place, each in enumerate(get_args(kind))}
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in (getattr(kind, "_fields", None) or [each.name for each in fields(kind)])}
