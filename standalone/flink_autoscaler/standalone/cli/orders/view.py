"""Shows orders: as a table for people, as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flink_autoscaler.core.model.orders import Signed
from flink_autoscaler.core.supervise.order_book import time_text
from flink_autoscaler.standalone.cli.output import print_document, print_table

if TYPE_CHECKING:
    from flink_autoscaler.core.supervise.in_force import OrdersInForce
    from flink_autoscaler.core.supervise.left_alone import LeftAlone
    from flink_autoscaler.standalone.cli.command import GivenSettings


def show_orders(given: GivenSettings, job: str | None, url: str | None, *, as_json: bool) -> None:
    """Print the orders in force for all jobs or those that a text means: a row per order, or a document per job.

    Args:
        given: Where the database is.
        job: Key, name, id or pattern of jobs.
        url: Of a running daemon to be asked instead.
        as_json: Whether to print JSON.
    """
    if url is not None:
        from flink_autoscaler.standalone.cli.named_jobs import job_of_daemon
        from flink_autoscaler.standalone.web.client import ask

        document = ask(url, "/api/v1/orders", job=None if job is None else job_of_daemon(url, job))
        rows = [
            (each["job_key"], each["order"], each["by"], time_text(each["since_ms"]), each["until"], each["reason"])
            for each in document["orders"]
        ]
    else:
        from flink_autoscaler.standalone.cli.orders.service import opened_service

        with opened_service(given) as service:
            standing = service.in_force(job)
        document = {"orders": [_document(each) for each in standing if each]}
        rows = [
            (each.job_key, what, signed.who, time_text(signed.at_ms), until, signed.reason)
            for each in standing
            for what, signed, until in each.lines()
        ]
    if as_json:
        print_document(document)
        return
    titles = ("JOB", "ORDER", "BY", "SINCE", "UNTIL", "REASON")
    print_table(titles, [(*cells, reason or "-") for *cells, reason in rows], if_empty="no orders")


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


def _signature(signed: Signed) -> dict[str, Any]:
    return {"by": signed.who, "reason": signed.reason or None, "since": _instant(signed.at_ms)}


def _optional(signed: Signed | None) -> dict[str, Any] | None:
    return None if signed is None else _signature(signed)


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
