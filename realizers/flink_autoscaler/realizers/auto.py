"""Chooses how a job is rescaled by what its cluster is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint, JobKey
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import NO_TERMS, Realization, RealizationTerms
from flink_autoscaler.core.ports.task_managers import is_reactive
from flink_autoscaler.realizers.in_place.rescale_api import REACTIVE_MODE, RescaleApiRealizer
from flink_autoscaler.realizers.realization import BoundedMemory
from flink_autoscaler.realizers.task_managers.clusters import Supplies
from flink_autoscaler.realizers.task_managers.count import TaskManagerCountRealizer


class AutoRealizer:
    """Counts TaskManagers for jobs in reactive mode, and asks for resource requirements of all others.

    That a job runs in reactive mode is known from its configuration, or from what the cluster answers when it is asked
    for a parallelism: "Cannot change the parallelism of a job running in reactive mode".

    The arguments are those of :class:`~flink_autoscaler.realizers.task_managers.clusters.ManagedClusters`.
    """

    def __init__(
        self,
        clients: Callable[[Endpoint], FlinkRestClient],
        loop: EventLoopThread,
        supplies: Supplies,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._in_place = RescaleApiRealizer(clients, loop, clock=clock)
        self._by_count = TaskManagerCountRealizer(clients, loop, supplies, clock=clock)
        self._found_reactive: BoundedMemory[JobKey, str | None] = BoundedMemory()

    def realize_overrides(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        """Give every named vertex its parallelism, on the way that the cluster knows.

        Raises:
            RealizeError: The cluster did not answer, or refused.
            ConfigError: The job or the provider is not configured as it has to be.
        """
        if self._is_reactive(context):
            return self._by_count.realize_count(context, overrides, terms=terms)
        realization = self._in_place.realize_overrides(context, overrides, terms=terms)
        if any(event.reason == REACTIVE_MODE for event in realization.events):
            self._found_reactive.put(context.job_key, context.job_id)
            return self._by_count.realize_count(context, overrides, terms=terms)
        return realization

    def realize_config(self, context: JobAutoScalerContext, changes: ConfigChanges) -> Realization:
        """Refuse, and say why: neither way changes the configuration of a job."""
        if self._is_reactive(context):
            return self._by_count.realize_config(context, changes)
        return self._in_place.realize_config(context, changes)

    def close(self) -> None:
        """Release nothing: clients, event loop and providers belong to whoever made them."""

    def _is_reactive(self, context: JobAutoScalerContext) -> bool:
        found = self._found_reactive.get(context.job_key)
        return is_reactive(context) or (found is not None and found == context.job_id)
