"""Jobs: their configuration, context and requests."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import PREFIX
from flink_autoscaler.core.ports.passes import PassRequest

JOB_ID = "a" * 32


def a_configuration(options: Mapping[str, str] | None = None, flink: Mapping[str, str] | None = None) -> dict[str, str]:
    """Make a configuration with the autoscaler enabled; ``options`` are relative to ``job.autoscaler.``."""
    own = {"enabled": "true", **(options or {})}
    return {**{PREFIX + key: value for key, value in own.items()}, **(flink or {})}


def options_with(options: Mapping[str, str] | None = None) -> AutoscalerOptions:
    """Make typed options; keys are relative to ``job.autoscaler.``."""
    return AutoscalerOptions(a_configuration(options))


def a_context(
    options: Mapping[str, str] | None = None,
    flink: Mapping[str, str] | None = None,
    *,
    status: JobStatus = JobStatus.RUNNING,
    job_id: str | None = JOB_ID,
    taskmanager_cpu: float | None = None,
    taskmanager_memory: int | None = None,
) -> JobAutoScalerContext:
    """Make the context of a running job."""
    return JobAutoScalerContext(
        job_key="a cluster/a job",
        job_id=job_id,
        status=status,
        configuration=a_configuration(options, flink),
        endpoint=Endpoint("http://localhost:8081"),
        job_name="a job",
        cluster="a cluster",
        taskmanager_cpu=taskmanager_cpu,
        taskmanager_memory=taskmanager_memory,
    )


def a_request(
    context: JobAutoScalerContext | None = None, *, state: JobState = EMPTY_STATE, now_ms: int = 0
) -> PassRequest:
    """Make a request for one pass."""
    return PassRequest(context or a_context(), state, now_ms)
