"""Events about clusters and the daemon's own work, such as keeping the history, beside those about jobs."""

from __future__ import annotations

import structlog

from flink_autoscaler.core.border import Border
from flink_autoscaler.core.model.events import Event
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler
from flink_autoscaler.standalone.settings.secrets import masked

log = structlog.get_logger(__name__)


class ServiceEvents:
    """Hands events to the handler of the jobs' events, in the name of the daemon's group. From any thread.

    Args:
        handler: Where events go.
        name: Of the group of daemons, or of a cluster; stands where events of jobs have the job key.
        cluster: That it is about; empty for the daemon's own work.
    """

    def __init__(self, handler: AutoScalerEventHandler, name: str, cluster: str = "") -> None:
        self._handler = handler
        self._context = JobAutoScalerContext(name, None, JobStatus.UNKNOWN, {}, Endpoint(""), "", cluster)

    def __call__(self, event: Event) -> None:
        """Tell an event. Never raises: what is told about has happened, whoever hears of it."""
        with Border() as border:
            self._handler.handle_event(self._context, event)
        if border.error is not None:
            log.warning("event_not_told", reason=event.reason, error=masked(str(border.error)))
