"""How a job's state may travel to Spark's workers: size and processor time of the alternatives.

Run: ``PYTHONPATH=tests python benchmarks/bench_shipping.py [--vertices 10] [--samples 16 91] [--repeat 200]``.
One request and one outcome of a job with noisy metrics; the last columns are for 1,000 jobs there and back. Needs no
Java.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import time
import zlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.spark.codec import decode, decode_outcome, encode, encode_outcome
from flink_autoscaler.pipeline.spark.pickling import PROTOCOL
from testkit.builders.core import a_context

METRICS: Final = tuple(ScalingMetric)[:8]
JOBS: Final = 1000


@dataclass(frozen=True)
class Way:
    """A way there (``encode``, ``decode``) of a request."""

    name: str
    encode: Callable[[PassRequest], bytes]
    decode: Callable[[bytes], object]


def a_request(vertices: int, samples: int) -> PassRequest:
    """Make a request whose window has noise in every figure, as real ones have."""
    noise = random.Random(0)
    window = tuple(
        MetricSample(
            n * 10_000,
            {f"{v:032x}": {metric: 1000.0 * noise.uniform(0.9, 1.1) for metric in METRICS} for v in range(vertices)},
            {},
        )
        for n in range(samples)
    )
    return PassRequest(a_context({}), JobState(samples=window), samples * 10_000)


def plain(value: object) -> bytes:
    return pickle.dumps(value, PROTOCOL)


def with_codec(name: str) -> Way:
    """Return pickle with a compression of Arrow's; the length goes ahead, which decompressing needs."""
    codec = pa.Codec(name)

    def there(request: PassRequest) -> bytes:
        data = plain(request)
        return len(data).to_bytes(4) + bytes(codec.compress(data, asbytes=True))

    def back(data: bytes) -> object:
        return pickle.loads(codec.decompress(data[4:], int.from_bytes(data[:4]), asbytes=True))

    return Way(f"pickle, {name}", there, back)


def with_zlib(level: int) -> Way:
    """Return pickle with zlib."""

    def there(request: PassRequest) -> bytes:
        return zlib.compress(plain(request), level)

    return Way(f"pickle, zlib {level}", there, lambda data: pickle.loads(zlib.decompress(data)))


def columns(request: PassRequest) -> bytes:
    """Encode the window as one column of numbers per vertex and metric, and the rest as pickle."""
    samples = request.state.samples
    names = [(v, metric) for v, metrics in samples[0].vertices.items() for metric in metrics]
    figures = array("d", (sample.vertices[v][metric] for v, metric in names for sample in samples))
    rest = replace(request, state=replace(request.state, samples=()))
    return zlib.compress(plain((rest, names, [s.at_ms for s in samples], figures.tobytes())), 1)


def from_columns(data: bytes) -> PassRequest:
    """Decode what :func:`columns` made."""
    rest, names, times, raw = pickle.loads(zlib.decompress(data))
    figures, count = array("d", raw), len(times)
    vertices: list[dict[str, dict[ScalingMetric, float]]] = [{} for _ in times]
    for column, (v, metric) in enumerate(names):
        for row, known in enumerate(vertices):
            known.setdefault(v, {})[metric] = figures[column * count + row]
    samples = tuple(MetricSample(at, known, {}) for at, known in zip(times, vertices, strict=True))
    request: PassRequest = replace(rest, state=replace(rest.state, samples=samples))
    return request


def as_json(request: PassRequest) -> bytes:
    """Encode the window alone as JSON: the least that this way could take."""
    rows: list[Any] = [[sample.at_ms, sample.vertices] for sample in request.state.samples]
    return zlib.compress(json.dumps(rows).encode(), 1)


WAYS: Final = (
    Way("pickle, zstd (ours)", encode, lambda data: decode(data, PassRequest)),
    Way("pickle", plain, pickle.loads),
    with_zlib(1),
    with_zlib(6),
    with_codec("lz4"),
    Way("columns, zlib 1", columns, from_columns),
    Way("JSON of the window, zlib 1", as_json, lambda data: json.loads(zlib.decompress(data))),
)


def milliseconds(work: Callable[[], object], repeat: int) -> float:
    """Return the processor time of one call."""
    started = time.process_time()
    for _ in range(repeat):
        work()
    return (time.process_time() - started) / repeat * 1000


def add(table: Table, name: str, data: bytes, there: float, back: float) -> None:
    """Add a row: kB, ms, ms, and MB and s for all jobs."""
    total = len(data) * JOBS / 2**20, (there + back) * JOBS / 1000
    table.add_row(name, f"{len(data) / 1000:.1f}", f"{there:.2f}", f"{back:.2f}", f"{total[0]:.1f}", f"{total[1]:.2f}")


def add_outcomes(table: Table, request: PassRequest, repeat: int) -> None:
    """Add what an outcome takes that has one sample more than its request, whole and without what both share."""
    newest = replace(request.state.samples[-1], at_ms=request.now_ms)
    state = replace(request.state, samples=(*request.state.samples[1:], newest))
    outcome = PassOutcome(request.context.job_key, PassPhase.COLLECTING, Hold(()), state=state)
    whole, shared = encode(outcome), encode_outcome(outcome, request)
    there = milliseconds(lambda: encode(outcome), repeat)
    add(table, "outcome, whole", whole, there, milliseconds(lambda: decode(whole, PassOutcome), repeat))
    there = milliseconds(lambda: encode_outcome(outcome, request), repeat)
    back = milliseconds(lambda: decode_outcome(shared, request), repeat)
    add(table, "outcome, without what is shared (ours)", shared, there, back)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vertices", type=int, default=10)
    parser.add_argument("--samples", type=int, nargs="+", default=[16, 91], help="lengths of the metric window")
    parser.add_argument("--repeat", type=int, default=200)
    options = parser.parse_args()
    for samples in options.samples:
        table = Table("way", "kB", "there ms", "back ms", f"{JOBS} jobs MB", f"{JOBS} jobs CPU s")
        table.title = f"{options.vertices} vertices, {samples} samples"
        request = a_request(options.vertices, samples)
        for way in WAYS:
            data = way.encode(request)
            there = milliseconds(partial(way.encode, request), options.repeat)
            back = milliseconds(partial(way.decode, data), options.repeat)
            add(table, way.name, data, there, back)
        add_outcomes(table, request, options.repeat)
        Console(width=110).print(table)


if __name__ == "__main__":
    main()
