"""The part of a pass between its sample and its decision: the metric window of this job graph, evaluated."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flink_autoscaler.core.cycle.shadow import kept_shadow
from flink_autoscaler.core.decide.sizing.alignment import aligned_sizes
from flink_autoscaler.core.errors import EvaluationError, NotReadyError
from flink_autoscaler.core.evaluate.custom import CustomEvaluation
from flink_autoscaler.core.evaluate.evaluation import EvaluationSettings, evaluate, with_present_parallelism
from flink_autoscaler.core.evaluate.outside import OutsideFigures
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.metrics import FlinkMetric, MetricSample, ScalingMetric
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.observe.observation import Observed
from flink_autoscaler.core.observe.possible import is_possible
from flink_autoscaler.core.observe.window import window_of
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.policies.base.scalability import data_skews
from flink_autoscaler.core.policies.choosing import windowless
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.plugins import Plugins


def without_other_graph(observed: Observed, before: JobState, kept: frozenset[str]) -> Observed:
    """Forget what policies remember when the job has other vertices than in the last sample.

    Args:
        observed: With the sample of this pass.
        before: The state without it.
        kept: What is handed back to policies that look after that themselves, by name.
    """
    if not before.samples or before.samples[-1].vertices.keys() == observed.topology.vertices.keys():
        return observed
    memories = {name: memory for name, memory in observed.state.policies.items() if name in kept}
    return replace(observed, request=replace(observed.request, state=replace(observed.state, policies=memories)))


def evaluate_window(
    observed: Observed, restart_time: int, reading: JobReading, cluster: ClusterReading, plugins: Plugins
) -> tuple[EvaluatedJob, tuple[Event, ...]]:
    """Evaluate the metric window; return what is to be told about the user's evaluator, too.

    Args:
        observed: With the window.
        restart_time: Seconds that a restart is assumed to take.
        reading: What the cluster said about the job.
        cluster: What it said about itself.
        plugins: Of the pass.

    Raises:
        NotReadyError: Metrics are missing while the window fills.
        EvaluationError: They are missing although it is full.
    """
    request, samples = observed.request, observed.counted
    context, options = request.context, request.context.options
    settings = EvaluationSettings.of(options, restart_time)
    custom = CustomEvaluation(context, observed.topology, samples, restart_time)
    try:
        outside, history = OutsideFigures.of(reading), observed.state.history
        if settings.is_improved:
            _require_lags(observed, reading, samples)
        metrics = evaluate(observed.topology, samples, settings, custom.hook(plugins), outside, history)
    except EvaluationError as error:
        # Rates wait for a second sample since counters began anew, however old the window is.
        begins_anew = samples is not observed.state.samples
        if settings.is_improved and (not observed.is_window_full or begins_anew):
            raise NotReadyError(str(error)) from error
        raise
    streaming = windowless(options, plugins.policies)
    if observed.is_window_full or streaming:
        metrics = with_present_parallelism(metrics)
    is_windowless = streaming or kept_shadow(options, plugins)
    job = EvaluatedJob(
        context=context,
        topology=observed.topology,
        metrics=metrics,
        state=observed.state if samples is observed.state.samples else replace(observed.state, samples=samples),
        cluster=cluster,
        excluded=observed.excluded,
        restart_time=restart_time,
        now_ms=request.now_ms,
        orders=request.orders,
        reading=reading,
        is_window_full=observed.is_window_full,
        aligned=aligned_sizes(observed.topology, options, restart_time) if is_windowless else {},
    )
    if skewed := data_skews(job):
        job = replace(job, skewed=skewed)
    return job, _plugin_events(context, custom.problems) if custom.problems else ()


def _require_lags(observed: Observed, reading: JobReading, samples: Sequence[MetricSample]) -> None:
    """Raise for a source that tells its lag, but none that can be: it is no source without one, which reads all."""
    window = window_of(samples)
    for vertex_id, vertex in observed.topology.vertices.items():
        told = reading.aggregates.get(vertex_id, {}).get(FlinkMetric.PENDING_RECORDS)
        is_impossible = told is not None and (told.total is None or not is_possible(told.total))
        if vertex.is_source and is_impossible and math.isnan(window.rate(ScalingMetric.LAG, vertex_id)):
            raise EvaluationError(f"source {vertex_id}: no lag that can be in the metric window")


def _plugin_events(context: JobAutoScalerContext, problems: list[Reason]) -> tuple[Event, ...]:
    """Tell about plug-ins that cannot be used; the reference only logs that."""
    options = context.options
    if not options.is_improved:
        return ()
    interval = options.scaling_event_interval
    return tuple(
        Event(EventType.WARNING, "PluginProblem", problem.text, f"{problem.code}{problem.vertex_id or ''}", interval)
        for problem in problems
    )
