"""A rescale that is under way: whether the cluster has accepted it, and what it came to."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.decide.resources import too_small
from flink_autoscaler.core.evaluate.downtime import possible_state
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision, SupervisionPhase, Vector
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.ports.task_managers import slots_came
from flink_autoscaler.core.rescale.timers import accept_ms, allowed_ms, expected_downtime
from flink_autoscaler.core.rescale.transition import (
    SupervisionInput,
    Transition,
    finalize,
    superseded_event,
    transition_event,
    with_supervision,
)

_STUCK_FACTOR: Final = 3

_CLOCKS_APART_MS: Final = 60_000
"""By how much the clocks of daemon and JobManager may drift apart while a rescale is under way."""

_INEXACT_MS: Final = 1_000
"""By how much instants of a cluster may contradict each other, and that of the request, which is from before it was
sent, by the JobManager's clock or, where nothing tells that, by the daemon's."""


def track_request(state: JobState, given: SupervisionInput) -> Transition:
    """Find out whether the cluster has taken a request over: ``REQUESTED`` becomes ``PENDING``, or ends."""
    current = state.supervision.current
    if current is None or current.stage is not Stage.REQUESTED:
        return Transition(state)
    waited_ms = given.since(state.supervision.since_ms)
    see = _check_taskmanagers if given.is_reactive else _check_requirements
    return see(state, given, current, waited_ms)


def _check_requirements(state: JobState, given: SupervisionInput, current: RescaleRecord, waited_ms: int) -> Transition:
    """Find out whether the cluster has the requirements."""
    facts, refusal = given.facts, given.request.refusal
    # Either is proof: requirements may be unreadable while the job runs with them, and it may not run with them yet.
    if _is_asked_for(facts, current) or _runs_with(facts, current.target):
        requirements = dict(facts.requirements or {})
        seen = replace(state.supervision, seen=requirements, seen_start_ms=facts.initialized_ms)
        return with_supervision(state, _accept(seen, given, current))
    if given.context.status.is_terminal:
        return _end_with_job(state, given, current)
    # While the requirements cannot be read, they may have arrived: only the word of the cluster counts then.
    is_known = facts.requirements is not None or refusal is not None
    if is_known and waited_ms > accept_ms(given.context):
        return _withdraw(state, given, current, refusal or "the cluster did not take the new requirements over")
    return Transition(state)


def _check_taskmanagers(state: JobState, given: SupervisionInput, current: RescaleRecord, waited_ms: int) -> Transition:
    """Find out whether the TaskManagers have come, or gone, that a job in reactive mode follows."""
    facts, is_late = given.facts, waited_ms > given.options.taskmanagers_timeout.ms
    # After the timeout what came is made the best of: the job follows the slots, whether they are enough or not.
    has_moved = _runs(facts) and not _runs_with(facts, current.before)
    have_come = slots_came(facts, current.before, current.target) or (is_late and has_moved)
    if have_come or _runs_with(facts, current.target):
        return with_supervision(state, _accept(state.supervision, given, current))
    if given.context.status.is_terminal:
        return _end_with_job(state, given, current)
    if not is_late:
        return Transition(state)
    why = given.request.refusal or f"the TaskManagers have not changed within {waited_ms // 1000} s"
    return _withdraw(state, given, current, why)


def _accept(supervision: Supervision, given: SupervisionInput, current: RescaleRecord) -> Supervision:
    """Wait for the job from now on, which is on probation; a rollback has no probation of its own."""
    pending = replace(supervision, current=replace(current, stage=Stage.PENDING, accepted_ms=given.now_ms))
    is_stable = supervision.phase is SupervisionPhase.STABLE
    return pending.with_phase(SupervisionPhase.PROBATION, given.now_ms) if is_stable else pending


def _is_asked_for(facts: RescaleFacts, current: RescaleRecord) -> bool:
    found = facts.requirements or {}
    return bool(found) and all(found[v][1] == parallelism for v, parallelism in current.target.items() if v in found)


def _runs(facts: RescaleFacts) -> bool:
    return facts.all_running and facts.running is not None


def _runs_with(facts: RescaleFacts, vector: Vector) -> bool:
    return _runs(facts) and dict(facts.running or {}) == dict(vector)


def track_progress(state: JobState, given: SupervisionInput) -> Transition:
    """Find out whether the job runs as it was asked to, or should by now: ``PENDING`` becomes final."""
    current, facts = state.supervision.current, given.facts
    # The step before may have accepted the request in this very pass: it can be complete at once.
    if current is None or current.stage is not Stage.PENDING:
        return Transition(state)
    if _runs_with(facts, current.target):
        return _complete(state, given, current)
    if given.context.status.is_terminal:
        return _end_with_job(state, given, current)
    # Unknown is neither late nor reached; the timers go on, so that the next answer decides.
    if facts.running is None:
        return Transition(state)
    estimate = expected_downtime(state.supervision, current, facts)
    limit_ms, late_ms = allowed_ms(given.context, facts, estimate), given.since(current.accepted_ms)
    if late_ms > limit_ms and facts.all_running:
        return _accept_late_result(state, given, current, limit_ms)
    # A job that restarts may still come up with what was asked for; at some time nobody waits for that any more.
    if late_ms > _STUCK_FACTOR * limit_ms and not facts.all_running:
        return _detect_stuck(state, given, current, late_ms)
    return Transition(state)


def _complete(state: JobState, given: SupervisionInput, current: RescaleRecord) -> Transition:
    checkpoints, taskmanagers = given.facts.checkpoints, given.facts.taskmanagers
    unknown = unmeasured_reason(given.facts, current, most_ms=given.since(current.decided_ms) + _CLOCKS_APART_MS)
    # A downtime that is wrong is worse than none: it would be what the next rescales are expected to cost.
    outage_ms = None if unknown else measured_outage(given.facts)
    reached = replace(
        finalize(current, given, Stage.REACHED, current.reason),
        outage_ms=outage_ms,
        state_bytes=possible_state(checkpoints),
        taskmanagers=len(taskmanagers) if taskmanagers is not None else None,
    )
    supervision = replace(state.supervision, current=reached)
    if supervision.phase is SupervisionPhase.ROLLING_BACK:
        return with_supervision(state, supervision)  # the rollback tells itself how it ended
    took = (given.now_ms - current.decided_ms) / 1000
    not_known = f"; its downtime is unknown: {unknown}"
    outage = not_known if outage_ms is None else f", downtime {outage_ms / 1000:.1f} s"
    text = f"The job runs with {given.describe_change(current.before, current.target)} after {took:.0f} s{outage}"
    return with_supervision(state, supervision, transition_event("RescaleReached", text))


def unmeasured_reason(facts: RescaleFacts, current: RescaleRecord, *, most_ms: int) -> str:
    """Return why it is not known how long not all tasks ran; empty where it is, milliseconds below ``most_ms``."""
    if any(exception.at_ms > current.since_ms for exception in facts.exceptions or ()):
        return "tasks failed meanwhile"
    if (facts.initialized_ms or 0) > current.since_ms:
        return "the JobManager was away, too"
    stopped_ms, running_ms = facts.stopped_ms, facts.running_since_ms
    if stopped_ms is None or running_ms is None:
        is_unread = not facts.missing.keys().isdisjoint(("running_since", "stopped"))
        return "an answer of the cluster could not be read" if is_unread else "the cluster does not tell"
    is_after = stopped_ms >= current.since_ms - _INEXACT_MS
    if not (is_after and -_INEXACT_MS <= running_ms - stopped_ms <= most_ms):
        stopped, running = ((each - current.since_ms) / 1000 for each in (stopped_ms, running_ms))
        return f"by the cluster the job stopped {stopped:g} s and ran {running:g} s after the request"
    return ""


def measured_outage(facts: RescaleFacts) -> int | None:
    """Return how long not all tasks ran, milliseconds; None where the cluster does not tell."""
    stopped_ms, running_ms = facts.stopped_ms, facts.running_since_ms
    return None if stopped_ms is None or running_ms is None else max(0, running_ms - stopped_ms)


def _accept_late_result(state: JobState, given: SupervisionInput, current: RescaleRecord, limit_ms: int) -> Transition:
    """Take what the job runs with as the result. Nothing of the request stays that could come true by surprise."""
    running = dict(given.facts.running or {})
    free = sum(each.free_slots for each in given.facts.taskmanagers or ())
    # The request may still be with the cluster: unless it is withdrawn, it comes true when slots appear.
    if running == dict(current.before):
        why = f"nothing has changed within {limit_ms // 1000} s; {free} slots are free"
        if threshold := too_small(given.context, current.before, current.target):
            why = f"nothing has changed within {limit_ms // 1000} s: {threshold}"
        return _withdraw(state, given, current, why)
    why = f"not all of it within {limit_ms // 1000} s; {free} slots are free"
    supervision = replace(state.supervision, current=finalize(current, given, Stage.PARTIALLY_REACHED, why))
    reached, wanted = (
        given.describe_change(current.before, running),
        given.describe_change(current.before, current.target),
    )
    text = f"The job runs with {reached} instead of {wanted}: it needs more slots, {free} are free"
    event = transition_event("RescalePartiallyReached", text, warns=True)
    return with_supervision(state, supervision, event, overrides=_unless_rolling_back(state, running))


def _detect_stuck(state: JobState, given: SupervisionInput, current: RescaleRecord, late_ms: int) -> Transition:
    record = finalize(current, given, Stage.PARTIALLY_REACHED, "the job has not come back since")
    text = f"The job is not running {late_ms // 1000} s after its rescale"
    return with_supervision(
        state, replace(state.supervision, current=record), transition_event("RescaleStuck", text, warns=True)
    )


def _end_with_job(state: JobState, given: SupervisionInput, current: RescaleRecord) -> Transition:
    """Stop following a rescale that the end of the job came before: it failed, or somebody ended it on purpose."""
    why = f"the job is {given.context.status.value}"
    if given.context.status is JobStatus.FAILED:
        return _withdraw(state, given, current, why)
    supervision = replace(state.supervision, current=finalize(current, given, Stage.SUPERSEDED, why))
    return with_supervision(state, supervision.without_probation(given.now_ms), superseded_event(given, current, why))


def _withdraw(state: JobState, given: SupervisionInput, current: RescaleRecord, why: str) -> Transition:
    """Withdraw a rescale that did not happen."""
    supervision = replace(state.supervision, current=finalize(current, given, Stage.REFUSED, why))
    text = f"The rescale {given.describe_change(current.before, current.target)} failed: {why}"
    event = transition_event("RescaleRefused", text, warns=True)
    overrides = _unless_rolling_back(state, current.before)
    return with_supervision(state, supervision.without_probation(given.now_ms), event, overrides=overrides)


def _unless_rolling_back(state: JobState, overrides: Vector) -> Vector:
    """Return what is wanted from now on; a rollback goes on wanting what the job survives."""
    return state.overrides if state.supervision.phase is SupervisionPhase.ROLLING_BACK else overrides
