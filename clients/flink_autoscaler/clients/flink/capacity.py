"""The TaskManagers of a cluster, in figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.error_boundary import try_await, try_call
from flink_autoscaler.core.errors import AutoscalerError, ResponseError
from flink_autoscaler.core.model.job import ClusterCapacity, JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.task_managers import is_reactive

TASKMANAGERS: Final = "the TaskManagers of the cluster"
_GROWING_TARGETS: Final = ("kubernetes", "yarn")
_GROWING_KEYS: Final = ("kubernetes.cluster-id", "yarn.application.id")


async def read_capacity(client: FlinkRestClient) -> ClusterCapacity | AutoscalerError:
    """Return what a cluster has, or why that is not known. Whether it grows is not known here."""
    taskmanagers = await try_await(client.taskmanagers(), ResponseError)
    if isinstance(taskmanagers, AutoscalerError):
        return taskmanagers
    return ClusterCapacity(
        taskmanagers=len(taskmanagers),
        slots=sum(each.slots for each in taskmanagers),
        free_slots=sum(each.free_slots for each in taskmanagers),
        slots_per_taskmanager=max((each.slots for each in taskmanagers), default=0),
        network_memory=min((each.network_memory for each in taskmanagers if each.network_memory), default=None),
    )


def with_capacity(
    context: JobAutoScalerContext, capacity: ClusterCapacity | AutoscalerError, *, is_fixed: bool | None
) -> JobAutoScalerContext:
    """Give a job the figures of its cluster; where they are not known, it goes without, and knows why.

    ``is_fixed`` tells whether the cluster stays as it is; None finds out from the job's configuration.
    """
    if isinstance(capacity, AutoscalerError):
        return replace(context, unknown={**context.unknown, TASKMANAGERS: str(capacity)})
    fixed = not _grows(context) if is_fixed is None else is_fixed
    return replace(context, capacity=replace(capacity, is_fixed=fixed))


def with_capacities(
    contexts: Iterable[JobAutoScalerContext], capacity: ClusterCapacity | AutoscalerError, *, is_fixed: bool | None
) -> tuple[tuple[JobAutoScalerContext, ...], dict[JobKey, AutoscalerError]]:
    """Do the same for many jobs; those whose own configuration does not allow it have an error instead."""
    found = {each.job_key: try_call(partial(with_capacity, each, capacity, is_fixed=is_fixed)) for each in contexts}
    errors = {job_key: each for job_key, each in found.items() if isinstance(each, AutoscalerError)}
    return tuple(each for each in found.values() if isinstance(each, JobAutoScalerContext)), errors


def _grows(context: JobAutoScalerContext) -> bool:
    """Tell whether TaskManagers are added when a job needs more slots: by Flink itself, or since it is reactive."""
    target = context.configuration.get("execution.target", "").lower()
    has_own = target.startswith(_GROWING_TARGETS) or any(key in context.configuration for key in _GROWING_KEYS)
    return has_own or is_reactive(context)
