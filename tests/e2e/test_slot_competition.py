"""Two real jobs that want more slots than their cluster has."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pytest

from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders, PauseOrder
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Stage
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.clusters.flink import FlinkCluster, job
from testkit.scenarios.rescue import SupervisedPasses

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="rescue")]

SLOTS = 8
MOST = 7
"""The greatest parallelism of a vertex."""
STEADY = 5
"""Passes for which all jobs want the same before the test goes on."""

OPTIONS = {
    "job.autoscaler.vertex.max-parallelism": str(MOST),
    # Only "work" takes part, so that the figures can be worked out in the head.
    "job.autoscaler.vertex.exclude.names": "Source: *;sink: *",
    "job.autoscaler.scale-down.economics.enabled": "false",
}

# One subtask of "work" takes 1 ms per record: the one needs more than the seven that are allowed, the other only one.
GREEDY = job.ScalingJob(curve="0:20000", cost_micros=1000, splits=8)
IDLE = job.ScalingJob(curve="0:100", cost_micros=1000, splits=8, parallelism_work=7)

ALL = f"vertex.min-parallelism:{MOST}"
"""An option with which a job always wants the most, also where the figures of a busy machine go up and down."""

GUARD = pytest.mark.parametrize(
    "shared_cluster",
    ["1.20", pytest.param("2.3", marks=pytest.mark.guard)],
    ids=["Flink 1.20", "Flink 2.3"],
    indirect=True,
    scope="module",
)
"""Both versions, one of them also in ``make test``."""

PAUSED = Orders(pause=PauseOrder(AuditStamp("a test", "so that all jobs decide in the same pass", 0)))


@pytest.fixture(scope="module", params=["1.20", "2.3"], ids=["Flink 1.20", "Flink 2.3"])
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[FlinkCluster]:
    """Two TaskManagers of four slots each."""
    with FlinkCluster(request.param, taskmanagers=2, slots=SLOTS // 2) as started:
        yield started


@pytest.fixture
def cluster(shared_cluster: FlinkCluster) -> Iterator[FlinkCluster]:
    yield shared_cluster
    for entry in shared_cluster.rest.get("/jobs")["jobs"]:
        if entry["status"] not in ("CANCELED", "FAILED", "FINISHED"):
            shared_cluster.cancel(entry["id"])


@dataclass
class Competition:
    """Two jobs under one daemon.

    Attributes:
        ids: Job ids by name.
        most_wanted: The most slots that the cluster was ever asked for, all jobs together.
    """

    cluster: FlinkCluster
    passes: SupervisedPasses
    ids: Mapping[str, str]
    most_wanted: int = 0

    def let_all_decide_at_once(self) -> None:
        """Do passes until every job wants all that it may have, and only a pause keeps it from that; end the pause."""
        self.passes.orders = PAUSED
        self.passes.until("all jobs want more", self._all_want_the_most, timeout=120)
        self.passes.orders = NO_ORDERS

    def _all_want_the_most(self) -> bool:
        """Tell whether it was so for some passes: what rests on a single sample is held back for a pass."""
        latest = self.passes.reports[-STEADY:]
        outcomes = [each.outcome for report in latest for each in report.reports.values()]
        wanted = [wanted_for_work(outcome) for outcome in outcomes]
        return wanted == [MOST] * (STEADY * len(self.ids))

    def until(self, description: str, is_reached: Callable[[dict[str, int]], bool]) -> None:
        """Do passes until the jobs run as expected."""
        self.passes.until(description, lambda: is_reached(self._running()), timeout=200)

    def show(self, title: str) -> None:
        """Print every event once, as handlers with a memory do."""
        told = {(each.job_key, each.event.reason, each.event.message): each for each in reversed(self.passes.told)}
        lines = [f"{each.job_key.rpartition('/')[2]:>8} {each}" for each in reversed(told.values())]
        print(f"\n--- {title}, Flink {self.cluster.version}", *lines, sep="\n")

    def codes(self) -> dict[str, set[str]]:
        """Return why passes decided what they did, by job name."""
        found: dict[str, set[str]] = {name: set() for name in self.ids}
        for report in self.passes.reports:
            for job_key, each in report.reports.items():
                reasons = each.outcome.decision.reasons
                found.setdefault(job_key.rpartition("/")[2], set()).update(reason.code for reason in reasons)
        return found

    def state(self, name: str) -> JobState:
        return self.passes.store.load(f"main/{name}")

    def stages(self, name: str) -> list[Stage]:
        supervision = self.state(name).supervision
        current = [] if supervision.current is None else [supervision.current]
        return [record.stage for record in (*supervision.past, *current)]

    def _running(self) -> dict[str, int]:
        self._look_at_requirements()
        return {name: self.passes.work_parallelism(job_id) for name, job_id in self.ids.items()}

    def _look_at_requirements(self) -> None:
        answers = [self.cluster.rest.get(f"/jobs/{job_id}/resource-requirements") for job_id in self.ids.values()]
        widest = [max(int(each["parallelism"]["upperBound"]) for each in answer.values()) for answer in answers]
        self.most_wanted = max(self.most_wanted, sum(widest))


def wanted_for_work(outcome: PassOutcome) -> float:
    """Return the parallelism that a pass found right, whatever kept the job from having it; NaN where it found none."""
    if outcome.metrics is None or outcome.observation.topology is None:
        return math.nan
    for vertex_id, metrics in outcome.metrics.vertices.items():
        if outcome.observation.topology.vertices[vertex_id].name == job.WORK_VERTEX:
            found = metrics.get(ScalingMetric.RECOMMENDED_PARALLELISM)
            return math.nan if found is None else found.current
    return math.nan


def submit(cluster: FlinkCluster, load: job.ScalingJob, *options: str, name: str) -> str:
    config = {"pipeline.global-job-parameters": ",".join(f"job.autoscaler.{each}" for each in options)}
    return job.submit(cluster, replace(load, name=name), config=config if options else {})


def passes_over(cluster: FlinkCluster, ids: Mapping[str, str]) -> SupervisedPasses:
    """Return passes over these jobs; those of other tests are still listed."""
    return SupervisedPasses(cluster, OPTIONS, selects=lambda context: context.job_id in ids.values())


@GUARD
def test_jobs_that_want_more_than_there_is_get_equal_shares(cluster: FlinkCluster) -> None:
    ids = {name: submit(cluster, GREEDY, ALL, name=name) for name in ("one", "other")}
    with passes_over(cluster, ids) as passes:
        jobs = Competition(cluster, passes, ids)
        jobs.let_all_decide_at_once()
        jobs.until("equal shares", lambda running: running == {"one": 4, "other": 4})
        passes.repeat(3)

        jobs.show(f"two jobs want 14 of {SLOTS} slots")
        assert all({"FAIR_SHARE", "HEADROOM_REACHED"} <= codes for codes in jobs.codes().values())
        assert jobs.most_wanted == SLOTS
        assert [jobs.stages(name) for name in ids] == [[Stage.REACHED], [Stage.REACHED]]


def test_slots_that_one_job_gives_back_are_taken_by_another_one(cluster: FlinkCluster) -> None:
    ids = {"idle": submit(cluster, IDLE, name="idle"), "greedy": submit(cluster, GREEDY, ALL, name="greedy")}
    with passes_over(cluster, ids) as passes:
        jobs = Competition(cluster, passes, ids)
        jobs.until("the slots are with the other job", lambda now: 0 < now["idle"] <= 3 and now["greedy"] >= 5)

        jobs.show(f"one job gives back what another one wants, {SLOTS} slots")
        assert "HEADROOM_REACHED" in jobs.codes()["greedy"]
        assert jobs.most_wanted <= SLOTS
        assert {stage for name in ids for stage in jobs.stages(name)} <= {
            Stage.REQUESTED,
            Stage.PENDING,
            Stage.REACHED,
        }


def test_a_job_of_a_higher_priority_is_served_first(cluster: FlinkCluster) -> None:
    ids = {"patient": submit(cluster, GREEDY, ALL, name="patient")}
    ids["urgent"] = submit(cluster, GREEDY, ALL, "slots.priority:1", name="urgent")
    with passes_over(cluster, ids) as passes:
        jobs = Competition(cluster, passes, ids)
        jobs.let_all_decide_at_once()
        jobs.until("the urgent job has all it wants", lambda running: running == {"urgent": MOST, "patient": 1})
        passes.repeat(3)

        jobs.show(f"two jobs of different priority want 14 of {SLOTS} slots")
        assert jobs.most_wanted == SLOTS
        assert (jobs.stages("urgent"), jobs.stages("patient")) == ([Stage.REACHED], [])
        assert {"FAIR_SHARE", "HEADROOM_REACHED"} <= jobs.codes()["patient"]


ALL_SLOTS = replace(GREEDY, parallelism_work=SLOTS)
LATE = replace(IDLE, parallelism_work=3)


def submit_without_slots(cluster: FlinkCluster, load: job.ScalingJob, *, name: str) -> str:
    """Run a job; return its id at once: it has no slots yet."""
    named = replace(load, name=name)
    return cluster.upload_and_run(job.build(cluster.version), entry_class=job.ENTRY_CLASS, args=named.arguments())


def test_a_job_that_has_all_slots_gives_some_to_one_that_waits(cluster: FlinkCluster) -> None:
    ids = {"greedy": submit(cluster, ALL_SLOTS, f"vertex.max-parallelism:{SLOTS}", name="greedy")}
    with passes_over(cluster, ids) as passes:
        jobs = Competition(cluster, passes, ids)
        jobs.until("one job has all slots", lambda running: running == {"greedy": SLOTS})
        ids["late"] = submit_without_slots(cluster, LATE, name="late")
        jobs.until("the other one runs, too", lambda running: running["greedy"] == 5 and running["late"] > 0)
        jobs.until("that is done", lambda _: jobs.stages("greedy")[-1:] == [Stage.REACHED])

        jobs.show(f"one job has all {SLOTS} slots, another one waits for some")
        assert "SLOTS_MISSING" in jobs.codes()["late"]
        assert "GIVES_SLOTS" in jobs.codes()["greedy"]
        assert passes.messages("SlotsMissing")[0].startswith(
            "The job has too few slots: it needs 1 slot at least to run, 1 is missing; "
            "cluster main: 8 slots, none free (greedy 8); greedy is to shrink to 5"
        )
