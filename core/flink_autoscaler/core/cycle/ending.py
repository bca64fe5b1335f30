"""How passes end, and those that do not come to evaluating a job: invalid, disabled, not running, or failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flink_autoscaler.core.cycle.wanted import wanted_now
from flink_autoscaler.core.decide.limits.needs import need_of, waits_for_slots
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, NotReadyError
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import Event, EventType, Reason, ScalingReport, exception_event
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, CollectorMemory, JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.core.ports.task_managers import is_reactive
from flink_autoscaler.core.supervise.supervised import FactsWanted, facts_wanted

VALIDATION_REASON = "AutoScaler Options Validation"
ERROR_REASON = "AutoscalerError"


@quick
@dataclass(frozen=True, slots=True)
class PassEnd:
    """What a pass came to; see :class:`PassOutcome`."""

    phase: PassPhase
    decision: Hold | Rescale
    state: JobState
    memory: CollectorMemory
    wanted: Mapping[VertexId, int] = field(default_factory=dict)
    wanted_config: bool = False
    events: tuple[Event, ...] = ()
    report: ScalingReport | None = None
    error: AutoscalerError | None = None
    excluded: frozenset[VertexId] = frozenset()
    undecided: JobState | None = None
    gives: bool = False


def without_reading(request: PassRequest) -> PassOutcome | None:
    """Return the outcome for a job whose metrics are not needed: invalid, disabled or not running; else None."""
    try:
        end = _without_reading(request)
    except AutoscalerError as error:
        end = failure(request, error)
    return None if end is None else _unread(request, end)


def failed(request: PassRequest, error: AutoscalerError) -> PassOutcome:
    """Return the outcome of a pass that an error ended before anything was read."""
    return _unread(request, failure(request, error))


def waiting(request: PassRequest, reading: JobReading) -> PassOutcome:
    """Return the outcome for a job that waits for slots while no rescale of it is followed."""
    return replace(_unread(request, not_running(request)), waits_for=need_of(request, reading))


def is_only_waiting(request: PassRequest) -> bool:
    """Tell whether nothing has to be found out about a job but how many slots it waits for."""
    return waits_for_slots(request) and facts_wanted(request) is not FactsWanted.EVERYTHING


def _unread(request: PassRequest, end: PassEnd) -> PassOutcome:
    return PassOutcome(
        job_key=request.context.job_key,
        phase=end.phase,
        decision=end.decision,
        state=end.state,
        memory=end.memory,
        wanted=end.wanted,
        wanted_config=end.wanted_config,
        events=end.events,
        error=end.error,
    )


def _without_reading(request: PassRequest) -> PassEnd | None:
    options = request.context.options
    problem = validate(options)
    if problem is not None:
        return invalid(request, problem)
    if not options.enabled:
        return _disabled(request)
    is_followed = facts_wanted(request) is FactsWanted.EVERYTHING
    if request.context.status is not JobStatus.RUNNING and not is_followed and not waits_for_slots(request):
        return not_running(request)
    return None


def not_running(request: PassRequest) -> PassEnd:
    """End the pass of a job that does not run: what was decided earlier is still wanted."""
    text = f"the job is {request.context.status.value}, not RUNNING with all tasks"
    return interrupted(standing(request, PassPhase.NOT_RUNNING, Hold.because("NOT_RUNNING", text)), request)


def interrupted(end: PassEnd, request: PassRequest) -> PassEnd:
    """Name the loss of TaskManagers where that may be why a job does not run, or has begun anew.

    In reactive mode TaskManagers come and go with the parallelism, and whoever follows that says so.
    """
    capacity = request.context.capacity
    if capacity is None or not capacity.lost or is_reactive(request.context):
        return end
    lost = f"lost {capacity.lost} of its {capacity.taskmanagers + capacity.lost} TaskManagers"
    reason = Reason("TASKMANAGER_LOST", f"the cluster {lost}")
    text = f"The cluster {lost}; the job starts again with what is left"
    event = Event(EventType.WARNING, "TaskManagerLost", text, None, request.context.options.scaling_event_interval)
    decision = replace(end.decision, reasons=(*end.decision.reasons, reason))
    return replace(end, decision=decision, events=(*end.events, event))


def standing(
    request: PassRequest, phase: PassPhase, decision: Hold | Rescale, excluded: frozenset[VertexId] = frozenset()
) -> PassEnd:
    """End a pass in which what the state says is wanted.

    Raises:
        ConfigError: An override of the user's is not a number.
    """
    wanted = wanted_now(request, request.state.overrides, excluded)
    config = request.context.options.memory_tuning
    return PassEnd(phase, decision, request.state, request.memory, wanted, config, excluded=excluded)


def invalid(request: PassRequest, problem: str) -> PassEnd:
    """End the pass of a job with an option that cannot be used."""
    interval = request.context.validation_interval or request.context.options.scaling_event_interval
    event = Event(EventType.WARNING, VALIDATION_REASON, problem, interval=interval)
    hold = Hold.because("INVALID_CONFIG", problem)
    return PassEnd(PassPhase.INVALID_CONFIG, hold, request.state, request.memory, events=(event,))


def _disabled(request: PassRequest) -> PassEnd:
    """Forget the job's state; the samples stay where that is asked for, as if they had never been stored."""
    options, state, memory = request.context.options, EMPTY_STATE, EMPTY_MEMORY
    try:
        keeps_samples, is_tuning = not options.is_improved, options.memory_tuning
    except ConfigError as error:
        return failure(replace(request, state=state, memory=memory), error)
    if keeps_samples:
        state, memory = JobState(job_id=request.state.job_id, samples=request.state.samples), request.memory
    hold = Hold.because("DISABLED", f"{AutoscalerOptions.enabled.key} is not true")
    return PassEnd(PassPhase.DISABLED, hold, state, memory, wanted_config=is_tuning)


def failure(request: PassRequest, error: AutoscalerError, excluded: frozenset[VertexId] = frozenset()) -> PassEnd:
    """End a pass with an error: what was decided earlier is still applied."""
    is_ready = not isinstance(error, NotReadyError)
    events = (error_event(request.context, error),) if is_ready else ()
    wanted, config = dict[VertexId, int](), False
    try:
        wanted = wanted_now(request, request.state.overrides, excluded)
        config = request.context.options.memory_tuning
    except AutoscalerError as other:
        events = (*events, error_event(request.context, other))
    return PassEnd(
        phase=PassPhase.ERROR if is_ready else PassPhase.NOT_READY,
        decision=Hold.because(error.code, str(error)),
        state=request.state,
        memory=request.memory,
        wanted=wanted,
        wanted_config=config,
        events=events,
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
