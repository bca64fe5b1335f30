"""One pass over one job as a pure function: from what the cluster answered to a decision and the next state.

It runs unchanged in a Spark task, in the daemon and in a replay.
"""

from __future__ import annotations

from flink_autoscaler.core.cycle.doubt import second_look
from flink_autoscaler.core.cycle.ending import (
    PassEnd,
    failed,
    failure,
    interrupted,
    invalid,
    is_only_waiting,
    not_running,
    standing,
    waiting,
)
from flink_autoscaler.core.cycle.evaluated import Found, counted, evaluated, forecasted, memories_of, of_this_graph
from flink_autoscaler.core.cycle.external_metrics import external_metrics
from flink_autoscaler.core.cycle.giving import giving
from flink_autoscaler.core.cycle.shadow import MEMORY, in_roles, kept_shadow, remembering, shadow_of
from flink_autoscaler.core.cycle.wanted import realizable, under_pins
from flink_autoscaler.core.decide.decision import Look, decide
from flink_autoscaler.core.decide.limits.needs import need_of, waits_for_slots
from flink_autoscaler.core.errors import AutoscalerError, EvaluationError, NotReadyError, described
from flink_autoscaler.core.evaluate.restart_time import assumed_restart
from flink_autoscaler.core.forecast.pass_forecast import PassForecast, pass_forecast
from flink_autoscaler.core.model.decision import Evaluation, Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.reading import ClusterReading, JobReading, Origins
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.observe.gathering import at_reading_time, stale
from flink_autoscaler.core.observe.observation import (
    Observed,
    finished_vertices,
    memory_after_failure,
    observe,
    unknown_facts,
    without_sample,
)
from flink_autoscaler.core.policies.choosing import hear, unknown_policies, windowless
from flink_autoscaler.core.policies.observing import policy_input
from flink_autoscaler.core.ports.passes import EvaluatedJob, PassOutcome, PassRequest
from flink_autoscaler.core.ports.plugins import NO_PLUGINS, Plugins
from flink_autoscaler.core.supervise.following import Followed
from flink_autoscaler.core.supervise.supervised import FollowUp, PassWants, follow_up, followed

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
        external = external_metrics(request, reading)
        return external.add_notes_to(_advanced(external.request, external.reading, cluster, plugins))
    except _ANYTHING as error:
        return failed(request, _ours(error))


def _advanced(request: PassRequest, reading: JobReading, cluster: ClusterReading, plugins: Plugins) -> PassOutcome:
    if is_only_waiting(request):
        return waiting(request, reading)
    watched = followed(request, reading, cluster, plugins)
    state = under_pins(watched.state, request, reading.details)
    request = replace(request, state=state, memory=reading.memory)
    if request.context.status is JobStatus.RUNNING:
        found, end = _looked_at(request, reading, cluster, plugins, watched.holds)
        if watched.may_give:
            end = giving(end, request, reading)
    else:
        found, end = Found(request), not_running(request)
    end = _remembering(end, found)
    # A decision names all vertices, as they are where they are pinned: that holds no longer than the pin.
    if (state := under_pins(end.state, request, reading.details)) is not end.state:
        end = replace(end, state=state)
    if idle := _idle_pins(request, reading):
        found = replace(found, events=(*idle, *found.events))
    if found.observed is not None and end.phase is PassPhase.EXECUTED and (unknown := unknown_facts(request, cluster)):
        end = replace(end, decision=replace(end.decision, reasons=(*end.decision.reasons, *unknown)))
    wants = _wants(request, reading, watched, found, end)
    taken = follow_up(wants, end.state.supervision, request, reading, cluster)
    outcome = _outcome(watched, found, end, wants, taken, reading.origins)
    return replace(outcome, waits_for=need_of(request, reading)) if waits_for_slots(request) else outcome


def _remembering(end: PassEnd, found: Found) -> PassEnd:
    """Return the end of a pass with what the second policy remembers, whatever becomes of the decision."""
    known, name = found.request.state.policies, found.request.context.options.policy_shadow or None
    if name is None and MEMORY not in end.state.policies:
        return end
    undecided = end.undecided and remembering(end.undecided, known, name, found.shadow)
    return replace(end, state=remembering(end.state, known, name, found.shadow), undecided=undecided)


