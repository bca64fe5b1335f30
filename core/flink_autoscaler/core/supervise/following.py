"""Following rescales: from the request to what became of it, and a probation after that.

requested ─▶ pending ─▶ reached | partially reached | refused | superseded

STABLE ─▶ PROBATION ─▶ STABLE, or ROLLING_BACK ─▶ PAUSED ─▶ STABLE

Level-triggered: each pass compares what was asked for with what the cluster says now, so that answers that are lost,
late, repeated or out of order do no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from flink_autoscaler.core.model.events import Event
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.state import JobState, ScalingRecord
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision, SupervisionPhase
from flink_autoscaler.core.ports.task_managers import slots_came
from flink_autoscaler.core.supervise.edits import has_strayed, notice_edit, respect_edit
from flink_autoscaler.core.supervise.follow_run import FollowRun, Situation
from flink_autoscaler.core.supervise.probation import judge, mourn
from flink_autoscaler.core.supervise.rollback import (
    abandon_rollback,
    carry_out_rollback,
    expire_quarantine,
    resume,
    watch_pause,
    watch_rollback,
)
from flink_autoscaler.core.supervise.timers import accept_ms, allowed_ms, expected_downtime

_STUCK_FACTOR: Final = 3
_OUT_OF_ORDER_MS: Final = 120_000
"""An answer that is older than the one before by more than this tells of a clock that was set back."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What following came to.

    Attributes:
        state: To go on with.
        holds: Why nothing may be decided in this pass; empty when it may.
        is_repair: Whether what is wanted undoes a failed rescale, so that it is realized although the job fails.
        is_blind: Whether the requirements, known before, could not be seen now: what somebody else may have changed
            is not overwritten.
    """

    state: JobState
    holds: tuple[Reason, ...] = ()
    events: tuple[Event, ...] = ()
    is_repair: bool = False
    is_blind: bool = False


def follow(given: Situation) -> Followed:
    """Take the rescales of one job one pass further."""
    run = FollowRun.of(given)
    _listen(run)
    _meet_job(run)
    _obey(run)
    notice_edit(run)
    mourn(run)
    _follow_current(run)
    judge(run)
    watch_rollback(run)
    watch_pause(run)
    respect_edit(run)
    expire_quarantine(run)
    _hold_while_open(run)
    is_blind = _hold_while_blind(run)
    state = _tracked(run.finish(), run.supervision)
    is_repair = is_repairing(run.supervision) or has_strayed(run)
    is_urgent = run.supervision.phase is SupervisionPhase.ROLLING_BACK
    return Followed(state, tuple(run.holds), tuple(run.events), is_repair, is_blind and not is_urgent)


def is_repairing(supervision: Supervision) -> bool:
    """Tell whether a job has to get back what it survives, whether it runs or not."""
    return supervision.phase is SupervisionPhase.ROLLING_BACK or (
        supervision.phase is SupervisionPhase.PAUSED and supervision.edit is None
    )


def _listen(run: FollowRun) -> None:
    """Ignore an answer that is not newer than the one before; go along with a clock that was set back."""
    now_ms, heard_ms = run.facts.now_ms, run.supervision.heard_ms
    if now_ms is None:
        return
    if heard_ms is not None and 0 <= heard_ms - now_ms <= _OUT_OF_ORDER_MS:
        run.given = replace(run.given, facts=RescaleFacts())
        return
    current = run.supervision.current
    if heard_ms is not None and heard_ms > now_ms and current is not None:
        run.update(since_ms=current.since_ms - (heard_ms - now_ms))
    run.change(heard_ms=now_ms)


def _meet_job(run: FollowRun) -> None:
    """Notice that the job is another one than in the pass before, or has another graph."""
    state, running = run.given.request.state, run.facts.running
    if state.job_id is not None and state.job_id != run.context.job_id:
        run.is_other_job = True
        _end_with_job(run, "the job was submitted again")
    if running is None or not run.facts.all_running:
        return
    run.overrides = {vertex_id: parallelism for vertex_id, parallelism in run.overrides.items() if vertex_id in running}
    if set(running) == set(run.supervision.initial):
        return
    if run.supervision.initial:
        _end_with_job(run, "the job graph has changed")
        run.change(quarantine=())
    run.change(initial=dict(running), last_stable=dict(running))


def _end_with_job(run: FollowRun, why: str) -> None:
    """Stop following what belongs to an execution that is gone; a pause that only a person ends stays."""
    current = run.supervision.current
    if current is not None and not current.stage.is_final:
        run.settle(Stage.SUPERSEDED, why)
        run.tell("RescaleSuperseded", f"The rescale {run.described(current.before, current.target)} is void: {why}")
    run.retire()
    run.change(asked={})
    if run.is_other_job or set(run.supervision.seen) != set(run.facts.running or {}):
        run.change(seen={}, seen_start_ms=None, edit=None)  # else they are of the new graph, seen before it ran
    if run.supervision.phase is SupervisionPhase.PAUSED and run.supervision.pause is not None:
        if not run.supervision.pause.for_good:
            resume(run, why)
    elif run.supervision.phase is SupervisionPhase.ROLLING_BACK:
        abandon_rollback(run, why)
    elif run.supervision.phase is not SupervisionPhase.STABLE:
        run.to_phase(SupervisionPhase.STABLE)


def _obey(run: FollowRun) -> None:
    """Carry out what people ordered once and for all."""
    orders, pause, edit = run.given.request.orders, run.supervision.pause, run.supervision.edit
    if orders.resumed_ms is not None:
        if pause is not None and pause.since_ms <= orders.resumed_ms:
            resume(run, "somebody ordered it")
        if edit is not None and edit.at_ms <= orders.resumed_ms:
            run.change(edit=None)
    if orders.reset is not None and orders.reset.at_ms > run.supervision.obeyed_ms:
        run.supervision = Supervision(obeyed_ms=orders.reset.at_ms, heard_ms=run.supervision.heard_ms)
        run.overrides, run.is_reset = {}, True
        run.tell("StateReset", f"{orders.reset.who} had everything forgotten about the job: {orders.reset.reason}")
    if orders.rollback is not None and orders.rollback.at_ms > run.supervision.obeyed_ms:
        run.change(obeyed_ms=orders.rollback.at_ms)
        carry_out_rollback(run, orders.rollback.who)


def _follow_current(run: FollowRun) -> None:
    current = run.supervision.current
    if current is not None and current.stage is Stage.REQUESTED:
        _see_request(run, current)
    current = run.supervision.current
    if current is not None and current.stage is Stage.PENDING:
        _see_progress(run, current)


def _see_request(run: FollowRun, current: RescaleRecord) -> None:
    """Find out whether the cluster has the requirements."""
    if run.is_reactive:
        _see_taskmanagers(run, current)
        return
    if _is_asked_for(run.facts, current) or _is_reached(run.facts, current):
        run.update(stage=Stage.PENDING, accepted_ms=run.now_ms)
        run.change(seen=dict(run.facts.requirements or {}), seen_start_ms=run.facts.initialized_ms)
        if run.supervision.phase is SupervisionPhase.STABLE:
            run.to_phase(SupervisionPhase.PROBATION)
        return
    if run.context.status.is_terminal:
        _ended(run, current)
        return
    refusal = run.given.request.refusal
    is_known = run.facts.requirements is not None or refusal is not None
    if is_known and run.now_ms - (run.supervision.since_ms or run.now_ms) > accept_ms(run.context):
        _refused(run, current, refusal or "the cluster did not take the new requirements over")


def _see_taskmanagers(run: FollowRun, current: RescaleRecord) -> None:
    """Find out whether the TaskManagers have come, or gone, that a job in reactive mode follows."""
    waited_ms = run.now_ms - (run.supervision.since_ms or run.now_ms)
    is_late = waited_ms > run.options.taskmanagers_timeout.ms
    have_come = slots_came(run.facts, current.before, current.target) or (is_late and _has_moved(run, current))
    if have_come or _is_reached(run.facts, current):
        run.update(stage=Stage.PENDING, accepted_ms=run.now_ms)
        if run.supervision.phase is SupervisionPhase.STABLE:
            run.to_phase(SupervisionPhase.PROBATION)
    elif run.context.status.is_terminal:
        _refused(run, current, f"the job is {run.context.status.value}")
    elif is_late:
        why = run.given.request.refusal or f"the TaskManagers have not changed within {waited_ms // 1000} s"
        _refused(run, current, why)


def _is_asked_for(facts: RescaleFacts, current: RescaleRecord) -> bool:
    requirements = facts.requirements
    return bool(requirements) and all(
        requirements[vertex_id][1] == parallelism
        for vertex_id, parallelism in current.target.items()
        if requirements and vertex_id in requirements
    )


def _is_reached(facts: RescaleFacts, current: RescaleRecord) -> bool:
    return facts.all_running and facts.running is not None and dict(facts.running) == dict(current.target)


def _see_progress(run: FollowRun, current: RescaleRecord) -> None:
    """Find out whether the job runs as it was asked to, or should by now."""
    if _is_reached(run.facts, current):
        _reached(run, current)
        return
    if run.context.status.is_terminal:
        _ended(run, current)
        return
    if run.facts.running is None:
        return
    estimate = expected_downtime(run.supervision, current, run.facts, run.now_ms)
    limit_ms = allowed_ms(run.context, run.facts, estimate)
    late_ms = run.now_ms - (current.accepted_ms or run.now_ms)
    if late_ms <= limit_ms:
        return
    if run.facts.all_running:
        _late(run, current, limit_ms)
    elif late_ms > _STUCK_FACTOR * limit_ms:
        run.settle(Stage.PARTIALLY_REACHED, "the job has not come back since")
        run.tell("RescaleStuck", f"The job does not run {late_ms // 1000} s after it was rescaled", warns=True)


def _has_moved(run: FollowRun, current: RescaleRecord) -> bool:
    """Tell whether a job in reactive mode runs with another parallelism than before."""
    return run.facts.all_running and run.facts.running is not None and dict(run.facts.running) != dict(current.before)


def _reached(run: FollowRun, current: RescaleRecord) -> None:
    outage_ms = measured_outage(run.facts, current)
    checkpoints, taskmanagers = run.facts.checkpoints, run.facts.taskmanagers
    run.settle(Stage.REACHED, current.reason)
    run.update(
        outage_ms=outage_ms,
        state_bytes=checkpoints.state_bytes if checkpoints else None,
        taskmanagers=len(taskmanagers) if taskmanagers is not None else None,
    )
    if run.supervision.phase is SupervisionPhase.ROLLING_BACK:
        return  # the rollback tells itself how it ended
    took = (run.now_ms - current.decided_ms) / 1000
    outage = "" if outage_ms is None else f", the job was away for {outage_ms / 1000:.1f} s"
    run.tell(
        "RescaleReached",
        f"The job runs with {run.described(current.before, current.target)} after {took:.0f} s{outage}",
    )


def measured_outage(facts: RescaleFacts, current: RescaleRecord) -> int | None:
    """Return how long not all tasks ran, milliseconds; None where that is not known or more than a rescale happened."""
    if any(exception.at_ms > current.since_ms for exception in facts.exceptions or ()):
        return None
    if (facts.initialized_ms or 0) > current.since_ms:
        return None  # the JobManager was away, too; for how long, the cluster does not know
    stopped_ms, since_ms = facts.stopped_ms, facts.running_since_ms
    if stopped_ms is None or since_ms is None or not current.since_ms <= stopped_ms <= since_ms:
        return None
    return since_ms - stopped_ms


def _late(run: FollowRun, current: RescaleRecord, limit_ms: int) -> None:
    """Take what the job runs with as the result. Nothing of the request stays that could come true by surprise."""
    running = dict(run.facts.running or {})
    free = sum(each.free_slots for each in run.facts.taskmanagers or ())
    if running == dict(current.before):
        _refused(run, current, f"nothing has changed within {limit_ms // 1000} s; {free} slots are free")
        return
    run.settle(Stage.PARTIALLY_REACHED, f"not all of it within {limit_ms // 1000} s; {free} slots are free")
    if run.supervision.phase is not SupervisionPhase.ROLLING_BACK:
        run.overrides = running
    reached, wanted = run.described(current.before, running), run.described(current.before, current.target)
    text = f"The job runs with {reached} instead of {wanted}: fewer slots than needed, {free} are free"
    run.tell("RescalePartiallyReached", text, warns=True)


def _ended(run: FollowRun, current: RescaleRecord) -> None:
    """Stop following a rescale that the end of the job came before: it failed, or somebody ended it on purpose."""
    why = f"the job is {run.context.status.value}"
    if run.context.status is JobStatus.FAILED:
        _refused(run, current, why)
        return
    run.settle(Stage.SUPERSEDED, why)
    if run.supervision.phase is SupervisionPhase.PROBATION:
        run.to_phase(SupervisionPhase.STABLE)
    run.tell("RescaleSuperseded", f"The rescale {run.described(current.before, current.target)} is void: {why}")


def _refused(run: FollowRun, current: RescaleRecord, why: str) -> None:
    """Withdraw a rescale that did not happen."""
    run.settle(Stage.REFUSED, why)
    if run.supervision.phase is not SupervisionPhase.ROLLING_BACK:
        run.overrides = dict(current.before)
    if run.supervision.phase is SupervisionPhase.PROBATION:
        run.to_phase(SupervisionPhase.STABLE)
    run.tell(
        "RescaleRefused",
        f"The rescale {run.described(current.before, current.target)} did not happen: {why}",
        warns=True,
    )


def _hold_while_open(run: FollowRun) -> None:
    supervision = run.supervision
    current = supervision.current
    if current is None:
        return
    if not current.stage.is_final:
        change = run.described(current.before, current.target)
        run.hold("RESCALE_UNDER_WAY", f"the rescale {change} is {current.stage.value}")
    elif supervision.phase is SupervisionPhase.ROLLING_BACK:
        run.hold("ROLLING_BACK", f"the job is not well yet after a rollback: {current.reason}")
    elif current.stage in (Stage.REFUSED, Stage.PARTIALLY_REACHED) and current.settled_ms is not None:
        wait_ms = current.settled_ms + run.options.stabilization_interval.ms - run.now_ms
        if wait_ms > 0:
            text = f"the last rescale was {current.stage.value}; it is {wait_ms // 1000} s until the next try"
            run.hold("REFUSED_LATELY", text)


def _hold_while_blind(run: FollowRun) -> bool:
    """Let nothing be decided while requirements cannot be seen that were seen before."""
    if run.is_blind:
        run.hold("REQUIREMENTS_UNKNOWN", "the cluster did not tell the resource requirements of the job in this pass")
    return run.is_blind


def _tracked(state: JobState, supervision: Supervision) -> JobState:
    """Give the latest tracking record the outage that was measured, where it has none."""
    current = supervision.current
    if current is None or current.outage_ms is None or not state.tracking:
        return state
    latest = state.tracking[-1]
    if latest.at_ms != current.decided_ms or latest.restart_ms is not None:
        return state
    record = ScalingRecord(latest.at_ms, current.outage_ms)
    return replace(state, tracking=(*state.tracking[:-1], record))
