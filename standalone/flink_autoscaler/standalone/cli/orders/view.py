"""Shows orders: as a table for people, as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from flink_autoscaler.core.model.orders import Signed
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.supervise.in_force import OrdersInForce
from flink_autoscaler.core.supervise.left_alone import LeftAlone
from flink_autoscaler.core.supervise.order_book import time_text
from flink_autoscaler.standalone.cli.output import print_document, print_table


def print_remote_orders(url: str, job: str | None, *, as_json: bool) -> None:
    """Print the orders that a running daemon tells of, all or those for one job."""
    from flink_autoscaler.standalone.web.client import ask, key_of

    found = ask(url, "/api/v1/orders", job=None if job is None else key_of(url, job))
    if as_json:
        print_document(found)
        return
    rows = [
        (each["job_key"], each["order"], each["by"], time_text(each["since_ms"]), each["until"], each["reason"] or "-")
        for each in found["orders"]
    ]
    print_table(("JOB", "ORDER", "BY", "SINCE", "UNTIL", "REASON"), rows, if_empty="no orders")


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
