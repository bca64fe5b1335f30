"""The metric evaluator of a user, between the metrics of a vertex and the decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from flink_autoscaler.core.border import Border
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import EvaluatedVertex, MetricSample, VertexId
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.plugins import EVALUATOR, EvaluatorContext, Plugins, plugin_class, with_plugin_options

Customize = Callable[[VertexId, EvaluatedVertex, Mapping[VertexId, EvaluatedVertex], bool], EvaluatedVertex]
"""From vertex, its metrics, the vertices evaluated before and the backlog flag to metrics to merge; may be empty."""


class CustomEvaluation:
    """Applies the first of the configured metric evaluators.

    Attributes:
        problems: What went wrong with it, to be reported; a problem changes no metric.
    """

    def __init__(
        self, job: JobAutoScalerContext, topology: JobTopology, samples: tuple[MetricSample, ...], restart_time: int
    ) -> None:
        self._job = job
        self._topology = topology
        self._samples = samples
        self._restart_time = restart_time
        self.problems: list[Reason] = []

    def hook(self, plugins: Plugins) -> Customize | None:
        """Return what to call for every vertex; None without a usable evaluator."""
        names = self._job.options.custom_evaluators
        if not names:
            return None
        name = names[0]
        if len(names) > 1:
            self._problem(f"only the first metric evaluator is used: {name!r}")
        identity = plugin_class(self._job.configuration, EVALUATOR, name)
        evaluator = plugins.evaluators.get(identity or "")
        if evaluator is None:
            self._problem(f"metric evaluator {name!r} is ignored: no plug-in {identity!r}")
            return None
        job = with_plugin_options(self._job, EVALUATOR, name)

        def customize(
            vertex_id: VertexId,
            metrics: EvaluatedVertex,
            evaluated: Mapping[VertexId, EvaluatedVertex],
            has_backlog: bool,
        ) -> EvaluatedVertex:
            seen = MappingProxyType(dict(evaluated))
            context = EvaluatorContext(job, self._topology, self._samples, seen, self._restart_time, has_backlog)
            with Border() as border:
                return evaluator.evaluate_vertex_metrics(vertex_id, MappingProxyType(dict(metrics)), context) or {}
            self._problem(f"metric evaluator {name!r} failed: {border.error}", vertex_id)
            return {}

        return customize

    def _problem(self, text: str, vertex_id: VertexId | None = None) -> None:
        self.problems.append(Reason("METRIC_EVALUATOR", text, vertex_id))
