"""What the transitions of the rescale machine are made of.

A transition takes what is remembered and what is seen, and returns what to remember, what to tell people, and why
nothing may be decided. It has no other effect, so that a pass can be repeated and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from flink_autoscaler.core.evaluate.downtime import mechanism_of
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode, Word
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import (
    Fingerprint,
    Origin,
    RescaleRecord,
    Stage,
    Supervision,
    Vector,
    describe_change,
)
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.core.ports.plugins import UnrecoverableErrorChecker
from flink_autoscaler.core.ports.task_managers import is_reactive


@value
class SupervisionInput:
    """What one pass sees of a job whose rescales are followed.

    Attributes:
        request: The job, with what was remembered about it before the pass.
        facts: What the cluster says about its rescale.
        checkers: By the names of ``rollback.checkers``.
        pressure: Garbage collection and heap usage of the fullest TaskManager now, by the names of the checkers.
        names: Name of every vertex, for people.
    """

    request: PassRequest
    facts: RescaleFacts
    checkers: Mapping[str, UnrecoverableErrorChecker] = field(default_factory=dict)
    pressure: Mapping[str, float] = field(default_factory=dict)
    names: Mapping[VertexId, str] = field(default_factory=dict)

    @property
    def context(self) -> JobAutoScalerContext:
        """The job."""
        return self.request.context

    @property
    def options(self) -> AutoscalerOptions:
        """Its options."""
        return self.context.options

    @property
    def now_ms(self) -> int:
        """Instant of the pass, by the clock of the daemon."""
        return self.request.now_ms

    @property
    def is_reactive(self) -> bool:
        """Whether the parallelism follows the number of TaskManagers instead of requirements."""
        return is_reactive(self.context)

    @property
    def fingerprint(self) -> Fingerprint | None:
        """What tells this cluster from a restarted one; None when that is not known."""
        return self.facts.fingerprint(self.context.job_id)

    @property
    def is_other_job(self) -> bool:
        """Whether the job is another one than in the pass before, under the same key."""
        # In the first pass over a job there is no other one to tell it from.
        return self.request.state.job_id not in (None, self.context.job_id)

    def requirements_unknown(self, supervision: Supervision) -> bool:
        """Tell whether the requirements, seen before, could not be read now."""
        return bool(supervision.seen) and self.facts.requirements is None and not self.is_reactive

    def since(self, instant_ms: int | None) -> int:
        """Return the milliseconds since an instant by the clock of the daemon; 0 where that is not known."""
        # An instant that was never noted counts as now: no timer runs out because of it.
        return self.now_ms - (instant_ms or self.now_ms)

    def name(self, vertex_id: VertexId) -> str:
        """Return what people call a vertex."""
        return self.names.get(vertex_id) or vertex_id

    def describe_change(self, before: Vector, after: Vector) -> str:
        """Return what changes, for people: ``work 2 -> 4, sink 1 -> 2``."""
        return describe_change(self.names, before, after)


@value
class Transition:
    """What a step comes to.

    Attributes:
        state: What to remember from now on: the supervision, and the overrides that are to be realized.
        events: What happened; each is about a change, so that it is told once.
        holds: Why nothing may be decided in this pass.
    """

    state: JobState
    events: tuple[Event, ...] = ()
    holds: tuple[Reason, ...] = ()

    def then(self, following: Transition) -> Transition:
        """Return two steps as one; the second has begun with what the first one remembers."""
        return Transition(following.state, (*self.events, *following.events), (*self.holds, *following.holds))


Step = Callable[[JobState, SupervisionInput], Transition]


def run_steps(state: JobState, given: SupervisionInput, steps: Iterable[Step]) -> Transition:
    """Take steps one after the other."""
    # A loop and not a fold over ``then``: every pass takes all steps, and a fold would copy the tuples in each.
    events, holds = list[Event](), list[Reason]()
    for step in steps:
        done = step(state, given)
        state = done.state
        events += done.events
        holds += done.holds
    return Transition(state, tuple(events), tuple(holds))


def with_supervision(
    state: JobState, supervision: Supervision, *events: Event, overrides: Vector | None = None
) -> Transition:
    """Go on with another supervision, and with other overrides where they are given."""
    # An empty map is a wish of its own, as after a foreign edit; only None keeps what was wanted.
    wanted = state.overrides if overrides is None else dict(overrides)
    return Transition(replace(state, supervision=supervision, overrides=wanted), events)


def block(state: JobState, code: ReasonCode, **words: Word) -> Transition:
    """Let nothing be decided in this pass."""
    return Transition(state, holds=(Reason.of(code, None, (), **words),))


def transition_event(reason: str, message: str, *, warns: bool = False) -> Event:
    """Make an event about a change."""
    return Event(EventType.WARNING if warns else EventType.NORMAL, reason, message)


def superseded_event(given: SupervisionInput, record: RescaleRecord, why: str) -> Event:
    """Make the event about a rescale that something else overtook."""
    change = given.describe_change(record.before, record.target)
    return transition_event("RescaleSuperseded", f"The rescale {change} is superseded: {why}")


def finalize(record: RescaleRecord, given: SupervisionInput, stage: Stage, reason: str) -> RescaleRecord:
    """Give a rescale its final stage."""
    # Noted now: the next pass may see the job on its way to another parallelism.
    reached = dict(given.facts.running or {})
    return replace(record, stage=stage, settled_ms=given.now_ms, reason=reason, reached=reached)


def supersede(supervision: Supervision, given: SupervisionInput, why: str) -> Supervision:
    """Give up a rescale that is under way, because something else overtook it."""
    if supervision.under_way is None:
        return supervision
    return replace(supervision, current=finalize(supervision.under_way, given, Stage.SUPERSEDED, why))


def start_rescale(
    supervision: Supervision, given: SupervisionInput, before: Vector, target: Vector, origin: Origin, reason: str
) -> Supervision:
    """Begin to follow a rescale; the one before it is a past one then."""
    record = RescaleRecord(
        decided_ms=given.now_ms,
        # By the clock of the JobManager, which dates exceptions, checkpoints and restarts that are compared with it.
        since_ms=given.now_ms if given.facts.now_ms is None else given.facts.now_ms,
        before=dict(before),
        target=dict(target),
        origin=origin,
        mechanism=mechanism_of(given.context, before, target),
        reason=reason,
    )
    # One rescale is followed at a time: nothing tells which of two requests a parallelism comes from.
    past = supersede(supervision, given, "another rescale was decided")
    return replace(past.retire_current(given.now_ms), current=record, since_ms=given.now_ms, hits={})
