"""The working values while one job's rescales are followed through one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from flink_autoscaler.core.model.decision import PassRequest
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobAutoScalerContext
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Origin, RescaleRecord, Stage, Supervision, SupervisionPhase, Vector
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.plugins import UnrecoverableErrorChecker

KEPT_MS: Final = 14 * 86_400_000
KEPT_RECORDS: Final = 200
"""Past rescales that are remembered."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that following depends on.

    Attributes:
        request: The job, with what is remembered about it.
        facts: What the cluster says about its rescale.
        pressure: Garbage collection and heap usage of the fullest TaskManager now, by the names of the checkers.
        names: Name of every vertex, for people.
        checkers: By the names of ``rollback.checkers``.
    """

    request: PassRequest
    facts: RescaleFacts
    checkers: Mapping[str, UnrecoverableErrorChecker]
    pressure: Mapping[str, float] = field(default_factory=dict)
    names: Mapping[VertexId, str] = field(default_factory=dict)


@dataclass
class FollowRun:
    """Working values; the state is replaced as a whole in the end.

    Attributes:
        supervision: What is remembered from now on.
        overrides: What is to be realized from now on.
        holds: Why nothing may be decided in this pass.
        is_reset: Whether everything else is to be forgotten.
        is_other_job: Whether the job is another one than in the pass before; its samples do not count then.
    """

    given: Situation
    supervision: Supervision
    overrides: Mapping[VertexId, int]
    events: list[Event] = field(default_factory=list)
    holds: list[Reason] = field(default_factory=list)
    is_reset: bool = False
    is_other_job: bool = False

    @classmethod
    def of(cls, given: Situation) -> FollowRun:
        """Begin with what was remembered."""
        return cls(given, given.request.state.supervision, given.request.state.overrides)

    @property
    def context(self) -> JobAutoScalerContext:
        """The job."""
        return self.given.request.context

    @property
    def options(self) -> AutoscalerOptions:
        """Its options."""
        return self.context.options

    @property
    def facts(self) -> RescaleFacts:
        """What the cluster says."""
        return self.given.facts

    @property
    def now_ms(self) -> int:
        """Instant of the pass, by the clock of the daemon."""
        return self.given.request.now_ms

    @property
    def cluster_now_ms(self) -> int:
        """The same by the clock of the JobManager, where it told."""
        return self.now_ms if self.facts.now_ms is None else self.facts.now_ms

    @property
    def is_blind(self) -> bool:
        """Whether the requirements, seen before, could not be read now."""
        return bool(self.supervision.seen) and self.facts.requirements is None and not self.is_reactive

    @property
    def is_reactive(self) -> bool:
        """Whether the parallelism follows the number of TaskManagers instead of requirements."""
        return self.context.flink_options.scheduler_mode.strip().lower() == "reactive"

    def change(self, **changes: object) -> None:
        """Replace fields of the supervision."""
        self.supervision = replace(self.supervision, **changes)  # type: ignore[arg-type]

    def update(self, **changes: object) -> RescaleRecord:
        """Replace fields of the rescale that is followed, and return it."""
        assert self.supervision.current is not None  # noqa: S101 - callers have looked
        current = replace(self.supervision.current, **changes)  # type: ignore[arg-type]
        self.change(current=current)
        return current

    def hold(self, code: str, text: str) -> None:
        """Let nothing be decided in this pass."""
        self.holds.append(Reason(code, text))

    def tell(self, reason: str, message: str, *, warns: bool = False) -> None:
        """Add an event; each is about a change and told once."""
        kind = EventType.WARNING if warns else EventType.NORMAL
        self.events.append(Event(kind, reason, message))

    def settle(self, stage: Stage, reason: str) -> RescaleRecord:
        """Give the rescale that is followed its final stage."""
        running = self.facts.running or {}
        return self.update(stage=stage, settled_ms=self.now_ms, reason=reason, reached=dict(running))

    def retire(self) -> None:
        """Put the rescale that was followed to those of the past."""
        if self.supervision.current is not None:
            past = (*self.supervision.past, self.supervision.current)
            since_ms = self.now_ms - KEPT_MS
            kept = tuple(record for record in past if record.decided_ms >= since_ms)[-KEPT_RECORDS:]
            self.change(current=None, past=kept)

    def begin(self, before: Vector, target: Vector, origin: Origin, reason: str) -> None:
        """Begin to follow a rescale; the one before it is a past one then."""
        if self.supervision.current is not None and not self.supervision.current.stage.is_final:
            self.settle(Stage.SUPERSEDED, "another rescale was decided")
        self.retire()
        record = RescaleRecord(
            decided_ms=self.now_ms,
            since_ms=self.cluster_now_ms,
            before=dict(before),
            target=dict(target),
            origin=origin,
            reason=reason,
        )
        self.change(current=record, since_ms=self.now_ms, hits={})

    def to_phase(self, phase: SupervisionPhase) -> None:
        """Enter a phase now."""
        self.change(phase=phase, since_ms=self.now_ms, hits={})

    def name(self, vertex_id: VertexId) -> str:
        """Return what people call a vertex."""
        return self.given.names.get(vertex_id) or vertex_id

    def described(self, before: Vector, after: Vector) -> str:
        """Return what changes, for people: ``work 2 -> 4, sink 1 -> 2``."""
        changes = [
            f"{self.name(vertex_id)} {before.get(vertex_id, '?')} -> {parallelism}"
            for vertex_id, parallelism in after.items()
            if before.get(vertex_id) != parallelism
        ]
        return ", ".join(changes) or "nothing"

    def finish(self) -> JobState:
        """Return what is to be remembered."""
        state = self.given.request.state
        if self.is_reset:
            return JobState(job_id=state.job_id, supervision=self.supervision)
        if self.is_other_job:
            state = replace(state, job_id=self.context.job_id, samples=())
        return replace(state, supervision=self.supervision, overrides=dict(self.overrides))
