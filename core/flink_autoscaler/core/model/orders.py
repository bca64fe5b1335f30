"""What people ordered for a job: to leave it alone, to hold a vertex, to go back, to forget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeGuard

from flink_autoscaler.core.model.codec import EpochMs
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.model.vertex_patterns import Named, matches

MAX_PARALLELISM: Final = 1 << 15
"""The greatest parallelism that Flink knows, and the most that somebody may pin."""


class PauseScope(StrEnum):
    """Which changes an order is about."""

    UP = "up"
    DOWN = "down"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class AuditStamp:
    """Who gave an order, when and why."""

    who: str
    reason: str
    at_ms: EpochMs


@dataclass(frozen=True, slots=True)
class PauseOrder:
    """Leave the job as it is.

    Attributes:
        until_ms: End; None lasts until somebody resumes the job.
    """

    signed: AuditStamp
    direction: PauseScope = PauseScope.BOTH
    until_ms: EpochMs | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """Keep the vertices whose name or id matches a pattern at one parallelism."""

    pattern: str
    parallelism: int
    signed: AuditStamp


@dataclass(frozen=True, slots=True)
class Orders:
    """Everything that is ordered for one job.

    Attributes:
        pause: None when the job is not paused.
        pins: In the order given; the latest that matches a vertex counts.
        resumed_ms: When somebody last said to go on: ends a pause after a rollback that began before.
        rollback: Go back to the parallelism before the last rescale; done once per ``at_ms``.
        reset: Forget what was learned and decided; done once per ``at_ms``.
        dry_run: Decide and report, but change nothing.
    """

    pause: PauseOrder | None = None
    pins: tuple[Pin, ...] = ()
    resumed_ms: EpochMs | None = None
    rollback: AuditStamp | None = None
    reset: AuditStamp | None = None
    dry_run: AuditStamp | None = None

    @property
    def has_single(self) -> bool:
        """Whether something is ordered that is carried out once."""
        return self.resumed_ms is not None or self.rollback is not None or self.reset is not None

    def pause_for(self, direction: PauseScope, now_ms: int) -> PauseOrder | None:
        """Return the order that forbids changes in a direction now."""
        pause = self.pause
        if pause is None or (pause.until_ms is not None and now_ms >= pause.until_ms):
            return None
        return pause if pause.direction in (direction, PauseScope.BOTH) else None

    def pins_by_vertex(self, vertices: Iterable[Named]) -> Mapping[VertexId, Pin]:
        """Return the pin of every vertex that has one."""
        known = tuple(vertices)
        return {vertex.vertex_id: pin for pin in self.pins for vertex in known if matches(vertex, pin.pattern)}

    def idle_pins(self, vertices: Iterable[Named]) -> tuple[Pin, ...]:
        """Return the pins that match none of the vertices of the job."""
        known = tuple(vertices)
        return tuple(pin for pin in self.pins if not any(matches(vertex, pin.pattern) for vertex in known))


NO_ORDERS = Orders()


def still_to_do(order: AuditStamp | None, supervision: Supervision) -> TypeGuard[AuditStamp]:
    """Tell whether an order that is carried out once has not been yet."""
    return order is not None and order.at_ms > supervision.obeyed_ms
