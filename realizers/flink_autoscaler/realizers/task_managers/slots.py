"""TaskManagers for standalone clusters that are not in reactive mode: more when slots are short, fewer when idle."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import AutoscalerError, RealizeError
from flink_autoscaler.core.model.events import Event
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.task_managers import TaskManagerFleet
from flink_autoscaler.realizers.task_managers.clusters import ManagedCluster, ManagedClusters, Supplies
from flink_autoscaler.realizers.task_managers.scaling_operation import OperationStep, ScalingOperation


@dataclass(frozen=True, slots=True)
class PendingSlots:
    """Slots that the cluster lacks now.

    Attributes:
        slots: How many are to come; 0 when none will: then ``problem`` says why.
        taskmanagers: How many TaskManagers bring them.
        waited: Seconds since they were asked for.
        expected: Seconds that it usually takes.
        events: To be told.
        problem: What is in the way; None when nothing is.
    """

    slots: int
    taskmanagers: int
    waited: float = 0.0
    expected: float = 0.0
    events: tuple[Event, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ReleasedTaskManagers:
    """TaskManagers that were without work.

    Attributes:
        count: How many the provider was asked to stop.
        events: To be told.
    """

    count: int = 0
    events: tuple[Event, ...] = ()


class SlotSupply:
    """Keeps a cluster at the slots that its jobs need. Level-triggered, meant for every pass; never waits.

    The arguments are those of :class:`ManagedClusters`; ``may_act`` tells whether anything may be changed, and is
    asked before every change.
    """

    def __init__(
        self,
        clients: Callable[[Endpoint], FlinkRestClient],
        loop: EventLoopThread,
        supplies: Supplies,
        *,
        may_act: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clusters = ManagedClusters(clients, loop, supplies, clock)
        self._may_act = may_act

    def addable(self, context: JobAutoScalerContext) -> int | None:
        """Return the slots that could still be added to a cluster: 0 where nobody adds any, None without a limit."""
        cluster = self._clusters.get(context.cluster)
        if cluster is None:
            return 0
        try:
            with cluster.lock:
                fleet = self._clusters.fleet(context, cluster)
        except AutoscalerError:  # told by ensure; until then nothing is counted on
            return 0
        if fleet.info.maximum is None:
            return None
        return max(0, fleet.info.maximum - fleet.own_count) * fleet.slots_per_taskmanager

    def ensure(self, context: JobAutoScalerContext, slots_needed: int) -> PendingSlots | None:
        """Ask for TaskManagers until the cluster has that many slots. Never takes any away.

        Args:
            context: Any job of the cluster: names it and says where it is.
            slots_needed: Slots that all jobs of the cluster need together.

        Returns:
            What is to come; None when the slots are there, nobody can add any, or nothing may be changed now.

        Raises:
            FlinkRestError: The cluster did not say which TaskManagers there are.
        """
        cluster = self._clusters.get(context.cluster)
        if cluster is None or not self._may_act():
            return None
        with cluster.lock:
            return self._ensure(context, cluster, slots_needed)

    def release(self, context: JobAutoScalerContext, slots_needed: int) -> ReleasedTaskManagers:
        """Stop TaskManagers that are not needed and have been without work for a while.

        To be called after a scale-down has come true: with ``slots_needed`` of before, nothing is too many. Where the
        provider cannot be told which ones to stop, all stay: it might stop those that work.

        Args:
            context: As for :meth:`ensure`.
            slots_needed: The same.

        Raises:
            FlinkRestError: The cluster did not say which TaskManagers there are.
        """
        cluster = self._clusters.get(context.cluster)
        if cluster is None or not self._may_act():
            return ReleasedTaskManagers()
        with cluster.lock:
            return self._release(context, cluster, slots_needed)

    def _ensure(self, context: JobAutoScalerContext, cluster: ManagedCluster, slots_needed: int) -> PendingSlots | None:
        course, interval = cluster.operation, context.options.scaling_event_interval
        try:
            fleet = self._clusters.fleet(context, cluster)
        except RealizeError as error:
            return _pending_slots(None, 0, course.fail(str(error), interval), course)
        count = max(fleet.count_for(slots_needed), fleet.info.desired or 0)
        step = course.step(fleet, count, why=f"the jobs need {slots_needed} slots", interval=interval)
        lacking = slots_needed - fleet.slots
        if lacking <= 0 and not step.events:
            return None
        return _pending_slots(fleet, count, step, course)

    def _release(
        self, context: JobAutoScalerContext, cluster: ManagedCluster, slots_needed: int
    ) -> ReleasedTaskManagers:
        course, interval = cluster.operation, context.options.scaling_event_interval
        try:
            fleet = self._clusters.fleet(context, cluster)
        except RealizeError as error:
            return ReleasedTaskManagers(events=course.fail(str(error), interval).events)
        idle = self._idle(cluster, fleet)
        desired = fleet.info.desired or 0
        surplus = min(desired - fleet.count_for(slots_needed), len(idle))
        if surplus <= 0 or course.is_under_way or not fleet.info.can_pick_victims:
            return ReleasedTaskManagers()
        why = f"{surplus} have no work, the jobs need {slots_needed} slots"
        step = course.step(fleet, desired - surplus, victims=idle[:surplus], why=why, interval=interval)
        return ReleasedTaskManagers(surplus if step.is_requested else 0, step.events)

    def _idle(self, cluster: ManagedCluster, fleet: TaskManagerFleet) -> list[str]:
        """Return the provider's TaskManagers that have been empty for long enough, the longest first."""
        now = self._clusters.clock()
        empty = {each.taskmanager_id for each in fleet.own if each.slots and each.free_slots == each.slots}
        cluster.idle_since = {each: cluster.idle_since.get(each, now) for each in empty}
        long = [each for each, since in cluster.idle_since.items() if now - since >= cluster.supply.rules.idle]
        return sorted(long, key=lambda each: (cluster.idle_since[each], each))


def _pending_slots(
    fleet: TaskManagerFleet | None, count: int, step: OperationStep, course: ScalingOperation
) -> PendingSlots:
    missing = 0 if fleet is None or not course.is_under_way else max(0, count - fleet.own_count)
    problem = step.problem
    if problem is None and fleet is not None and not missing and count == fleet.info.maximum:
        problem = f"there are to be at most {count} TaskManagers"
    return PendingSlots(
        slots=0 if fleet is None else missing * fleet.slots_per_taskmanager,
        taskmanagers=missing,
        waited=course.waited,
        expected=0.0 if fleet is None else fleet.info.typical_startup,
        events=step.events,
        problem=problem,
    )