def _wants(request: PassRequest, reading: JobReading, watched: Followed, found: Found, end: PassEnd) -> PassWants:
    """Return what is to be asked of the cluster: nothing while nobody knows what the job was asked to have."""
    supervision, details = end.state.supervision, reading.details
    wanted = realizable(end.wanted, supervision, request, reading, is_repair=watched.is_repair)
    running: dict[VertexId, int] = {}
    if found.observed:
        running = {v.vertex_id: v.parallelism for v in found.observed.topology.vertices.values()}
    elif details:
        running = {v.vertex_id: v.parallelism for v in details.vertices}
    return PassWants(
        wanted={} if watched.is_blind else wanted,
        running=running,
        is_decided=isinstance(end.decision, Rescale),
        is_repair=watched.is_repair,
        gives=end.gives,
    )


def _outcome(
    watched: Followed, found: Found, end: PassEnd, wants: PassWants, taken: FollowUp, origins: Origins
) -> PassOutcome:
    """Put together what the stages of a pass came to."""
    request, observed = found.request, found.observed
    return PassOutcome(
        job_key=request.context.job_key,
        phase=end.phase,
        decision=end.decision,
        state=_supervised(end.state, taken.supervision),
        undecided=end.undecided,
        memory=end.memory,
        sample=observed.sample if observed else None,
        sample_count=len(observed.state.samples) if observed else None,
        is_window_full=observed.is_window_full if observed else None,
        topology=observed.topology if observed else None,
        restart_time=found.restart.seconds if found.restart else None,
        restart_basis=found.restart.basis if found.restart else None,
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
        shadow=found.shadow.proposal if found.shadow else None,
        origins=origins,
    )


def _supervised(state: JobState, supervision: Supervision) -> JobState:
    return state if supervision is state.supervision else replace(state, supervision=supervision)


def _looked_at(
    request: PassRequest,
    reading: JobReading,
    cluster: ClusterReading,
    plugins: Plugins,
    holds: tuple[Reason, ...],
) -> tuple[Found, PassEnd]:
    """Take a sample of a job that runs, evaluate the window and decide, unless something holds the job."""
    problem = unknown_policies(request.context.options, plugins.policies)
    if problem is not None:
        return Found(request), invalid(request, problem)
    try:
        old = stale(request, reading, cluster)
        if old is not None:
            excluded = finished_vertices(reading.details)
            return Found(request), standing(request, PassPhase.NOT_READY, Hold((old,)), excluded)
        early = windowless(request.context.options, plugins.policies)
        observed = of_this_graph(
            observe(_in_roles(request), reading, cluster),
            request.state,
            early | kept_shadow(request.context.options, plugins),
        )
    except AutoscalerError as error:
        failed = replace(request, memory=memory_after_failure(reading, cluster))
        return Found(request), failure(failed, error, finished_vertices(reading.details))
    except _ANYTHING as error:
        return Found(request), failure(request, _ours(error))
    found = Found(observed.request, observed)
    try:
        if len(observed.state.samples) < MIN_SAMPLES:
            hold = Hold.because("COLLECTING", "the first metric sample of this execution was taken")
            end = standing(found.request, PassPhase.COLLECTING, hold, observed.excluded)
            return found, interrupted(end, found.request)
        found = replace(found, restart=assumed_restart(observed.state, request.outages, request.context.options))
        found, job = evaluated(found, observed, reading, cluster, plugins)
        found, forecast = forecasted(found, job, plugins)
        state = counted(found.request.state, observed)
        job = forecast.shown(job if state is job.state else replace(job, state=state))
        found = _shadowed(found, job, plugins)
        if not (observed.is_window_full or early):
            return found, standing(found.request, PassPhase.WINDOW_FILLING, _filling(observed), observed.excluded)
        if holds:
            return _heard(found, job, holds, plugins)
        look = _second_look(found, job, observed, reading, cluster, plugins)
        return _decided(found, job, forecast, plugins, look)
    except _ANYTHING as error:
        # With what was found so far: the sample of this pass counts whatever a plug-in does.
        return found, _stopped(found, observed, _ours(error))


