"""A cluster or job that is not the one of the pass before: its clock was set, it was submitted again, or changed."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import SupervisionPhase
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.rescale.pause import end_pause
from flink_autoscaler.core.rescale.rollback import end_rollback
from flink_autoscaler.core.rescale.transition import (
    SupervisionInput,
    Transition,
    supersede,
    superseded_event,
    with_supervision,
)

_OUT_OF_ORDER_MS: Final = 120_000
"""An answer that is older than the one before by more than this tells of a clock that was set back."""


def is_clock_in_order(given: SupervisionInput) -> SupervisionInput:
    """Leave out an answer of the cluster that is not newer than the one before."""
    now_ms, heard_ms = given.facts.now_ms, given.request.state.supervision.heard_ms
    if now_ms is None or heard_ms is None or not 0 <= heard_ms - now_ms <= _OUT_OF_ORDER_MS:
        return given
    return replace(given, facts=RescaleFacts())


def record_clock(state: JobState, given: SupervisionInput) -> Transition:
    """Remember the clock of the JobManager, and go along where it was set back."""
    supervision, now_ms = state.supervision, given.facts.now_ms
    if now_ms is None:
        return Transition(state)
    current, heard_ms = supervision.current, supervision.heard_ms
    if current is not None and heard_ms is not None and heard_ms > now_ms:
        # Else nothing that happens from now on would count as later than the rescale.
        current = replace(current, since_ms=current.since_ms - (heard_ms - now_ms))
    return with_supervision(state, replace(supervision, current=current, heard_ms=now_ms))


def detect_resubmission(state: JobState, given: SupervisionInput) -> Transition:
    """Notice that the job is another one than in the pass before."""
    if not given.is_other_job:
        return Transition(state)
    other = replace(state, job_id=given.context.job_id, samples=())
    return _end_with_job(other, given, "the job was submitted again")


def detect_graph_change(state: JobState, given: SupervisionInput) -> Transition:
    """Notice that the job has another graph than it had; what belongs to vertices that are gone is forgotten."""
    running = given.facts.running
    if running is None or not given.facts.all_running:
        return Transition(state)
    overrides = {vertex_id: parallelism for vertex_id, parallelism in state.overrides.items() if vertex_id in running}
    initial = state.supervision.initial
    if len(overrides) < len(state.overrides):
        state = replace(state, overrides=overrides)
    if running.keys() == initial.keys():
        return Transition(state)
    done = _end_with_job(state, given, "the job graph has changed") if initial else Transition(state)
    quarantine = () if initial else state.supervision.quarantine
    known = replace(done.state.supervision, initial=dict(running), last_stable=dict(running), quarantine=quarantine)
    return done.then(with_supervision(done.state, known))


def _end_with_job(state: JobState, given: SupervisionInput, why: str) -> Transition:
    """Stop following what belongs to an execution that is gone; a pause that only a person ends stays."""
    supervision, current = state.supervision, state.supervision.under_way
    # The event needs the rescale as it was; ``supersede`` ends it.
    events = () if current is None else (superseded_event(given, current, why),)
    supervision = replace(supersede(supervision, given, why).retire_current(given.now_ms), asked={})
    if given.is_other_job or set(supervision.seen) != set(given.facts.running or {}):
        # Else they are of the new graph, seen before it ran.
        supervision = replace(supervision, seen={}, seen_start_ms=None, edit=None)
    if supervision.phase is SupervisionPhase.PAUSED and supervision.pause is not None:
        done = with_supervision(state, supervision, *events)
        return done if supervision.pause.for_good else done.then(end_pause(done.state, given, why))
    if supervision.phase is SupervisionPhase.ROLLING_BACK:
        return with_supervision(state, end_rollback(supervision, given, why), *events)
    return with_supervision(state, supervision.without_probation(given.now_ms), *events)
