"""Shows orders: as a table for people, as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.orders import Orders, PauseOrder, Pin, Signed
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.model.vertex_patterns import Named
from flink_autoscaler.core.supervise.left_alone import LeftAlone, left_alone
from flink_autoscaler.core.supervise.order_book import pause_in_force, pin_text, still_to_do, time_text
from flink_autoscaler.standalone.cli.output import print_document, print_table


@dataclass(frozen=True, slots=True)
class OrdersInForce:
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
    def rollback(self) -> Signed | None:
        """A rollback that was not carried out yet."""
        return self._pending(self.orders.rollback)

    @property
    def reset(self) -> Signed | None:
        """A reset that was not carried out yet."""
        return self._pending(self.orders.reset)

    @property
    def left_alone(self) -> tuple[LeftAlone, ...]:
        """For what the job is left alone."""
        return left_alone(self.orders, self.supervision, self.now_ms)

    def _pending(self, order: Signed | None) -> Signed | None:
        return order if still_to_do(order, self.supervision) else None

    def is_idle(self, pin: Pin) -> bool:
        """Whether a pin is known to fit no vertex of the job."""
        return self.vertices is not None and pin in self.orders.idle_pins(self.vertices)

    def lines(self) -> Iterator[tuple[str, Signed, str]]:
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
        yield from ((each.what, each.signed, each.until) for each in self.left_alone if not each.is_ordered)


def print_orders(standing: Sequence[OrdersInForce], *, as_json: bool) -> None:
    """Print the orders in force, one row per order, or one document per job that has any."""
    if as_json:
        print_document({"orders": [_document(each) for each in standing if each]})
        return
    rows = [
        (each.job_key, what, signed.who, time_text(signed.at_ms), until, signed.reason or "-")
        for each in standing
        for what, signed, until in each.lines()
    ]
    print_table(("JOB", "ORDER", "BY", "SINCE", "UNTIL", "REASON"), rows, if_empty="no orders")


def _document(standing: OrdersInForce) -> dict[str, Any]:
    pause = standing.pause
    return {
        "job_key": standing.job_key,
        "pause": None
        if pause is None
        else {"direction": pause.direction.value, "until": _instant(pause.until_ms), **_signature(pause.signed)},
        "pins": [
            {
                "vertex": pin.pattern,
                "parallelism": pin.parallelism,
                "fits_a_vertex": None if standing.vertices is None else not standing.is_idle(pin),
                **_signature(pin.signed),
            }
            for pin in standing.orders.pins
        ],
        "dry_run": _optional(standing.orders.dry_run),
        "rollback": _optional(standing.rollback),
        "reset": _optional(standing.reset),
        "left_alone": left_alone_document(standing.left_alone),
    }


def left_alone_document(reasons: Sequence[LeftAlone]) -> list[dict[str, Any]]:
    """Return for what a job is left alone."""
    return [
        {"what": each.what, "until": _instant(each.until_ms), "ends": each.until, **_signature(each.signed)}
        for each in reasons
    ]


def remembered(state: JobState) -> str:
    """Return what is remembered about a job, in a few words; empty when nothing is."""
    supervision = state.supervision
    rescales = len(supervision.past) + (supervision.current is not None)
    counts = [
        (len(state.samples), "sample of metrics", "samples of metrics"),
        (len(state.overrides), "decided parallelism", "decided parallelisms"),
        (sum(map(len, state.history.values())), "entry of scaling history", "entries of scaling history"),
        (len(state.tracking), "measured restart", "measured restarts"),
        (len(state.delayed), "waiting scale-down", "waiting scale-downs"),
        (rescales, "rescale", "rescales"),
        (len(supervision.quarantine), "quarantined vertex", "quarantined vertices"),
    ]
    parts = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    if supervision.pause is not None:
        parts.append(f"the pause since {time_text(supervision.pause.since_ms)} ({supervision.pause.text})")
    if supervision.edit is not None:
        parts.append("the respect for somebody's change of requirements")
    return ", ".join(parts)


def _signature(signed: Signed) -> dict[str, Any]:
    return {"by": signed.who, "reason": signed.reason or None, "since": _instant(signed.at_ms)}


def _optional(signed: Signed | None) -> dict[str, Any] | None:
    return None if signed is None else _signature(signed)


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
