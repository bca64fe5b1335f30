"""The smallest job: one source of parallelism 4 whose numbers can be done in the head.

The utilization target is 0.5 and nothing is planned for catching up, so that the source needs twice its
rate as capacity. The first decision falls at minute 3.
"""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.topology import IoMetrics
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core.driver import JobDriver
from testkit.builders.core.graphs import a_vertex, vertex_id
from testkit.builders.core.jobs import JOB_ID
from testkit.builders.core.readings import a_reading, source_answers

MINUTE = 60_000
SINGLE_SOURCE = vertex_id(1)
SINGLE_SOURCE_OPTIONS: Mapping[str, str] = {
    "metrics.window": "2 min",
    "stabilization.interval": "1 min",
    "utilization.target": "0.5",
    "utilization.max": "0.7",
    "utilization.min": "0.4",
    "catch-up.duration": "0",
    "scale-down.interval": "0",
}


def single_source(
    minute: float,
    *,
    rate: float,
    busy_ms: float,
    parallelism: int = 4,
    running_at_minute: float = 0,
    is_complete: bool = True,
    is_answered: bool = True,
    pending: float = 0.0,
    partitions: int = 0,
    group: str | None = None,
    job_id: str = JOB_ID,
) -> JobReading:
    """Read the job at some minute after it has received ``rate`` records/s all along."""
    at_ms = round(minute * MINUTE)
    io = IoMetrics(records_in=round(rate * at_ms / 1000), busy_ms=busy_ms * at_ms / 1000, is_complete=is_complete)
    vertex = a_vertex(1, parallelism=parallelism, io=io, partitions=partitions, group=group)
    answers = source_answers(busy_ms=busy_ms, rate=rate, pending=pending) if is_answered else {}
    running_at_ms = round(running_at_minute * MINUTE)
    return a_reading([vertex], {SINGLE_SOURCE: answers}, running_at_ms=running_at_ms, job_id=job_id)


def full_window(driver: JobDriver, *, rate: float, busy_ms: float, parallelism: int = 4) -> PassOutcome:
    """Do the passes of minutes 1 to 3 and return the last one, the first that may decide."""
    for minute in (1, 2):
        driver.run(minute * MINUTE, single_source(minute, rate=rate, busy_ms=busy_ms, parallelism=parallelism))
    return driver.run(3 * MINUTE, single_source(3, rate=rate, busy_ms=busy_ms, parallelism=parallelism))
