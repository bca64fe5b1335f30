"""How a decision is applied to a job.

``flink_autoscaler.realizers.contract`` has the tests that every implementation has to pass; it needs pytest
and is therefore not imported here.
"""

from flink_autoscaler.realizers.auto import AutoRealizer
from flink_autoscaler.realizers.log_only import LogOnlyRealizer
from flink_autoscaler.realizers.rescale_api import RescaleApiRealizer
from flink_autoscaler.realizers.slot_supply import Released, SlotsComing, SlotSupply
from flink_autoscaler.realizers.taskmanager_count import TaskManagerCountRealizer

__all__ = [
    "AutoRealizer",
    "LogOnlyRealizer",
    "Released",
    "RescaleApiRealizer",
    "SlotSupply",
    "SlotsComing",
    "TaskManagerCountRealizer",
]
