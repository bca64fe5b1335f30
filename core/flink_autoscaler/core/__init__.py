"""The generic, deployment-agnostic core of the autoscaler: values in, values out. Standard library only."""

from flink_autoscaler.core.autoscaler import JobAutoScaler, JobPassReport
from flink_autoscaler.core.cycle import advance
from flink_autoscaler.core.decision import Hold, PassOutcome, PassRequest, Phase, Rescale
from flink_autoscaler.core.events import Event, EventType, ScalingReport
from flink_autoscaler.core.flink_options import FlinkOptions
from flink_autoscaler.core.job import Endpoint, JobAutoScalerContext, JobKey, JobStatus, effective_status
from flink_autoscaler.core.metrics import VertexId
from flink_autoscaler.core.options import AutoscalerOptions
from flink_autoscaler.core.reason import Reason
from flink_autoscaler.core.state import JobState
from flink_autoscaler.core.unevaluated import without_reading
from flink_autoscaler.core.validation import validate

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
    "PassRequest",
    "Phase",
    "Reason",
    "Rescale",
    "ScalingReport",
    "VertexId",
    "advance",
    "effective_status",
    "validate",
    "without_reading",
]
