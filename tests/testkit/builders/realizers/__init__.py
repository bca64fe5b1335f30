"""What the tests of realizers share: a fake job, its context, clients as the daemon keeps them, and a clock."""

from __future__ import annotations

import dataclasses
from typing import Any

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from testkit.fakes.flink import FakeFlink, FakeVertex

JOB_ID = "4ad5c7b1e0f24c0b8f4b1d6f3b0f5a11"
NEXT_JOB_ID = "5bd5c7b1e0f24c0b8f4b1d6f3b0f5a22"
SOURCE = "431c11b7410a217cf29a345eb02981d0"
SINK = "afa3664e2d13439221e8d041382a4dc1"
PATH = f"/jobs/{JOB_ID}/resource-requirements"
ADAPTIVE = {"jobmanager.scheduler": "Adaptive", "job.autoscaler.scaling.event.interval": "10 s"}


class Clients:
    """Keeps one client per endpoint, as the daemon does."""

    def __init__(self) -> None:
        self.loop = EventLoopThread()
        self.made: dict[Endpoint, FlinkRestClient] = {}

    def __call__(self, endpoint: Endpoint) -> FlinkRestClient:
        return self.made.setdefault(endpoint, FlinkRestClient(endpoint))

    def close(self) -> None:
        for client in self.made.values():
            self.loop.run(client.aclose(), 5.0)
        self.loop.close()


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclasses.dataclass
class Cluster:
    """A fake cluster with two jobs of a source and a sink, each vertex with the requirement 1..2."""

    flink: FakeFlink

    def __post_init__(self) -> None:
        for job_id in (JOB_ID, NEXT_JOB_ID):
            vertices = [FakeVertex(SOURCE, "Source: orders", 2), FakeVertex(SINK, "sink", 2, inputs={SOURCE: "HASH"})]
            self.flink.add_job("orders", vertices, job_id=job_id)
        self.requirements = self.flink.jobs[JOB_ID].requirements

    def context(self, configuration: dict[str, str] | None = None, **changes: Any) -> JobAutoScalerContext:
        """Make the context of the first job: running, with the adaptive scheduler unless told otherwise."""
        endpoint = self.flink.endpoint(timeout=changes.pop("timeout", 5.0))
        settings = ADAPTIVE if configuration is None else configuration
        context = JobAutoScalerContext("c/orders", JOB_ID, JobStatus.RUNNING, settings, endpoint, cluster="c")
        return dataclasses.replace(context, **changes)

    @property
    def bodies(self) -> list[object]:
        """Bodies of the PUT requests so far."""
        return [request.body for request in self.flink.requests if request.method == "PUT"]

    @property
    def requests(self) -> list[tuple[str, str]]:
        """Method and path of all requests so far."""
        return [(request.method, request.path) for request in self.flink.requests]


def body_of(bounds: dict[str, tuple[int, int]]) -> dict[str, object]:
    """Make the body of a PUT."""
    return {
        vertex_id: {"parallelism": {"lowerBound": lower, "upperBound": upper}}
        for vertex_id, (lower, upper) in bounds.items()
    }
