"""What only the JobManager knows of a job: read over REST, and kept until the job changes."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.clients.flink.collector import read_details
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.reading import KeptDetails
from flink_autoscaler.core.model.topology import JobDetails
from flink_autoscaler.core.ports.passes import PassRequest

SETTLED_MS: Final = 10_000
"""How long after a change of the job details have to be read to be kept: Flink serves copies that are up to 3 s old."""


async def details_of(client: FlinkRestClient, request: PassRequest) -> tuple[JobDetails, KeptDetails | None]:
    """Return the details of a job, and what to remember of them.

    They are not read again while the list of jobs shows no later change. Where it shows none at all, they are not kept.

    Raises:
        NotReadyError: The job has not started, or the details contradict the list.
        FlinkRestError: They could not be read.
    """
    kept, modified_ms = request.memory.kept, request.context.modified_ms
    if kept is not None and modified_ms is not None and _is_of_now(kept, request.context.job_id, modified_ms):
        return _as_of(kept, request.now_ms), kept
    details = await read_details(client, request)
    return details, None if modified_ms is None else KeptDetails(details, modified_ms, request.now_ms)


def _is_of_now(kept: KeptDetails, job_id: str | None, modified_ms: int) -> bool:
    """Tell whether the job cannot have changed since its details were read; all instants are Flink's own."""
    is_same = kept.details.job_id == job_id and kept.modified_ms == modified_ms
    return is_same and kept.details.is_settled and (kept.details.now_ms or 0) >= modified_ms + SETTLED_MS


def _as_of(kept: KeptDetails, now_ms: int) -> JobDetails:
    """Return details with the clock of the JobManager as it must be by now."""
    told_ms = kept.details.now_ms
    return replace(kept.details, now_ms=None if told_ms is None else told_ms + max(0, now_ms - kept.read_ms))
