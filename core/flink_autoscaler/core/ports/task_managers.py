"""TaskManagers as the means of scaling: the port of who starts and stops them, and how many it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.rescale_facts import RescaleFacts, TaskManagerFacts
from flink_autoscaler.core.options.context import JobAutoScalerContext

REACTIVE = "reactive"


class Progress(StrEnum):
    """How far a provider came with what it was asked for.

    Attributes:
        PENDING: Under way.
        DONE: There are as many TaskManagers as were asked for.
        FAILED: It will not come to that.
    """

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OperationState:
    """What became of an operation.

    Attributes:
        progress: How far it came.
        reason: Why it failed, for people; empty otherwise.
    """

    progress: Progress
    reason: str = ""


PENDING = OperationState(Progress.PENDING)
DONE = OperationState(Progress.DONE)


@dataclass(frozen=True, slots=True)
class ProviderInfo:
    """The TaskManagers that a provider manages.

    Attributes:
        desired: How many there are to be; None when the provider was never told and cannot find out.
        running: How many there are, as far as the provider knows; None when it does not.
        minimum: Never fewer.
        maximum: Never more; None sets no limit.
        slots_per_taskmanager: None when the provider does not know.
        typical_startup: Seconds from the request until a TaskManager offers its slots.
        can_pick_victims: Whether TaskManagers can be stopped by their ids.
        taskmanager_ids: Flink's ids of those that are to stay; None when the provider does not know ids.
        leaving_ids: The same of those that are being stopped or have just ended: Flink may still list them.
    """

    desired: int | None
    running: int | None
    minimum: int = 0
    maximum: int | None = None
    slots_per_taskmanager: int | None = None
    typical_startup: float = 30.0
    can_pick_victims: bool = False
    taskmanager_ids: frozenset[str] | None = None
    leaving_ids: frozenset[str] = frozenset()


class TaskManagerProvider(Protocol):
    """Starts and stops TaskManagers of one cluster.

    Called from worker threads, one call at a time, in every pass that wants something. Calls are short: what takes
    long goes on in the background and is asked for with :meth:`operation`. All methods raise
    :class:`~flink_autoscaler.core.errors.RealizeError` and nothing else.
    """

    def describe(self) -> ProviderInfo:
        """Return what there is and what there is to be. Changes nothing that was not asked for before."""
        ...

    def set_desired(self, count: int, victims: Sequence[str] = ()) -> str:
        """Have so many TaskManagers; returns the id of the operation.

        Idempotent: the count is absolute. Asking for the present count starts those again that have ended.

        Args:
            count: Within the provider's limits.
            victims: Ids to stop first, where there are to be fewer; unknown ones are ignored.

        Raises:
            RealizeError: It cannot be done, or another operation is under way; nothing of it was begun, or as much
                as :meth:`describe` tells.
        """
        ...

    def operation(self, operation_id: str) -> OperationState:
        """Return what became of an operation; one that is not known, such as from before a restart, has failed."""
        ...

    def close(self) -> None:
        """Release resources. TaskManagers stay. May be called more than once."""
        ...


@dataclass(frozen=True, slots=True)
class SupplyRules:
    """How the TaskManagers of a cluster are changed.

    Attributes:
        spare: TaskManagers beyond what is needed.
        others: TaskManagers of the cluster that the provider does not manage; only where it knows no ids.
        ready_timeout: Seconds until those that were asked for must have offered their slots.
        settle: Seconds that the slots must have been there.
        checkpoints: Intervals for which stopping waits for a completed checkpoint.
        idle: Seconds that a TaskManager must have been without work before it is stopped, outside of reactive mode.
    """

    spare: int = 0
    others: int = 0
    ready_timeout: float = 600.0
    settle: float = 10.0
    checkpoints: int = 3
    idle: float = 60.0


@dataclass(frozen=True, slots=True)
class TaskManagerSupply:
    """Who gives a cluster its TaskManagers, and by which rules.

    Attributes:
        provider: Starts and stops them.
        rules: How their number is changed.
    """

    provider: TaskManagerProvider
    rules: SupplyRules = SupplyRules()


@dataclass(frozen=True, slots=True)
class TaskManagerFleet:
    """The TaskManagers of a cluster, as it and their provider see them.

    Attributes:
        info: What the provider says about its own.
        registered: Those that the cluster lists.
        rules: Tell how many of them are not the provider's, where it knows no ids.
        usual_slots: Slots of a TaskManager by the configuration of the cluster.
        lately: Slots of TaskManagers that are not the provider's, as they were a moment ago: one whose heartbeat is
            late is not replaced at once.
    """

    info: ProviderInfo
    registered: tuple[TaskManagerFacts, ...]
    rules: SupplyRules = SupplyRules()
    usual_slots: int = 1
    lately: int = 0

    @property
    def own(self) -> tuple[TaskManagerFacts, ...]:
        """Those of the provider that are registered and to stay; empty where it knows no ids."""
        ids = self.info.taskmanager_ids or frozenset()
        return tuple(each for each in self.registered if each.taskmanager_id in ids)

    @property
    def own_count(self) -> int:
        """How many of the provider's are registered and to stay."""
        if self.info.taskmanager_ids is None:
            return max(0, len(self.registered) - self.rules.others)
        return len(self.own)

    @property
    def slots(self) -> int:
        """Slots of all that are registered and to stay."""
        return sum(each.slots for each in self.registered if each.taskmanager_id not in self.info.leaving_ids)

    @property
    def slots_per_taskmanager(self) -> int:
        """Slots of one more TaskManager."""
        known = (each.slots for each in self.own or self.registered)
        return max(1, self.info.slots_per_taskmanager or max(known, default=self.usual_slots))

    @property
    def other_slots(self) -> int:
        """Slots of TaskManagers that are not the provider's."""
        return max(self.lately, self.listed_other_slots)

    @property
    def listed_other_slots(self) -> int:
        """The same of those that the cluster lists now."""
        ids = self.info.taskmanager_ids
        if ids is None:
            return min(self.rules.others, len(self.registered)) * self.slots_per_taskmanager
        not_others = ids | self.info.leaving_ids
        return sum(each.slots for each in self.registered if each.taskmanager_id not in not_others)

    def count_for(self, slots: int) -> int:
        """Return how many TaskManagers the provider is to have so that the cluster has that many slots.

        ``ceil((slots - slots of others) / slots per TaskManager) + spare``, within the limits of the provider.
        """
        missing = max(0, slots - self.other_slots)
        count = math.ceil(missing / self.slots_per_taskmanager) + self.rules.spare
        return max(self.info.minimum, count if self.info.maximum is None else min(count, self.info.maximum))


