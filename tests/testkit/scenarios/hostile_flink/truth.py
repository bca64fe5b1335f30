"""The truth about one cluster: jobs under a steady load, answered endpoint by endpoint as Flink does."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from testkit.fakes.flink import FakeJob, FakeRequest, FakeVertex, answers, chain

CAPACITY: Final = 100.0
"""Records/s that one subtask can take."""

HANG: Final = 1.0
"""Seconds after which a pass that still asks has waited for an answer that did not come."""

STEADY: Final = 65.0
"""Records/s per subtask when a job has what it needs: none is busy enough, or idle enough, to be rescaled."""

TOO_MUCH: Final = 20_000.0
TOO_LITTLE: Final = 20.0
"""Records/s of a job that needs more, or less: so far off that a part of a sample tells."""

FEW: Final = 2
MANY: Final = 4

ACTIVE_SPLITS: Final = "Source__source_0.DynamicKafkaSource.activeSplitCount"
PARTITIONS: Final = 4.0
"""Partitions that the source reads."""

RESCALE: Final = "ab" * 16
"""Id of the one rescale of a history."""

_JOB: Final = re.compile(r"/jobs/([0-9a-f]{32})(/.*)?")
_VERTEX: Final = re.compile(r"/vertices/([0-9a-f]{32})(/subtasks/metrics)?")
_OF_A_JOB: Final = {
    "": "details",
    "/config": "user-config",
    "/jobmanager/config": "job-config",
    "/resource-requirements": "requirements",
    "/exceptions": "exceptions",
    "/checkpoints": "checkpoints",
    "/checkpoints/config": "checkpoint-config",
    "/metrics": "restarts",
    "/rescales/history": "rescale-history",
    f"/rescales/details/{RESCALE}": "rescale-details",
}
_OF_A_CLUSTER: Final = {
    "/jobs/overview": "list",
    "/taskmanagers": "taskmanagers",
    "/taskmanagers/metrics": "taskmanager-metrics",
    "/jobmanager/metrics": "jobmanager-metrics",
    "/jobmanager/config": "cluster-config",
}


@dataclass
class TrueJob(FakeJob):
    """A job whose counters follow its load.

    Attributes:
        needs: The parallelism that its load calls for.
        modified_ms: When it says that it was changed.
        created_ms: When its present execution graph was made.
    """

    needs: int = FEW
    modified_ms: int = 0
    created_ms: int = 0
    _settled: float = field(default_factory=time.monotonic)
    _lag: float = 0.0
    _records: float = 1e9

    @property
    def parallelism(self) -> int:
        """With how many subtasks all vertices run."""
        return self.vertices[0].parallelism

    def settle(self, now: float) -> None:
        """Bring counters and gauges to an instant of the monotonic clock."""
        seconds, self._settled = now - self._settled, now
        subtasks = self.parallelism
        offered = STEADY * subtasks if subtasks == self.needs else TOO_MUCH if subtasks < self.needs else TOO_LITTLE
        taken = min(offered, CAPACITY * subtasks)
        self._lag = 0.0 if offered <= taken else self._lag + (offered - taken) * seconds
        self._records += taken * seconds
        for vertex in self.vertices:
            _settle(vertex, records=self._records, rate=taken, seconds=seconds, lag=self._lag)

    def change(self) -> None:
        """Say that something about the job has changed, so that its configuration is read again."""
        self.modified_ms = max(self.modified_ms + 1, now_ms())

    def take(self, wanted: Mapping[str, int]) -> None:
        """Restart with another parallelism."""
        self.rescale(wanted)
        self.created_ms = self.running_at_ms
        self.change()


def now_ms() -> int:
    """Return the time, epoch milliseconds."""
    return time.time_ns() // 1_000_000


def _settle(vertex: FakeVertex, *, records: float, rate: float, seconds: float, lag: float) -> None:
    busy = 1000.0 * rate / (CAPACITY * vertex.parallelism)
    is_source, is_sink = not vertex.inputs, vertex.name.startswith("Sink")
    vertex.records_in = 0 if is_source else int(records)
    vertex.records_out = 0 if is_sink else int(records)
    assert isinstance(vertex.busy_ms, float)
    vertex.busy_ms += busy * vertex.parallelism * seconds
    each = records / vertex.parallelism
    for name in vertex.metrics:
        if name.endswith("busyTimeMsPerSecond"):
            vertex.metrics[name] = busy
        elif name.endswith(("numRecordsIn", "numRecordsOut")):
            vertex.metrics[name] = each
        elif name.endswith("numRecordsInPerSecond"):
            vertex.metrics[name] = rate / vertex.parallelism
        elif name.endswith("activeSplitCount"):
            vertex.metrics[name] = PARTITIONS / vertex.parallelism
        elif name.endswith("pendingRecords"):
            vertex.metrics[name] = lag / vertex.parallelism


class Truth:
    """What a cluster would say if it were honest.

    Attributes:
        jobs: By id, in the order of the list.
        configuration: Of the cluster.
        now: The instant that all answers are about. It goes on with every list of jobs, so that a pass sees one instant
            however busy the machine is: windows of seconds would take a late answer for another load. It also goes on
            after a hang: what a daemon reads when it has given up an answer is not of before it waited.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, TrueJob] = {}
        self.configuration = {"jobmanager.scheduler": "adaptive", "taskmanager.numberOfTaskSlots": "8"}
        self.now = time.monotonic()

    def add(self, name: str, *, vertices: int = 3) -> TrueJob:
        """Run one more job, which has what it needs."""
        graph = list(chain(sources=1, vertices=vertices, parallelism=FEW))
        graph[-1].name = "Sink: out"
        # Past the map nothing comes to the sink: of what several inputs send, its own counter alone tells.
        graph[-1].inputs[graph[0].vertex_id] = "REBALANCE"
        graph[0].metrics[ACTIVE_SPLITS] = PARTITIONS
        job = TrueJob(uuid.uuid4().hex, name, graph, obeys=True, _settled=self.now)
        job.modified_ms = job.created_ms = job.running_at_ms
        job.hide_age()
        self.jobs[job.job_id] = job
        return job

    def endpoint(self, request: FakeRequest) -> tuple[str, TrueJob | None]:
        """Return the name of what is asked, and the job that it is about."""
        found = _JOB.fullmatch(request.path)
        if found is None:
            return _OF_A_CLUSTER.get(request.path, "unknown"), None
        return self._of_a_job(request, found[2] or ""), self.jobs.get(found[1])

    def _of_a_job(self, request: FakeRequest, rest: str) -> str:
        if request.method == "PUT":
            return "put"
        vertex = _VERTEX.fullmatch(rest)
        if vertex is None:
            return _OF_A_JOB.get(rest, "unknown")
        number = int(vertex[1][:4], 16)
        kind = "vertex" if vertex[2] is None else "values" if "get" in request.query else "names"
        return f"{kind}-{number}"

    def answer(self, endpoint: str, job: TrueJob | None, get: str | None = None) -> Any:
        """Return the decoded answer; None where there is nothing of that kind."""
        if endpoint == "list" or time.monotonic() - self.now > HANG:
            self.now = time.monotonic()
        if endpoint in _OF_A_CLUSTER.values():
            return self._about_the_cluster(endpoint, get)
        if job is None:
            return None
        job.settle(self.now)
        kind, _, number = endpoint.partition("-")
        if kind in ("names", "values", "vertex") and number.isdigit():
            return _about_a_vertex(kind, job.vertices[int(number)], get)
        return self._about_a_job(endpoint, job)

    def _about_the_cluster(self, endpoint: str, get: str | None) -> Any:
        match endpoint:
            case "list":
                return {"jobs": [_entry(job) for job in list(self.jobs.values())]}
            case "taskmanagers":
                return {"taskmanagers": [_taskmanager(number) for number in range(8)]}
            case "taskmanager-metrics":
                return answers.aggregated(answers.TASKMANAGER_METRICS, get, count=1)
            case "jobmanager-metrics":
                names = ("taskSlotsTotal", "taskSlotsAvailable") if get is None else get.split(",")
                known = {"taskSlotsTotal": "64", "taskSlotsAvailable": "32"}
                return [{"id": name, "value": known[name]} for name in names if name in known]
        return answers.configuration(self.configuration)

    def _about_a_job(self, endpoint: str, job: TrueJob) -> Any:
        makers: dict[str, Callable[[], Any]] = {
            "details": lambda: _details(job),
            "user-config": lambda: _user_config(job),
            "job-config": lambda: answers.configuration(self.configuration, job.configuration),
            "requirements": lambda: answers.requirements(job),
            "exceptions": lambda: {"exceptionHistory": {"entries": [_exception(job)], "truncated": False}},
            "checkpoints": lambda: {
                "latest": {"completed": {"latest_ack_timestamp": now_ms() - 500, "state_size": 1000}}
            },
            "checkpoint-config": lambda: {"mode": "exactly_once", "interval": 1000, "timeout": 600_000},
            "restarts": lambda: [{"id": "numRestarts", "value": "0"}, {"id": "numRescales", "value": "0"}],
            "rescale-history": lambda: {"rescaleHistory": [_attempt(job)]},
            "rescale-details": lambda: {"schedulerStates": _states(job)},
            "put": dict,
        }
        return makers[endpoint]() if endpoint in makers else None


