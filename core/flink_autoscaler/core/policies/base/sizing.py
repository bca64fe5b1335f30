"""How a vertex is sized by what was evaluated: the model, its limits, bottlenecks, and what past rescales tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from flink_autoscaler.core.evaluate.evaluation import target_capacity
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import EvaluatedMetric, EvaluatedVertex, FlinkMetric, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import NAN, divide, trunc32
from flink_autoscaler.core.model.policy_values import VertexLimits, VertexSizing
from flink_autoscaler.core.model.topology import JobTopology, Vertex
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.model.vertex_patterns import VertexBounds, bounds_of
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import UNKNOWN_RATE
from flink_autoscaler.core.policies.base.scalability import scalability_coefficient
from flink_autoscaler.core.ports.passes import EvaluatedJob

_MAX_INT32 = 2**31 - 1


@value
class SizingSettings:
    """The option values that sizing needs.

    Attributes:
        utilization_target: Share of its capacity that a vertex should use.
        catch_up: Seconds in which a backlog should be gone; 0 plans nothing for it.
        restart_time: Seconds of downtime to make up for.
        min_factor: Least factor between new and current parallelism in one step.
        max_factor: Greatest such factor.
        min_parallelism: Lower limit; a vertex below it is not forced up.
        max_parallelism: Upper limit; a vertex above it is not forced down.
        caps_sources: Whether a source stays within its partitions.
        bounds: Limits of single vertices, which go before the general ones.
        skewed: Vertices that get no more than they have, whatever their limits, see :attr:`.EvaluatedJob.skewed`.
    """

    utilization_target: float
    catch_up: int
    restart_time: int
    min_factor: float
    max_factor: float
    min_parallelism: int
    max_parallelism: int
    caps_sources: bool
    bounds: tuple[VertexBounds, ...] = ()
    skewed: frozenset[VertexId] = frozenset()

    @classmethod
    def of(cls, options: AutoscalerOptions, restart_time: int) -> SizingSettings:
        """Read the options of a job."""
        usual = options.derive(cls._usual)
        return usual if restart_time == 0 else replace(usual, restart_time=restart_time)

    @classmethod
    def of_job(cls, job: EvaluatedJob) -> SizingSettings:
        """Read the options of a job in a pass, with the vertices that it must not scale up."""
        settings = cls.of(job.context.options, job.restart_time)
        return replace(settings, skewed=frozenset(job.skewed)) if job.skewed else settings

    @classmethod
    def _usual(cls, options: AutoscalerOptions) -> SizingSettings:
        return cls(
            utilization_target=options.utilization_target,
            catch_up=options.catch_up_duration.seconds,
            restart_time=0,
            min_factor=1 - options.scale_down_max_factor,
            max_factor=1 + options.scale_up_max_factor,
            min_parallelism=options.min_parallelism,
            max_parallelism=options.max_parallelism,
            caps_sources=options.is_improved,
            bounds=options.vertex_bounds,
        )

    def limits_for(self, vertex: Vertex) -> tuple[int, int]:
        """Return the least and the greatest parallelism that the user allows for a vertex."""
        own = bounds_of(vertex, self.bounds) if self.bounds else None
        if own is None:
            return self.min_parallelism, self.max_parallelism
        least = self.min_parallelism if own.minimum is None else own.minimum
        greatest = self.max_parallelism if own.maximum is None else own.maximum
        return min(least, greatest) if own.minimum is None else least, max(least, greatest)


def limits_of(vertex: Vertex, current: int, settings: SizingSettings) -> VertexLimits:
    """Return the bounds of a vertex, as wide as what of its current parallelism is at work."""
    least, greatest = settings.limits_for(vertex)
    if vertex.vertex_id in settings.skewed:
        greatest = current
    least = max(least, vertex.floor)
    has_partitions = settings.caps_sources and not vertex.inputs and vertex.source_partitions > 0
    return _limits(current, least, greatest, vertex.max_parallelism, vertex.source_partitions if has_partitions else 0)


@lru_cache(maxsize=4096)
def _limits(current: int, least: int, greatest: int, max_parallelism: int, partitions: int) -> VertexLimits:
    """Return the bounds; those of most vertices are the same, from pass to pass and from job to job."""
    upper = max(current, greatest)
    bound = min(max_parallelism, upper)
    if partitions > 0:
        bound = min(bound, max(current, partitions))
    return VertexLimits(min(current, least), upper, bound)


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
    current = int(metrics[ScalingMetric.PARALLELISM].current) - vertex.idle_subtasks
    factor = divide(capacity, rate) / coefficient
    factor = settings.min_factor if factor < settings.min_factor else min(factor, settings.max_factor)
    wanted = ceil_int32(factor * current)
    limits = limits_of(vertex, current, settings)
    return VertexSizing(
        current=current,
        rate=rate,
        capacity=capacity,
        factor=factor,
        wanted=wanted,
        limits=limits,
        target=limits.clamp(wanted),
        coefficient=coefficient,
        is_outside=rate < metrics[ScalingMetric.SCALE_UP_RATE_THRESHOLD].current
        or rate > metrics[ScalingMetric.SCALE_DOWN_RATE_THRESHOLD].current,
    )


def ceil_int32(parallelism: float) -> int:
    """Return the next whole parallelism, within 32 bits; NaN is 0."""
    if parallelism - parallelism != 0.0:
        return trunc32(parallelism)
    return min(math.ceil(parallelism), _MAX_INT32)


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A vertex that cannot grow to what it needs.

    Attributes:
        share: Share of the target rates that it can sustain, below 1.
        sources: The sources that feed it and are held back by it.
    """

    vertex_id: VertexId
    share: float
    sources: frozenset[VertexId]


