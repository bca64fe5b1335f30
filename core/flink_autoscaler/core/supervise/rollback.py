"""Undoing a rescale that a job does not survive, and leaving the job alone after that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from flink_autoscaler.core.model.supervision import (
    Fingerprint,
    Origin,
    Pause,
    Quarantined,
    RescaleRecord,
    Stage,
    SupervisionPhase,
    Vector,
)
from flink_autoscaler.core.options.safety import RollbackTarget
from flink_autoscaler.core.supervise.error_checkers import MEMORY_PRESSURE, NETWORK_MEMORY
from flink_autoscaler.core.supervise.follow_run import FollowRun
from flink_autoscaler.core.supervise.timers import expected_downtime

DAY_MS: Final = 86_400_000
GROWTH: Final = 1.1
"""By how much a memory figure has to grow before a failed parallelism is tried again."""

ROLLBACK_FAILED: Final = "rollback-failed"
OPERATOR: Final = "operator"
_INITIAL_TRIED: Final = "initial-tried"
_EXTRA_MS: Final = 300_000


def start_rollback(run: FollowRun, cause: str, evidence: str, *, origin: Origin = Origin.ROLLBACK) -> None:
    """Go back from the rescale that is followed, and remember what failed."""
    failed = run.supervision.current
    if failed is None:
        return
    goal = _goal(run, failed) if origin is Origin.ROLLBACK else _reverted(run, failed, failed.before)
    if goal == dict(failed.target):
        _give_up(run, cause, f"{evidence}; there is no other parallelism to go back to")
        return
    if origin is Origin.ROLLBACK:
        quarantine(run, failed, cause)
    stage = failed.stage if failed.stage.is_final else Stage.SUPERSEDED
    run.update(
        reverted=True, stage=stage, settled_ms=failed.settled_ms or run.now_ms, reason=f"rolled back: {evidence}"
    )
    run.begin(failed.target, goal, origin, f"{cause}: {evidence}")
    run.change(rollbacks_ms=(*_today(run), run.now_ms))
    run.overrides = goal
    run.to_phase(SupervisionPhase.ROLLING_BACK)
    run.tell(
        "RollbackStarted",
        f"Rolling back {run.described(failed.target, goal)}, because of {cause}: {evidence}",
        warns=True,
    )


def _goal(run: FollowRun, failed: RescaleRecord) -> dict[str, int]:
    """Return the parallelism to go back to: only what the failed rescale changed reverts."""
    supervision = run.supervision
    chosen: Mapping[RollbackTarget, Vector] = {
        RollbackTarget.LAST: failed.before,
        RollbackTarget.INITIAL: supervision.initial,
        RollbackTarget.LAST_STABLE: supervision.last_stable or supervision.initial,
    }
    goal = _reverted(run, failed, chosen[run.options.rollback_target] or failed.before)
    # What failed is no way out, even where it was fine once.
    return {v: failed.before.get(v, p) if v in failed.raised and p >= failed.target[v] else p for v, p in goal.items()}


def _reverted(run: FollowRun, failed: RescaleRecord, goal: Vector) -> dict[str, int]:
    limit = run.options.max_parallelism
    reverted = {vertex_id: goal.get(vertex_id, failed.before.get(vertex_id)) for vertex_id in failed.changed}
    kept = {
        vertex_id: min(parallelism, max(limit, failed.before.get(vertex_id, limit)))
        for vertex_id, parallelism in reverted.items()
        if parallelism is not None
    }
    return {**failed.target, **kept}


def quarantine(run: FollowRun, failed: RescaleRecord, cause: str) -> None:
    """Remember the parallelism that failed; a lower one that failed before stays in force."""
    memory = memory_figure(run.facts.fingerprint(run.context.job_id), cause)
    known = {entry.vertex_id: entry for entry in run.supervision.quarantine}
    for vertex_id in failed.raised:
        parallelism = failed.target[vertex_id]
        if vertex_id not in known or parallelism <= known[vertex_id].parallelism:
            known[vertex_id] = Quarantined(vertex_id, parallelism, cause, run.now_ms, memory)
    run.change(quarantine=tuple(known.values()))


def watch_rollback(run: FollowRun) -> None:
    """See whether the job is well again; go to the first parallelism when not, once."""
    supervision = run.supervision
    record = supervision.current
    if supervision.phase is not SupervisionPhase.ROLLING_BACK or record is None:
        return
    if _is_back(run, record):
        _pause(run, record.reason.partition(":")[0], f"rolled back to {_text(run, record.target)} ({record.reason})")
        run.tell("RolledBack", f"The job runs again with {_text(run, record.target)}; {how_to_resume(run)}")
        return
    estimate = expected_downtime(supervision, record, run.facts, run.now_ms)
    limit_ms = 2 * round(estimate.q90 * 1000) + _EXTRA_MS
    if run.now_ms - (supervision.since_ms or run.now_ms) <= limit_ms:
        return
    goal = {v: min(parallelism, supervision.initial.get(v, parallelism)) for v, parallelism in record.target.items()}
    if _INITIAL_TRIED in supervision.hits or goal == dict(record.target):
        _give_up(run, ROLLBACK_FAILED, f"the job is not well {limit_ms // 1000} s after the rollback")
        return
    run.begin(record.target, goal, Origin.ROLLBACK, record.reason)
    run.overrides = goal
    run.to_phase(SupervisionPhase.ROLLING_BACK)
    run.change(hits={_INITIAL_TRIED: 1})
    text = f"The job is not well after the rollback, trying its first parallelism: {_text(run, goal)}"
    run.tell("RollbackRetried", text, warns=True)


def _is_back(run: FollowRun, record: RescaleRecord) -> bool:
    """Tell whether all tasks run, with no vertex above what it was to go back to."""
    running, requirements = run.facts.running, run.facts.requirements
    if running is None or not run.facts.all_running or (requirements is None and not run.is_reactive):
        return False
    if (
        not run.is_reactive
        and requirements is not None
        and any(requirements[v][1] > parallelism for v, parallelism in record.target.items() if v in requirements)
    ):
        return False  # it runs for want of slots, and would fail again with them
    return all(running.get(vertex_id, 0) <= record.target[vertex_id] for vertex_id in record.target)


def _give_up(run: FollowRun, cause: str, text: str) -> None:
    _pause(run, cause, text)
    run.tell("RollbackFailed", f"This needs a person: {text}; {how_to_resume(run)}", warns=True)


def _pause(run: FollowRun, cause: str, text: str) -> None:
    record = run.supervision.current
    if record is not None and not record.stage.is_final:
        is_there = run.facts.all_running
        run.settle(Stage.REACHED if is_there else Stage.REFUSED, record.reason)
    run.retire()
    length = run.options.rollback_pause
    is_operator = record is not None and record.origin is Origin.OPERATOR
    pause = Pause(
        cause=cause,
        text=text,
        since_ms=run.now_ms,
        fingerprint=run.facts.fingerprint(run.context.job_id) or Fingerprint(run.context.job_id),
        until_ms=None if length is None else run.now_ms + length.ms,
        for_good=is_operator or cause == ROLLBACK_FAILED or len(_today(run)) >= run.options.rollback_max_per_day,
    )
    run.change(pause=pause)
    run.to_phase(SupervisionPhase.PAUSED)


def _today(run: FollowRun) -> tuple[int, ...]:
    return tuple(at for at in run.supervision.rollbacks_ms if at > run.now_ms - DAY_MS)


def abandon_rollback(run: FollowRun, why: str) -> None:
    """End a rollback that something else overtook; too many of them in a day pause the job all the same."""
    if len(_today(run)) >= run.options.rollback_max_per_day:
        _pause(run, "rollback", f"{len(_today(run))} rollbacks within a day; {why}")
    else:
        run.to_phase(SupervisionPhase.STABLE)


def watch_pause(run: FollowRun) -> None:
    """Go on where the cluster is another one, or the time is over; else let nothing be decided."""
    pause = run.supervision.pause
    if run.supervision.phase is not SupervisionPhase.PAUSED or pause is None:
        return
    why = _end_of(run, pause)
    if why is None:
        _complete_fingerprint(run, pause)
        run.hold("PAUSED_AFTER_ROLLBACK", f"paused since a rollback: {pause.text}; {how_to_resume(run)}")
        return
    resume(run, why)


def _complete_fingerprint(run: FollowRun, pause: Pause) -> None:
    """Take the cluster as it is now where it did not answer when the pause began."""
    present = run.facts.fingerprint(run.context.job_id)
    if present is not None and not pause.fingerprint.taskmanagers:
        run.change(pause=replace(pause, fingerprint=present))


def resume(run: FollowRun, why: str) -> None:
    """End a pause."""
    run.change(pause=None)
    run.to_phase(SupervisionPhase.STABLE)
    run.tell("ScalingResumed", f"Scaling goes on: {why}")


def _end_of(run: FollowRun, pause: Pause) -> str | None:
    """Return why a pause is over, None while it is not."""
    if pause.for_good:
        return None
    if pause.until_ms is not None:
        return "the pause after the rollback is over" if run.now_ms >= pause.until_ms else None
    present = run.facts.fingerprint(run.context.job_id)
    if present is None:
        return None
    old = pause.fingerprint
    if old.taskmanagers and present.taskmanagers and not old.taskmanagers & present.taskmanagers:
        return "all TaskManagers are new ones"
    return "the TaskManagers have more memory" if has_grown(old, present, pause.cause) else None


def has_grown(old: Fingerprint, present: Fingerprint, cause: str) -> bool:
    """Tell whether the memory that a cause depends on is larger than it was."""
    before, now = memory_figure(old, cause), memory_figure(present, cause)
    return before is not None and now is not None and now >= before * GROWTH


def memory_figure(fingerprint: Fingerprint | None, cause: str) -> int | None:
    """Return the figure that a cause depends on, bytes."""
    if fingerprint is None:
        return None
    return {NETWORK_MEMORY: fingerprint.network_memory, MEMORY_PRESSURE: fingerprint.heap}.get(cause)


def expire_quarantine(run: FollowRun) -> None:
    """End the quarantine of what may be tried again."""
    present = run.facts.fingerprint(run.context.job_id)
    kept = tuple(entry for entry in run.supervision.quarantine if not _may_try(run, entry, present))
    if len(kept) != len(run.supervision.quarantine):
        run.change(quarantine=kept)


def _may_try(run: FollowRun, entry: Quarantined, present: Fingerprint | None) -> bool:
    if entry.memory is None:
        return run.now_ms - entry.since_ms > DAY_MS
    now = memory_figure(present, entry.cause)
    return now is not None and now >= entry.memory * GROWTH


def how_to_resume(run: FollowRun) -> str:
    """Return what ends the pause, for people."""
    command = f"flink-autoscaler resume '{run.context.job_key}'"
    pause = run.supervision.pause
    if pause is None or pause.for_good:
        return f"scaling is paused until {command}"
    if pause.until_ms is not None:
        return f"scaling is paused for {(pause.until_ms - run.now_ms) // 1000} s, or until {command}"
    return f"scaling is paused until the cluster restarts, or until {command}"


def _text(run: FollowRun, vector: Vector) -> str:
    return ", ".join(f"{run.name(vertex_id)} {parallelism}" for vertex_id, parallelism in vector.items())


def carry_out_rollback(run: FollowRun, who: str) -> None:
    """Go back to before the last rescale, because a person wants it."""
    if run.supervision.current is None and run.supervision.past:
        *earlier, last = run.supervision.past
        run.change(current=replace(last), past=tuple(earlier))
    record = run.supervision.current
    if record is None or not _can_be_undone(run, record):
        run.tell("RollbackImpossible", f"{who} wanted a rollback, but there is no rescale to undo", warns=True)
        return
    run.change(edit=None)
    start_rollback(run, OPERATOR, f"{who} wanted it", origin=Origin.OPERATOR)


def _can_be_undone(run: FollowRun, record: RescaleRecord) -> bool:
    """Tell whether a rescale did something to the job as it is now, and is not the undoing of another one."""
    past = run.supervision.past
    undoes = record.origin is Origin.ROLLBACK or (bool(past) and past[-1].reverted and past[-1].target == record.before)
    is_other_graph = bool(run.supervision.initial) and set(record.target) != set(run.supervision.initial)
    return not (record.reverted or record.stage is Stage.REFUSED or undoes or is_other_graph)
