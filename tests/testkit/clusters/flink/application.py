"""A Flink application cluster: one job that comes and goes with its JobManager."""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from testkit.clusters.flink.cluster import FlinkCluster


class FlinkApplicationCluster(FlinkCluster):
    """A standalone application cluster; with ``scheduler-mode: reactive`` its job takes all slots.

    Attributes:
        job_id: The job's id, also after :meth:`restart_jobmanager`.
    """

    main_class = "org.apache.flink.container.entrypoint.StandaloneApplicationClusterEntryPoint"

    def __init__(
        self,
        version: str = "2.3",
        *,
        jar: Path,
        entry_class: str,
        args: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
        taskmanagers: int = 1,
        slots: int = 4,
        directory: Path | None = None,
    ) -> None:
        """Describe the cluster and its job; nothing is started."""
        super().__init__(version, config=config, taskmanagers=taskmanagers, slots=slots, directory=directory)
        self.job_id = uuid.uuid4().hex
        self._jar = jar
        self._program = ["--job-classname", entry_class, "--job-id", self.job_id, *args]

    def jobmanager_arguments(self) -> list[str]:
        """Return the program and its arguments."""
        return self._program

    def class_path(self) -> str:
        """Return Flink and the job, which every process must have."""
        return f"{super().class_path()}:{self._jar}"
