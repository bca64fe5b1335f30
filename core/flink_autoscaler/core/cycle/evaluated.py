"""The part of a pass between its sample and its decision: the window evaluated, and what will arrive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flink_autoscaler.core.cycle.shadow import Shadow, kept_shadow
from flink_autoscaler.core.decide.sizing.alignment import aligned_sizes
from flink_autoscaler.core.errors import EvaluationError, NotReadyError
from flink_autoscaler.core.evaluate.custom import CustomEvaluation
from flink_autoscaler.core.evaluate.evaluation import EvaluationSettings, evaluate, with_present_parallelism
from flink_autoscaler.core.evaluate.outside import OutsideFigures
from flink_autoscaler.core.forecast.pass_forecast import PassForecast, pass_forecast
from flink_autoscaler.core.model.decision import Evaluation, RestartTime
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.metrics import FlinkMetric, MetricSample, ScalingMetric
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.state import JobState, PolicyMemories
from flink_autoscaler.core.observe.observation import Observed
from flink_autoscaler.core.observe.possible import is_possible
from flink_autoscaler.core.observe.window import window_of
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.policies.base.scalability import data_skews
from flink_autoscaler.core.policies.choosing import windowless
from flink_autoscaler.core.ports.passes import EvaluatedJob, PassRequest
from flink_autoscaler.core.ports.plugins import Plugins


@quick
@dataclass(frozen=True, slots=True)
class Found:
    """What a pass found out before it ended; what was found before an error stays visible.

    Attributes:
        request: With all that is to be remembered so far.
        observed: None when no sample could be taken.
        restart: How long a restart is assumed to take; None when the pass did not come that far.
        evaluation: None when there was none.
        events: To be raised before those of the end.
        shadow: What came of the second policy of the job; None where it was not asked.
    """

    request: PassRequest
    observed: Observed | None = None
    restart: RestartTime | None = None
    evaluation: Evaluation | None = None
    events: tuple[Event, ...] = ()
    shadow: Shadow | None = None


def of_this_graph(observed: Observed, before: JobState, kept: frozenset[str]) -> Observed:
    """Forget what policies remember when the job has other vertices than in the last sample.

    Args:
        observed: With the sample of this pass.
        before: The state without it.
        kept: What is handed back to policies that look after that themselves, by name.
    """
    if not before.samples or before.samples[-1].vertices.keys() == observed.topology.vertices.keys():
        return observed
    state = replace(observed.state, policies=memories_of(observed.state.policies, kept))
    return replace(observed, request=replace(observed.request, state=state))


def memories_of(memories: PolicyMemories, names: frozenset[str]) -> PolicyMemories:
    """Return what some policies remember, by their names."""
    return {name: memory for name, memory in memories.items() if name in names}


def evaluated(
    found: Found, observed: Observed, reading: JobReading, cluster: ClusterReading, plugins: Plugins
) -> tuple[Found, EvaluatedJob]:
    """Evaluate the metric window; metrics that are missing while it fills are no error."""
    request, samples = found.request, observed.counted
    assumed = found.restart.seconds if found.restart else 0
    settings = EvaluationSettings.of(request.context.options, assumed)
    custom = CustomEvaluation(request.context, observed.topology, samples, assumed)
    try:
        outside, history = OutsideFigures.of(reading), observed.state.history
        if settings.is_improved:
            _require_lags(observed, reading, samples)
        metrics = evaluate(observed.topology, samples, settings, custom.hook(plugins), outside, history)
    except EvaluationError as error:
        if settings.is_improved and (not observed.is_window_full or _begins_anew(observed)):
            raise NotReadyError(str(error)) from error
        raise
    options = request.context.options
    early = windowless(options, plugins.policies)
    is_windowless = early or kept_shadow(options, plugins)
    if observed.is_window_full or early:
        metrics = with_present_parallelism(metrics)
    job = EvaluatedJob(
        context=request.context,
        topology=observed.topology,
        metrics=metrics,
        state=counted(observed.state, observed),
        cluster=cluster,
        excluded=observed.excluded,
        restart_time=assumed,
        now_ms=request.now_ms,
        orders=request.orders,
        reading=reading,
        is_window_full=observed.is_window_full,
        aligned=aligned_sizes(observed.topology, options, assumed) if is_windowless else {},
    )
    if skewed := data_skews(job):
        job = replace(job, skewed=skewed)
    evaluation = Evaluation(metrics, observed.topology, assumed, observed.is_window_full)
    events = _plugin_events(request.context, custom.problems) if custom.problems else ()
    return replace(found, evaluation=evaluation, events=events), job


def _require_lags(observed: Observed, reading: JobReading, samples: Sequence[MetricSample]) -> None:
    """Raise for a source that tells its lag, but none that can be: it is no source without one, which reads all."""
    window = window_of(samples)
    for vertex_id, vertex in observed.topology.vertices.items():
        told = reading.aggregates.get(vertex_id, {}).get(FlinkMetric.PENDING_RECORDS)
        is_impossible = told is not None and (told.total is None or not is_possible(told.total))
        if vertex.is_source and is_impossible and math.isnan(window.rate(ScalingMetric.LAG, vertex_id)):
            raise EvaluationError(f"source {vertex_id}: no lag that can be in the metric window")


def _begins_anew(observed: Observed) -> bool:
    """Tell whether rates wait for a second sample since counters began anew, however old the window is."""
    return observed.counted is not observed.state.samples


def forecasted(found: Found, job: EvaluatedJob, plugins: Plugins) -> tuple[Found, PassForecast]:
    """Forecast what will arrive; what was learned for that is kept, whatever becomes of the decision."""
    forecast = pass_forecast(job, found.request.profiles, plugins.policies)
    request = found.request
    if forecast.memory != job.state.forecast:
        request = replace(request, state=replace(request.state, forecast=forecast.memory))
    elif not forecast.events:
        return found, forecast
    return replace(found, request=request, events=(*found.events, *forecast.events)), forecast


def counted(state: JobState, observed: Observed) -> JobState:
    """Return the state with the samples that rates are taken from."""
    return state if state.samples is observed.counted else replace(state, samples=observed.counted)


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
