"""The metric evaluator of a user, between the metrics of a vertex and the decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import EvaluatedVertex, MetricSample, VertexId
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.plugins import EVALUATOR, EvaluatorContext, Plugins, plugin_class, with_plugin_options

Customize = Callable[[VertexId, EvaluatedVertex, Mapping[VertexId, EvaluatedVertex], bool], EvaluatedVertex]
"""From vertex, its metrics, the vertices evaluated before and the backlog flag to metrics to merge; may be empty."""


def custom_evaluator(
    context: JobAutoScalerContext,
    topology: JobTopology,
    samples: tuple[MetricSample, ...],
    restart_time: int,
    plugins: Plugins,
) -> tuple[Customize | None, list[Reason]]:
    """Return what to call for every vertex, the first of the metric evaluators that are configured; None if unusable.

    The reasons say what is wrong with it, and grow while it is called; a problem changes no metric.
    """
    names, problems = context.options.custom_evaluators, list[Reason]()
    name, code = names[0], ReasonCode.METRIC_EVALUATOR
    if len(names) > 1:
        problems.append(Reason.of(code, problem=f"only the first metric evaluator is used: {name!r}"))
    identity = plugin_class(context.configuration, EVALUATOR, name)
    evaluator = plugins.evaluators.get(identity or "")
    if evaluator is None:
        problems.append(Reason.of(code, problem=f"metric evaluator {name!r} is ignored: no plug-in {identity!r}"))
        return None, problems
    job = with_plugin_options(context, EVALUATOR, name)

    def customize(
        vertex_id: VertexId, metrics: EvaluatedVertex, evaluated: Mapping[VertexId, EvaluatedVertex], has_backlog: bool
    ) -> EvaluatedVertex:
        seen = MappingProxyType(dict(evaluated))
        given = EvaluatorContext(job, topology, samples, seen, restart_time, has_backlog)
        with ErrorBoundary() as boundary:
            return evaluator.evaluate_vertex_metrics(vertex_id, MappingProxyType(dict(metrics)), given) or {}
        problems.append(Reason.of(code, vertex_id, problem=f"metric evaluator {name!r} failed: {boundary.error}"))
        return {}

    return customize, problems
