"""Codec by which requests and outcomes, and the pieces of backtests, travel to Spark's Python workers and back.

Pickle, because the values are our own dataclasses, and zstd, because half of a metric window repeats itself (decision
13); between processes of one machine that is not worth its time. Both sides load nothing but classes of
:mod:`flink_autoscaler.core`, and of backtests those of their plans and models: whoever could write to Spark's channels
would still not run code in the daemon.

What an outcome shares with its request, above all the metric window, is not sent back: it is left out, and is the very
same object again on the other side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar

from flink_autoscaler.core.errors import AutoscalerError, PluginError
from flink_autoscaler.core.model.metrics import MetricSample
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, CollectorMemory
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.spark.pickling import CORE, dumps, loads

T = TypeVar("T")

MOST_BYTES: Final = 1 << 30
"""Of a value before it is compressed; more than a job with thousands of vertices takes."""

_HEAD: Final = 8
"""Bytes ahead of the compressed ones; they tell the length that these had before, or 0 where nothing is compressed."""
_STATE_FIELDS: Final = tuple(field.name for field in fields(JobState) if field.name != "samples")

Encoded = bytes

_Difference = tuple[list[int | MetricSample], Mapping[str, Any]]
"""Of a state and that of the request: its samples, by index where the request has them, and fields that are others."""


class CodecError(AutoscalerError):
    """A value cannot travel, or what arrived is not a value of ours."""


def encode(value: object, *, is_packed: bool = True) -> Encoded:
    """Encode a value.

    Args:
        value: Made of classes of ours.
        is_packed: Whether it is compressed, which takes pyarrow at either end.

    Raises:
        CodecError: It holds something that cannot be pickled.
    """
    try:
        data = dumps(value)
    except Exception as exc:  # pickling calls code of the value, which may raise anything
        raise CodecError(f"cannot be encoded: {type(exc).__name__}: {exc}") from exc
    if not is_packed:
        return bytes(_HEAD) + data
    return len(data).to_bytes(_HEAD) + bytes(_zstd().compress(data, asbytes=True))


def decode(data: Encoded, kind: type[T]) -> T:
    """Decode what :func:`encode` made.

    Raises:
        CodecError: It is damaged, of another kind, or holds classes that are not ours.
    """
    try:
        value = loads(_unpacked(data))
    except Exception as exc:  # damaged bytes make the unpickler raise nearly anything
        raise CodecError(f"cannot be decoded: {type(exc).__name__}: {exc}") from exc
    if not isinstance(value, kind):
        raise CodecError(f"a {kind.__name__} was expected, not a {type(value).__name__}")
    return value


def encode_outcome(outcome: PassOutcome, request: PassRequest, *, is_packed: bool = True) -> Encoded:
    """Encode an outcome without what it shares with its request; ``is_packed`` as for :func:`encode`.

    Raises:
        CodecError: It holds something that cannot be pickled.
    """
    places = {id(sample): place for place, sample in enumerate(request.state.samples)}
    undecided = None if outcome.undecided is None else _difference(outcome.undecided, request.state, places)
    memory = None if outcome.memory is request.memory else outcome.memory
    rest = replace(outcome, state=EMPTY_STATE, undecided=None, memory=EMPTY_MEMORY)
    parts = (rest, _difference(outcome.state, request.state, places), undecided, memory)
    return encode(parts, is_packed=is_packed)


def decode_outcome(data: Encoded, request: PassRequest) -> PassOutcome:
    """Decode what :func:`encode_outcome` made from an equal request.

    Raises:
        CodecError: It is damaged, of another kind, or holds classes that are not ours.
    """
    sent = decode(data, tuple)
    try:
        return _whole(sent, request)
    except Exception as exc:  # whatever else came instead of the four parts
        raise CodecError(f"not an outcome of this request: {type(exc).__name__}: {exc}") from exc


def portable(outcome: PassOutcome) -> AutoscalerError | None:
    """Return the error of an outcome in a form that the other side knows: a class of the core."""
    error = outcome.error
    if error is None or type(error).__module__.startswith(CORE):
        return error
    return PluginError(f"{type(error).__name__}: {error}")


def _difference(state: JobState, known: JobState, places: Mapping[int, int]) -> _Difference:
    samples = [places.get(id(sample), sample) for sample in state.samples]
    pairs = ((name, getattr(state, name)) for name in _STATE_FIELDS)
    return samples, {name: value for name, value in pairs if value is not getattr(known, name)}


def _whole(sent: tuple[Any, ...], request: PassRequest) -> PassOutcome:
    rest, state, undecided, memory = sent
    if not isinstance(rest, PassOutcome) or not isinstance(memory, CollectorMemory | None):
        raise TypeError(f"{type(rest).__name__} with {type(memory).__name__}")
    return replace(
        rest,
        state=_applied(state, request.state),
        undecided=None if undecided is None else _applied(undecided, request.state),
        memory=request.memory if memory is None else memory,
    )


def _applied(difference: _Difference, known: JobState) -> JobState:
    samples, values = difference
    return replace(known, samples=tuple(_samples(samples, known)), **values)


def _samples(samples: list[int | MetricSample], known: JobState) -> Iterator[MetricSample]:
    for sample in samples:
        yield known.samples[sample] if isinstance(sample, int) else sample


def _unpacked(data: Encoded) -> bytes:
    length = int.from_bytes(data[:_HEAD])
    if max(length, len(data)) > MOST_BYTES:
        raise CodecError(f"{length} bytes are more than a value has")
    packed = memoryview(data)[_HEAD:]
    return bytes(_zstd().decompress(packed, length, asbytes=True)) if length else bytes(packed)


@cache
def _zstd() -> Any:
    """Return what compresses. Where pyarrow is imported, its allocator wakes ten times a second from then on."""
    return import_module("pyarrow").Codec("zstd")
