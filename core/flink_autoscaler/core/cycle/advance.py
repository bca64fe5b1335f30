"""One pass over one job as a pure function: from what the cluster answered to a decision and the next state.

It runs unchanged in a Spark task, in the daemon and in a replay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from flink_autoscaler.core.cycle.external_metrics import external_metrics
from flink_autoscaler.core.cycle.outcome import (
    PassProgress,
    assemble,
    error_decision,
    failed_outcome,
    invalid_decision,
    not_running_decision,
    waiting_outcome,
    waits_only_for_slots,
    with_interruption,
    with_overrides,
)
from flink_autoscaler.core.cycle.overrides import apply_pins, effective_overrides, release_slots
from flink_autoscaler.core.cycle.robustness import leave_one_out_check
from flink_autoscaler.core.cycle.shadow import run_shadow_policy, with_policy_roles, with_shadow_memory
from flink_autoscaler.core.decide.alignment import reachable_sizes_by_vertex
from flink_autoscaler.core.decide.decision import Decision, PlanCheck, decide
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, EvaluationError, NotReadyError, describe_error
from flink_autoscaler.core.evaluate.custom import custom_evaluator
from flink_autoscaler.core.evaluate.downtime import assumed_restart
from flink_autoscaler.core.evaluate.evaluation import (
    EvaluationSettings,
    ExternalRates,
    evaluate,
    with_present_parallelism,
)
from flink_autoscaler.core.forecast.pass_forecast import pass_forecast
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import FlinkMetric, MetricSample, ScalingMetric, VertexId
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.state import ForecastMemory, JobState
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.freshness import at_reading_time, staleness_reason
from flink_autoscaler.core.observe.observation import (
    ObservationResult,
    finished_vertices,
    memory_after_failure,
    take_observation,
    without_sample,
)
from flink_autoscaler.core.observe.plausibility import is_possible
from flink_autoscaler.core.observe.window import window_of
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.policies.base.scalability import data_skews
from flink_autoscaler.core.policies.policy_input import policy_input
from flink_autoscaler.core.policies.policy_runner import SHADOW, streaming_policies, update_policies
from flink_autoscaler.core.ports.passes import EvaluatedJob, PassOutcome, PassRequest
from flink_autoscaler.core.ports.plugins import NO_PLUGINS, Plugins
from flink_autoscaler.core.rescale.following import Tracking
from flink_autoscaler.core.rescale.tracking import DesiredState, track_after, track_before

MIN_SAMPLES = 2
"""Fewer samples have no rate."""

_ANYTHING = (Exception, SystemExit)
"""What foreign numbers and plug-ins raise, sys.exit() included: it is the matter of one job, never of the pass."""


def advance(
    request: PassRequest, reading: JobReading, cluster: ClusterReading, plugins: Plugins = NO_PLUGINS
) -> PassOutcome:
    """Take one job one pass further.

    Args:
        request: A job that :func:`without_reading` has no answer for.
        reading: What the cluster answered about it.
        cluster: What the cluster answered about itself.
        plugins: The plug-ins of this process.

    Returns:
        The outcome; errors of any kind are in it.
    """
    try:
        request = at_reading_time(request, reading, cluster)
        external = external_metrics(request, reading)  # with the restrictions that they bring
        request, reading = external.request, external.reading
        if waits_only_for_slots(request):
            return waiting_outcome(request, external)
        tracking = track_job(request, reading, cluster, plugins)  # what became of the last rescale, and forbids now
        state = apply_pins(tracking.state, request, reading.details)
        request = replace(request, state=state, memory=reading.memory)
        progress = observe_job(request, reading, cluster, plugins)  # also while the job is held: windows go on
        progress = evaluate_job(progress, reading, cluster, plugins)
        decision = decide_job(progress, tracking, reading, cluster, plugins)
        state = decision.state
        if request.context.options.policy_shadow or SHADOW in state.policies:
            state = with_shadow_memory(state, progress.request, progress.shadow)
        # A decision names all vertices, as they are where they are pinned: that holds no longer than the pin.
        state = apply_pins(state, request, reading.details)
        desired = desired_state(progress, decision, state, tracking, reading)
        update = track_after(desired, state.supervision, request, reading, cluster)
        return assemble(
            external, tracking, progress, decision, state=state, wanted=desired.wanted, update=update, cluster=cluster
        )
    except _ANYTHING as error:
        return failed_outcome(request, _as_autoscaler_error(error))


def track_job(request: PassRequest, reading: JobReading, cluster: ClusterReading, plugins: Plugins) -> Tracking:
    """Find out what became of the last rescale; where that fails nothing is decided, and the sample counts."""
    try:
        return track_before(request, reading, cluster, plugins)
    except _ANYTHING as error:
        return Tracking(request.state, error=_as_autoscaler_error(error))


def observe_job(request: PassRequest, reading: JobReading, cluster: ClusterReading, plugins: Plugins) -> PassProgress:
    """Take a sample of a job that runs; where there is none to take, the ``end`` of the result says why."""
    options = request.context.options
    if request.context.status is not JobStatus.RUNNING:
        return PassProgress(request, end=not_running_decision(request))
    try:
        streaming = streaming_policies(options, plugins.policies)
    except ConfigError as error:
        return PassProgress(request, end=invalid_decision(request, str(error)))
    try:
        if (doubt := staleness_reason(request, reading, cluster)) is not None:
            excluded = finished_vertices(reading.details)
            return PassProgress(request, end=_unchanged(request, PassPhase.NOT_READY, Hold((doubt,)), excluded))
        before = request.state
        if options.policy_shadow or SHADOW in before.policies:
            request = with_policy_roles(request)
        observed = without_other_graph(take_observation(request, reading, cluster), before, streaming)
    except AutoscalerError as error:
        request = replace(request, memory=memory_after_failure(reading, cluster))
        return PassProgress(request, end=error_decision(request, error, finished_vertices(reading.details)))
    except _ANYTHING as error:
        return PassProgress(request, end=error_decision(request, _as_autoscaler_error(error)))
    end = None
    if len(observed.request.state.samples) < MIN_SAMPLES:
        hold = Hold((Reason.of(ReasonCode.COLLECTING),))
        end = with_interruption(_unchanged(observed.request, PassPhase.COLLECTING, hold, observed.excluded), request)
    return PassProgress(observed.request, observed, streaming, end=end)


def without_other_graph(observed: ObservationResult, before: JobState, kept: frozenset[str]) -> ObservationResult:
    """Forget what policies remember when the job has other vertices than in the last sample.

    Args:
        observed: With the sample of this pass.
        before: The state without it.
        kept: What is handed back to policies that manage that themselves, by name.
    """
    if not before.samples or before.samples[-1].vertices.keys() == observed.topology.vertices.keys():
        return observed
    request, state = observed.request, observed.request.state
    memories = {name: memory for name, memory in state.policies.items() if name in kept}
    return replace(observed, request=replace(request, state=replace(state, policies=memories)))


def evaluate_job(
    progress: PassProgress, reading: JobReading, cluster: ClusterReading, plugins: Plugins
) -> PassProgress:
    """Evaluate the metric window: rates, forecasts, and the opinion of a second policy.

    Returns:
        What was found out, as far as that went; its ``end`` says why there is nothing to decide by.
    """
    request, observed = progress.request, progress.observed
    if observed is None or progress.end is not None:
        return progress
    restart, job, forecast, shadow, end = None, None, None, None, None
    events: tuple[Event, ...] = ()
    try:
        restart = assumed_restart(request.state, request.outages, request.context.options)
        job, events = evaluate_window(observed, restart.seconds, reading, cluster, plugins, progress.streaming)
        memory: ForecastMemory = {}
        if request.context.options.forecast_enabled:
            forecast = pass_forecast(job, request.profiles, plugins.policies)
            memory, job, events = forecast.memory, forecast.with_forecast(job), (*events, *forecast.events)
        if memory != job.state.forecast:  # what was learned is kept, whatever becomes of the decision
            request = replace(request, state=replace(request.state, forecast=memory))
            job = replace(job, state=replace(job.state, forecast=memory))
        if second := request.context.options.policy_shadow:
            shadow = run_shadow_policy(second, job, plugins)
        if not (observed.is_window_full or job.context.options.policy in progress.streaming):
            end = _unchanged(request, PassPhase.WINDOW_FILLING, _hold_while_filling(observed), job.excluded)
    except _ANYTHING as error:
        # With what was found so far: the sample of this pass counts whatever a plug-in does.
        end = _end_after_sample(request, observed, _as_autoscaler_error(error))
    events = (*events, *shadow.events) if shadow else events
    return PassProgress(request, observed, progress.streaming, restart, job, forecast, shadow, events, end)


def evaluate_window(
    observed: ObservationResult,
    restart_time: int,
    reading: JobReading,
    cluster: ClusterReading,
    plugins: Plugins,
    streaming: frozenset[str],
) -> tuple[EvaluatedJob, tuple[Event, ...]]:
    """Evaluate the metric window; return what is to be told about the user's evaluator, too.

    Args:
        observed: With the window.
        restart_time: Seconds that a restart is assumed to take.
        reading: What the cluster said about the job.
        cluster: What it said about itself.
        plugins: Of the pass.
        streaming: Policies of the job that need no window, see :func:`.streaming_policies`.

    Raises:
        NotReadyError: Metrics are missing while the window fills.
        EvaluationError: They are missing although it is full.
    """
    request, samples, state = observed.request, observed.for_rates, observed.request.state
    context, options = request.context, request.context.options
    settings = EvaluationSettings.of(options, restart_time)
    customize, problems = None, list[Reason]()
    if options.custom_evaluators:
        customize, problems = custom_evaluator(context, observed.topology, samples, restart_time, plugins)
    try:
        outside, history = ExternalRates.of(reading), state.history
        if settings.is_improved:
            _require_lags(observed, reading, samples)
        metrics = evaluate(observed.topology, samples, settings, customize, outside, history)
    except EvaluationError as error:
        # Rates wait for a second sample since counters began anew, however old the window is.
        begins_anew = samples is not state.samples
        if settings.is_improved and (not observed.is_window_full or begins_anew):
            raise NotReadyError(str(error)) from error
        raise
    if observed.is_window_full or options.policy in streaming:
        metrics = with_present_parallelism(metrics)
    job = EvaluatedJob(
        context=context,
        topology=observed.topology,
        metrics=metrics,
        state=state if samples is state.samples else replace(state, samples=samples),
        cluster=cluster,
        excluded=observed.excluded,
        restart_time=restart_time,
        now_ms=request.now_ms,
        orders=request.orders,
        reading=reading,
        is_window_full=observed.is_window_full,
        aligned=reachable_sizes_by_vertex(observed.topology, options, restart_time) if streaming else {},
    )
    if settings.is_improved and (state.history or state.supervision.rescales) and (skewed := data_skews(job)):
        job = replace(job, skewed=skewed)
    return job, _plugin_events(context, problems) if problems else ()


def _require_lags(observed: ObservationResult, reading: JobReading, samples: Sequence[MetricSample]) -> None:
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


def decide_job(
    progress: PassProgress, tracking: Tracking, reading: JobReading, cluster: ClusterReading, plugins: Plugins
) -> Decision:
    """Decide about a job by what was found out about it, unless something holds it."""
    decision, observed, job = progress.end, progress.observed, progress.job
    if tracking.error is not None:
        decision = error_decision(progress.request, tracking.error, observed.excluded if observed else frozenset())
    elif decision is None and observed is not None and job is not None:
        try:
            if tracking.holds:
                decision = _update_policies(progress.request, job, tracking.holds, plugins)
            else:
                decision = _decide(
                    progress, job, plugins, _leave_one_out_check(progress, job, reading, cluster, plugins)
                )
        except _ANYTHING as error:
            decision = _end_after_sample(progress.request, observed, _as_autoscaler_error(error))
    if decision is None:
        raise EvaluationError("a pass without an end has nothing to decide by")
    if progress.request.context.share is not None and tracking.may_release_slots:
        decision = release_slots(decision, progress.request, reading)
    is_applied = decision.phase is not PassPhase.INVALID_CONFIG or decision.releases_slots
    return with_overrides(decision, progress.request) if is_applied else decision


def desired_state(
    progress: PassProgress, decision: Decision, state: JobState, tracking: Tracking, reading: JobReading
) -> DesiredState:
    """Return what is to be asked of the cluster: nothing while nobody knows what the job was asked to have."""
    wanted = effective_overrides(
        decision.wanted, state.supervision, progress.request, reading, is_repair=tracking.is_repair
    )
    running: dict[VertexId, int] = {}
    if progress.observed:
        running = {v.vertex_id: v.parallelism for v in progress.observed.topology.vertices.values()}
    elif reading.details:
        running = {v.vertex_id: v.parallelism for v in reading.details.vertices}
    return DesiredState(
        wanted={} if tracking.requirements_unknown else wanted,
        running=running,
        is_decided=isinstance(decision.action, Rescale),
        is_repair=tracking.is_repair,
        releases_slots=decision.releases_slots,
    )


def _unchanged(
    request: PassRequest, phase: PassPhase, hold: Hold, excluded: frozenset[VertexId] = frozenset()
) -> Decision:
    """Leave a job as it is; what the state says is wanted still is."""
    return Decision(hold, request.state, phase, excluded=excluded)


def _update_policies(request: PassRequest, job: EvaluatedJob, holds: tuple[Reason, ...], plugins: Plugins) -> Decision:
    """Hold the job, and let those of its policies go on that look at every sample."""
    heard = update_policies(lambda: policy_input(job), job, plugins.policies)
    state = replace(request.state, policies=heard.memories)
    return Decision(Hold((*holds, *heard.reasons)), state, excluded=job.excluded)


def _decide(progress: PassProgress, job: EvaluatedJob, plugins: Plugins, look: PlanCheck | None) -> Decision:
    """Decide, and say what there is to say about forecasts; what is remembered are the samples as they are."""
    decision, before = decide(job, plugins, look), progress.request.state
    action, state, undecided = decision.action, decision.state, None
    if progress.forecast and progress.forecast.reasons:
        action = replace(action, reasons=(*action.reasons, *progress.forecast.reasons))
    if isinstance(action, Rescale):
        undecided = before
        # What was seen was seen, by a policy that looks at every sample.
        seen = {name: memory for name, memory in state.policies.items() if name in progress.streaming}
        undecided = replace(before, policies={**before.policies, **seen}) if seen else before
    if state.samples is not before.samples:
        state = replace(state, samples=before.samples)
    return replace(decision, action=action, state=state, undecided=undecided)


def _leave_one_out_check(
    progress: PassProgress, job: EvaluatedJob, reading: JobReading, cluster: ClusterReading, plugins: Plugins
) -> PlanCheck | None:
    """Return what looks again at a plan, without single samples; None where that is not wanted."""
    observed = progress.observed
    if observed is None or not job.context.options.checks_samples:
        return None

    def without(index: int) -> EvaluatedJob:
        left = without_sample(observed, index)
        other, _ = evaluate_window(left, job.restart_time, reading, cluster, plugins, progress.streaming)
        if progress.forecast is None:
            return other
        return pass_forecast(other, progress.request.profiles, plugins.policies).with_forecast(other)

    return lambda plan: leave_one_out_check(plan, job, observed.request.state.samples, without, plugins)


def _end_after_sample(request: PassRequest, observed: ObservationResult, error: AutoscalerError) -> Decision:
    """End a pass after its sample; a window without a rate is filling, and nothing has failed."""
    if isinstance(error, NotReadyError):
        return _unchanged(request, PassPhase.WINDOW_FILLING, _hold_while_filling(observed), observed.excluded)
    return error_decision(request, error, observed.excluded)


def _hold_while_filling(observed: ObservationResult) -> Hold:
    left = max(0.0, (observed.full_at_ms - observed.request.now_ms) / 1000)
    window = observed.request.context.options.metrics_window.exact_seconds
    return Hold((Reason.of(ReasonCode.WINDOW_FILLING, None, (("left", left), ("window", window))),))


def _as_autoscaler_error(error: BaseException) -> AutoscalerError:
    if isinstance(error, AutoscalerError):
        return error
    return EvaluationError(f"evaluation failed: {describe_error(error)}")