def find_bottlenecks(
    topology: JobTopology, metrics: Mapping[VertexId, EvaluatedVertex], sizings: Mapping[VertexId, VertexSizing]
) -> list[Bottleneck]:
    """Return the vertices that cannot grow to what they need, in topological order.

    Args:
        topology: The job graph.
        metrics: Evaluated metrics of all vertices.
        sizings: Sizings of the vertices that may be scaled; the others keep their parallelism.
    """
    found, sources = [], dict[VertexId, frozenset[VertexId]]()
    for vertex_id, vertex in topology.vertices.items():
        sizing = sizings.get(vertex_id)
        if vertex.is_finished or (sizing is not None and sizing.wanted <= sizing.limits.bound):
            continue
        growth = 1.0 if sizing is None else sizing.limits.bound / sizing.current
        share = _sustainable_share(metrics[vertex_id], growth)
        if share < 1.0:
            sources = sources or sources_of(topology)
            found.append(Bottleneck(vertex_id, share, sources[vertex_id]))
    return found


def sources_of(topology: JobTopology) -> dict[VertexId, frozenset[VertexId]]:
    """Return the sources whose records reach each vertex; a source reaches itself."""
    sources: dict[VertexId, frozenset[VertexId]] = {}
    for vertex_id, vertex in topology.vertices.items():
        reached = frozenset().union(*(sources[upstream] for upstream in vertex.inputs))
        sources[vertex_id] = reached or frozenset({vertex_id})
    return sources


def tightest_bottleneck(
    bottlenecks: Sequence[Bottleneck], vertex_id: VertexId, sources: frozenset[VertexId]
) -> Bottleneck | None:
    """Return the bottleneck that limits a vertex most: one that holds back everything which feeds the vertex.

    Args:
        bottlenecks: All of them.
        vertex_id: The vertex; it does not limit itself.
        sources: The sources that feed it.
    """
    holding = [b for b in bottlenecks if sources <= b.sources and b.vertex_id != vertex_id]
    return min(holding, key=lambda bottleneck: bottleneck.share, default=None)


def _sustainable_share(metrics: EvaluatedVertex, growth: float) -> float:
    """Return which share of its target a vertex sustains when always busy; 1 when it is all or not known."""
    needed = metrics[ScalingMetric.TARGET_DATA_RATE].average + metrics[ScalingMetric.CATCH_UP_DATA_RATE].current
    reachable = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average * growth
    if not (math.isfinite(needed) and math.isfinite(reachable)) or needed <= 0 or reachable <= 0:
        return 1.0
    return min(1.0, reachable / needed)


def sizing_for_share(
    vertex: Vertex,
    metrics: EvaluatedVertex,
    settings: SizingSettings,
    *,
    sizing: VertexSizing,
    share: float,
) -> VertexSizing:
    """Return the sizing for a share of the target rates; never below the present parallelism.

    Args:
        vertex: The vertex.
        metrics: Its evaluated metrics.
        settings: Option values.
        sizing: Its sizing for the whole target.
        share: What gets through the bottleneck, below 1.
    """
    if sizing.target <= sizing.current:
        return sizing
    limited = size_vertex(vertex, _scale_targets(metrics, share), settings, sizing.coefficient)
    if limited is None or limited.target >= sizing.target:
        return sizing
    return replace(limited, target=max(sizing.current, limited.target), is_outside=sizing.is_outside)


