"""The generic, deployment-agnostic core of the autoscaler: values in, values out. Standard library only.

Names are loaded when they are first asked for: a command that reads a table needs no policies.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flink_autoscaler.core.autoscaler import JobAutoScaler as JobAutoScaler
    from flink_autoscaler.core.autoscaler import JobPassReport as JobPassReport
    from flink_autoscaler.core.cycle.advance import advance as advance
    from flink_autoscaler.core.cycle.outcome import without_reading as without_reading
    from flink_autoscaler.core.model.decision import Hold as Hold
    from flink_autoscaler.core.model.decision import PassPhase as PassPhase
    from flink_autoscaler.core.model.decision import Rescale as Rescale
    from flink_autoscaler.core.model.events import Event as Event
    from flink_autoscaler.core.model.events import EventType as EventType
    from flink_autoscaler.core.model.events import Reason as Reason
    from flink_autoscaler.core.model.events import ScalingReport as ScalingReport
    from flink_autoscaler.core.model.job import Endpoint as Endpoint
    from flink_autoscaler.core.model.job import JobKey as JobKey
    from flink_autoscaler.core.model.job import JobStatus as JobStatus
    from flink_autoscaler.core.model.job import effective_status as effective_status
    from flink_autoscaler.core.model.metrics import VertexId as VertexId
    from flink_autoscaler.core.model.state import JobState as JobState
    from flink_autoscaler.core.options.checks import validate as validate
    from flink_autoscaler.core.options.context import JobAutoScalerContext as JobAutoScalerContext
    from flink_autoscaler.core.options.flink import FlinkOptions as FlinkOptions
    from flink_autoscaler.core.options.job import AutoscalerOptions as AutoscalerOptions
    from flink_autoscaler.core.ports.passes import PassOutcome as PassOutcome
    from flink_autoscaler.core.ports.passes import PassRequest as PassRequest

_MODULES = {
    "AutoscalerOptions": "options.job",
    "Endpoint": "model.job",
    "Event": "model.events",
    "EventType": "model.events",
    "FlinkOptions": "options.flink",
    "Hold": "model.decision",
    "JobAutoScaler": "autoscaler",
    "JobAutoScalerContext": "options.context",
    "JobKey": "model.job",
    "JobPassReport": "autoscaler",
    "JobState": "model.state",
    "JobStatus": "model.job",
    "PassOutcome": "ports.passes",
    "PassPhase": "model.decision",
    "PassRequest": "ports.passes",
    "Reason": "model.events",
    "Rescale": "model.decision",
    "ScalingReport": "model.events",
    "VertexId": "model.metrics",
    "advance": "cycle.advance",
    "effective_status": "model.job",
    "validate": "options.checks",
    "without_reading": "cycle.outcome",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
