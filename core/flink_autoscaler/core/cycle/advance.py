"""One pass over one job as a pure function: from what the cluster answered to a decision and the next state.

It runs unchanged in a Spark task, in the daemon and in a replay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flink_autoscaler.core.cycle.ending import PassEnd, failure, invalid, not_running, standing
from flink_autoscaler.core.cycle.wanted import realizable
from flink_autoscaler.core.decide.decision import decide
from flink_autoscaler.core.errors import AutoscalerError, EvaluationError, NotReadyError
from flink_autoscaler.core.evaluate.evaluation import (
    CustomEvaluation,
    EvaluationSettings,
    evaluate,
    with_present_parallelism,
)
from flink_autoscaler.core.evaluate.restart_time import assumed_restart
from flink_autoscaler.core.forecast.pass_forecast import PassForecast, pass_forecast
from flink_autoscaler.core.model.decision import Evaluation, Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.observe.observation import Observed, finished_vertices, memory_after_failure, observe
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.policies.choosing import unknown_policies
from flink_autoscaler.core.ports.passes import EvaluatedJob, PassOutcome, PassRequest
from flink_autoscaler.core.ports.plugins import NO_PLUGINS, Plugins
from flink_autoscaler.core.supervise.following import Followed
from flink_autoscaler.core.supervise.supervised import FollowUp, PassWants, follow_up, followed

MIN_SAMPLES = 2
"""Fewer samples have no rate."""

_SURPRISES = (ArithmeticError, ValueError, TypeError, LookupError)
"""What arithmetic on foreign numbers may still raise."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What a pass found out before it ended; what was found before an error stays visible.

    Attributes:
        request: With all that is to be remembered so far.
        observed: None when no sample could be taken.
        restart_time: Seconds a restart is assumed to take; None when the pass did not come that far.
        evaluation: None when there was none.
        events: To be raised before those of the end.
    """

    request: PassRequest
    observed: Observed | None = None
    restart_time: int | None = None
    evaluation: Evaluation | None = None
    events: tuple[Event, ...] = ()


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
    watched = followed(request, reading, cluster, plugins)
    request = replace(request, state=watched.state, memory=reading.memory)
    if request.context.status is JobStatus.RUNNING:
        found, end = _looked_at(request, reading, cluster, plugins, watched.holds)
    else:
        found, end = _Found(request), not_running(request)
    found = replace(found, events=(*_idle_pins(request, reading), *found.events))
    wants = _wants(request, reading, watched, found, end)
    taken = follow_up(wants, end.state.supervision, request, reading, cluster)
    return _outcome(watched, found, end, wants, taken)


def _wants(request: PassRequest, reading: JobReading, watched: Followed, found: _Found, end: PassEnd) -> PassWants:
    """Return what is to be asked of the cluster: nothing while nobody knows what the job was asked to have."""
    supervision, details = end.state.supervision, reading.details
    wanted = realizable(end.wanted, supervision, request, details, is_repair=watched.is_repair)
    running: dict[VertexId, int] = {}
    if found.observed:
        running = {v.vertex_id: v.parallelism for v in found.observed.topology.vertices.values()}
    elif details:
        running = {v.vertex_id: v.parallelism for v in details.vertices}
    return PassWants({} if watched.is_blind else wanted, running, isinstance(end.decision, Rescale), watched.is_repair)


def _outcome(watched: Followed, found: _Found, end: PassEnd, wants: PassWants, taken: FollowUp) -> PassOutcome:
    """Put together what the stages of a pass came to."""
    request, observed = found.request, found.observed
    return PassOutcome(
        job_key=request.context.job_key,
        phase=end.phase,
        decision=end.decision,
        state=replace(end.state, supervision=taken.supervision),
        undecided=end.undecided,
        memory=end.memory,
        sample=observed.sample if observed else None,
        sample_count=len(observed.state.samples) if observed else None,
        is_window_full=observed.is_window_full if observed else None,
        topology=observed.topology if observed else None,
        restart_time=found.restart_time,
        evaluation=found.evaluation,
        wanted=wants.wanted,
        least=taken.least,
        found=taken.found,
        wanted_config=end.wanted_config,
        events=(*watched.events, *found.events, *end.events),
        report=end.report,
        error=end.error,
        is_repair=watched.is_repair,
        excluded=end.excluded,
    )


def _looked_at(
    request: PassRequest,
    reading: JobReading,
    cluster: ClusterReading,
    plugins: Plugins,
    holds: tuple[Reason, ...],
) -> tuple[_Found, PassEnd]:
    """Take a sample of a job that runs, evaluate the window and decide, unless something holds the job."""
    problem = unknown_policies(request.context.options, plugins.policies)
    if problem is not None:
        return _Found(request), invalid(request, problem)
    try:
        observed = _of_this_graph(observe(request, reading, cluster), request.state)
    except AutoscalerError as error:
        failed = replace(request, memory=memory_after_failure(reading, cluster))
        return _Found(request), failure(failed, error, finished_vertices(reading.details))
    except _SURPRISES as error:
        return _Found(request), failure(request, _surprise(error))
    found = _Found(observed.request, observed)
    try:
        if len(observed.state.samples) < MIN_SAMPLES:
            hold = Hold.because("COLLECTING", "the first metric sample of this execution was taken")
            return found, standing(found.request, PassPhase.COLLECTING, hold, observed.excluded)
        assumed = assumed_restart(observed.state, request.outages, request.context.options)
        found = replace(found, restart_time=assumed)
        found, job = _evaluated(found, observed, reading, cluster, plugins)
        found, forecast = _forecast(found, job, plugins)
        if not observed.is_window_full:
            return found, standing(found.request, PassPhase.WINDOW_FILLING, _filling(observed), observed.excluded)
        if holds:
            return found, standing(found.request, PassPhase.EXECUTED, Hold(holds), observed.excluded)
        return _decided(found, replace(job, state=found.request.state, demand=forecast.demand), forecast, plugins)
    except AutoscalerError as error:
        return found, failure(found.request, error, observed.excluded)
    except _SURPRISES as error:
        return found, failure(found.request, _surprise(error), observed.excluded)


def _filling(observed: Observed) -> Hold:
    left = (observed.full_at_ms - observed.request.now_ms) / 1000
    window = observed.request.context.options.metrics_window.exact_seconds
    return Hold(
        (Reason("WINDOW_FILLING", "the metric window is not full yet", None, (("left", left), ("window", window))),)
    )


def _of_this_graph(observed: Observed, before: JobState) -> Observed:
    """Forget what policies remember when the job has other vertices than in the last sample."""
    if not before.samples or before.samples[-1].vertices.keys() == observed.topology.vertices.keys():
        return observed
    state = replace(observed.state, policies={})
    return replace(observed, request=replace(observed.request, state=state))


def _evaluated(
    found: _Found, observed: Observed, reading: JobReading, cluster: ClusterReading, plugins: Plugins
) -> tuple[_Found, EvaluatedJob]:
    """Evaluate the metric window; metrics that are missing while it fills are no error."""
    request, samples, assumed = found.request, observed.state.samples, found.restart_time or 0
    settings = EvaluationSettings.of(request.context.options, assumed)
    custom = CustomEvaluation(request.context, observed.topology, samples, assumed)
    try:
        metrics = evaluate(observed.topology, samples, settings, custom.hook(plugins))
    except EvaluationError as error:
        if settings.is_strict and not observed.is_window_full:
            raise NotReadyError(str(error)) from error
        raise
    if observed.is_window_full:
        metrics = with_present_parallelism(metrics)
    job = EvaluatedJob(
        context=request.context,
        topology=observed.topology,
        metrics=metrics,
        state=observed.state,
        cluster=cluster,
        excluded=observed.excluded,
        restart_time=assumed,
        now_ms=request.now_ms,
        orders=request.orders,
        reading=reading,
    )
    evaluation = Evaluation(metrics, observed.topology, assumed, observed.is_window_full)
    events = _plugin_events(request.context, custom.problems) if custom.problems else ()
    return replace(found, evaluation=evaluation, events=events), job


def _forecast(found: _Found, job: EvaluatedJob, plugins: Plugins) -> tuple[_Found, PassForecast]:
    """Forecast what will arrive; what was learned for that is kept, whatever becomes of the decision."""
    forecast = pass_forecast(job, found.request.profiles, plugins.policies)
    request = found.request
    if forecast.memory != job.state.forecast:
        request = replace(request, state=replace(job.state, forecast=forecast.memory))
    return replace(found, request=request, events=(*found.events, *forecast.events)), forecast


def _decided(found: _Found, job: EvaluatedJob, forecast: PassForecast, plugins: Plugins) -> tuple[_Found, PassEnd]:
    """Decide, and say what there is to say about forecasts."""
    decided = decide(job, plugins)
    decision = replace(decided.decision, reasons=(*decided.decision.reasons, *forecast.reasons))
    request = replace(found.request, state=decided.state)
    end = replace(
        standing(request, PassPhase.EXECUTED, decision, job.excluded),
        events=decided.events,
        report=decided.report,
        undecided=job.state if isinstance(decision, Rescale) else None,
    )
    evaluation = Evaluation(decided.metrics, job.topology, job.restart_time, is_window_full=True)
    return replace(found, evaluation=evaluation), end


def _plugin_events(context: JobAutoScalerContext, problems: list[Reason]) -> tuple[Event, ...]:
    """Tell about plug-ins that cannot be used; the reference only logs that."""
    options = context.options
    if not options.improves(options.problem_events):
        return ()
    interval = options.scaling_event_interval
    return tuple(
        Event(EventType.WARNING, "PluginProblem", problem.text, f"{problem.code}{problem.vertex_id or ''}", interval)
        for problem in problems
    )


def _idle_pins(request: PassRequest, reading: JobReading) -> tuple[Event, ...]:
    """Tell about pins that hold no vertex: a name with a typing error, or of a job graph that is no more."""
    vertices = reading.details.vertices if reading.details else ()
    if not request.orders.pins or not vertices:
        return ()
    names = ", ".join(f"'{vertex.name}'" for vertex in vertices)
    interval = request.context.options.scaling_event_interval
    return tuple(
        Event(
            EventType.WARNING,
            "PinMatchesNothing",
            f"The pin {pin.pattern}={pin.parallelism} of {pin.signed.who} fits no vertex; the job has {names}",
            pin.pattern,
            interval,
        )
        for pin in request.orders.idle_pins(vertices)
    )


def _surprise(error: Exception) -> AutoscalerError:
    return EvaluationError(f"evaluation failed: {type(error).__name__}: {error}")
