"""The TaskManagers of a cluster, in figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import FlinkRestError
from flink_autoscaler.core.model.job import Capacity
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.task_managers import is_reactive

_GROWING_TARGETS: Final = ("kubernetes", "yarn")
_GROWING_KEYS: Final = ("kubernetes.cluster-id", "yarn.application.id")


async def read_capacity(client: FlinkRestClient) -> Capacity | None:
    """Return what a cluster has; None when it does not say. Whether it grows is not known here."""
    try:
        taskmanagers = await client.taskmanagers()
    except FlinkRestError:
        return None
    return Capacity(
        taskmanagers=len(taskmanagers),
        slots=sum(each.slots for each in taskmanagers),
        free_slots=sum(each.free_slots for each in taskmanagers),
        slots_per_taskmanager=max((each.slots for each in taskmanagers), default=0),
        network_memory=min((each.network_memory for each in taskmanagers if each.network_memory), default=None),
    )


def with_capacity(
    context: JobAutoScalerContext, capacity: Capacity | None, *, is_fixed: bool | None
) -> JobAutoScalerContext:
    """Give a job the figures of its cluster, where they are known.

    ``is_fixed`` tells whether the cluster stays as it is; None finds out from the job's configuration.
    """
    if capacity is None:
        return context
    fixed = not _grows(context) if is_fixed is None else is_fixed
    return replace(context, capacity=replace(capacity, is_fixed=fixed))


def _grows(context: JobAutoScalerContext) -> bool:
    """Tell whether TaskManagers are added when a job needs more slots: by Flink itself, or since it is reactive."""
    target = context.configuration.get("execution.target", "").lower()
    has_own = target.startswith(_GROWING_TARGETS) or any(key in context.configuration for key in _GROWING_KEYS)
    return has_own or is_reactive(context)
