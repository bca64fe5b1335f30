"""A fetcher that manages whatever JobManagers a file names, one URL per line, as a deployment tool writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, NotReadyError
from flink_autoscaler.core.model.job import Endpoint, effective_status
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.settings.schema.settings import Cluster


class InventoryFetcher:
    """Lists the jobs of all JobManagers in ``parameters.file`` (a ``JobListFetcher``).

    The parameters are given by name; a fetcher takes those that it needs.

    Args:
        cluster: Everything that is configured for the cluster.
        loop: Where requests run.
        clients: Gives the client of an endpoint, with kept connections.

    Raises:
        ConfigError: No file is configured.
    """

    def __init__(
        self, cluster: Cluster, *, loop: EventLoopThread, clients: Callable[[Endpoint], FlinkRestClient]
    ) -> None:
        if "file" not in cluster.settings.parameters:
            raise ConfigError(f"cluster '{cluster.name}': parameters.file is not set: expected a file with URLs")
        self._file = Path(cluster.settings.parameters["file"])
        self._cluster = cluster
        self._loop = loop
        self._clients = clients

    def fetch(self) -> JobList:
        """Return the jobs of all JobManagers that answer, and why others did not.

        Raises:
            NotReadyError: The file cannot be read.
        """
        try:
            urls = self._file.read_text().split()
        except OSError as error:
            raise NotReadyError(f"the inventory cannot be read: {error}") from error
        contexts: list[JobAutoScalerContext] = []
        problems: dict[str, AutoscalerError] = {}
        for url in urls:
            try:
                contexts += self._jobs(replace(self._cluster.endpoint, url=url))
            except AutoscalerError as error:
                problems[url] = error  # while there is any, no job counts as gone
        return JobList(tuple(contexts), problems=problems)

    def close(self) -> None:
        """Do nothing: loop and clients belong to the daemon."""

    def _jobs(self, endpoint: Endpoint) -> Iterator[JobAutoScalerContext]:
        client = self._clients(endpoint)
        for job in self._loop.run(client.jobs_overview()):
            reported = self._loop.run(client.job_configuration(job.job_id))
            yield JobAutoScalerContext(
                job_key=f"{self._cluster.name}/{job.job_id}",
                job_id=job.job_id,
                job_name=job.name,
                status=effective_status(job.state, job.tasks),
                configuration={**self._cluster.job_defaults, **reported},
                endpoint=endpoint,
                cluster=self._cluster.name,
                task_count=job.tasks.get("total"),
                labels={"jobmanager": endpoint.url},
            )
