"""The one place that makes a :class:`PassOutcome` of what the stages of a pass found, and passes that end early."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.cycle.external_metrics import ExternalMetrics
from flink_autoscaler.core.cycle.overrides import is_dry, wanted_parallelism
from flink_autoscaler.core.cycle.shadow import ShadowResult, with_shadow_memory
from flink_autoscaler.core.decide.decision import Decision
from flink_autoscaler.core.decide.slot_sharing import slot_demand
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, NotReadyError
from flink_autoscaler.core.forecast.pass_forecast import PassForecast
from flink_autoscaler.core.model.decision import Hold, PassPhase, RestartTime
from flink_autoscaler.core.model.events import Event, EventType, Reason, exception_event
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, ClusterReading, JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.model.supervision import Vector
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.observe.observation import ObservationResult, unknown_facts
from flink_autoscaler.core.observe.required_facts import RequiredFacts, required_facts, waits_for_slots
from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.passes import EvaluatedJob, PassObservation, PassOutcome, PassRequest, RescaleTarget
from flink_autoscaler.core.ports.task_managers import is_reactive
from flink_autoscaler.core.rescale.following import Tracking
from flink_autoscaler.core.rescale.tracking import TrackingUpdate

VALIDATION_REASON = "AutoScaler Options Validation"
ERROR_REASON = "AutoscalerError"

_NOT_READ: Final = JobReading(None)
_NO_CLUSTER: Final = ClusterReading()


@value
class PassProgress:
    """What a pass found out before it decides; what was found before an error stays visible.

    Attributes:
        request: With all that is to be remembered so far.
        observed: None when no sample could be taken.
        streaming: Policies of the job that need no window, see :func:`.streaming_policies`.
        restart: How long a restart is assumed to take; None when the pass did not come that far.
        job: As it was evaluated; None when it was not.
        forecast: What will arrive; None when the pass did not come that far.
        shadow: What came of the second policy of the job; None where it was not asked.
        events: To be raised before those of the decision.
        end: What the pass comes to without a decision by the metrics; None where they allow one.
    """

    request: PassRequest
    observed: ObservationResult | None = None
    streaming: frozenset[str] = frozenset()
    restart: RestartTime | None = None
    job: EvaluatedJob | None = None
    forecast: PassForecast | None = None
    shadow: ShadowResult | None = None
    events: tuple[Event, ...] = ()
    end: Decision | None = None


def assemble(
    external: ExternalMetrics,
    tracking: Tracking,
    progress: PassProgress,
    decision: Decision,
    *,
    state: JobState,
    wanted: Vector,
    update: TrackingUpdate,
    cluster: ClusterReading = _NO_CLUSTER,
) -> PassOutcome:
    """Put together what the stages of a pass came to."""
    request, reading, observed, job = progress.request, external.reading, progress.observed, progress.job
    reasons = external.reasons
    if observed is not None and decision.phase is PassPhase.EXECUTED:
        reasons = (*unknown_facts(request, cluster), *reasons)
    if update.supervision is not state.supervision:
        state = replace(state, supervision=update.supervision)
    undecided = decision.undecided and with_shadow_memory(decision.undecided, request, progress.shadow)
    return PassOutcome(
        job_key=request.context.job_key,
        phase=decision.phase,
        decision=replace(decision.action, reasons=(*decision.action.reasons, *reasons)) if reasons else decision.action,
        state=state,
        undecided=undecided,
        memory=request.memory,
        observation=PassObservation(
            sample=observed.sample if observed else None,
            sample_count=len(observed.request.state.samples) if observed else None,
            is_window_full=observed.is_window_full if observed else None,
            topology=observed.topology if observed else None,
            excluded=decision.excluded,
            origins=reading.origins,
        ),
        restart=progress.restart,
        metrics=decision.metrics or (job.metrics if job else None),
        target=RescaleTarget(
            wanted, update.min_parallelism, update.found_requirements, decision.tunes_memory, tracking.is_repair
        ),
        events=(
            *external.events,
            *tracking.events,
            *_idle_pins(request, reading),
            *progress.events,
            *decision.events,
        ),
        report=decision.report,
        error=decision.error,
        waits_for=slot_demand(request, reading) if waits_for_slots(request) else None,
        shadow=progress.shadow.proposal if progress.shadow else None,
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


def without_reading(request: PassRequest) -> PassOutcome | None:
    """Return the outcome for a job whose metrics are not needed: invalid, disabled or not running; else None."""
    try:
        options = request.context.options
        problem = validate(options)
        if problem is not None:
            return _unread_outcome(request, invalid_decision(request, problem))
        if not options.enabled:
            return _disabled_outcome(request)
        is_followed = required_facts(request) is RequiredFacts.EVERYTHING
        if request.context.status is not JobStatus.RUNNING and not is_followed and not waits_for_slots(request):
            return _unread_outcome(request, with_overrides(not_running_decision(request), request))
        return None
    except AutoscalerError as error:
        return failed_outcome(request, error)


def failed_outcome(request: PassRequest, error: AutoscalerError) -> PassOutcome:
    """Return the outcome of a pass that an error ended before anything was read."""
    return _unread_outcome(request, with_overrides(error_decision(request, error), request))


def waits_only_for_slots(request: PassRequest) -> bool:
    """Tell whether nothing has to be found out about a job but how many slots it waits for."""
    return waits_for_slots(request) and required_facts(request) is not RequiredFacts.EVERYTHING


def waiting_outcome(request: PassRequest, external: ExternalMetrics | None = None) -> PassOutcome:
    """Return the outcome for a job that waits for slots while no rescale of it is followed."""
    return _unread_outcome(request, with_overrides(not_running_decision(request), request), external)


def _unread_outcome(request: PassRequest, decision: Decision, external: ExternalMetrics | None = None) -> PassOutcome:
    return assemble(
        external or ExternalMetrics(request, _NOT_READ),
        Tracking(decision.state),
        PassProgress(request),
        decision,
        state=decision.state,
        wanted=decision.wanted,
        update=TrackingUpdate(decision.state.supervision),
    )


def _disabled_outcome(request: PassRequest) -> PassOutcome:
    """Forget the job's state; the samples stay where that is asked for, as if they had never been stored."""
    options, forgotten = request.context.options, replace(request, state=EMPTY_STATE, memory=EMPTY_MEMORY)
    try:
        if not options.is_improved:
            state = JobState(job_id=request.state.job_id, samples=request.state.samples)
            forgotten = replace(request, state=state)
        hold = Hold((Reason.of(ReasonCode.DISABLED, option=AutoscalerOptions.enabled.key),))
        decision = Decision(hold, forgotten.state, PassPhase.DISABLED, tunes_memory=options.memory_tuning)
    except ConfigError as error:
        return failed_outcome(replace(request, state=EMPTY_STATE, memory=EMPTY_MEMORY), error)
    return _unread_outcome(forgotten, decision)


