"""One pass over one job as a pure function: from what the cluster answered to a decision and the next state.

It runs unchanged in a Spark task, in the daemon and in a replay.
"""

from __future__ import annotations

from dataclasses import replace

from flink_autoscaler.core.cycle.unevaluated import failed, invalid, not_running
from flink_autoscaler.core.cycle.wanted import with_wanted
from flink_autoscaler.core.decide.decision_run import Executed, ExecutionInput
from flink_autoscaler.core.decide.execution import execute
from flink_autoscaler.core.decide.realizable import realizable
from flink_autoscaler.core.errors import AutoscalerError, EvaluationError, NotReadyError
from flink_autoscaler.core.evaluate.evaluation import (
    CustomEvaluation,
    EvaluationSettings,
    evaluate,
    with_present_parallelism,
)
from flink_autoscaler.core.forecast.pass_forecast import PassForecast, pass_forecast
from flink_autoscaler.core.model.decision import Evaluation, Hold, PassOutcome, PassPhase, PassRequest, Rescale
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.observe.history import restart_time
from flink_autoscaler.core.observe.observation import Observed, finished_vertices, memory_after_failure, observe
from flink_autoscaler.core.options.checks import validate_policies
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.plugins import NO_PLUGINS, Plugins
from flink_autoscaler.core.supervise.supervised import followed, with_rescale

MIN_SAMPLES = 2
"""Fewer samples have no rate."""


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
        outcome = not_running(request)
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
        return invalid(request, problem)
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
            return _settled(observed, PassPhase.COLLECTING, hold)
        evaluation = self._evaluate()
        forecast = self._forecast(evaluation)
        if not observed.is_window_full:
            hold = Hold.because("WINDOW_FILLING", "the metric window is not full yet")
            return _settled(self.observed, PassPhase.WINDOW_FILLING, hold, evaluation)
        if self._holds:
            return _settled(self.observed, PassPhase.EXECUTED, Hold(self._holds), evaluation)
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
        return _settled(self.observed, PassPhase.EXECUTED, executed.decision, evaluation, executed)

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
    if not forecast.reasons:
        return outcome
    decision = replace(outcome.decision, reasons=(*outcome.decision.reasons, *forecast.reasons))
    return replace(outcome, decision=decision)


def _settled(
    observed: Observed,
    phase: PassPhase,
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
    return with_wanted(outcome, request)