def is_reactive(context: JobAutoScalerContext) -> bool:
    """Tell whether the parallelism of a job follows the number of TaskManagers."""
    return context.flink_options.scheduler_mode.strip().lower() == REACTIVE


def reactive_slots(parallelism: Mapping[VertexId, int], max_parallelism: Mapping[VertexId, int]) -> int:
    """Return the slots that a job in reactive mode needs: ``max(min(p, max))``, since all vertices share them.

    Args:
        parallelism: Wanted, by vertex; those that the job does not have are ignored.
        max_parallelism: Of every vertex of the job.

    Returns:
        0 when nothing of it is about the job.
    """
    known = (min(p, max_parallelism[vertex_id]) for vertex_id, p in parallelism.items() if vertex_id in max_parallelism)
    return max(known, default=0)


def reactive_parallelism(slots: int, max_parallelism: Mapping[VertexId, int]) -> dict[VertexId, int]:
    """Return what every vertex of a job in reactive mode runs with: all slots, up to its own maximum."""
    return {vertex_id: min(slots, limit) for vertex_id, limit in max_parallelism.items()}


def slots_came(facts: RescaleFacts, before: Mapping[VertexId, int], target: Mapping[VertexId, int]) -> bool:
    """Tell whether a cluster in reactive mode has the slots for a rescale: no fewer when it grows, else no more."""
    if facts.taskmanagers is None or not target:
        return False
    slots, wanted = sum(each.slots for each in facts.taskmanagers), max(target.values())
    return slots >= wanted if wanted >= max(before.values(), default=0) else slots < max(before.values())


__all__ = [
    "DONE",
    "PENDING",
    "REACTIVE",
    "OperationState",
    "Progress",
    "ProviderInfo",
    "SupplyRules",
    "TaskManagerFleet",
    "TaskManagerProvider",
    "TaskManagerSupply",
    "is_reactive",
    "reactive_parallelism",
    "reactive_slots",
    "slots_came",
]