def invalid_decision(request: PassRequest, problem: str) -> Decision:
    """Decide nothing about a job with an option that cannot be used; nothing is wanted either."""
    interval = request.context.validation_interval or request.context.options.scaling_event_interval
    event = Event(EventType.WARNING, VALIDATION_REASON, problem, interval=interval)
    hold = Hold((Reason.of(ReasonCode.INVALID_CONFIG, problem=problem),))
    return Decision(hold, request.state, PassPhase.INVALID_CONFIG, events=(event,))


def not_running_decision(request: PassRequest) -> Decision:
    """Decide nothing about a job that does not run: what was decided earlier is still wanted."""
    hold = Hold((Reason.of(ReasonCode.NOT_RUNNING, status=request.context.status.value),))
    return with_interruption(Decision(hold, request.state, PassPhase.NOT_RUNNING), request)


def with_interruption(decision: Decision, request: PassRequest) -> Decision:
    """Name the loss of TaskManagers where that may be why a job does not run, or has begun anew.

    In reactive mode TaskManagers come and go with the parallelism, and whoever follows that says so.
    """
    capacity = request.context.capacity
    if capacity is None or not capacity.lost or is_reactive(request.context):
        return decision
    before = capacity.taskmanagers + capacity.lost
    reason = Reason.of(ReasonCode.TASKMANAGER_LOST, lost=capacity.lost, before=before)
    text = f"T{reason.text[1:]}; the job starts again with what is left"
    event = Event(EventType.WARNING, "TaskManagerLost", text, None, request.context.options.scaling_event_interval)
    return replace(decision, action=Hold((*decision.action.reasons, reason)), events=(event,))


def error_decision(
    request: PassRequest, error: AutoscalerError, excluded: frozenset[VertexId] = frozenset()
) -> Decision:
    """Decide nothing because of an error: what was decided earlier is still applied. One that is expected is no event.

    Args:
        request: With what is to be remembered.
        error: That ended the pass.
        excluded: Vertices of which the user's own overrides count.
    """
    is_expected = isinstance(error, NotReadyError)
    return Decision(
        Hold.because(error.code, str(error)),
        request.state,
        PassPhase.NOT_READY if is_expected else PassPhase.ERROR,
        events=() if is_expected else (error_event(request.context, error),),
        error=error,
        excluded=excluded,
    )


def error_event(context: JobAutoScalerContext, error: AutoscalerError) -> Event:
    """Make the event about an error; the same error is not told again in every pass, where that is wanted."""
    options = context.options
    try:
        interval = options.scaling_event_interval if options.is_improved else None
    except ConfigError:
        interval = None
    return exception_event(ERROR_REASON, str(error), interval)


def with_overrides(decision: Decision, request: PassRequest) -> Decision:
    """Return a decision with what is to be realized by it; an error where the user's overrides cannot be read."""
    context, wanted, tunes_memory = request.context, dict[VertexId, int](), False
    try:
        overrides = {} if is_dry(request) else decision.state.overrides
        wanted = wanted_parallelism(context, overrides, decision.excluded)
        tunes_memory = context.options.memory_tuning
    except AutoscalerError as error:
        if decision.error is None:
            decision = error_decision(request, error, decision.excluded)
        else:
            decision = replace(decision, events=(*decision.events, error_event(context, error)))
    return replace(decision, wanted=wanted, tunes_memory=tunes_memory)
