"""One pass over one job as a pure function: from what the cluster answered to a decision and the next state.

It runs unchanged in a Spark task, in the daemon and in a replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flink_autoscaler.core.custom_evaluation import CustomEvaluation
from flink_autoscaler.core.decision import Evaluation, Hold, PassOutcome, PassRequest, Phase, Rescale
from flink_autoscaler.core.decision_run import Executed, ExecutionInput
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, EvaluationError, NotReadyError
from flink_autoscaler.core.evaluation import EvaluationSettings, evaluate, with_present_parallelism
from flink_autoscaler.core.events import Event, EventType, exception_event
from flink_autoscaler.core.execution import execute
from flink_autoscaler.core.extensions import NO_PLUGINS, Plugins
from flink_autoscaler.core.forecast.pass_forecast import PassForecast, pass_forecast
from flink_autoscaler.core.history import restart_time
from flink_autoscaler.core.job import JobAutoScalerContext, JobStatus
from flink_autoscaler.core.metrics import VertexId
from flink_autoscaler.core.observation import Observed, finished_vertices, memory_after_failure, observe
from flink_autoscaler.core.options import AutoscalerOptions
from flink_autoscaler.core.reading import EMPTY_MEMORY, ClusterReading, JobReading
from flink_autoscaler.core.realizable import realizable
from flink_autoscaler.core.reason import Reason
from flink_autoscaler.core.state import EMPTY_STATE, JobState
from flink_autoscaler.core.supervised import FactsWanted, facts_wanted, followed, with_rescale
from flink_autoscaler.core.validation import validate, validate_policies

MIN_SAMPLES = 2
"""Fewer samples have no rate."""

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
        return _invalid(request, problem)
    if not options.enabled:
        return _disabled(request)
    if request.context.status is not JobStatus.RUNNING and facts_wanted(request) is not FactsWanted.EVERYTHING:
        return _not_running(request)
    return None


def _not_running(request: PassRequest) -> PassOutcome:
    hold = Hold.because("NOT_RUNNING", f"the job is {request.context.status.value}, not RUNNING with all tasks")
    return _with_wanted(_untouched(request, Phase.NOT_RUNNING, hold), request)


def _untouched(request: PassRequest, phase: Phase, hold: Hold) -> PassOutcome:
    return PassOutcome(request.context.job_key, phase, hold, request.state, memory=request.memory)


def _invalid(request: PassRequest, problem: str) -> PassOutcome:
    interval = request.context.validation_interval or request.context.options.scaling_event_interval
    event = Event(EventType.WARNING, VALIDATION_REASON, problem, interval=interval)
    hold = Hold.because("INVALID_CONFIG", problem)
    return replace(_untouched(request, Phase.INVALID_CONFIG, hold), events=(event,))


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
    outcome = _untouched(request, Phase.DISABLED, hold)
    return replace(outcome, state=state, memory=memory, wanted_config=is_tuning)


def failed(request: PassRequest, error: AutoscalerError, excluded: frozenset[VertexId] = frozenset()) -> PassOutcome:
    """Return the outcome of a pass that an error ended: what was decided earlier is still applied."""
    is_ready = not isinstance(error, NotReadyError)
    outcome = PassOutcome(
        job_key=request.context.job_key,
        phase=Phase.ERROR if is_ready else Phase.NOT_READY,
        decision=Hold.because(type(error).__name__.removesuffix("Error").upper(), str(error)),
        state=request.state,
        memory=request.memory,
        events=(error_event(request.context, error),) if is_ready else (),
        error=error,
        excluded=excluded,
    )
    try:
        outcome = replace(outcome, wanted=_wanted(request, outcome.state.overrides, excluded))
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


def _with_wanted(outcome: PassOutcome, request: PassRequest) -> PassOutcome:
    """Add what is to be realized now."""
    wanted = _wanted(request, outcome.state.overrides, outcome.excluded)
    return replace(outcome, wanted=wanted, wanted_config=request.context.options.memory_tuning)


def _wanted(
    request: PassRequest, overrides: Mapping[VertexId, int], excluded: frozenset[VertexId]
) -> dict[VertexId, int]:
    """Return what is to be realized; nothing in a dry run."""
    if request.orders.dry_run is not None or request.context.options.dry_run:
        return {}
    return wanted_parallelism(request.context, overrides, excluded)


def wanted_parallelism(
    context: JobAutoScalerContext, overrides: Mapping[VertexId, int], excluded: frozenset[VertexId]
) -> dict[VertexId, int]:
    """Merge what was decided with the user's own overrides.

    Args:
        context: For the user's overrides and excluded vertices.
        overrides: Decided parallelism; empty before the first decision, and then nothing is wanted.
        excluded: Vertices excluded during this pass; for them the user's value wins, where there is one.

    Raises:
        ConfigError: A user's override is not a number.
    """
    if not overrides:
        return {}
    wanted = {v: _number(v, text) for v, text in context.flink_options.parallelism_overrides.items()}
    excluded = excluded | frozenset(context.options.vertex_exclude_ids)
    for vertex_id, parallelism in overrides.items():
        if vertex_id not in excluded or vertex_id not in wanted:
            wanted[vertex_id] = parallelism
    return wanted


def _number(vertex_id: VertexId, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(
            f"pipeline.jobvertex-parallelism-overrides: {vertex_id} has {text!r}, not a number"
        ) from error


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
    if request.context.status is not JobStatus.RUNNING:
        outcome = _not_running(request)
    else:
        outcome = _observed(request, reading, cluster, plugins, watched.holds)
    outcome = replace(
        outcome,
        events=(*watched.events, *outcome.events),
        is_repair=watched.is_repair,
        wanted={} if watched.is_blind else realizable(outcome, request, reading.details),
    )
    return with_rescale(outcome, request, reading, cluster)


def _observed(
    request: PassRequest,
    reading: JobReading,
    cluster: ClusterReading,
    plugins: Plugins,
    holds: tuple[Reason, ...],
) -> PassOutcome:
    """Evaluate and decide about a job that runs, unless something holds it."""
    problem = validate_policies(request.context.options, plugins.policies)
    if problem is not None:
        return _invalid(request, problem)
    try:
        observed = _of_this_graph(observe(request, reading, cluster), request.state)
    except AutoscalerError as error:
        request = replace(request, memory=memory_after_failure(reading, cluster))
        return failed(request, error, finished_vertices(reading.details))
    except (ArithmeticError, ValueError, TypeError, LookupError) as error:
        return failed(request, _surprise(error))
    progress = _Progress(observed, reading, cluster, plugins, holds)
    try:
        outcome = progress.finish()
    except AutoscalerError as error:
        outcome = failed(progress.observed.request, error, observed.excluded)
    except (ArithmeticError, ValueError, TypeError, LookupError) as error:
        outcome = failed(progress.observed.request, _surprise(error), observed.excluded)
    return replace(
        outcome,
        sample=observed.sample,
        sample_count=len(observed.state.samples),
        is_window_full=observed.is_window_full,
        topology=observed.topology,
        restart_time=progress.restart_time,
        evaluation=outcome.evaluation or progress.evaluation,
        events=(*_plugin_events(request.context.options, progress.problems), *progress.events, *outcome.events),
    )


def _of_this_graph(observed: Observed, before: JobState) -> Observed:
    """Forget what policies remember when the job has other vertices than in the last sample."""
    if not before.samples or before.samples[-1].vertices.keys() == observed.topology.vertices.keys():
        return observed
    return _with_state(observed, replace(observed.state, policies={}))


def _with_state(observed: Observed, state: JobState) -> Observed:
    return replace(observed, request=replace(observed.request, state=state))


def _plugin_events(options: AutoscalerOptions, problems: tuple[Reason, ...]) -> tuple[Event, ...]:
    """Tell about plug-ins that cannot be used; the reference only logs that."""
    if not problems or not options.improves(options.problem_events):
        return ()
    interval = options.scaling_event_interval
    return tuple(
        Event(EventType.WARNING, "PluginProblem", problem.text, f"{problem.code}{problem.vertex_id or ''}", interval)
        for problem in problems
    )


def _surprise(error: Exception) -> AutoscalerError:
    """Wrap an error that arithmetic on foreign numbers may still raise."""
    return EvaluationError(f"evaluation failed: {type(error).__name__}: {error}")


class _Progress:
    """How far a pass came after its sample was added; what was found before an error stays visible.

    Attributes:
        observed: The job, with what has been learned about it so far.
    """

    def __init__(
        self,
        observed: Observed,
        reading: JobReading,
        cluster: ClusterReading,
        plugins: Plugins,
        holds: tuple[Reason, ...] = (),
    ) -> None:
        self.observed = observed
        self._reading = reading
        self._cluster = cluster
        self._plugins = plugins
        self._holds = holds
        self.restart_time: int | None = None
        self.evaluation: Evaluation | None = None
        self.problems: tuple[Reason, ...] = ()
        self.events: tuple[Event, ...] = ()

    def finish(self) -> PassOutcome:
        """Evaluate and decide, as far as the window allows."""
        observed = self.observed
        if len(observed.state.samples) < MIN_SAMPLES:
            hold = Hold.because("COLLECTING", "the first metric sample of this execution was taken")
            return _settled(observed, Phase.COLLECTING, hold)
        evaluation = self._evaluate()
        forecast = self._forecast(evaluation)
        if not observed.is_window_full:
            hold = Hold.because("WINDOW_FILLING", "the metric window is not full yet")
            return _settled(self.observed, Phase.WINDOW_FILLING, hold, evaluation)
        if self._holds:
            return _settled(self.observed, Phase.EXECUTED, Hold(self._holds), evaluation)
        return _with_forecast(self._decide(evaluation, forecast), forecast)

    def _evaluate(self) -> Evaluation:
        observed, options = self.observed, self.observed.request.context.options
        assumed = self.restart_time = restart_time(observed.state.tracking, options)
        samples = observed.state.samples
        custom = CustomEvaluation(observed.request.context, observed.topology, samples, assumed)
        settings = EvaluationSettings.of(options, assumed)
        try:
            metrics = evaluate(observed.topology, samples, settings, custom.hook(self._plugins))
        except EvaluationError as error:
            if settings.is_strict and not observed.is_window_full:
                raise NotReadyError(str(error)) from error
            raise
        self.problems = tuple(custom.problems)
        if observed.is_window_full:
            metrics = with_present_parallelism(metrics)
        self.evaluation = Evaluation(metrics, observed.topology, assumed, observed.is_window_full)
        return self.evaluation

    def _forecast(self, evaluation: Evaluation) -> PassForecast:
        """Forecast what will arrive; what was learned for that is kept, whatever becomes of the decision."""
        forecast = pass_forecast(self._input(evaluation), self.observed.request.profiles)
        if forecast.memory != self.observed.state.forecast:
            self.observed = _with_state(self.observed, replace(self.observed.state, forecast=forecast.memory))
        self.events = forecast.events
        return forecast

    def _decide(self, evaluation: Evaluation, forecast: PassForecast) -> PassOutcome:
        executed = execute(replace(self._input(evaluation), demand=forecast.demand))
        evaluation = replace(evaluation, metrics=executed.metrics)
        return _settled(self.observed, Phase.EXECUTED, executed.decision, evaluation, executed)

    def _input(self, evaluation: Evaluation) -> ExecutionInput:
        observed, request = self.observed, self.observed.request
        return ExecutionInput(
            context=request.context,
            topology=observed.topology,
            metrics=evaluation.metrics,
            state=observed.state,
            cluster=self._cluster,
            excluded=observed.excluded,
            restart_time=evaluation.restart_time,
            now_ms=request.now_ms,
            plugins=self._plugins,
            orders=request.orders,
            reading=self._reading,
        )


def _with_forecast(outcome: PassOutcome, forecast: PassForecast) -> PassOutcome:
    """Add what there is to say about forecasts."""
    decision = replace(outcome.decision, reasons=(*outcome.decision.reasons, *forecast.reasons))
    return replace(outcome, decision=decision)


def _settled(
    observed: Observed,
    phase: Phase,
    decision: Hold | Rescale,
    evaluation: Evaluation | None = None,
    executed: Executed | None = None,
) -> PassOutcome:
    request = observed.request
    state = executed.state if executed else observed.state
    outcome = PassOutcome(
        job_key=request.context.job_key,
        phase=phase,
        decision=decision,
        state=state,
        undecided=observed.state if isinstance(decision, Rescale) else None,
        memory=request.memory,
        evaluation=evaluation,
        events=executed.events if executed else (),
        report=executed.report if executed else None,
        excluded=observed.excluded,
    )
    return _with_wanted(outcome, request)
