"""How requests and outcomes, and the pieces of backtests, travel to Spark's Python workers and back.

Pickle, because the values are our own dataclasses, and zstd, because half of a metric window repeats itself (decision
13). Both sides load nothing but classes of :mod:`flink_autoscaler.core`, and of backtests those of their plans and
models: whoever could write to Spark's channels would still not run code in the daemon.

What an outcome shares with its request, above all the metric window, is not sent back: it travels as a reference and
is the very same object again on the other side.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from typing import Final, TypeVar

import pyarrow as pa

from flink_autoscaler.core.errors import AutoscalerError, PluginError
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest

T = TypeVar("T")

PROTOCOL: Final = 5
COMPRESSION: Final = "zstd"
MOST_BYTES: Final = 1 << 30
"""Of a value before it is compressed; more than a job with thousands of vertices takes."""

_CORE: Final = "flink_autoscaler.core."
_LOADED: Final = (_CORE, "flink_autoscaler.pipeline.backtest.", "flink_autoscaler.pipeline.simulator.")
"""Modules whose classes are loaded."""

_HEAD: Final = 8
"""Bytes ahead of the compressed ones; they tell the length that these had before."""
_PLAIN: Final = frozenset({("builtins", "set"), ("builtins", "frozenset"), ("builtins", "complex")})

Encoded = bytes


class CodecError(AutoscalerError):
    """A value cannot travel, or what arrived is not a value of ours."""


def encode(value: object) -> Encoded:
    """Encode a value.

    Raises:
        CodecError: It holds something that cannot be pickled.
    """
    try:
        return _packed(pickle.dumps(value, PROTOCOL))
    except Exception as exc:  # pickling calls code of the value, which may raise anything
        raise CodecError(f"cannot be encoded: {type(exc).__name__}: {exc}") from exc


def decode(data: Encoded, kind: type[T]) -> T:
    """Decode what :func:`encode` made.

    Raises:
        CodecError: It is damaged, of another kind, or holds classes that are not ours.
    """
    return _load(data, kind, {})


def encode_outcome(outcome: PassOutcome, request: PassRequest) -> Encoded:
    """Encode an outcome without what it shares with its request.

    Raises:
        CodecError: It holds something that cannot be pickled.
    """
    buffer = io.BytesIO()
    pickler = _SharingPickler(buffer, {id(part): name for name, part in _parts(request)})
    try:
        pickler.dump(outcome)
    except Exception as exc:  # pickling calls code of the value, which may raise anything
        raise CodecError(f"cannot be encoded: {type(exc).__name__}: {exc}") from exc
    return _packed(buffer.getbuffer())


def decode_outcome(data: Encoded, request: PassRequest) -> PassOutcome:
    """Decode what :func:`encode_outcome` made from an equal request.

    Raises:
        CodecError: It is damaged, of another kind, or holds classes that are not ours.
    """
    return _load(data, PassOutcome, dict(_parts(request)))


def portable(outcome: PassOutcome) -> AutoscalerError | None:
    """Return the error of an outcome in a form that the other side knows: a class of the core."""
    error = outcome.error
    if error is None or type(error).__module__.startswith(_CORE):
        return error
    return PluginError(f"{type(error).__name__}: {error}")


Part = str | int


def _parts(request: PassRequest) -> Iterator[tuple[Part, object]]:
    """Name the parts that outcomes often share with their request: samples by index, the rest by field."""
    yield from enumerate(request.state.samples)
    yield "memory", request.memory
    yield "state", request.state
    for field in fields(request.state):
        yield field.name, getattr(request.state, field.name)


class _SharingPickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, shared: dict[int, Part]) -> None:
        super().__init__(buffer, PROTOCOL)
        self._shared = shared

    def persistent_id(self, value: object) -> Part | None:
        return self._shared.get(id(value))


class _CoreUnpickler(pickle.Unpickler):
    def __init__(self, data: bytes, shared: dict[Part, object]) -> None:
        super().__init__(io.BytesIO(data))
        self._shared = shared

    def persistent_load(self, part: Part) -> object:
        return self._shared[part]

    def find_class(self, module: str, name: str) -> object:
        if (module, name) == ("builtins", "getattr"):
            return _member
        is_ours = module.startswith(_LOADED) and name.isidentifier()
        if not is_ours and (module, name) not in _PLAIN:
            raise pickle.UnpicklingError(f"{module}.{name} is not a class of ours")
        found = super().find_class(module, name)
        if not isinstance(found, type):
            raise pickle.UnpicklingError(f"{module}.{name} is not a class")
        return found


def _member(kind: object, name: str) -> Enum:
    """Stand in for ``getattr``, with which Python 3.11 pickles members of enumerations."""
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        raise pickle.UnpicklingError(f"{kind} is not an enumeration")
    return kind[name]


def _packed(data: bytes | memoryview) -> Encoded:
    return len(data).to_bytes(_HEAD) + bytes(pa.compress(data, COMPRESSION, asbytes=True))


def _unpacked(data: Encoded) -> bytes:
    length = int.from_bytes(data[:_HEAD])
    if length > MOST_BYTES:
        raise CodecError(f"{length} bytes are more than a value has")
    return bytes(pa.decompress(memoryview(data)[_HEAD:], length, COMPRESSION, asbytes=True))


def _load(data: Encoded, kind: type[T], shared: dict[Part, object]) -> T:
    try:
        value = _CoreUnpickler(_unpacked(data), shared).load()
    except Exception as exc:  # damaged bytes make the unpickler raise nearly anything
        raise CodecError(f"cannot be decoded: {type(exc).__name__}: {exc}") from exc
    if not isinstance(value, kind):
        raise CodecError(f"a {kind.__name__} was expected, not a {type(value).__name__}")
    return value
