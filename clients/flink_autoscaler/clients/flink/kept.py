"""What only the JobManager knows of a job: read once, and kept until the job changes."""

from __future__ import annotations

import time
from typing import Final

from flink_autoscaler.core.model.reading import KeptDetails
from flink_autoscaler.core.model.topology import JobDetails
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.gathering import late_ms
from flink_autoscaler.core.ports.passes import PassRequest

SETTLED_MS: Final = 10_000
"""How long after a change of the job details have to be read to be kept: Flink serves copies that are up to 3 s old."""


def kept_details(request: PassRequest) -> JobDetails | None:
    """Return the details of a job as they are now, but for its counters; None where they have to be read.

    They are not read again while the list of jobs shows no later change. Where it shows none at all, they are not kept.
    """
    kept, modified_ms = request.memory.kept, request.context.modified_ms
    if kept is None or modified_ms is None or not _is_of_now(kept, request.context.job_id, modified_ms):
        return None
    told_ms = kept.details.now_ms
    passed_ms = max(0, reading_time(request) - kept.read_ms)
    return replace(kept.details, now_ms=None if told_ms is None else told_ms + passed_ms)


def to_keep(request: PassRequest, details: JobDetails) -> KeptDetails | None:
    """Return what to remember of details that were just read."""
    modified_ms = request.context.modified_ms
    return None if modified_ms is None else KeptDetails(details, modified_ms, reading_time(request))


def reading_time(request: PassRequest) -> int:
    """Return what time it is by the clock of a pass, which may have begun long ago."""
    return request.now_ms + late_ms(wall_ms(), request.now_ms)


def wall_ms() -> int:
    """Return what time it is by the clock of this machine, epoch milliseconds."""
    return time.time_ns() // 1_000_000


def _is_of_now(kept: KeptDetails, job_id: str | None, modified_ms: int) -> bool:
    """Tell whether the job cannot have changed since its details were read; all instants are Flink's own."""
    is_same = kept.details.job_id == job_id and kept.modified_ms == modified_ms
    return is_same and kept.details.is_settled and (kept.details.now_ms or 0) >= modified_ms + SETTLED_MS
