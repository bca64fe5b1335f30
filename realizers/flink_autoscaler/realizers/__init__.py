"""How a decision is applied to a job.

``flink_autoscaler.realizers.testing.realizer_contract`` has the tests that every implementation has to pass; it needs
pytest and is therefore not imported here. Names are loaded when they are first asked for: who only checks settings
needs no HTTP.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flink_autoscaler.realizers.auto import AutoRealizer as AutoRealizer
    from flink_autoscaler.realizers.in_place.rescale_api import RescaleApiRealizer as RescaleApiRealizer
    from flink_autoscaler.realizers.log_only import LogOnlyRealizer as LogOnlyRealizer
    from flink_autoscaler.realizers.taskmanagers.count import TaskManagerCountRealizer as TaskManagerCountRealizer
    from flink_autoscaler.realizers.taskmanagers.slots import Released as Released
    from flink_autoscaler.realizers.taskmanagers.slots import SlotsComing as SlotsComing
    from flink_autoscaler.realizers.taskmanagers.slots import SlotSupply as SlotSupply

_MODULES = {
    "AutoRealizer": "auto",
    "LogOnlyRealizer": "log_only",
    "Released": "taskmanagers.slots",
    "RescaleApiRealizer": "in_place.rescale_api",
    "SlotSupply": "taskmanagers.slots",
    "SlotsComing": "taskmanagers.slots",
    "TaskManagerCountRealizer": "taskmanagers.count",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
