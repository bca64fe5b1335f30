"""What is ordered for a job at an instant, and what else makes the daemon leave it alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.orders import AuditStamp, Orders, PauseOrder, Pin, still_to_do
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.model.vertex_patterns import Named
from flink_autoscaler.core.rescale.operator_commands import pause_in_force, pin_text, time_text
from flink_autoscaler.core.rescale.suspension import Suspension, suspensions


@dataclass(frozen=True, slots=True)
class ActiveOrders:
    """What is ordered for a job at an instant, with what is remembered about its rescales.

    Attributes:
        vertices: Of the job when a pass over it was recorded last; None where that is not known.
    """

    job_key: JobKey
    orders: Orders
    supervision: Supervision
    now_ms: int
    vertices: tuple[Named, ...] | None = None

    def __bool__(self) -> bool:
        return bool(list(self.lines()))

    @property
    def pause(self) -> PauseOrder | None:
        """The pause in force."""
        return pause_in_force(self.orders, self.now_ms)

    @property
    def rollback(self) -> AuditStamp | None:
        """A rollback that was not carried out yet."""
        return self._pending(self.orders.rollback)

    @property
    def reset(self) -> AuditStamp | None:
        """A reset that was not carried out yet."""
        return self._pending(self.orders.reset)

    @property
    def suspensions(self) -> tuple[Suspension, ...]:
        """For what the job is suspended."""
        return suspensions(self.orders, self.supervision, self.now_ms)

    def _pending(self, order: AuditStamp | None) -> AuditStamp | None:
        return order if still_to_do(order, self.supervision) else None

    def is_idle(self, pin: Pin) -> bool:
        """Whether a pin is known to fit no vertex of the job."""
        return self.vertices is not None and pin in self.orders.idle_pins(self.vertices)

    def lines(self) -> Iterator[tuple[str, AuditStamp, str]]:
        """Yield every order: what, by whom, and until when."""
        if self.pause is not None:
            until = "resumed" if self.pause.until_ms is None else time_text(self.pause.until_ms)
            yield f"pause ({self.pause.direction.value})", self.pause.signed, until
        for pin in self.orders.pins:
            idle = " (fits no vertex)" if self.is_idle(pin) else ""
            yield f"pin {pin_text(pin)}{idle}", pin.signed, "unpinned"
        if self.orders.dry_run is not None:
            yield "dry-run", self.orders.dry_run, "switched off"
        for name, signed in (("rollback", self.rollback), ("reset", self.reset)):
            if signed is not None:
                yield name, signed, "the next pass"
        yield from ((each.what, each.signed, each.until) for each in self.suspensions if not each.is_ordered)
