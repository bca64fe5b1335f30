"""Everything that suspends the scaling of a job, and when that ends: for the log, ``jobs`` and ``commands``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flink_autoscaler.core.model.orders import AuditStamp, Orders
from flink_autoscaler.core.model.supervision import ForeignEdit, Pause, Supervision
from flink_autoscaler.core.rescale.operator_commands import pause_in_force, pause_text, time_text

_NOBODY = "somebody else"
_DAEMON = "flink-autoscaler"


@dataclass(frozen=True, slots=True)
class Suspension:
    """One thing for which a job is suspended.

    Attributes:
        what: In a few words, such as ``requirements edited``.
        signed: Who did it, why, and since when.
        until: When it ends, for people.
        until_ms: The same, epoch milliseconds; None where no instant ends it.
        is_ordered: Whether it is an order of a person, which ``commands`` shows as such.
    """

    what: str
    signed: AuditStamp
    until: str
    until_ms: int | None = None
    is_ordered: bool = False

    @property
    def text(self) -> str:
        """All of it, for people."""
        return f"{self.what} until {self.until}"


def suspensions(orders: Orders, supervision: Supervision, now_ms: int) -> tuple[Suspension, ...]:
    """Return what makes the daemon leave a job alone, or change nothing about it; empty when nothing does."""
    return tuple(_reasons(orders, supervision, now_ms))


def _reasons(orders: Orders, supervision: Supervision, now_ms: int) -> Iterator[Suspension]:
    ordered, edit, resumed_ms = pause_in_force(orders, now_ms), supervision.edit, orders.resumed_ms or 0
    if ordered is not None:
        until = "resumed" if ordered.until_ms is None else time_text(ordered.until_ms)
        what = pause_text(ordered).partition(" paused ")[0] + " paused"
        yield Suspension(what, ordered.signed, until, ordered.until_ms, is_ordered=True)
    if orders.dry_run is not None:
        yield Suspension("dry run", orders.dry_run, "switched off", is_ordered=True)
    # What a resume ends is over for whoever looks now, although the next pass has to take note of it.
    if supervision.pause is not None and supervision.pause.since_ms > resumed_ms:
        yield _after_rollback(supervision.pause)
    if edit is not None and edit.until_ms > now_ms and edit.at_ms > resumed_ms:
        yield _suspension_by_edit(edit)


def _after_rollback(pause: Pause) -> Suspension:
    signed = AuditStamp(_DAEMON, pause.text, pause.since_ms)
    if pause.for_good:
        return Suspension("paused after a rollback", signed, "resumed")
    if pause.until_ms is None:
        return Suspension("paused after a rollback", signed, "the cluster restarts or resumed")
    return Suspension("paused after a rollback", signed, time_text(pause.until_ms), pause.until_ms)


def _suspension_by_edit(edit: ForeignEdit) -> Suspension:
    text = "the resource requirements were changed by hand"
    return Suspension(
        "requirements edited", AuditStamp(_NOBODY, text, edit.at_ms), time_text(edit.until_ms), edit.until_ms
    )
