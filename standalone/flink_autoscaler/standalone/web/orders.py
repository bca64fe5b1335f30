"""Orders that come over the API: the same commands as on the command line."""

from __future__ import annotations

import structlog

from flink_autoscaler.core.border import Border
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.orders import MOST_PARALLELISM, PauseScope
from flink_autoscaler.core.model.supervision import NO_SUPERVISION
from flink_autoscaler.core.supervise.order_book import NEEDS_REASON, OperatorCommand, give_order
from flink_autoscaler.standalone.records.latest import seen_job
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.standalone.views.commands import CommandResultView, with_standing
from flink_autoscaler.standalone.web.requests import OrderRequest
from flink_autoscaler.standalone.web.site import Site

log = structlog.get_logger(__name__)


def order(site: Site, asked: OrderRequest, who: str) -> CommandResultView:
    """Give an order for a job that a cluster has now, signed with the instant of the book.

    Args:
        site: The daemon.
        asked: What is wanted.
        who: Orders it.

    Raises:
        ConfigError: There is no such job, or something is missing.
        StoreError: The book does not answer.
    """
    job = site.fleet.job(asked.job_key)
    if job is None:
        raise ConfigError(f"no cluster has a job {masked(asked.job_key[:200])} now")
    if asked.order in NEEDS_REASON and not asked.reason.strip():
        raise ConfigError(f"reason: say why, {asked.order} keeps it")
    supervision = NO_SUPERVISION if job.report is None else job.report.outcome.state.supervision
    seen = None if site.records is None else seen_job(site.records, asked.job_key)
    signature = (who, asked.reason.strip())
    ordered = give_order(site.order_book, asked.job_key, _command(asked), signature, supervision, seen)
    if ordered.event is not None:
        with Border() as border:  # it is ordered, whoever hears of it
            site.order_events.handle_event(job.context, ordered.event)
        if border.error is not None:
            log.warning("event_not_told", reason=ordered.event.reason, error=masked(str(border.error)))
        site.fleet.take_orders(asked.job_key, with_standing(ordered.orders, site.standing()))
    return CommandResultView(job_key=asked.job_key, text=ordered.text, is_refused=ordered.is_refused)


def _command(asked: OrderRequest) -> OperatorCommand:
    if asked.order == "pin" and not asked.vertices:
        raise ConfigError("vertices: name at least one, with its parallelism")
    if asked.order == "pin" and any(not 1 <= number <= MOST_PARALLELISM for number in asked.vertices.values()):
        raise ConfigError(f"vertices: a parallelism is from 1 to {MOST_PARALLELISM}")
    lasts_ms = None if asked.seconds is None else round(1000 * asked.seconds)
    return OperatorCommand(asked.order, PauseScope(asked.direction), lasts_ms, asked.vertices, asked.force)
