"""The context of a job: who it is, how it is, and how it is configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from flink_autoscaler.core.flink_options import FlinkOptions
from flink_autoscaler.core.options import AutoscalerOptions
from flink_autoscaler.core.syntax import Duration

JobKey = str
"""Identity of a job within the daemon: ``<cluster>/<job name>`` by default."""


class JobStatus(StrEnum):
    """Status of a Flink job; UNKNOWN for one that this version does not know."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    RECONCILING = "RECONCILING"
    UNKNOWN = "UNKNOWN"

    @classmethod
    def of(cls, text: str) -> JobStatus:
        """Read a status; a word of a later Flink version is UNKNOWN."""
        return cls.__members__.get(text.upper(), cls.UNKNOWN)

    @property
    def is_terminal(self) -> bool:
        """Whether the job will never run again under this id."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)


def effective_status(state: str, tasks: Mapping[str, int]) -> JobStatus:
    """Return the status that counts for scaling.

    Args:
        state: ``state`` of the job overview.
        tasks: Task counts of the job overview by lower-case state, and ``total``.

    Returns:
        CREATED instead of RUNNING while not all tasks run or have finished; else the status as it is.
    """
    status = JobStatus.of(state)
    settled = tasks.get("running", 0) + tasks.get("finished", 0)
    if status is JobStatus.RUNNING and tasks.get("total", 0) != settled:
        return JobStatus.CREATED
    return status


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how the JobManager of a cluster is reached.

    Attributes:
        url: Base URL, scheme to path prefix, without a slash at the end.
        timeout: Seconds that one request may take in all.
        max_connections: Requests under way at the same time, for the whole cluster.
        max_response_bytes: Longest answer that is read.
        headers: Sent with every request; values may be secret.
    """

    url: str
    timeout: float = 10.0
    max_connections: int = 16
    max_response_bytes: int = 8 << 20
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class JobAutoScalerContext:
    """One job in one pass (``JobAutoScalerContext`` of FLIP-334). Plain values, so that it can travel.

    Attributes:
        job_key: Identity in stores, events and logs.
        job_id: Flink's id, 32 hex digits; None before the job has started.
        status: Status that counts for scaling (see :func:`effective_status`).
        configuration: Effective configuration of the job, flat, as text.
        endpoint: The JobManager that runs the job.
        job_name: Name given by the user, any characters.
        cluster: Name of the cluster in the configuration.
        taskmanager_cpu: CPUs of one TaskManager, where known.
        taskmanager_memory: Bytes of one TaskManager; None takes ``taskmanager.memory.process.size``.
        task_count: Tasks of the job according to the list of jobs, which is never cached; None when not known.
        validation_interval: De-duplication interval of the event about an invalid configuration, from the
            daemon's own configuration: that of the job may be what is invalid. None takes the job's.
        labels: Further facts for logs and reports, such as a YARN application id.
    """

    job_key: JobKey
    job_id: str | None
    status: JobStatus
    configuration: Mapping[str, str]
    endpoint: Endpoint
    job_name: str = ""
    cluster: str = ""
    taskmanager_cpu: float | None = None
    taskmanager_memory: int | None = None
    task_count: int | None = None
    validation_interval: Duration | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def options(self) -> AutoscalerOptions:
        """The autoscaler's options of this job."""
        return AutoscalerOptions(self.configuration)

    @cached_property
    def flink_options(self) -> FlinkOptions:
        """Flink's own options of this job."""
        return FlinkOptions(self.configuration)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what is derived, so that a context travels small."""
        derived = ("options", "flink_options")
        return {name: value for name, value in self.__dict__.items() if name not in derived}
