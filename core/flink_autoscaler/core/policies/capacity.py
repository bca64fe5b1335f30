"""The policy ``capacity``: enough true rate for the load at the target utilization and for catching up (FLIP-271)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from flink_autoscaler.core.evaluate.evaluation import (
    EvaluationSettings,
    is_processing_backlog,
    output_ratios,
    rate_thresholds,
    saturated_sources,
    with_saturation_bounds,
)
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, ScalingMetric, VertexId, avg
from flink_autoscaler.core.model.policy_values import (
    DemandForecast,
    Proposal,
    ProposalDirection,
    SourceForecast,
    VertexSizing,
)
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.observe.window import window_of
from flink_autoscaler.core.policies.base.proposals import direction_from, saturation_reason
from flink_autoscaler.core.policies.base.sizing import size_vertices
from flink_autoscaler.core.ports.passes import EvaluatedJob

NAME: Final = "capacity"


class CapacityPolicy:
    """Keeps the use of every vertex near the target; never lowers a job that is processing a backlog.

    A job is not scaled while every vertex that would change is within the utilization bounds. Where a forecast expects
    more than arrives now, the job is sized for that: it goes up before the load comes, and not down where that would
    have to be undone soon. It is no :class:`.ScalingPolicy`: those see an observation, this one the rates themselves,
    since what they are is to the last digit what the reference makes of them.
    """

    name = NAME

    def size(self, job: EvaluatedJob, ceilings: Mapping[VertexId, int]) -> Proposal:
        """Return what it would do about a job whose rates were evaluated, as the reference does.

        Args:
            job: In a pass.
            ceilings: Greatest parallelism by vertex, where it is not just that of its bounds.

        Raises:
            AutoscalerError: The job cannot be sized.
        """
        sized, reasons = _size_with_forecast(job) if job.demand else size_vertices(job)
        if job.context.options.is_improved:
            behind = saturated_sources(job.topology, window_of(job.state.samples))
            reasons += tuple(saturation_reason(each.name, each.vertex_id) for each in behind)
        sizings = {v: sizing.capped_at(ceilings[v]) if v in ceilings else sizing for v, sizing in sized.items()}
        current = {v: sizing.current for v, sizing in sizings.items()}
        due = [v for v, sizing in sizings.items() if sizing.is_outside and sizing.target != sizing.current]
        targets = {v: sizing.target for v, sizing in sizings.items()} if due else current
        return Proposal(
            policy=NAME,
            targets=targets,
            direction=direction_from(current, targets) if due else ProposalDirection.NONE,
            capacity={v: sizing.capacity for v, sizing in sizings.items()},
            confidence=len(sizings) / len(job.topology.vertices),
            reasons=reasons,
            sizings=sizings,
        )


def _size_with_forecast(job: EvaluatedJob) -> tuple[dict[VertexId, VertexSizing], tuple[Reason, ...]]:
    """Size the vertices up for what is expected until that would have caught up, and down for what comes later."""
    topology, options = job.topology, job.context.options
    # The expected load comes however long the restart takes, so that a slow one is planned for instead of a usual one.
    restart = job.restart_time if job.outage is None else max(job.restart_time, math.ceil(job.outage.q90))
    settings = EvaluationSettings.of(options, restart)
    present = {v: job.metrics.vertices[v][ScalingMetric.TARGET_DATA_RATE].average for v in job.demand or {}}
    expected = expected_arrivals(present, job.demand or {}, options.forecast_cap_factor)

    def sized(arrivals: Mapping[VertexId, float]) -> tuple[dict[VertexId, VertexSizing], tuple[Reason, ...]]:
        return size_vertices(replace(job, metrics=_with_arrivals(job, settings, arrivals), restart_time=restart))

    (sizings, reasons), (later, _) = sized(expected.up), sized(expected.down)
    falling = {v: later[v] for v, sizing in sizings.items() if sizing.target < sizing.current and v in later}
    sizings |= {v: replace(each, target=min(each.target, each.current)) for v, each in falling.items()}
    names = {v: vertex.name for v, vertex in topology.vertices.items()}
    return sizings, (*reasons, *_expectations(names, present, expected))


def _with_arrivals(
    job: EvaluatedJob, settings: EvaluationSettings, arrivals: Mapping[VertexId, float]
) -> EvaluatedMetrics:
    """Return the metrics with target rates, and the bands around them, for what arrives at sources beyond the present.

    A source of which less arrives, or nothing is told, stays as it is, as does what is behind an edge of which nothing
    is known.
    """
    topology, window = job.topology, window_of(job.state.samples)
    extra, vertices = dict[VertexId, float](), dict(job.metrics.vertices)
    has_backlog, is_improved = is_processing_backlog(topology, window, settings), settings.is_improved
    settings = with_saturation_bounds(settings, topology, window)
    for vertex_id, vertex in topology.vertices.items():
        target = vertices[vertex_id][ScalingMetric.TARGET_DATA_RATE].average
        ratios = output_ratios(topology, window, vertex, is_strict=is_improved, is_balanced=is_improved)
        more = sum(extra[upstream] * ratio for upstream, ratio in ratios.items())
        extra[vertex_id] = arrivals.get(vertex_id, target) - target if vertex.is_source else more
        if extra[vertex_id] > 0:
            raised = {**vertices[vertex_id], ScalingMetric.TARGET_DATA_RATE: avg(target + extra[vertex_id])}
            vertices[vertex_id] = {**raised, **rate_thresholds(raised, settings, has_backlog=has_backlog)}
    return replace(job.metrics, vertices=vertices)


@value
class SourceRates:
    """Records/s by source that a job is sized for.

    Attributes:
        up: For whether to scale up, and how far.
        down: For how far a vertex may be lowered; never less than ``up``.
    """

    up: Mapping[VertexId, float]
    down: Mapping[VertexId, float]


def expected_arrivals(present: Mapping[VertexId, float], demand: DemandForecast, cap: float) -> SourceRates:
    """Return what the sources are sized for: what arrives now, or what a forecast expects where that is more.

    Args:
        present: What arrives now.
        demand: Forecast by source; what it lacks arrives as it does now.
        cap: Times of what arrives now that a forecast counts for at most, unless the usual level is higher.

    Returns:
        Of the sources that are present, each at least what arrives now, and for going down at least what it is for
        going up.
    """
    usual = {v: demand.get(v, SourceForecast(rate, rate, rate)) for v, rate in present.items()}
    limits = {v: max(cap * rate, usual[v].level) for v, rate in present.items()}
    up = {v: min(max(rate, usual[v].up), limits[v]) for v, rate in present.items()}
    return SourceRates(up, {v: max(up[v], min(usual[v].down, limits[v])) for v in present})


def _expectations(
    names: Mapping[VertexId, str], present: Mapping[VertexId, float], expected: SourceRates
) -> Iterator[Reason]:
    for v, now in present.items():
        up, down = expected.up[v], expected.down[v]
        if down > now:
            figures = (("now", now), ("soon", up), ("later", down))
            yield Reason.of(ReasonCode.FORECAST_HIGHER, v, figures, vertex=names[v])