def _about_a_vertex(kind: str, vertex: FakeVertex, get: str | None) -> Any:
    if kind == "vertex":
        return {"id": vertex.vertex_id, "now": now_ms(), "subtasks": list(_subtasks(vertex))}
    return answers.vertex_metrics(vertex, get)


def _subtasks(vertex: FakeVertex) -> Iterator[dict[str, object]]:
    for number in range(vertex.parallelism):
        yield {"subtask": number, "status": "RUNNING", "attempt": 0, "status-duration": {"RUNNING": 100}}


def _entry(job: TrueJob) -> dict[str, object]:
    tasks = sum(vertex.parallelism for vertex in job.vertices)
    return {
        **answers.overview_entry(job),
        "duration": now_ms() - job.start_ms,
        "last-modification": job.modified_ms,
        "tasks": {"total": tasks, "running": tasks, "finished": 0, "failed": 0},
    }


def _user_config(job: TrueJob) -> dict[str, object]:
    return {"jid": job.job_id, "name": job.name, "execution-config": {"user-config": dict(job.user_config)}}


def _states(job: TrueJob) -> list[dict[str, object]]:
    return [
        {"state": "Executing", "leaveTimestampInMillis": job.created_ms - 500},
        {"state": "Restarting", "leaveTimestampInMillis": job.created_ms},
    ]


