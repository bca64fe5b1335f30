"""What is remembered about rescales: the one that is followed, those of the past, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from flink_autoscaler.core.model.codec import EpochMs
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.value import replace, value

Vector = Mapping[VertexId, int]
"""Parallelism of every vertex of a job."""

Requirements = Mapping[VertexId, tuple[int, int]]
"""Resource requirements of a job: the least and the greatest parallelism of its vertices."""

_KEPT_MS: Final = 14 * 86_400_000
_KEPT_RECORDS: Final = 200
"""Past rescales that are remembered."""


class Stage(StrEnum):
    """How far a rescale came. The last four are final."""

    REQUESTED = "requested"
    PENDING = "pending"
    REACHED = "reached"
    PARTIALLY_REACHED = "partially reached"
    REFUSED = "refused"
    SUPERSEDED = "superseded"

    @property
    def is_final(self) -> bool:
        """Whether nothing more is to come."""
        return self not in (Stage.REQUESTED, Stage.PENDING)


class Origin(StrEnum):
    """Who wanted a rescale."""

    AUTOSCALER = "autoscaler"
    ROLLBACK = "rollback"
    OPERATOR = "operator"


class Mechanism(StrEnum):
    """How a rescale is done, which decides how long it takes."""

    IN_PLACE = "inplace"
    REACTIVE_LOSS = "reactive_loss"
    """Its TaskManagers go away: the JobManager has to miss their heartbeats first."""


@dataclass(frozen=True, slots=True)
class RescaleRecord:
    """One rescale. Instants are epoch milliseconds.

    Attributes:
        decided_ms: Instant of the pass that decided it, by the clock of the daemon; its identity.
        since_ms: The same instant by the clock of the JobManager, before it was asked: what happened there later may be
            its doing.
        before: Parallelism before.
        target: Parallelism asked for.
        reason: Why it was done, and after it is final what became of it; for people.
        accepted_ms: When the cluster was first seen to have the requirements; None before.
        settled_ms: When it became final, by the clock of the daemon.
        outage_ms: Time during which not all tasks ran; None where that could not be measured.
        reached: Parallelism that the job ran with when it became final.
        state_bytes: Size of the last completed checkpoint; None when not known.
        taskmanagers: TaskManagers afterwards; None when not known.
        reverted: Whether it was rolled back.
    """

    decided_ms: EpochMs
    since_ms: EpochMs
    before: Vector
    target: Vector
    origin: Origin = Origin.AUTOSCALER
    mechanism: Mechanism = Mechanism.IN_PLACE
    stage: Stage = Stage.REQUESTED
    reason: str = ""
    accepted_ms: EpochMs | None = None
    settled_ms: EpochMs | None = None
    outage_ms: EpochMs | None = None
    reached: Vector = field(default_factory=dict)
    state_bytes: int | None = None
    taskmanagers: int | None = None
    reverted: bool = False

    @property
    def changed(self) -> frozenset[VertexId]:
        """The vertices that it changes."""
        return frozenset(v for v, parallelism in self.target.items() if self.before.get(v) != parallelism)

    @property
    def raised(self) -> frozenset[VertexId]:
        """The vertices that it gives more parallelism."""
        return frozenset(v for v in self.changed if self.target[v] > self.before.get(v, 0))

    @property
    def is_up(self) -> bool:
        """Whether any vertex grows."""
        return bool(self.raised)


class SupervisionPhase(StrEnum):
    """Whether a job is trusted to be fine after its last rescale."""

    STABLE = "stable"
    PROBATION = "probation"
    ROLLING_BACK = "rolling back"
    PAUSED = "paused"


@value
class Fingerprint:
    """What tells that a cluster was restarted or changed.

    Attributes:
        taskmanagers: Ids.
        network_memory: Bytes of the TaskManager that has the least; None when not known.
        heap: The same of its heap.
    """

    job_id: str | None
    taskmanagers: frozenset[str] = frozenset()
    network_memory: int | None = None
    heap: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a job is paused after a rollback, and until when.

    Attributes:
        cause: Name of the checker, or ``rollback-failed``.
        text: For people.
        fingerprint: The cluster as it was.
        until_ms: End; None lasts until the cluster restarts.
        for_good: Whether only a person ends it.
    """

    cause: str
    text: str
    since_ms: EpochMs
    fingerprint: Fingerprint
    until_ms: EpochMs | None = None
    for_good: bool = False


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A parallelism that failed: the vertex stays below it.

    Attributes:
        parallelism: The least one that is known to fail.
        cause: Name of the checker.
        memory: The figure of the cluster that the cause depends on, bytes; the quarantine ends when it has grown.
    """

    vertex_id: VertexId
    parallelism: int
    cause: str
    since_ms: EpochMs
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class ForeignEdit:
    """Somebody else changed the resource requirements of the job.

    Attributes:
        requirements: As they were found.
        until_ms: How long that is left as it is.
        before: As they were; empty once two answers have said the same.
    """

    at_ms: EpochMs
    requirements: Requirements
    until_ms: EpochMs
    before: Requirements = field(default_factory=dict)


@value
class Supervision:
    """Everything that is remembered about the rescales of one job.

    Attributes:
        current: The last rescale; it is followed until it is final, and is on probation after that.
        since_ms: When the phase began, by the clock of the daemon; None for a job that was never rescaled.
        initial: First parallelism that was seen for this job graph.
        last_stable: Latest parallelism that left probation in good health.
        asked: Parallelism per vertex that the last pass wanted to be realized, operator's pins included.
        seen: Resource requirements as they were last seen after one of our own changes.
        seen_start_ms: When the execution of the JobMaster began that held them.
        hits: Passes in a row in which a checker that wants several found something, by its name.
        baseline: What checkers and the end of the probation compare with, as it was before the rescale, by name.
        past: Final rescales, oldest first.
        rollbacks_ms: When rollbacks began, in the last day.
        obeyed_ms: Instant of the latest order of a person that was carried out once and for all.
        heard_ms: Clock of the JobManager in the latest answer that was taken note of.
        pinned: Vertices that pins held in the last pass.
    """

    current: RescaleRecord | None = None
    phase: SupervisionPhase = SupervisionPhase.STABLE
    since_ms: EpochMs | None = None
    initial: Vector = field(default_factory=dict)
    last_stable: Vector = field(default_factory=dict)
    asked: Vector = field(default_factory=dict)
    seen: Requirements = field(default_factory=dict)
    seen_start_ms: EpochMs | None = None
    hits: Mapping[str, int] = field(default_factory=dict)
    baseline: Mapping[str, float] = field(default_factory=dict)
    past: tuple[RescaleRecord, ...] = ()
    rollbacks_ms: tuple[EpochMs, ...] = ()
    pause: Pause | None = None
    quarantine: tuple[Quarantined, ...] = ()
    edit: ForeignEdit | None = None
    obeyed_ms: EpochMs = 0
    heard_ms: EpochMs | None = None
    pinned: frozenset[VertexId] = frozenset()

    @property
    def under_way(self) -> RescaleRecord | None:
        """The rescale of which more is to come."""
        return None if self.current is None or self.current.stage.is_final else self.current

    @property
    def rescales(self) -> tuple[RescaleRecord, ...]:
        """All that are remembered, oldest first."""
        return self.past if self.current is None else (*self.past, self.current)

    @property
    def is_active(self) -> bool:
        """Whether a rescale is under way or on probation, so that the job has to be looked at more closely."""
        return self.under_way is not None or self.phase is not SupervisionPhase.STABLE

    def with_phase(self, phase: SupervisionPhase, now_ms: int) -> Supervision:
        """Enter a phase."""
        return replace(self, phase=phase, since_ms=now_ms, hits={})

    def without_probation(self, now_ms: int) -> Supervision:
        """End a probation in which there is nothing to prove any more."""
        return self.with_phase(SupervisionPhase.STABLE, now_ms) if self.phase is SupervisionPhase.PROBATION else self

    def retire_current(self, now_ms: int) -> Supervision:
        """Put the rescale that was followed to those of the past."""
        if self.current is None:
            return self
        recent = tuple(record for record in self.rescales if record.decided_ms >= now_ms - _KEPT_MS)
        return replace(self, current=None, past=recent[-_KEPT_RECORDS:])


NO_SUPERVISION = Supervision()


def describe_change(names: Mapping[VertexId, str], before: Vector, after: Vector) -> str:
    """Return what changes between two vectors, for people: ``work 2 -> 4, sink 1 -> 2``."""
    changes = [
        f"{names.get(vertex_id) or vertex_id} {before.get(vertex_id, '?')} -> {parallelism}"
        for vertex_id, parallelism in after.items()
        if before.get(vertex_id) != parallelism
    ]
    return ", ".join(changes) or "nothing"
