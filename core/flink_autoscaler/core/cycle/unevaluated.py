"""Outcomes of passes that do not come to evaluating a job: invalid, disabled, not running, or ended by an error."""

from __future__ import annotations

from dataclasses import replace

from flink_autoscaler.core.cycle.wanted import wanted_now, with_wanted
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, NotReadyError
from flink_autoscaler.core.model.decision import Hold, PassOutcome, PassPhase, PassRequest
from flink_autoscaler.core.model.events import Event, EventType, exception_event
from flink_autoscaler.core.model.job import JobAutoScalerContext, JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import EMPTY_MEMORY
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.supervise.supervised import FactsWanted, facts_wanted

VALIDATION_REASON = "AutoScaler Options Validation"
ERROR_REASON = "AutoscalerError"


def without_reading(request: PassRequest) -> PassOutcome | None:
    """Return the outcome for a job whose metrics are not needed: invalid, disabled or not running; else None."""
    try:
        return _without_reading(request)
    except AutoscalerError as error:
        return failed(request, error)


def _without_reading(request: PassRequest) -> PassOutcome | None:
    options = request.context.options
    problem = validate(options)
    if problem is not None:
        return invalid(request, problem)
    if not options.enabled:
        return _disabled(request)
    if request.context.status is not JobStatus.RUNNING and facts_wanted(request) is not FactsWanted.EVERYTHING:
        return not_running(request)
    return None


def not_running(request: PassRequest) -> PassOutcome:
    """Return the outcome for a job that does not run: what was decided earlier is still wanted."""
    hold = Hold.because("NOT_RUNNING", f"the job is {request.context.status.value}, not RUNNING with all tasks")
    return with_wanted(_untouched(request, PassPhase.NOT_RUNNING, hold), request)


def _untouched(request: PassRequest, phase: PassPhase, hold: Hold) -> PassOutcome:
    return PassOutcome(request.context.job_key, phase, hold, request.state, memory=request.memory)


def invalid(request: PassRequest, problem: str) -> PassOutcome:
    """Return the outcome for a job with an option that cannot be used."""
    interval = request.context.validation_interval or request.context.options.scaling_event_interval
    event = Event(EventType.WARNING, VALIDATION_REASON, problem, interval=interval)
    hold = Hold.because("INVALID_CONFIG", problem)
    return replace(_untouched(request, PassPhase.INVALID_CONFIG, hold), events=(event,))


def _disabled(request: PassRequest) -> PassOutcome:
    """Forget the job's state; the samples stay where that is asked for, as if they had never been stored."""
    options, state, memory = request.context.options, EMPTY_STATE, EMPTY_MEMORY
    try:
        keeps_samples, is_tuning = not options.improves(options.forget_when_disabled), options.memory_tuning
    except ConfigError as error:
        return failed(replace(request, state=state, memory=memory), error)
    if keeps_samples:
        state, memory = JobState(job_id=request.state.job_id, samples=request.state.samples), request.memory
    hold = Hold.because("DISABLED", f"{AutoscalerOptions.enabled.key} is not true")
    outcome = _untouched(request, PassPhase.DISABLED, hold)
    return replace(outcome, state=state, memory=memory, wanted_config=is_tuning)


def failed(request: PassRequest, error: AutoscalerError, excluded: frozenset[VertexId] = frozenset()) -> PassOutcome:
    """Return the outcome of a pass that an error ended: what was decided earlier is still applied."""
    is_ready = not isinstance(error, NotReadyError)
    outcome = PassOutcome(
        job_key=request.context.job_key,
        phase=PassPhase.ERROR if is_ready else PassPhase.NOT_READY,
        decision=Hold.because(type(error).__name__.removesuffix("Error").upper(), str(error)),
        state=request.state,
        memory=request.memory,
        events=(error_event(request.context, error),) if is_ready else (),
        error=error,
        excluded=excluded,
    )
    try:
        outcome = replace(outcome, wanted=wanted_now(request, outcome.state.overrides, excluded))
        return replace(outcome, wanted_config=request.context.options.memory_tuning)
    except AutoscalerError as other:
        return replace(outcome, events=(*outcome.events, error_event(request.context, other)))


def error_event(context: JobAutoScalerContext, error: AutoscalerError) -> Event:
    """Make the event about an error; the same error is not told again in every pass, where that is wanted."""
    options = context.options
    try:
        interval = options.scaling_event_interval if options.improves(options.errors_once) else None
    except ConfigError:
        interval = None
    return exception_event(ERROR_REASON, str(error), interval)
