"""A fleet of jobs on a fake cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.engine.inline import InlineEngine
from testkit.fakes.flink import FakeFlink, FakeJob, Fault, chain

NOW_MS = 1_900_000_000_000
JOB_DEADLINE = 15.0
"""Seconds that both engines of a comparison give a job, since a failure tells them."""

CONFIGURATION = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.stabilization.interval": "0s",
    "job.autoscaler.metrics.window": "60s",
}


def a_request(endpoint: Endpoint, name: str, **values: Any) -> PassRequest:
    """Return a first request for a job that runs and is enabled; ``values`` replace fields of the context."""
    fields: dict[str, Any] = {
        "job_key": f"test/{name}",
        "job_id": "0" * 32,
        "status": JobStatus.RUNNING,
        "configuration": CONFIGURATION,
        "endpoint": endpoint,
        "job_name": name,
        "cluster": "test",
    }
    return PassRequest(JobAutoScalerContext(**(fields | values)), JobState(), NOW_MS)


class Fleet:
    """Jobs on a fake cluster, and an inline engine to compare with."""

    def __init__(self, flink: FakeFlink, loop: EventLoopThread, *, job_deadline: float = JOB_DEADLINE) -> None:
        self.flink = flink
        self.endpoint = flink.endpoint()
        self.clients = ClientCache(loop)
        self.inline = InlineEngine(job_deadline=job_deadline, loop=loop, clients=self.clients)

    @classmethod
    @contextmanager
    def serving(cls, **values: Any) -> Iterator[Fleet]:
        """Serve a fleet until the block ends."""
        loop = EventLoopThread()
        with FakeFlink() as flink:
            fleet = cls(flink, loop, **values)
            yield fleet
            fleet.clients.close()
        loop.close()

    def add(self, name: str, **values: Any) -> PassRequest:
        """Serve a job that runs for an hour, and return a request for it: all that Flink measures is known of it."""
        start_ms = time.time_ns() // 1_000_000 - 3_600_000
        job: FakeJob = self.flink.add_job(name, chain(sources=1, vertices=3), start_ms=start_ms)
        return a_request(self.endpoint, name, job_id=job.job_id, **values)

    def add_mixed(self) -> list[PassRequest]:
        """Serve jobs that run, are disabled, do not run, are configured wrongly, fail, hang and have vanished."""
        failing, hanging = self.add("failing"), self.add("hanging")
        requests = [
            self.add("first"),
            self.add("disabled", configuration={}),
            self.add("not running", status=JobStatus.RESTARTING),
            failing,
            self.add("invalid", configuration={**CONFIGURATION, "job.autoscaler.scale-up.max-factor": "-1"}),
            a_request(self.endpoint, "vanished", job_id="f" * 32),
            hanging,
            a_request(self.endpoint, "not started", job_id=None),
        ]
        self.flink.fault(str(failing.context.job_id), Fault.HTML)
        self.flink.fault(str(hanging.context.job_id), Fault.HANG)
        return requests + [self.add(f"job {number}") for number in range(40)]


def next_pass(request: PassRequest, outcome: PassOutcome, *, seconds: int = 10) -> PassRequest:
    """Return the request of the following pass, as the loop makes it."""
    return replace(request, state=outcome.state, memory=outcome.memory, now_ms=request.now_ms + seconds * 1000)
