"""What is ordered for jobs, by people or by what else makes the daemon leave a job alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.orders import Orders
from flink_autoscaler.core.model.supervision import NO_SUPERVISION
from flink_autoscaler.core.rescale.active_orders import ActiveOrders
from flink_autoscaler.core.rescale.operator_commands import orders_for
from flink_autoscaler.standalone.views.base import Text, View
from flink_autoscaler.standalone.views.fleet import JobNow


class CommandView(View):
    """What a person ordered, or what else makes the daemon leave a job alone."""

    job_key: str
    order: str
    by: Text
    since_ms: int
    until: str
    reason: Text


class CommandsView(View):
    """Everything that is ordered now."""

    commands: list[CommandView]


class CommandResultView(View):
    """What came of an order."""

    job_key: str
    text: str
    is_refused: bool


def command_views(job: JobNow, book: Mapping[JobKey, Orders], standing: Orders, now_ms: int) -> Iterator[CommandView]:
    """Describe what is ordered for a job.

    Args:
        job: As the last pass found it.
        book: The orders of its cluster.
        standing: Orders that the settings give for every job.
        now_ms: The present, epoch milliseconds.
    """
    key = job.context.job_key
    orders = with_default_orders(orders_for(key, job.context.other_keys, book, now_ms), standing)
    supervision = NO_SUPERVISION if job.report is None else job.report.outcome.state.supervision
    for order, signed, until in ActiveOrders(key, orders, supervision, now_ms).lines():
        yield CommandView(
            job_key=key, order=order, by=signed.who, since_ms=signed.at_ms, until=until, reason=signed.reason
        )


def with_default_orders(orders: Orders, standing: Orders) -> Orders:
    """Return the orders for a job with those that the settings give for every job."""
    return replace(orders, dry_run=orders.dry_run or standing.dry_run)
