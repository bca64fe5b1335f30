"""A job that is paused after a rollback, what ends that, and the parallelism that stays out of bounds after it."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import (
    Fingerprint,
    Origin,
    Pause,
    Quarantined,
    RescaleRecord,
    Stage,
    Supervision,
    SupervisionPhase,
)
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.options.safety import MEMORY_PRESSURE
from flink_autoscaler.core.rescale.error_checkers import NETWORK_MEMORY
from flink_autoscaler.core.rescale.transition import (
    SupervisionInput,
    Transition,
    block,
    finalize,
    transition_event,
    with_supervision,
)

ROLLBACK_FAILED: Final = "rollback-failed"
_DAY_MS: Final = 86_400_000
_GROWTH: Final = 1.1
"""By how much a memory figure has to grow before a failed parallelism is tried again."""


def with_pause(supervision: Supervision, given: SupervisionInput, cause: str, text: str) -> Supervision:
    """Leave the job alone, until the cluster is another one, the time is over, or somebody resumes it."""
    record, length = supervision.current, given.options.rollback_pause
    # Nothing is followed during a pause: what is open gets its result now or never.
    if supervision.under_way is not None:
        under_way = supervision.under_way
        ended = finalize(under_way, given, _stage_of(under_way, given), under_way.reason)
        supervision = replace(supervision, current=ended)
    is_ordered = record is not None and record.origin is Origin.OPERATOR
    is_often = len(rollbacks_today(supervision, given)) >= given.options.rollback_max_per_day
    pause = Pause(
        cause=cause,
        text=text,
        since_ms=given.now_ms,
        fingerprint=given.fingerprint or Fingerprint(given.context.job_id),
        until_ms=None if length is None else given.now_ms + length.ms,
        for_good=is_ordered or cause == ROLLBACK_FAILED or is_often,
    )
    return replace(supervision.retire_current(given.now_ms), pause=pause).with_phase(
        SupervisionPhase.PAUSED, given.now_ms
    )


def _stage_of(record: RescaleRecord, given: SupervisionInput) -> Stage:
    """Return what a rescale came to that is not followed any further."""
    if not given.facts.all_running:
        return Stage.REFUSED
    running = given.facts.running or {}
    is_whole = all(running.get(v, record.target[v]) >= record.target[v] for v in record.raised)
    return Stage.REACHED if is_whole else Stage.PARTIALLY_REACHED


def rollbacks_today(supervision: Supervision, given: SupervisionInput) -> tuple[int, ...]:
    """Return when the rollbacks of the last day began."""
    return tuple(at_ms for at_ms in supervision.rollbacks_ms if at_ms > given.now_ms - _DAY_MS)


def how_to_resume(supervision: Supervision, given: SupervisionInput) -> str:
    """Return what ends the pause, for people."""
    command = f"flink-autoscaler resume '{given.context.job_key}'"
    pause = supervision.pause
    if pause is None or pause.for_good:
        return f"scaling is paused until {command}"
    if pause.until_ms is not None:
        return f"scaling is paused for {(pause.until_ms - given.now_ms) // 1000} s, or until {command}"
    return f"scaling is paused until the cluster restarts, or until {command}"


def watch_pause(state: JobState, given: SupervisionInput) -> Transition:
    """Go on where the cluster is another one, or the time is over; else let nothing be decided."""
    supervision, pause = state.supervision, state.supervision.pause
    if supervision.phase is not SupervisionPhase.PAUSED or pause is None:
        return Transition(state)
    why, present = _end_of(pause, given), given.fingerprint
    if why is not None:
        return end_pause(state, given, why)
    if present is not None and not pause.fingerprint.taskmanagers:
        # The cluster did not answer when the pause began: what it is now has to do.
        state = replace(state, supervision=replace(supervision, pause=replace(pause, fingerprint=present)))
    resume = how_to_resume(supervision, given)
    return block(state, ReasonCode.PAUSED_AFTER_ROLLBACK, cause=pause.text, resume=resume)


def end_pause(state: JobState, given: SupervisionInput, why: str) -> Transition:
    """End a pause."""
    stable = replace(state.supervision, pause=None).with_phase(SupervisionPhase.STABLE, given.now_ms)
    return with_supervision(state, stable, transition_event("ScalingResumed", f"Scaling goes on: {why}"))


def _end_of(pause: Pause, given: SupervisionInput) -> str | None:
    """Return why a pause is over, None while it is not."""
    # What a person ordered, and what no rollback helps, is for a person to end.
    if pause.for_good:
        return None
    if pause.until_ms is not None:
        return "the pause after the rollback is over" if given.now_ms >= pause.until_ms else None
    old, present = pause.fingerprint, given.fingerprint
    if present is None:
        return None
    # One that stays may be the one that is too small: all have to be new.
    if old.taskmanagers and present.taskmanagers and not old.taskmanagers & present.taskmanagers:
        return "all TaskManagers are new ones"
    has_more = _has_grown(_memory_figure(old, pause.cause), present, pause.cause)
    return "the TaskManagers have more memory" if has_more else None


def _has_grown(before: int | None, present: Fingerprint | None, cause: str) -> bool:
    """Tell whether the memory that a cause depends on is so much larger that it is worth another try."""
    now = _memory_figure(present, cause)
    return before is not None and now is not None and now >= before * _GROWTH


def _memory_figure(fingerprint: Fingerprint | None, cause: str) -> int | None:
    """Return the figure that a cause depends on, bytes."""
    if fingerprint is None:
        return None
    return {NETWORK_MEMORY: fingerprint.network_memory, MEMORY_PRESSURE: fingerprint.heap}.get(cause)


def with_quarantine(
    supervision: Supervision, given: SupervisionInput, failed: RescaleRecord, cause: str
) -> Supervision:
    """Remember the parallelism that failed; a lower one that failed before stays in force."""
    memory = _memory_figure(given.fingerprint, cause)
    known = {each.vertex_id: each for each in supervision.quarantine}
    for vertex_id in failed.raised:
        parallelism = failed.target[vertex_id]
        # The least that failed is what counts: what is above it fails as well.
        if vertex_id not in known or parallelism <= known[vertex_id].parallelism:
            known[vertex_id] = Quarantined(vertex_id, parallelism, cause, given.now_ms, memory)
    return replace(supervision, quarantine=tuple(known.values()))


def expire_quarantine(state: JobState, given: SupervisionInput) -> Transition:
    """End the quarantine of what may be tried again."""
    known = state.supervision.quarantine
    kept = tuple(each for each in known if not _may_try(each, given)) if known else known
    if kept == known:
        return Transition(state)
    return with_supervision(state, replace(state.supervision, quarantine=kept))


def _may_try(each: Quarantined, given: SupervisionInput) -> bool:
    # No figure tells when it is worth another try: a day has to do.
    if each.memory is None:
        return given.now_ms - each.since_ms > _DAY_MS
    return _has_grown(each.memory, given.fingerprint, each.cause)
