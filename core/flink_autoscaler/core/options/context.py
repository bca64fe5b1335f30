"""The context of a job: who it is, how it is, and how it is configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from flink_autoscaler.core.model.job import (
    UNRESTRICTED,
    ClusterCapacity,
    Endpoint,
    Headroom,
    JobKey,
    JobStatus,
    Restriction,
    SlotShare,
    cluster_of,
    name_key,
)
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import ValueParseError


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
        labels: Further facts for logs, metrics and reports, such as a YARN application id. Keys are snake_case.
        headroom: What the resource manager can still give to the job; None where that is not known or not asked.
        capacity: The TaskManagers of the cluster; None when not known.
        share: The slots that it may keep where other jobs of the cluster have too few; None asks it for none.
        restriction: What is not done to it for what others than Flink know, or do not know.
        modified_ms: When the job or one of its tasks last changed, by the list of jobs; None when not known.
        unknown: What was asked about the surroundings of the job but is not known, and why, for its decisions.
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
    headroom: Headroom | None = None
    capacity: ClusterCapacity | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    share: SlotShare | None = None
    modified_ms: int | None = None
    restriction: Restriction = UNRESTRICTED

    @property
    def other_keys(self) -> tuple[JobKey, ...]:
        """Keys that the job has had or may get as jobs of its name come and go, the one of the name alone first."""
        if self.job_id is None or not cluster_of(self.job_key):
            return ()
        name = name_key(self.job_key)
        with_id = f"{name}#{self.job_id}"
        application_id = self.labels.get("yarn_application_id", "")
        return tuple(key for key in (name, with_id, f"{with_id}@{application_id}") if key != self.job_key)

    @cached_property
    def options(self) -> AutoscalerOptions:
        """The autoscaler's options of this job."""
        return AutoscalerOptions.of(self.configuration)

    @property
    def is_enabled(self) -> bool | None:
        """Whether the job is managed; None when its configuration does not say true or false."""
        try:
            return self.options.enabled
        except ValueParseError:
            return None

    @cached_property
    def flink_options(self) -> FlinkOptions:
        """Flink's own options of this job."""
        return FlinkOptions.of(self.configuration)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what is derived, so that a context travels small."""
        derived = ("options", "flink_options")
        return {name: value for name, value in self.__dict__.items() if name not in derived}