def _details(job: TrueJob) -> dict[str, Any]:
    details: dict[str, Any] = answers.details(job)
    details["timestamps"]["CREATED"] = job.created_ms
    for vertex in details["vertices"]:
        vertex["tasks"] = {"RUNNING": vertex["parallelism"], "FAILED": 0}
        vertex["metrics"] |= {"accumulated-idle-time": 5000, "accumulated-backpressured-time": 0}
    return details


def _taskmanager(number: int) -> dict[str, object]:
    return {
        "id": f"127.0.0.1:{40000 + number}-abc",
        "slotsNumber": 8,
        "freeSlots": 4,
        "totalResource": {"cpuCores": 1.0},
        "memoryConfiguration": {"frameworkHeap": 2**27, "taskHeap": 2**28, "networkMemory": 2**27},
    }


def _exception(job: TrueJob) -> dict[str, object]:
    return {
        "exceptionName": "java.lang.Exception",
        "stacktrace": "java.lang.Exception: long ago\n\tat x",
        "timestamp": job.start_ms - 3_600_000,
        "concurrentExceptions": [],
    }


def _attempt(job: TrueJob) -> dict[str, object]:
    return {
        "rescaleUuid": RESCALE,
        "startTimestampInMillis": job.created_ms - 1000,
        "endTimestampInMillis": job.created_ms,
        "terminalState": "COMPLETED",
        "triggerCause": "UPDATE_REQUIREMENT",
        "terminatedReason": "SUCCEEDED",
    }
