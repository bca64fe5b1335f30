"""What is ordered for jobs, by people or by what else makes the daemon leave a job alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import Field

from flink_autoscaler.core.decide.slot_sharing import slots_in_groups
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.orders import Orders
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Supervision
from flink_autoscaler.core.ports.order_store import CommandResult
from flink_autoscaler.core.rescale.active_orders import ActiveOrders
from flink_autoscaler.core.rescale.operator_commands import OperatorCommand, orders_for
from flink_autoscaler.standalone.views.base import Number, Text, View
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


class CommandPreviewView(View):
    """What an order would do, before it is given."""

    job_key: str
    text: Text
    is_refused: bool
    slots: int | None = Field(description="That the job takes.")
    slots_after: int | None = Field(description="That it takes when the order is carried out.")
    downtime_seconds: Number = Field(description="Expected of the restart; null where there is none, or it is unknown.")
    commands: list[CommandView] = Field(description="Everything that is ordered then, by whom, until when.")


def command_preview(job: JobNow, command: OperatorCommand, result: CommandResult, now_ms: int) -> CommandPreviewView:
    """Describe what an order would do.

    Args:
        job: As the last pass found it.
        command: The order.
        result: What it makes of the orders of the job.
        now_ms: The present, epoch milliseconds.
    """
    outcome = None if job.report is None else job.report.outcome
    supervision = NO_SUPERVISION if outcome is None else outcome.state.supervision
    topology = None if outcome is None else outcome.observation.topology
    vertices = {} if topology is None else topology.vertices
    running = {v: vertex.parallelism for v, vertex in vertices.items()}
    target: Mapping[VertexId, int] = {}
    if command.order == "pin" and not result.is_refused:
        pins = result.orders.pins_by_vertex(tuple(vertices.values()))
        target = {vertex_id: pin.parallelism for vertex_id, pin in pins.items()}
    elif command.order == "rollback" and not result.is_refused:
        target = {v: number for v, number in supervision.rescales[-1].before.items() if v in running}
    after = {**running, **target}
    restart = None if outcome is None or after == running else outcome.restart
    return CommandPreviewView(
        job_key=job.context.job_key,
        text=result.text,
        is_refused=result.is_refused,
        slots=slots_in_groups(vertices.values(), running) if running else None,
        slots_after=slots_in_groups(vertices.values(), after) if running else None,
        downtime_seconds=None if restart is None else restart.seconds,
        commands=_described(job, result.orders, supervision, now_ms),
    )


def _described(job: JobNow, orders: Orders, supervision: Supervision, now_ms: int) -> list[CommandView]:
    key = job.context.job_key
    return [
        CommandView(job_key=key, order=order, by=signed.who, since_ms=signed.at_ms, until=until, reason=signed.reason)
        for order, signed, until in ActiveOrders(key, orders, supervision, now_ms).lines()
    ]


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
    yield from _described(job, orders, supervision, now_ms)


def with_default_orders(orders: Orders, standing: Orders) -> Orders:
    """Return the orders for a job with those that the settings give for every job."""
    return replace(orders, dry_run=orders.dry_run or standing.dry_run)
