"""What is known about the TaskManagers of a cluster from the passes before."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from flink_autoscaler.core.model.rescale_facts import TaskManagerFacts
from flink_autoscaler.core.ports.task_managers import ProviderInfo, SupplyRules, TaskManagerFleet

LOST: Final = 60.0
"""Seconds after which a TaskManager of others that is not listed any more counts as gone for good; Flink itself waits
50 s for a heartbeat, and one that comes back does so within seconds."""


class FleetMemory:
    """Makes the fleet of each pass, with what only earlier passes saw. One per cluster; not for several threads."""

    def __init__(self) -> None:
        self._usual_slots: int | None = None
        self._others = 0
        self._others_at = 0.0

    def fleet(
        self,
        info: ProviderInfo,
        registered: tuple[TaskManagerFacts, ...],
        rules: SupplyRules,
        *,
        configured_slots: int,
        now: float,
    ) -> TaskManagerFleet:
        """Return the fleet.

        Args:
            info: What the provider says.
            registered: What the cluster lists.
            rules: Of the cluster.
            configured_slots: Slots of a TaskManager by the configuration; counts until one was seen.
            now: Seconds of a clock that never runs backward.
        """
        fleet = TaskManagerFleet(info, registered, rules, self._usual_slots or configured_slots)
        if registered:
            self._usual_slots = fleet.slots_per_taskmanager
        if fleet.listed_other_slots >= self._others or now - self._others_at >= LOST:
            self._others, self._others_at = fleet.listed_other_slots, now
        return replace(fleet, lately=self._others)
