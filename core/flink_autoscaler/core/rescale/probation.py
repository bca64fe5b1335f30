"""What becomes of a job after its rescale: signs that it does not survive, and the proof that it does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Origin, RescaleRecord, Stage, Supervision, SupervisionPhase
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.window import MetricWindow, window_of
from flink_autoscaler.core.ports.plugins import CheckInput
from flink_autoscaler.core.rescale.error_checkers import RESTARTS
from flink_autoscaler.core.rescale.pause import with_quarantine
from flink_autoscaler.core.rescale.rollback import RollbackCause, end_rollback, roll_back
from flink_autoscaler.core.rescale.timers import observation_ms
from flink_autoscaler.core.rescale.transition import (
    SupervisionInput,
    Transition,
    finalize,
    transition_event,
    with_supervision,
)

_LONGEST_PROBATION_MS: Final = 86_400_000
_LAG: Final = "lag"
_STRAY: Final = 1.05
"""What a vertex can do has to be so many times what it could do before: measurements stray by some percent."""


def check_probation(state: JobState, given: SupervisionInput) -> Transition:
    """Look for signs that the job does not survive its rescale; end the probation when there are none."""
    supervision, current = state.supervision, state.supervision.current
    if supervision.phase is not SupervisionPhase.PROBATION or current is None:
        return Transition(state)
    if given.requirements_unknown(supervision):
        return Transition(state)  # what the job dies of may be what somebody else asked for meanwhile
    restarts = given.facts.restarts
    if restarts is not None and RESTARTS not in supervision.baseline:
        # The number as it was when it could first be read: the cluster was not asked before the rescale.
        supervision = replace(supervision, baseline={**supervision.baseline, RESTARTS: float(restarts)})
    examined, cause = _run_checkers(replace(state, supervision=supervision), given, current)
    if cause is not None:
        return examined.then(trigger_rollback(examined.state, given, cause))
    return examined.then(_end_probation(examined.state, given, current))


def _end_probation(state: JobState, given: SupervisionInput, current: RescaleRecord) -> Transition:
    """End the probation of a job that is well, or that was not for so long that it cannot be the rescale."""
    stable = state.supervision.with_phase(SupervisionPhase.STABLE, given.now_ms)
    if current.stage.is_final and _has_proved(given, current):
        stable = replace(stable, last_stable=dict(given.facts.running or current.reached))
        # That it survives is all that a rollback goes by; whether it is well is another matter.
        return with_supervision(state, stable, _outcome_event(state, given, current))
    if given.since(state.supervision.since_ms) > _LONGEST_PROBATION_MS:
        text = "The job was not well for a day after its rescale, for other reasons"
        return with_supervision(state, stable, transition_event("ProbationAbandoned", text, warns=True))
    return Transition(state)


def before_rescale(samples: Sequence[MetricSample], raised: Iterable[VertexId]) -> dict[str, float]:
    """Return what a rescale may be meant to better, as far as it is known.

    Args:
        samples: Before it, oldest first.
        raised: Vertices that it scales up.

    Returns:
        ``lag``: records that wait at the sources; by vertex id what it can do, records/s.
    """
    window = window_of(samples)
    lags = _lags(window)
    known = {v: _capacity(window, v) for v in raised} | {_LAG: lags[-1] if lags else NAN}
    return {name: value for name, value in known.items() if math.isfinite(value)}


def _capacity(window: MetricWindow, vertex_id: VertexId) -> float:
    """Return the records/s that a vertex would read if its busiest subtask were always busy; NaN where not known."""
    load = window.average(ScalingMetric.LOAD, vertex_id)
    return _rate(window, vertex_id) / load if load > 0 else NAN


def _rate(window: MetricWindow, vertex_id: VertexId) -> float:
    rate = window.rate(ScalingMetric.NUM_RECORDS_IN, vertex_id)
    return rate if rate >= 0 else NAN  # of a counter that went back nothing is known


def _lags(window: MetricWindow) -> list[float]:
    """Return the records that wait at all sources, by sample; without those in which not all of them tell."""
    newest = window.samples[-1].vertices if window.samples else {}
    columns = [window.values(ScalingMetric.LAG, v) for v, metrics in newest.items() if ScalingMetric.LAG in metrics]
    sums = map(sum, zip(*columns, strict=True)) if columns else [0.0] * len(window.samples)
    return [lag for lag in sums if math.isfinite(lag)]


def _outcome_event(state: JobState, given: SupervisionInput, current: RescaleRecord) -> Event:
    """Say whether a job that survives its rescale is better off than before; of what is not known, nothing."""
    change = given.describe_change(current.before, current.reached)
    window, baseline, options = window_of(state.samples), state.supervision.baseline, given.options
    well = transition_event("RescaleConfirmed", f"The job is healthy with {change}")
    if current.origin is not Origin.AUTOSCALER or not state.samples:
        return well
    try:
        limit, target = options.slo_lag.exact_seconds, options.utilization_target
    except ConfigError:
        return well  # a limit that nobody can read must not keep the job on probation
    sources = [v for v, metrics in state.samples[-1].vertices.items() if ScalingMetric.LAG in metrics]
    allowed = limit * sum(_rate(window, v) for v in sources)
    before, lags = baseline.get(_LAG, NAN), _lags(window)
    if lags and lags[-1] > allowed and before <= lags[-1]:
        if lags[-1] < lags[0]:
            return well  # what has piled up meanwhile is being worked off
        lag = f"{lags[-1]:.0f} records of lag do not decrease; before the rescale there were {before:.0f}"
        if _does_more(window, baseline, current.raised):
            return transition_event(
                "RescaleConfirmed", f"The job processes more with {change}, and still too little: {lag}"
            )
        return _ineffective(change, lag)
    if before > allowed:
        return well
    for vertex_id in sorted(current.raised):
        busy, now = window.average(ScalingMetric.LOAD, vertex_id), _capacity(window, vertex_id)
        if busy > target and now < _STRAY * baseline.get(vertex_id, NAN):
            could = f"processes up to {now:.0f} records/s, {baseline[vertex_id]:.0f} before the rescale"
            return _ineffective(change, f"{given.name(vertex_id)} is {busy:.0%} busy and {could}")
    return well


def _ineffective(change: str, problem: str) -> Event:
    text = f"The job is healthy with {change} and has no gain from it: {problem}"
    return transition_event("RescaleIneffective", text, warns=True)


def _does_more(window: MetricWindow, baseline: Mapping[str, float], raised: Iterable[VertexId]) -> bool:
    """Tell whether every vertex that was scaled up can do more than before; not where that is unknown of all."""
    gains = []
    for vertex_id in raised:
        # Busy time is told late after a restart; a vertex can do at least what it reads.
        now, read = _capacity(window, vertex_id), _rate(window, vertex_id)
        gains.append((now if math.isfinite(now) else read) - _STRAY * baseline.get(vertex_id, NAN))
    known = [gain for gain in gains if math.isfinite(gain)]
    return bool(known) and min(known) > 0


def _has_proved(given: SupervisionInput, current: RescaleRecord) -> bool:
    """Tell whether the job ran for long enough, and made a checkpoint where it makes any."""
    if not given.facts.all_running or current.settled_ms is None:
        return False
    # A job that cannot make a checkpoint with its new parallelism would lose everything at its next failure.
    checkpoints = given.facts.checkpoints
    if checkpoints is not None and checkpoints.is_enabled and (checkpoints.completed_ms or 0) <= current.since_ms:
        return False
    return given.now_ms - current.settled_ms >= observation_ms(given.context, given.facts)


def _run_checkers(
    state: JobState, given: SupervisionInput, current: RescaleRecord
) -> tuple[Transition, RollbackCause | None]:
    """Ask all checkers; return what to remember and tell of their answers, and the first that has found enough."""
    answers = {name: _ask_checker(name, state.supervision, given, current) for name in given.options.chosen_checkers}
    before = state.supervision.hits
    hits = {**before, **{name: before.get(name, 0) + 1 if text else 0 for name, (text, _, _) in answers.items()}}
    enough = (RollbackCause(name, text) for name, (text, wanted, _) in answers.items() if text and hits[name] >= wanted)
    supervision = replace(state.supervision, hits={name: count for name, count in hits.items() if count})
    problems = [problem for *_, problem in answers.values() if problem is not None]
    return with_supervision(state, supervision, *problems), next(enough, None)


def _ask_checker(
    name: str, supervision: Supervision, given: SupervisionInput, current: RescaleRecord
) -> tuple[str | None, int, Event | None]:
    """Return the evidence of a checker, in how many passes in a row it has to have some, and what is wrong with it."""
    if name not in given.checkers:
        known = ", ".join(sorted(given.checkers))
        return None, 1, _problem(name, f"is ignored: there is no such plug-in; known: {known}", given)
    look = CheckInput(given.context, current, given.facts, given.now_ms, given.pressure, supervision.baseline)
    with ErrorBoundary() as boundary:
        text = given.checkers[name].check(look)
        is_gradual = bool(text) and given.checkers[name].is_gradual
        return text, given.options.rollback_consecutive_hits if is_gradual else 1, None
    return None, 1, _problem(name, f"failed: {boundary.error}", given)


def _problem(name: str, text: str, given: SupervisionInput) -> Event:
    interval, key = given.options.scaling_event_interval, f"ERROR_CHECKER:{name}"
    return Event(EventType.WARNING, "PluginProblem", f"error checker {name!r} {text}", key, interval)


def trigger_rollback(state: JobState, given: SupervisionInput, cause: RollbackCause) -> Transition:
    """Undo the rescale; where that is not wanted, advise it once."""
    is_dry = given.options.dry_run or given.request.orders.dry_run is not None
    if given.options.rollback_enabled and not is_dry:
        return roll_back(state, given, cause)
    if state.supervision.hits.get(cause.name) != 1:
        return Transition(state)
    why = "this is a dry run" if is_dry else "rollback is off"
    text = f"Rollback recommended ({cause}); not started: {why}"
    return with_supervision(state, state.supervision, transition_event("RollbackAdvised", text, warns=True))


def record_terminal_failure(state: JobState, given: SupervisionInput) -> Transition:
    """Say what a job that has ended died of, and remember not to try that again: it cannot be repaired."""
    supervision, current = state.supervision, state.supervision.current
    is_failed = given.context.status is JobStatus.FAILED
    if current is None or not given.context.status.is_terminal or supervision.phase is SupervisionPhase.PAUSED:
        return Transition(state)
    if supervision.phase is SupervisionPhase.ROLLING_BACK:
        return _end_rollback(state, given)
    if supervision.phase is SupervisionPhase.STABLE and current.stage.is_final:
        return Transition(state)
    done = _detect_death(state, given, current) if is_failed else Transition(state)
    return done.then(with_supervision(done.state, done.state.supervision.without_probation(given.now_ms)))


def _end_rollback(state: JobState, given: SupervisionInput) -> Transition:
    """Stop rolling back a job that is not there any more."""
    supervision, under_way, status = state.supervision, state.supervision.under_way, given.context.status
    if under_way is not None:
        # Nothing was refused where somebody ended the job on purpose.
        stage = Stage.REFUSED if status is JobStatus.FAILED else Stage.SUPERSEDED
        supervision = replace(supervision, current=finalize(under_way, given, stage, f"the job is {status.value}"))
    supervision = end_rollback(supervision, given, "the job has ended")
    if status is not JobStatus.FAILED:
        return with_supervision(state, supervision)
    text = "The job has failed for good before it was rolled back"
    return with_supervision(state, supervision, transition_event("RollbackImpossible", text, warns=True))


def _detect_death(state: JobState, given: SupervisionInput, current: RescaleRecord) -> Transition:
    """Find out whether a job has failed for good because of its rescale."""
    examined, cause = _run_checkers(state, given, current)
    if cause is None:
        return examined
    supervision = with_quarantine(examined.state.supervision, given, current, cause.name)
    text = f"The job is FAILED after its rescale ({cause}); start it again with a lower parallelism"
    event = transition_event("RollbackImpossible", text, warns=True)
    return examined.then(with_supervision(examined.state, supervision, event, overrides=current.before))
