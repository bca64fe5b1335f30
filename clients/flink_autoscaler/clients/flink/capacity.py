"""The TaskManagers of a cluster, in figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import FlinkRestError
from flink_autoscaler.core.model.job import Capacity, JobAutoScalerContext
from flink_autoscaler.core.model.rescale_facts import TaskManagerFacts

_GROWING_TARGETS: Final = ("kubernetes", "yarn")
_GROWING_KEYS: Final = ("kubernetes.cluster-id", "yarn.application.id")


async def read_capacity(client: FlinkRestClient) -> Capacity | None:
    """Return what a cluster has; None when it does not say. Whether it grows is not known here."""
    try:
        return capacity_of(await client.taskmanagers())
    except FlinkRestError:
        return None


def capacity_of(taskmanagers: Sequence[TaskManagerFacts]) -> Capacity:
    """Sum up TaskManagers."""
    memories = [each.network_memory for each in taskmanagers if each.network_memory]
    return Capacity(
        taskmanagers=len(taskmanagers),
        slots=sum(each.slots for each in taskmanagers),
        free_slots=sum(each.free_slots for each in taskmanagers),
        slots_per_taskmanager=max((each.slots for each in taskmanagers), default=0),
        network_memory=min(memories, default=None),
    )


def with_capacity(
    context: JobAutoScalerContext, capacity: Capacity | None, *, is_fixed: bool | None
) -> JobAutoScalerContext:
    """Give a job the figures of its cluster.

    Args:
        context: The job.
        capacity: None when not known.
        is_fixed: Whether the cluster stays as it is; None finds out from the job's configuration.
    """
    if capacity is None:
        return context
    fixed = not grows(context.configuration) if is_fixed is None else is_fixed
    return replace(context, capacity=replace(capacity, is_fixed=fixed))


def grows(configuration: Mapping[str, str]) -> bool:
    """Tell whether TaskManagers are added when a job needs more slots: by Flink itself, or since it is reactive."""
    if configuration.get("scheduler-mode", "").strip().lower() == "reactive":
        return True
    target = configuration.get("execution.target", "").lower()
    return target.startswith(_GROWING_TARGETS) or any(key in configuration for key in _GROWING_KEYS)
