"""The generic, deployment-agnostic core of the autoscaler: values in, values out. Standard library only."""

from flink_autoscaler.core.autoscaler import JobAutoScaler, JobPassReport
from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.ending import without_reading
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import Event, EventType, Reason, ScalingReport
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus, effective_status
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest

__all__ = [
    "AutoscalerOptions",
    "Endpoint",
    "Event",
    "EventType",
    "FlinkOptions",
    "Hold",
    "JobAutoScaler",
    "JobAutoScalerContext",
    "JobKey",
    "JobPassReport",
    "JobState",
    "JobStatus",
    "PassOutcome",
    "PassPhase",
    "PassRequest",
    "Reason",
    "Rescale",
    "ScalingReport",
    "VertexId",
    "advance",
    "effective_status",
    "validate",
    "without_reading",
]
