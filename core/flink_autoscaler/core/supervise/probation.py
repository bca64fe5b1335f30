"""What becomes of a job after its rescale: signs that it does not survive, and the proof that it does."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, SupervisionPhase
from flink_autoscaler.core.ports.plugins import CheckInput, UnrecoverableErrorChecker
from flink_autoscaler.core.supervise.error_checkers import RESTARTS
from flink_autoscaler.core.supervise.follow_run import FollowRun
from flink_autoscaler.core.supervise.rollback import abandon_rollback, quarantine, start_rollback
from flink_autoscaler.core.supervise.timers import observation_ms

_LONGEST_PROBATION_MS: Final = 86_400_000


def judge(run: FollowRun) -> None:
    """Look for signs that the job does not survive its rescale; end the probation when there are none."""
    current = run.supervision.current
    if run.supervision.phase is not SupervisionPhase.PROBATION or current is None:
        return
    if run.is_blind:
        return  # what the job dies of may be what somebody else asked for meanwhile
    _complete_baseline(run)
    found = _evidence(run, current)
    if found is not None:
        _condemn(run, *found)
    elif current.stage.is_final and _has_proved(run, current):
        run.change(last_stable=dict(run.facts.running or current.reached))
        run.to_phase(SupervisionPhase.STABLE)
        run.tell("RescaleConfirmed", f"The job is well with {run.described(current.before, current.reached)}")
    elif run.now_ms - (run.supervision.since_ms or run.now_ms) > _LONGEST_PROBATION_MS:
        run.to_phase(SupervisionPhase.STABLE)
        run.tell(
            "ProbationAbandoned", "The job was not well for a day after its rescale, for other reasons", warns=True
        )


def _complete_baseline(run: FollowRun) -> None:
    """Remember the number of restarts as it was when it could first be read."""
    if run.facts.restarts is not None and RESTARTS not in run.supervision.baseline:
        run.change(baseline={**run.supervision.baseline, RESTARTS: float(run.facts.restarts)})


def _evidence(run: FollowRun, current: RescaleRecord) -> tuple[str, str] | None:
    """Return the first checker that has found enough, and what it found."""
    hits = dict(run.supervision.hits)
    given = CheckInput(
        context=run.context,
        rescale=current,
        facts=run.facts,
        now_ms=run.now_ms,
        pressure=run.given.pressure,
        baseline=run.supervision.baseline,
    )
    found = None
    for name in run.options.rollback_checkers:
        checker = run.given.checkers.get(name)
        text = _checked(run, name, checker, given)
        hits[name] = hits.get(name, 0) + 1 if text else 0
        enough = run.options.rollback_consecutive_hits if checker is not None and checker.is_gradual else 1
        if text and hits[name] >= enough and found is None:
            found = (name, text)
    run.change(hits={name: count for name, count in hits.items() if count})
    return found


def _checked(run: FollowRun, name: str, checker: UnrecoverableErrorChecker | None, given: CheckInput) -> str | None:
    if checker is None:
        known = ", ".join(sorted(run.given.checkers))
        _tell_problem(run, name, f"error checker {name!r} is ignored: there is no such plug-in; known: {known}")
        return None
    try:
        return checker.check(given)
    except Exception as error:  # foreign code may raise anything
        _tell_problem(run, name, f"error checker {name!r} failed: {type(error).__name__}: {error}")
        return None


def _tell_problem(run: FollowRun, name: str, text: str) -> None:
    interval = run.options.scaling_event_interval
    run.events.append(Event(EventType.WARNING, "PluginProblem", text, f"ERROR_CHECKER:{name}", interval))


def _condemn(run: FollowRun, cause: str, evidence: str) -> None:
    is_dry = run.options.dry_run or run.given.request.orders.dry_run is not None
    if run.options.rollback_enabled and not is_dry:
        start_rollback(run, cause, evidence)
    elif run.supervision.hits.get(cause) == 1:
        why = "this is a dry run" if is_dry else "rollback is off"
        run.tell("RollbackAdvised", f"The rescale should be undone ({cause}: {evidence}), but {why}", warns=True)


def _has_proved(run: FollowRun, current: RescaleRecord) -> bool:
    """Tell whether the job ran for long enough, and made a checkpoint where it makes any."""
    if not run.facts.all_running or current.settled_ms is None:
        return False
    checkpoints = run.facts.checkpoints
    if checkpoints is not None and checkpoints.is_enabled and (checkpoints.completed_ms or 0) <= current.since_ms:
        return False
    return run.now_ms - current.settled_ms >= observation_ms(run.context, run.facts)


def mourn(run: FollowRun) -> None:
    """Say what a job that has ended died of, and remember not to try that again: it cannot be repaired."""
    current, phase = run.supervision.current, run.supervision.phase
    if current is None or not run.context.status.is_terminal or phase is SupervisionPhase.PAUSED:
        return
    is_open = phase is SupervisionPhase.PROBATION or not current.stage.is_final
    if phase is SupervisionPhase.ROLLING_BACK:
        if run.context.status is JobStatus.FAILED:
            run.tell("RollbackImpossible", "The job has failed for good before it was rolled back", warns=True)
        if not current.stage.is_final:
            run.settle(Stage.REFUSED, f"the job is {run.context.status.value}")
        abandon_rollback(run, "the job has ended")
    elif is_open:
        found = _evidence(run, current) if run.context.status is JobStatus.FAILED else None
        if found is not None:
            _condemn_dead(run, current, *found)
        if phase is SupervisionPhase.PROBATION:
            run.to_phase(SupervisionPhase.STABLE)


def _condemn_dead(run: FollowRun, current: RescaleRecord, cause: str, evidence: str) -> None:
    quarantine(run, current, cause)
    run.overrides = dict(current.before)
    text = f"The job has failed for good after its rescale ({cause}: {evidence}); start it again with less parallelism"
    run.tell("RollbackImpossible", text, warns=True)
