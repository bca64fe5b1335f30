"""The machine that follows rescales: from the request to what became of it, and a probation after that.

Stages of a rescale, with the functions that change them::

    start_rescale ─▶ REQUESTED ──track_request──▶ PENDING ──track_progress──▶ REACHED
              │  ▲                         │  │
              │  └──notice_edit (lost)─────┘  ├──track_progress──▶ PARTIALLY_REACHED (fewer slots than wanted, or stuck)
              │                               │
              ├──track_request──▶ REFUSED ◀───┴──track_progress  (nothing has changed, or the job failed for good)
              │
              └─▶ SUPERSEDED, from PENDING too: detect_resubmission, detect_graph_change, notice_edit (somebody
                  else's change), apply_orders and check_probation (rolled back), start_rescale (another decision),
                  track_request and track_progress (the job was ended on purpose)

    A rollback that is under way ends with its phase, too: REACHED or REFUSED by watch_rollback (paused); by
    record_terminal_failure REFUSED where the job has failed, SUPERSEDED where somebody ended it.

Phases of a job::

    STABLE ──track_request (accepted)──▶ PROBATION ──check_probation (proved, or a day is over)──▶ STABLE
                                          │     └──refused, superseded, or the job has ended──▶ STABLE
                                          │
                                          ├──check_probation (trigger_rollback)──▶ ROLLING_BACK
                                          └──check_probation (trigger_rollback, nothing to go back to)──▶ PAUSED
    any phase ──apply_orders (a person's rollback)─────────────────▶ ROLLING_BACK

    ROLLING_BACK ──watch_rollback (not well: to the first parallelism, once)──▶ ROLLING_BACK
    ROLLING_BACK ──watch_rollback (the job is well, or nothing helps)──▶ PAUSED
    ROLLING_BACK ──detect_resubmission, detect_graph_change, notice_edit, record_terminal_failure──▶
                 STABLE, or PAUSED: too many in a day

    PAUSED ──watch_pause (another cluster, more memory, time over)──▶ STABLE
    PAUSED ──apply_orders (resume), detect_resubmission, detect_graph_change────────────▶ STABLE

Level-triggered: each pass compares what was asked for with what the cluster says now, so that answers that are lost,
late, repeated or out of order do no harm. Every step is a pure function of what is remembered and what is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.state import JobState, ScalingRecord
from flink_autoscaler.core.model.supervision import Stage, Supervision, SupervisionPhase
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.rescale.edits import has_strayed, notice_edit, respect_edit
from flink_autoscaler.core.rescale.identity import (
    detect_graph_change,
    detect_resubmission,
    is_clock_in_order,
    record_clock,
)
from flink_autoscaler.core.rescale.operator_commands import apply_orders
from flink_autoscaler.core.rescale.pause import expire_quarantine, watch_pause
from flink_autoscaler.core.rescale.probation import check_probation, record_terminal_failure
from flink_autoscaler.core.rescale.progress import track_progress, track_request
from flink_autoscaler.core.rescale.rollback import watch_rollback
from flink_autoscaler.core.rescale.transition import Step, SupervisionInput, Transition, block, run_steps

_UNDER_WAY: Final = ReasonCode.RESCALE_UNDER_WAY
_REFUSED_LATELY: Final = ReasonCode.REFUSED_LATELY
_WAITING: Final = (_UNDER_WAY, _REFUSED_LATELY)


@dataclass(frozen=True, slots=True)
class Tracking(Transition):
    """What is known of the rescale of a job before it is looked at: the result of all steps.

    Attributes:
        is_repair: Whether what is wanted undoes a failed rescale, so that it is realized although the job fails.
        requirements_unknown: Whether the requirements, known before, could not be seen now: what somebody else may have
            changed is not overwritten.
        error: What kept the rescale from being followed; None where nothing did.
    """

    is_repair: bool = False
    requirements_unknown: bool = False
    error: AutoscalerError | None = None

    @property
    def may_release_slots(self) -> bool:
        """Whether the job can be asked for slots: that it waits for more of them itself is no reason to keep these."""
        return not (self.is_repair or self.requirements_unknown or self.error) and all(
            each.code in _WAITING for each in self.holds
        )


def follow(given: SupervisionInput) -> Tracking:
    """Take the rescales of one job one pass further."""
    # An answer that is older than one that was acted on would undo what followed from that: all steps go without it.
    given = is_clock_in_order(given)
    done = run_steps(given.request.state, given, _STEPS)
    supervision = done.state.supervision
    is_repair = is_repairing(supervision) or has_strayed(supervision, given)
    # What a job needs to survive is sent all the same, at the risk of overwriting somebody's change.
    is_blind = given.requirements_unknown(supervision) and supervision.phase is not SupervisionPhase.ROLLING_BACK
    return Tracking(done.state, done.events, done.holds, is_repair, is_blind)


def is_repairing(supervision: Supervision) -> bool:
    """Tell whether a job has to get back what it survives, whether it runs or not."""
    return supervision.phase is SupervisionPhase.ROLLING_BACK or (
        supervision.phase is SupervisionPhase.PAUSED and supervision.edit is None
    )


def hold_while_open(state: JobState, given: SupervisionInput) -> Transition:
    """Let nothing be decided while a rescale is under way, is being undone, or came to less than it should just now."""
    current = state.supervision.current
    if current is None:
        return Transition(state)
    if not current.stage.is_final:
        change = given.describe_change(current.before, current.target)
        return block(state, _UNDER_WAY, change=change, stage=current.stage.value)
    if state.supervision.phase is SupervisionPhase.ROLLING_BACK:
        return block(state, ReasonCode.ROLLING_BACK, cause=current.reason)
    # What the cluster could not do a moment ago it cannot do now: it is not asked again in every pass.
    if current.stage not in (Stage.REFUSED, Stage.PARTIALLY_REACHED) or current.settled_ms is None:
        return Transition(state)
    wait_ms = current.settled_ms + given.options.stabilization_interval.ms - given.now_ms
    if wait_ms <= 0:
        return Transition(state)
    return block(state, _REFUSED_LATELY, stage=current.stage.value, left=wait_ms // 1000)


def hold_while_requirements_unknown(state: JobState, given: SupervisionInput) -> Transition:
    """Let nothing be decided while requirements cannot be seen that were seen before."""
    if not given.requirements_unknown(state.supervision):
        return Transition(state)
    return block(state, ReasonCode.REQUIREMENTS_UNKNOWN)


def track_outage(state: JobState, _: SupervisionInput) -> Transition:
    """Give the latest tracking record the outage that was measured, where it has none."""
    current = state.supervision.current
    if current is None or current.outage_ms is None or not state.tracking:
        return Transition(state)
    *earlier, latest = state.tracking
    if latest.at_ms != current.decided_ms or latest.restart_ms is not None:
        return Transition(state)
    return Transition(replace(state, tracking=(*earlier, ScalingRecord(latest.at_ms, current.outage_ms))))


_STEPS: Final[tuple[Step, ...]] = (
    record_clock,
    detect_resubmission,
    detect_graph_change,
    apply_orders,
    # Whose requirements these are comes before what has become of ours: an edit ends what would be followed.
    notice_edit,
    # What a job died of comes before its rescale is closed: the evidence counts only while that is open.
    record_terminal_failure,
    track_request,
    track_progress,
    # After what has become of the rescale: only one with a final stage can be proved.
    check_probation,
    watch_rollback,
    watch_pause,
    respect_edit,
    expire_quarantine,
    hold_while_open,
    hold_while_requirements_unknown,
    # Last, because any step before may have ended the rescale.
    track_outage,
)
"""In this order. Each takes over from the one before, so that several transitions may happen in one pass."""
