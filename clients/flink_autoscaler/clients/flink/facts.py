"""Reads what tells how the rescale of a job goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from flink_autoscaler.clients.flink.collector import read_job
from flink_autoscaler.clients.flink.decode import ParallelismBounds
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.error_boundary import try_await
from flink_autoscaler.core.errors import AutoscalerError, RefusedError, ResponseError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.orders import MAX_PARALLELISM
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, RescaleAttempt, RescaleFacts
from flink_autoscaler.core.model.topology import JobDetails
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.required_facts import RequiredFacts, required_facts
from flink_autoscaler.core.ports.passes import PassRequest

T = TypeVar("T")

ReadMetrics = Callable[[FlinkRestClient, PassRequest], Awaitable[JobReading]]

_NOT_FOUND: Final = 404


async def read_with_rescale_status(
    client: FlinkRestClient, request: PassRequest, read: ReadMetrics = read_job
) -> JobReading:
    """Read a job and, where its rescale is followed, what tells how that goes.

    Of a job that does not run only the latter is read. Failures are in the reading; never raises.

    Args:
        client: Of the JobManager.
        request: The job.
        read: Reads the metrics of a job that runs; never raises.
    """
    wanted = required_facts(request)
    if request.context.status is not JobStatus.RUNNING:
        details = await _details(client, request)
        return JobReading(
            details, memory=request.memory, facts=await read_rescale_status(client, request, details, wanted)
        )
    reading = await read(client, request)
    if wanted is RequiredFacts.NOTHING:
        return reading
    return replace(reading, facts=await read_rescale_status(client, request, reading.details, wanted))


async def _details(client: FlinkRestClient, request: PassRequest) -> JobDetails | None:
    details = await try_await(client.job_details(request.context.job_id or ""), ResponseError)
    return details if isinstance(details, JobDetails) else None


async def read_rescale_status(
    client: FlinkRestClient, request: PassRequest, details: JobDetails | None, wanted: RequiredFacts
) -> RescaleFacts:
    """Return what is wanted about the rescale of a job. Never raises: what cannot be read is ``missing``."""
    reader = _Reader(client, request.context.job_id or "")
    facts = _of_details(details)
    if wanted is RequiredFacts.REQUIREMENTS:
        requirements = await reader.read("requirements", _requirements(client, reader.job_id))
        return replace(facts, requirements=_pairs(requirements), missing=reader.missing)
    requirements, exceptions, checkpoints, taskmanagers, restarts = await asyncio.gather(
        reader.read("requirements", _requirements(client, reader.job_id)),
        reader.read("exceptions", client.exceptions(reader.job_id)),
        reader.read("checkpoints", _checkpoints(client, reader.job_id)),
        reader.read("taskmanagers", client.taskmanagers()),
        reader.read("restarts", client.restarts(reader.job_id)),
    )
    facts = replace(
        facts,
        requirements=_pairs(requirements),
        exceptions=exceptions,
        checkpoints=checkpoints,
        taskmanagers=taskmanagers,
        restarts=restarts,
    )
    if details is not None and _may_be_reached(request, facts):
        facts = await _with_times(reader, facts, details)
    return replace(facts, missing=reader.missing)


@dataclass
class _Reader:
    """Sends requests about one job; a failure is noted and leaves a gap."""

    client: FlinkRestClient
    job_id: str
    missing: dict[str, str] = field(default_factory=dict)

    async def read(self, name: str, answer: Awaitable[T]) -> T | None:
        found = await try_await(answer, ResponseError, name)
        if isinstance(found, AutoscalerError):
            self.missing[name] = str(found)
            return None
        return found


async def _requirements(client: FlinkRestClient, job_id: str) -> Mapping[VertexId, ParallelismBounds]:
    """Return the bounds of all vertices. Flink refuses others than these: nobody can have asked for them."""
    found = await client.resource_requirements(job_id)
    for vertex_id, (lower, upper) in found.items():
        if not 1 <= lower <= upper <= MAX_PARALLELISM:
            raise ResponseError(f"vertex {vertex_id}: nobody can have asked for {lower}..{upper} subtasks")
    return found


async def _checkpoints(client: FlinkRestClient, job_id: str) -> CheckpointFacts:
    try:
        facts = await client.checkpoints(job_id)
        return replace(facts, interval_ms=await client.checkpoint_interval(job_id))
    except RefusedError as error:
        if error.status == _NOT_FOUND:
            return CheckpointFacts(is_enabled=False)
        raise


def _of_details(details: JobDetails | None) -> RescaleFacts:
    if details is None:
        return RescaleFacts(missing={"running": "the details of the job could not be read"})
    return RescaleFacts(
        now_ms=details.now_ms,
        initialized_ms=details.initialized_ms,
        running={vertex.vertex_id: vertex.parallelism for vertex in details.vertices},
        all_running=details.state == "RUNNING" and details.is_settled,
        stopped_ms=details.created_ms,
    )


def _pairs(requirements: Mapping[VertexId, ParallelismBounds] | None) -> dict[VertexId, tuple[int, int]] | None:
    return None if requirements is None else {v: (bounds.lower, bounds.upper) for v, bounds in requirements.items()}


def _may_be_reached(request: PassRequest, facts: RescaleFacts) -> bool:
    """Tell whether it is time to measure the outage: the job runs, and not as before the rescale that is open.

    A quick rescale is over before the pass that notices that the cluster has accepted it.
    """
    current = request.state.supervision.current
    if current is None or current.stage.is_final:
        return False
    return facts.all_running and facts.running != current.before


async def _with_times(reader: _Reader, facts: RescaleFacts, details: JobDetails) -> RescaleFacts:
    """Add since when all tasks run, and the cluster's own record of its rescales."""
    unfinished = [vertex.vertex_id for vertex in details.vertices if vertex.status != "FINISHED"]
    since = await asyncio.gather(
        *(reader.read("running_since", reader.client.running_since(reader.job_id, each)) for each in unfinished)
    )
    attempts = await reader.read("attempts", reader.client.rescale_attempts(reader.job_id))
    known = [each for each in since if each is not None]
    is_known = bool(known) and len(known) == len(unfinished)
    stopped_ms = await _stopped_ms(reader, facts, attempts or ())
    return replace(facts, running_since_ms=max(known) if is_known else None, attempts=attempts, stopped_ms=stopped_ms)


async def _stopped_ms(reader: _Reader, facts: RescaleFacts, attempts: Sequence[RescaleAttempt]) -> int | None:
    """Return when the execution before was stopped, as exactly as the cluster tells.

    Without a history that is when the present execution graph was made, which leaves out the time that the tasks
    before took to end.
    """
    latest = next((each for each in attempts if each.led_to(facts.stopped_ms)), None)
    if latest is None:
        return facts.stopped_ms
    stopped_ms = await reader.read("stopped", reader.client.rescale_stopped(reader.job_id, latest.rescale_id))
    return facts.stopped_ms if stopped_ms is None else stopped_ms