def _scale_targets(metrics: EvaluatedVertex, share: float) -> EvaluatedVertex:
    target = metrics[ScalingMetric.TARGET_DATA_RATE]
    catch_up = metrics[ScalingMetric.CATCH_UP_DATA_RATE]
    return {
        **metrics,
        ScalingMetric.TARGET_DATA_RATE: EvaluatedMetric(target.current, target.average * share),
        ScalingMetric.CATCH_UP_DATA_RATE: EvaluatedMetric(catch_up.current * share, catch_up.average),
    }


def size_vertices(job: EvaluatedJob) -> tuple[dict[VertexId, VertexSizing], tuple[Reason, ...]]:
    """Size the vertices that may be scaled and whose rates are known; say why others are not, and what limits them.

    Raises:
        EvaluationError: A scalability coefficient is undefined and the improvement for that is off.
    """
    options, sizings, reasons = job.context.options, dict[VertexId, VertexSizing](), list[Reason]()
    settings = SizingSettings.of_job(job)
    for vertex_id, vertex in job.topology.vertices.items():
        if vertex_id in job.excluded:
            continue
        coefficient = 1.0
        if options.observed_scalability:
            coefficient = scalability_coefficient(job.state.history.get(vertex_id, ()), options)
        sizing = size_vertex(vertex, job.metrics.vertices[vertex_id], settings, coefficient)
        if sizing is None:
            reasons.append(Reason.of(UNKNOWN_RATE, vertex_id))
        else:
            sizings[vertex_id] = sizing
    bottlenecks = find_bottlenecks(job.topology, without_lag_skew(job), sizings)
    if not bottlenecks or not options.is_improved:
        return sizings, tuple(reasons)
    limited, limits = _within_bottlenecks(job, sizings, settings, bottlenecks)
    return limited, (*reasons, *limits)


def _within_bottlenecks(
    job: EvaluatedJob,
    sizings: Mapping[VertexId, VertexSizing],
    settings: SizingSettings,
    bottlenecks: Sequence[Bottleneck],
) -> tuple[dict[VertexId, VertexSizing], list[Reason]]:
    """Scale what a bottleneck that cannot grow holds back to no more than it lets through."""
    limited, reasons, sources = dict(sizings), [], sources_of(job.topology)
    for vertex_id, sizing in sizings.items():
        bottleneck = tightest_bottleneck(bottlenecks, vertex_id, sources[vertex_id])
        if bottleneck is None:
            continue
        vertex, metrics = job.topology.vertices[vertex_id], job.metrics.vertices[vertex_id]
        limited[vertex_id] = sizing_for_share(vertex, metrics, settings, sizing=sizing, share=bottleneck.share)
        if limited[vertex_id] is not sizing:
            held_by, share = bottleneck.vertex_id, bottleneck.share
            reasons.append(Reason.of(ReasonCode.BOTTLENECK, vertex_id, bottleneck=held_by, share=share))
    return limited, reasons


def sizing_for_target(vertex: Vertex, target: int, rate: float, settings: SizingSettings) -> VertexSizing:
    """Return the sizing that follows a plan as far as one step and the limits of a vertex allow.

    Args:
        vertex: The vertex.
        target: What the plan gives it.
        rate: Its true processing rate now, records/s; NaN when not known.
        settings: Option values.
    """
    current = vertex.working_subtasks
    least, most = (ceil_int32(factor * current) for factor in (settings.min_factor, settings.max_factor))
    limits, wanted = limits_of(vertex, current, settings), min(max(least, target), most)
    return VertexSizing(
        current=current,
        rate=rate,
        capacity=NAN,
        factor=target / current,
        wanted=wanted,
        limits=limits,
        target=limits.clamp(wanted),
    )


def without_lag_skew(job: EvaluatedJob) -> Mapping[VertexId, EvaluatedVertex]:
    """Return the metrics of a job in which sources have to catch up with what waits there, and no more."""
    catch_up, metrics = job.context.options.catch_up_duration.seconds, job.metrics.vertices
    if catch_up <= 0:
        return metrics
    uneven = [v for v, told in job.reading.aggregates.items() if FlinkMetric.SLOWEST_PARTITION in told and v in metrics]
    return {**metrics, **{v: _even(metrics[v], catch_up) for v in uneven}} if uneven else metrics


def _even(metrics: EvaluatedVertex, catch_up: int) -> EvaluatedVertex:
    rate, lag = metrics[ScalingMetric.CATCH_UP_DATA_RATE], metrics[ScalingMetric.LAG].current
    if not (math.isfinite(lag) and lag / catch_up < rate.current):
        return metrics
    return {**metrics, ScalingMetric.CATCH_UP_DATA_RATE: EvaluatedMetric(lag / catch_up, rate.average)}
