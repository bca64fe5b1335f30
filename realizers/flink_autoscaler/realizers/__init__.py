"""Realizers: they apply a decision to a job.

``flink_autoscaler.realizers.testing.realizer_contract`` has the tests that every implementation has to pass; it needs
pytest and is therefore not imported here.
"""

from flink_autoscaler.realizers.auto import AutoRealizer
from flink_autoscaler.realizers.in_place.rescale_api import RescaleApiRealizer
from flink_autoscaler.realizers.log_only import LogOnlyRealizer
from flink_autoscaler.realizers.task_managers.count import TaskManagerCountRealizer
from flink_autoscaler.realizers.task_managers.slots import PendingSlots, ReleasedTaskManagers, SlotSupply

__all__ = [
    "AutoRealizer",
    "LogOnlyRealizer",
    "PendingSlots",
    "ReleasedTaskManagers",
    "RescaleApiRealizer",
    "SlotSupply",
    "TaskManagerCountRealizer",
]
