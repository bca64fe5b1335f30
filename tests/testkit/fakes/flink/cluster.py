"""The fake cluster: jobs, routes, faults and the log of requests."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flink_autoscaler.core.model.job import Endpoint
from testkit.fakes.flink import answers
from testkit.fakes.flink.faults import Canned, flink_error
from testkit.fakes.flink.job import FakeJob, FakeVertex, MetricValue, chain
from testkit.fakes.flink.metric_store import FakeMetricStore, MetricDump, without_metrics
from testkit.fakes.flink.reporter import reporter_text
from testkit.fakes.flink.server import FakeRequest
from testkit.fakes.flink.service import FaultyService

_JOB = re.compile(r"/jobs/([0-9a-f]{32})(/.*)?")
_VERTEX = re.compile(r"/vertices/([0-9a-f]{32})/subtasks/metrics")


class FakeFlink(FaultyService):
    """A JobManager that serves what the test says; see the package for an overview.

    Attributes:
        jobs: By id, in the order of the overview.
        configuration: Of the cluster.
        jobmanager_metrics: Metric id to text.
        taskmanager_metrics: Metric id to the value of every TaskManager.
        taskmanagers: What the list of TaskManagers has; None answers 404.
        store: Where metrics are answered from; None answers them as they are now.
    """

    def __init__(self, *, version: str = "2.3.0", store: FakeMetricStore | None = None) -> None:
        super().__init__()
        self.version = version
        self.store = store
        self.jobs: dict[str, FakeJob] = {}
        self.configuration: dict[str, str] = {"jobmanager.scheduler": "adaptive"}
        if store is not None:
            self.configuration["metrics.fetcher.update-interval"] = str(round(1000 * store.interval))
        self.jobmanager_metrics: dict[str, str] = {"taskSlotsTotal": "16", "taskSlotsAvailable": "8"}
        self.taskmanager_metrics: dict[str, MetricValue] = dict(answers.TASKMANAGER_METRICS)
        self.taskmanagers: object = None

    @property
    def connections(self) -> int:
        """Connections opened so far."""
        return self._server.opened

    @property
    def most_at_once(self) -> int:
        """Greatest number of requests under way at the same time."""
        return self._server.most_at_once

    @property
    def delay(self) -> float:
        """Seconds before every answer."""
        return self._server.delay

    @delay.setter
    def delay(self, seconds: float) -> None:
        self._server.delay = seconds

    @property
    def gate(self) -> Callable[[FakeRequest], bool] | None:
        """Tells which requests wait; they are answered as things are when it lets them through. None holds none."""
        return self._server.gate

    @gate.setter
    def gate(self, holds: Callable[[FakeRequest], bool] | None) -> None:
        self._server.gate = holds

    def endpoint(self, **overrides: Any) -> Endpoint:
        """Return the endpoint, with a timeout of 30 s unless told otherwise."""
        return Endpoint(**{"url": self.url, "timeout": 30.0, **overrides})

    def add_job(self, name: str = "orders", vertices: Sequence[FakeVertex] | None = None, **values: Any) -> FakeJob:
        """Serve one more job.

        Args:
            name: Of the job.
            vertices: Its graph; a source, an operator and a sink when None.
            values: Further fields of :class:`FakeJob`.
        """
        job_id = values.pop("job_id", uuid.uuid4().hex)
        job = FakeJob(job_id, name, list(chain() if vertices is None else vertices), **values)
        self.jobs[job_id] = job
        return job

    def _answer(self, request: FakeRequest) -> Canned:
        job_path = _JOB.fullmatch(request.path)
        if job_path:
            return self._job_answer(request, self.jobs.get(job_path[1]), job_path[2] or "")
        get = request.query.get("get")
        match request.path:
            case "/jobs/overview":
                return Canned.json(answers.overview(list(self.jobs.values())))
            case "/config":
                return Canned.json({"flink-version": self.version, "refresh-interval": 3000})
            case "/jobmanager/config":
                return Canned.json(answers.configuration(self.configuration))
            case "/jobmanager/metrics":
                self._dump()
                names = self.jobmanager_metrics if get is None else get.split(",")
                known = {name: self.jobmanager_metrics[name] for name in names if name in self.jobmanager_metrics}
                return Canned.json([{"id": name, "value": value} for name, value in known.items()])
            case "/metrics":
                return Canned(reporter_text(list(self.jobs.values()), self).encode(), content_type="text/plain")
            case "/taskmanagers" if self.taskmanagers is not None:
                return Canned.json({"taskmanagers": self.taskmanagers})
            case "/taskmanagers/metrics":
                return Canned.json(answers.aggregated(self._dump().taskmanagers, get, count=1))
        return flink_error(404, f"Not found: {request.path}")

    def _dump(self) -> MetricDump:
        """Return what metrics are answered from."""
        if self.store is None:
            return MetricDump(None, self.taskmanager_metrics)
        return self.store.asked(self.taskmanager_metrics, list(self.jobs.values()))

    def _vertices(self, job: FakeJob) -> list[FakeVertex]:
        """Return the vertices of a job as metrics tell them."""
        if self.store is None:
            return job.vertices
        known = self._dump().vertices
        return [known.get((job.job_id, each.vertex_id)) or without_metrics(each) for each in job.vertices]

    def _job_answer(self, request: FakeRequest, job: FakeJob | None, rest: str) -> Canned:
        vertex_path = _VERTEX.fullmatch(rest)
        if vertex_path:
            vertices = {} if job is None else {vertex.vertex_id: vertex for vertex in self._vertices(job)}
            return Canned.json(answers.vertex_metrics(vertices.get(vertex_path[1]), request.query.get("get")))
        if rest == "/jobmanager/config":
            return Canned.json(answers.configuration(self.configuration, {} if job is None else job.configuration))
        if rest == "/resource-requirements":
            return _requirements_answer(request, job)
        if job is None:
            job_id = request.path.split("/")[2]
            return flink_error(404, f"org.apache.flink.runtime.rest.NotFoundException: Job {job_id} not found\n\tat x")
        match rest:
            case "":
                return Canned.json(answers.details(job, self._vertices(job)))
            case "/config":
                return Canned.json({"jid": job.job_id, "execution-config": {"user-config": job.user_config}})
        asked = [vertex for vertex in job.vertices if rest == f"/vertices/{vertex.vertex_id}"]
        if asked and job.created_ms is not None:
            return Canned.json(answers.subtasks(job, asked[0]))
        return flink_error(404, f"Not found: {request.path}")


def _requirements_answer(request: FakeRequest, job: FakeJob | None) -> Canned:
    if job is None or job.state in answers.TERMINAL:
        return _server_error("org.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find Flink job")
    if not job.is_adaptive:
        return _server_error("java.lang.UnsupportedOperationException: Cannot access the resource requirements")
    if request.method == "GET":
        return Canned.json(answers.requirements(job))
    wanted = _wanted(request.body)
    problem = _problem(job, wanted)
    if problem:
        return flink_error(400, f"org.apache.flink.runtime.rest.handler.RestHandlerException: {problem}\n\tat x")
    job.requirements.update(wanted)
    if job.obeys:
        job.rescale({vertex_id: upper for vertex_id, (_, upper) in wanted.items()})
    return Canned.json({})


def _wanted(body: object) -> dict[str, tuple[int, int]]:
    assert isinstance(body, Mapping)
    bounds = {vertex_id: value["parallelism"] for vertex_id, value in body.items()}
    return {vertex_id: (value["lowerBound"], value["upperBound"]) for vertex_id, value in bounds.items()}


def _problem(job: FakeJob, wanted: Mapping[str, tuple[int, int]]) -> str:
    for vertex in job.vertices:
        if vertex.vertex_id not in wanted:
            return f"The request is incomplete, missing job vertex [{vertex.vertex_id}] resource requirements."
        lower, upper = wanted[vertex.vertex_id]
        if upper > vertex.max_parallelism or not 1 <= lower <= upper:
            return f"Invalid bounds [{lower}, {upper}] for job vertex [{vertex.vertex_id}]."
    return ""


def _server_error(exception: str) -> Canned:
    trace = f"<Exception on server side:\n{exception}\n\tat x\nEnd of exception on server side>"
    return flink_error(500, "Internal server error.", trace)
