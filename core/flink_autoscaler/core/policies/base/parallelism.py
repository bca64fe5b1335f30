"""The parallelism a vertex should have: the capacity model, its limits and the wait before a scale-down."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flink_autoscaler.core.evaluate.evaluation import target_capacity
from flink_autoscaler.core.model.metrics import EvaluatedVertex, ScalingMetric
from flink_autoscaler.core.model.numbers import divide, trunc32
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.core.model.vertex_patterns import VertexBounds, bounds_of
from flink_autoscaler.core.options.job import AutoscalerOptions

_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SizingSettings:
    """The option values that sizing needs.

    Attributes:
        utilization_target: Share of its capacity that a vertex should use.
        catch_up: Seconds in which a backlog should be gone; 0 plans nothing for it.
        restart_time: Seconds of downtime to make up for.
        least_factor: Least factor between new and current parallelism in one step.
        greatest_factor: Greatest such factor.
        min_parallelism: Lower limit; a vertex below it is not forced up.
        max_parallelism: Upper limit; a vertex above it is not forced down.
        caps_sources: Whether a source stays within its partitions.
        bounds: Limits of single vertices, which go before the general ones.
    """

    utilization_target: float
    catch_up: int
    restart_time: int
    least_factor: float
    greatest_factor: float
    min_parallelism: int
    max_parallelism: int
    caps_sources: bool
    bounds: tuple[VertexBounds, ...] = ()

    @classmethod
    def of(cls, options: AutoscalerOptions, restart_time: int) -> SizingSettings:
        """Read the options of a job."""
        return cls(
            utilization_target=options.utilization_target,
            catch_up=options.catch_up_duration.seconds,
            restart_time=restart_time,
            least_factor=1 - options.scale_down_max_factor,
            greatest_factor=1 + options.scale_up_max_factor,
            min_parallelism=options.min_parallelism,
            max_parallelism=options.max_parallelism,
            caps_sources=options.improves(options.source_partition_cap),
            bounds=options.vertex_bounds,
        )

    def limits_for(self, vertex: Vertex) -> tuple[int, int]:
        """Return the least and the greatest parallelism that the user allows for a vertex."""
        own = bounds_of(vertex, self.bounds) if self.bounds else None
        if own is None:
            return self.min_parallelism, self.max_parallelism
        least = self.min_parallelism if own.least is None else own.least
        greatest = self.max_parallelism if own.greatest is None else own.greatest
        return min(least, greatest) if own.least is None else least, max(least, greatest)


@dataclass(frozen=True, slots=True)
class VertexLimits:
    """Bounds of the parallelism of one vertex.

    Attributes:
        lower: Least parallelism.
        upper: Greatest parallelism that the user allows.
        bound: Greatest parallelism that the vertex can have: within ``upper``, key groups and partitions.
    """

    lower: int
    upper: int
    bound: int

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise ValueError(f"least parallelism {self.lower} is above the greatest one {self.upper}")

    def clamp(self, parallelism: int) -> int:
        """Return the nearest parallelism within the bounds; the greatest one wins."""
        return min(max(self.lower, parallelism), self.bound)


def limits_of(vertex: Vertex, current: int, settings: SizingSettings) -> VertexLimits:
    """Return the bounds of a vertex, as wide as its current parallelism."""
    least, greatest = settings.limits_for(vertex)
    upper = max(current, greatest)
    bound = min(vertex.max_parallelism, upper)
    if settings.caps_sources and vertex.is_source and vertex.source_partitions > 0:
        bound = min(bound, max(current, vertex.source_partitions))
    return VertexLimits(min(current, least), upper, bound)


@dataclass(frozen=True, slots=True)
class VertexSizing:
    """What the capacity model says about one vertex.

    Attributes:
        current: Parallelism now.
        rate: True processing rate now, records/s.
        capacity: Processing rate that the vertex needs, records/s.
        factor: Factor between wanted and current parallelism, bounded per step.
        wanted: Parallelism before any limit.
        limits: The bounds.
        target: Parallelism within the bounds, before alignment.
    """

    current: int
    rate: float
    capacity: float
    factor: float
    wanted: int
    limits: VertexLimits
    target: int


def size_vertex(
    vertex: Vertex, metrics: EvaluatedVertex, settings: SizingSettings, coefficient: float = 1.0
) -> VertexSizing | None:
    """Size one vertex.

    Args:
        vertex: The vertex.
        metrics: Its evaluated metrics.
        settings: Option values.
        coefficient: Share of a linear speed-up that the vertex is known to achieve.

    Returns:
        The sizing; None when the processing rate or the target is unknown.
    """
    rate = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average
    capacity = target_capacity(
        metrics, settings.utilization_target, catch_up=settings.catch_up, restart_time=settings.restart_time
    )
    if math.isnan(rate) or math.isnan(capacity):
        return None
    current = int(metrics[ScalingMetric.PARALLELISM].current)
    factor = _bounded_factor(divide(capacity, rate) / coefficient, settings)
    wanted = rounded_up(factor * current)
    limits = limits_of(vertex, current, settings)
    return VertexSizing(current, rate, capacity, factor, wanted, limits, limits.clamp(wanted))


def _bounded_factor(factor: float, settings: SizingSettings) -> float:
    if factor < settings.least_factor:
        return settings.least_factor
    return min(factor, settings.greatest_factor)


def rounded_up(parallelism: float) -> int:
    """Return the next whole parallelism, within 32 bits; NaN is 0."""
    if not math.isfinite(parallelism):
        return trunc32(parallelism)
    return min(math.ceil(parallelism), _MAX_INT32)


def is_outside_bounds(metrics: EvaluatedVertex) -> bool:
    """Tell whether the true processing rate is outside the band that is left alone."""
    rate = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average
    return (
        rate < metrics[ScalingMetric.SCALE_UP_RATE_THRESHOLD].current
        or rate > metrics[ScalingMetric.SCALE_DOWN_RATE_THRESHOLD].current
    )