def _shadowed(found: Found, job: EvaluatedJob, plugins: Plugins) -> Found:
    """Ask the second policy of a job, whatever becomes of the decision."""
    shadow = shadow_of(job, plugins)
    return found if shadow is None else replace(found, shadow=shadow, events=(*found.events, *shadow.events))


def _heard(found: Found, job: EvaluatedJob, holds: tuple[Reason, ...], plugins: Plugins) -> tuple[Found, PassEnd]:
    """Hold the job, and let those of its policies go on that look at every sample."""
    state, options = found.request.state, job.context.options
    heard = hear(lambda: policy_input(job), options, plugins.policies, state.policies)
    found = replace(found, request=replace(found.request, state=replace(state, policies=heard.memories)))
    return found, standing(found.request, PassPhase.EXECUTED, Hold((*holds, *heard.reasons)), job.excluded)


def _second_look(
    found: Found,
    job: EvaluatedJob,
    observed: Observed,
    reading: JobReading,
    cluster: ClusterReading,
    plugins: Plugins,
) -> Look | None:
    """Return what looks again at a plan, without single samples; None where that is not wanted."""
    options = job.context.options
    if not options.checks_samples:
        return None

    def without(index: int) -> EvaluatedJob:
        _, other = evaluated(found, without_sample(observed, index), reading, cluster, plugins)
        return pass_forecast(other, found.request.profiles, plugins.policies).shown(other)

    return lambda plan: second_look(plan, job, observed.state.samples, without, plugins)


def _stopped(found: Found, observed: Observed, error: AutoscalerError) -> PassEnd:
    """End a pass after its sample; a window without a rate is filling, and nothing has failed."""
    if isinstance(error, NotReadyError):
        return standing(found.request, PassPhase.WINDOW_FILLING, _filling(observed), observed.excluded)
    return failure(found.request, error, observed.excluded)


def _filling(observed: Observed) -> Hold:
    left = max(0.0, (observed.full_at_ms - observed.request.now_ms) / 1000)
    window = observed.request.context.options.metrics_window.exact_seconds
    return Hold(
        (Reason("WINDOW_FILLING", "the metric window is not full yet", None, (("left", left), ("window", window))),)
    )


def _in_roles(request: PassRequest) -> PassRequest:
    memories = in_roles(request.state.policies, request.context.options)
    if memories is request.state.policies:
        return request
    return replace(request, state=replace(request.state, policies=memories))


def _decided(
    found: Found, job: EvaluatedJob, forecast: PassForecast, plugins: Plugins, look: Look | None
) -> tuple[Found, PassEnd]:
    """Decide, and say what there is to say about forecasts; what is remembered are the samples as they are."""
    decided, before = decide(job, plugins, look), found.request.state
    decision = decided.decision
    if forecast.reasons:
        decision = replace(decision, reasons=(*decision.reasons, *forecast.reasons))
    state = decided.state
    if state.samples is not before.samples:
        state = replace(state, samples=before.samples)
    request = replace(found.request, state=state)
    end = replace(
        standing(request, PassPhase.EXECUTED, decision, job.excluded),
        events=decided.events,
        report=decided.report,
        undecided=_undecided(before, decided.state, job, plugins) if isinstance(decision, Rescale) else None,
    )
    evaluation = Evaluation(decided.metrics, job.topology, job.restart_time, is_window_full=job.is_window_full)
    return replace(found, evaluation=evaluation), end


def _undecided(before: JobState, decided: JobState, job: EvaluatedJob, plugins: Plugins) -> JobState:
    """Return what to remember where a decision cannot be carried out: nothing of it, but what was seen."""
    seen = memories_of(decided.policies, windowless(job.context.options, plugins.policies))
    return replace(before, policies={**before.policies, **seen}) if seen else before


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


def _ours(error: BaseException) -> AutoscalerError:
    if isinstance(error, AutoscalerError):
        return error
    return EvaluationError(f"evaluation failed: {described(error)}")
