"""The figures of one job that people look at first, from the last pass over it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.decide.slot_sharing import slots_in_groups
from flink_autoscaler.core.forecast.arrivals import arrival_rates, reading_rates
from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import finite
from flink_autoscaler.core.model.topology import JobTopology, Vertex
from flink_autoscaler.core.ports.passes import PassOutcome

_BACKPRESSURED: Final = 0.5
"""Share of its time from which on a source is held up: what Flink's own page calls high backpressure."""

_NO_RATE: Final = 1e-9
"""Records/s below which nothing arrives."""

_SHARE_STEPS: Final = 200
_NO_SHARES: Final = b"\xff\xff\xff"
"""A share in a byte: half a percent is more than a chart shows."""


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """How a job is doing; None is not known.

    Attributes:
        load: Records/s that arrive at all sources.
        capacity: Records/s that could arrive until the first vertex was busy all the time; while a source is held up
            by backpressure, no more than is read.
        lag: Records that wait at all sources.
        lag_seconds: Age of the oldest of them: those of a source over what arrives there, of the source that is latest.
        slots: Of every slot sharing group the widest vertex, summed.
    """

    load: float | None = None
    capacity: float | None = None
    lag: float | None = None
    lag_seconds: float | None = None
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Shares:
    """How the subtasks of a vertex spent their time lately, 0..1 each."""

    busy: float
    idle: float
    backpressured: float


def job_metrics(
    outcome: PassOutcome, shares: Mapping[VertexId, Shares], unknown_lags: frozenset[VertexId] = frozenset()
) -> JobMetrics:
    """Return the figures of a pass; those that it did not find out are not known.

    Args:
        outcome: Of the pass.
        shares: How the vertices spent their time lately.
        unknown_lags: Sources whose lag nobody tells.
    """
    topology, samples = outcome.observation.topology, outcome.state.samples
    if topology is None or not samples:
        return JobMetrics(slots=None if topology is None else slot_count(topology))
    rates = {v: None if v in unknown_lags else rate for v, rate in arrival_rates(topology, samples).items()}
    latest = samples[-1].vertices
    lags = {v: math.nan if v in unknown_lags else latest.get(v, {}).get(ScalingMetric.LAG, math.nan) for v in rates}
    load = _sum(rates.values())
    return JobMetrics(
        load,
        _observed_capacity(outcome, shares, None if load is None else _capacity(outcome, load)),
        _sum(lags.values()),
        _lag_seconds(lags, rates),
        slot_count(topology),
    )


def time_shares(now: JobTopology, before: JobTopology | None) -> dict[VertexId, Shares]:
    """Return how vertices spent the time since an earlier reading of the same execution, of those that tell."""
    known = {} if before is None else before.vertices
    found = {}
    for vertex_id, vertex in now.vertices.items():
        times, old = _times(vertex), _times(known[vertex_id]) if vertex_id in known else None
        if times is None:
            continue
        grown = [a - b for a, b in zip(times, old or (0.0, 0.0, 0.0), strict=True)]
        if min(grown) < 0:  # it was started again
            grown = list(times)
        if (total := math.fsum(grown)) > 0:
            found[vertex_id] = Shares(*(each / total for each in grown))
    return found


def _times(vertex: Vertex) -> tuple[float, float, float] | None:
    """Return for how long the subtasks were busy, idle and held up; None where that is not known."""
    io = vertex.io
    if io.idle_ms is None or io.backpressured_ms is None:
        return None
    times = (io.busy_ms, io.idle_ms, io.backpressured_ms)
    return times if all(map(math.isfinite, times)) else None


def pack_shares(vertices: Iterable[VertexId], shares: Mapping[VertexId, Shares]) -> bytes:
    """Return the shares of vertices in few bytes, three for each: memory keeps them for hours, of all jobs."""
    packed = bytearray()
    for vertex_id in vertices:
        found = shares.get(vertex_id)
        parts = () if found is None else (found.busy, found.idle, found.backpressured)
        packed += bytes(round(_SHARE_STEPS * min(1.0, max(0.0, each))) for each in parts) or _NO_SHARES
    return bytes(packed)


def unpack_shares(packed: bytes, place: int) -> Shares | None:
    """Return the shares of the vertex at a place, to half a percent; None where they are not known."""
    parts = packed[3 * place : 3 * place + 3]
    if len(parts) < len(_NO_SHARES) or parts == _NO_SHARES:
        return None
    return Shares(*(each / _SHARE_STEPS for each in parts))


def slot_count(topology: JobTopology) -> int:
    """Return how many slots a job takes."""
    vertices = topology.vertices
    return slots_in_groups(vertices.values(), {v: vertex.parallelism for v, vertex in vertices.items()})


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if not known or None in known else finite(math.fsum(value for value in known if value is not None))


def _lag_seconds(lags: Mapping[VertexId, float], rates: Mapping[VertexId, float | None]) -> float | None:
    ages = [_age(lag, rates[vertex_id]) for vertex_id, lag in lags.items()]
    return None if not ages or None in ages else max(age for age in ages if age is not None)


def _age(lag: float, rate: float | None) -> float | None:
    if lag == 0:
        return 0.0
    return lag / rate if rate is not None and rate > _NO_RATE and math.isfinite(lag) else None


def _capacity(outcome: PassOutcome, load: float) -> float | None:
    """Return the load at which the first vertex is busy all the time."""
    rates = (
        (metrics.get(ScalingMetric.TRUE_PROCESSING_RATE), metrics.get(ScalingMetric.TARGET_DATA_RATE))
        for metrics in outcome.evaluated.values()
    )
    shares = [has.average / needs.average for has, needs in rates if has and needs and needs.average > _NO_RATE]
    finite = [share for share in shares if math.isfinite(share)]
    return load * min(finite) if finite else None


def _observed_capacity(outcome: PassOutcome, shares: Mapping[VertexId, Shares], reckoned: float | None) -> float | None:
    """Return the capacity of a job: what it is reckoned to be, but under backpressure no more than is read."""
    topology = outcome.observation.topology
    rates = {} if topology is None else reading_rates(topology, outcome.state.samples)
    if not any(v in shares and shares[v].backpressured > _BACKPRESSURED for v in rates):
        return reckoned
    read = _sum(rates.values())
    return reckoned if read is None else min(read, math.inf if reckoned is None else reckoned)
