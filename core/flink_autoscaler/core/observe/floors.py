"""The least parallelism that somebody else than the autoscaler demands of the vertices of a job."""

from __future__ import annotations

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.safety import LowerBound


def keeps_floors(options: AutoscalerOptions) -> bool:
    """Tell whether lower bounds in a job's resource requirements are kept: the autoscaler itself only sets 1 then."""
    return options.is_improved and options.lower_bound is LowerBound.ONE


def floors_of(reading: JobReading, options: AutoscalerOptions) -> dict[VertexId, int]:
    """Return the lower bounds above 1 in the resource requirements of a job, of the vertices that have one.

    Empty where the requirements were not asked for in this pass; bounds that contradict each other are none.
    """
    requirements = reading.facts.requirements if reading.facts else None
    if not requirements or not keeps_floors(options):
        return {}
    return {v: lower for v, (lower, upper) in requirements.items() if 1 < lower <= upper}
