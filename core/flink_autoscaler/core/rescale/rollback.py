"""Undoing a rescale that a job does not survive, or that a person wants undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import (
    Origin,
    Requirements,
    RescaleRecord,
    Stage,
    Supervision,
    SupervisionPhase,
    Vector,
)
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.options.safety import RollbackTarget
from flink_autoscaler.core.rescale.pause import (
    ROLLBACK_FAILED,
    how_to_resume,
    rollbacks_today,
    with_pause,
    with_quarantine,
)
from flink_autoscaler.core.rescale.timers import expected_downtime
from flink_autoscaler.core.rescale.transition import (
    SupervisionInput,
    Transition,
    start_rescale,
    transition_event,
    with_supervision,
)

_OPERATOR: Final = "operator"
_INITIAL_TRIED: Final = "initial-tried"
_EXTRA_MS: Final = 300_000


class RollbackCause(NamedTuple):
    """Why a rescale is undone: the name of the checker that found it out, and the evidence, for people."""

    name: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.name}: {self.evidence}"


def roll_back(state: JobState, given: SupervisionInput, cause: RollbackCause) -> Transition:
    """Go back from the rescale that is followed, because the job does not survive it; remember what failed."""
    failed = state.supervision.current
    if failed is None:
        return Transition(state)
    goal = _goal(state.supervision, given, failed)
    if goal == dict(failed.target):
        return _give_up(state, given, cause.name, f"{cause.evidence}; there is no other parallelism to go back to")
    supervision = with_quarantine(state.supervision, given, failed, cause.name)
    return _go_back(replace(state, supervision=supervision), given, failed, goal, cause)


def roll_back_by_order(state: JobState, given: SupervisionInput, who: str) -> Transition:
    """Go back to before the last rescale, because a person wants it; there has to be one, and nothing has failed."""
    *earlier, last = state.supervision.rescales
    supervision = replace(state.supervision, current=last, past=tuple(earlier), edit=None)
    cause = RollbackCause(_OPERATOR, f"{who} wanted it")
    goal = _reverted_changes(given, last, last.before)
    return _go_back(replace(state, supervision=supervision), given, last, goal, cause)


def _go_back(
    state: JobState, given: SupervisionInput, failed: RescaleRecord, goal: Vector, cause: RollbackCause
) -> Transition:
    # The record has to be final before the rollback begins, or that would report it as overtaken.
    undone = replace(
        failed,
        reverted=True,
        stage=failed.stage if failed.stage.is_final else Stage.SUPERSEDED,
        settled_ms=failed.settled_ms or given.now_ms,
        reason=f"rolled back: {cause.evidence}",
    )
    origin = Origin.OPERATOR if cause.name == _OPERATOR else Origin.ROLLBACK
    supervision = replace(state.supervision, current=undone)
    supervision = start_rescale(supervision, given, failed.target, goal, origin, str(cause))
    # Counted when it begins: a rollback that is overtaken is one all the same, and a job must not swing for ever.
    supervision = replace(supervision, rollbacks_ms=(*rollbacks_today(supervision, given), given.now_ms))
    supervision = supervision.with_phase(SupervisionPhase.ROLLING_BACK, given.now_ms)
    text = f"Rollback {given.describe_change(failed.target, goal)}, because of {cause}"
    return with_supervision(state, supervision, transition_event("RollbackStarted", text, warns=True), overrides=goal)


def _goal(supervision: Supervision, given: SupervisionInput, failed: RescaleRecord) -> dict[str, int]:
    """Return the parallelism to go back to: only what the failed rescale changed reverts."""
    chosen: Mapping[RollbackTarget, Vector] = {
        RollbackTarget.LAST: failed.before,
        RollbackTarget.INITIAL: supervision.initial,
        RollbackTarget.LAST_STABLE: supervision.last_stable or supervision.initial,
    }
    goal = _reverted_changes(given, failed, chosen[given.options.rollback_target] or failed.before)
    # What failed is no way out, even where it was fine once.
    return {v: failed.before.get(v, p) if v in failed.raised and p >= failed.target[v] else p for v, p in goal.items()}


def _reverted_changes(given: SupervisionInput, failed: RescaleRecord, goal: Vector) -> dict[str, int]:
    limit = given.options.max_parallelism
    reverted = {vertex_id: goal.get(vertex_id, failed.before.get(vertex_id)) for vertex_id in failed.changed}
    # A bound that was lowered since holds, but does not push a vertex below what it had before.
    kept = {
        vertex_id: min(parallelism, max(limit, failed.before.get(vertex_id, limit)))
        for vertex_id, parallelism in reverted.items()
        if parallelism is not None
    }
    return {**failed.target, **kept}


def watch_rollback(state: JobState, given: SupervisionInput) -> Transition:
    """See whether the job is well again; go to the first parallelism when not, once."""
    supervision, record = state.supervision, state.supervision.current
    if supervision.phase is not SupervisionPhase.ROLLING_BACK or record is None:
        return Transition(state)
    estimate = expected_downtime(supervision, record, given.facts)
    # Generous: to go on too early would end a rollback that is about to work.
    limit_ms = 2 * round(estimate.q90 * 1000) + _EXTRA_MS
    is_late = given.since(supervision.since_ms) > limit_ms
    if _is_healthy(given, record):
        # A job that is well also waits for what it was to get back, until the cluster has had its time.
        is_over = is_late or record.stage.is_final or not _missing(given, record)
        return _complete_rollback(state, given, record) if is_over else Transition(state)
    if not is_late:
        return Transition(state)
    goal = {v: min(parallelism, supervision.initial.get(v, parallelism)) for v, parallelism in record.target.items()}
    # Once only: whatever fails at the first parallelism, too, is no matter of parallelism.
    if _INITIAL_TRIED in supervision.hits or goal == dict(record.target):
        text = f"the job is not healthy {limit_ms // 1000} s after the rollback"
        return _give_up(state, given, ROLLBACK_FAILED, text)
    supervision = start_rescale(supervision, given, record.target, goal, Origin.ROLLBACK, record.reason)
    supervision = replace(supervision.with_phase(SupervisionPhase.ROLLING_BACK, given.now_ms), hits={_INITIAL_TRIED: 1})
    text = f"The job is not healthy after the rollback; its initial parallelism is requested: {_text(given, goal)}"
    return with_supervision(state, supervision, transition_event("RollbackRetried", text, warns=True), overrides=goal)


def _is_healthy(given: SupervisionInput, record: RescaleRecord) -> bool:
    """Tell whether all tasks run, with no vertex above what it was to go back to."""
    running, requirements = given.facts.running, given.facts.requirements
    if running is None or not given.facts.all_running:
        return False
    # Well for want of slots only does not count: with more of them it would fail again.
    if not given.is_reactive and (requirements is None or _may_grow(requirements, record)):
        return False
    return all(running.get(vertex_id, 0) <= parallelism for vertex_id, parallelism in record.target.items())


def _cause(record: RescaleRecord) -> str:
    return _OPERATOR if record.origin is Origin.OPERATOR else record.reason.partition(":")[0]


def _missing(given: SupervisionInput, record: RescaleRecord) -> Vector:
    """Return what vertices run with that were to get more back and have not."""
    running = given.facts.running or {}
    return {v: running[v] for v in record.raised if v in running and running[v] < record.target[v]}


def _may_grow(requirements: Requirements, record: RescaleRecord) -> bool:
    """Tell whether a job runs for want of slots only, and would fail again with them."""
    return any(requirements[v][1] > parallelism for v, parallelism in record.target.items() if v in requirements)


def _complete_rollback(state: JobState, given: SupervisionInput, record: RescaleRecord) -> Transition:
    cause, missing = _cause(record), _missing(given, record)
    target = ", ".join(
        f"{given.name(v)} {missing[v]} instead of {parallelism}" if v in missing else f"{given.name(v)} {parallelism}"
        for v, parallelism in record.target.items()
    )
    supervision = with_pause(state.supervision, given, cause, f"rolled back to {target} ({record.reason})")
    again = "" if missing else "again "
    text = f"The job runs {again}with {target}; {how_to_resume(supervision, given)}"
    return with_supervision(state, supervision, transition_event("RolledBack", text, warns=bool(missing)))


def _give_up(state: JobState, given: SupervisionInput, cause: str, why: str) -> Transition:
    supervision = with_pause(state.supervision, given, cause, why)
    text = f"The rollback failed and needs an operator: {why}; {how_to_resume(supervision, given)}"
    return with_supervision(state, supervision, transition_event("RollbackFailed", text, warns=True))


def end_rollback(supervision: Supervision, given: SupervisionInput, why: str) -> Supervision:
    """End a rollback that something else overtook; too many of them in a day pause the job all the same."""
    count = len(rollbacks_today(supervision, given))
    if count >= given.options.rollback_max_per_day:
        return with_pause(supervision, given, "rollback", f"{count} rollbacks within a day; {why}")
    return supervision.with_phase(SupervisionPhase.STABLE, given.now_ms)


def _text(given: SupervisionInput, vector: Vector) -> str:
    return ", ".join(f"{given.name(vertex_id)} {parallelism}" for vertex_id, parallelism in vector.items())
