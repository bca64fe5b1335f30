"""The REST client for code that runs in threads: one event loop in the background serves them all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError
from typing import Final, TypeVar

from flink_autoscaler.clients.flink.decode import ClusterInfo, JobOverview, ParallelismBounds
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.topology import JobDetails

T = TypeVar("T")

_MARGIN: Final = 5.0
"""Seconds beyond a request's own deadline after which the loop itself counts as stuck."""


class EventLoopThread:
    """An event loop in a daemon thread. Starts at once; usable from any other thread until closed."""

    def __init__(self, name: str = "flink-rest") -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[object, object, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result.

        Args:
            coroutine: Raises what it wants; that is raised here.
            timeout: Seconds to wait; then it is cancelled. None waits as long as it takes.

        Raises:
            ConnectError: It took longer than the timeout, or the loop is closed.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as exc:
            coroutine.close()
            raise ConnectError("the REST client has been closed") from exc
        try:
            return future.result(timeout)
        except TimeoutError as exc:
            if future.done():
                raise
            future.cancel()
            raise ConnectError(f"not finished within {timeout} s") from exc
        except CancelledError as exc:
            raise ConnectError("the REST client was closed meanwhile") from exc

    def close(self) -> None:
        """Cancel what still runs and end the thread. May be called more than once."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        running = asyncio.all_tasks(self._loop)
        for task in running:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*running, return_exceptions=True))
        self._loop.close()


class BlockingFlinkRestClient:
    """:class:`FlinkRestClient` for worker threads; calls of several threads may overlap.

    The methods are those of the asynchronous client, with the same errors.
    """

    def __init__(self, endpoint: Endpoint, loop: EventLoopThread) -> None:
        self._loop = loop
        self._client = FlinkRestClient(endpoint)

    @property
    def endpoint(self) -> Endpoint:
        """Where the JobManager is."""
        return self._client.endpoint

    def jobs_overview(self) -> tuple[JobOverview, ...]:
        """Return all jobs that the cluster remembers."""
        return self._run(self._client.jobs_overview())

    def job_details(self, job_id: str, *, timeout: float | None = None) -> JobDetails:
        """Return graph, counters and timestamps of a job."""
        return self._run(self._client.job_details(job_id, timeout=timeout), timeout)

    def job_configuration(self, job_id: str) -> dict[str, str]:
        """Return the configuration of the job's JobManager."""
        return self._run(self._client.job_configuration(job_id))

    def job_user_config(self, job_id: str) -> dict[str, str]:
        """Return the global parameters of a job."""
        return self._run(self._client.job_user_config(job_id))

    def cluster_configuration(self) -> dict[str, str]:
        """Return the configuration of the JobManager."""
        return self._run(self._client.cluster_configuration())

    def cluster_config_info(self) -> ClusterInfo:
        """Return the version of Flink."""
        return self._run(self._client.cluster_config_info())

    def jobmanager_metrics(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return metrics of the JobManager."""
        return self._run(self._client.jobmanager_metrics(names))

    def resource_requirements(self, job_id: str) -> dict[VertexId, ParallelismBounds]:
        """Return what the adaptive scheduler was asked for."""
        return self._run(self._client.resource_requirements(job_id))

    def set_resource_requirements(self, job_id: str, bounds: Mapping[VertexId, ParallelismBounds]) -> None:
        """Ask for a parallelism of all vertices; never sent twice."""
        self._run(self._client.set_resource_requirements(job_id, bounds))

    def close(self) -> None:
        """Close all connections; the loop stays."""
        self._run(self._client.aclose())

    def _run(self, coroutine: Coroutine[object, object, T], timeout: float | None = None) -> T:
        seconds = self.endpoint.timeout if timeout is None else timeout
        return self._loop.run(coroutine, seconds + _MARGIN)
