"""The harness would notice: a daemon that does nothing, hangs, misses a pass, or sends what nobody needs."""

from __future__ import annotations

import json
from collections import deque

import pytest

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from testkit.fakes.flink import FakeRequest
from testkit.scenarios.hostile_flink.cluster import HEALTHY, HostileCluster
from testkit.scenarios.hostile_flink.daemon import Log
from testkit.scenarios.hostile_flink.judging import Figures, Verdict
from testkit.scenarios.hostile_flink.lies import Lie, Scope, catalogue, chosen
from testkit.scenarios.hostile_flink.running import Plan, run_lies
from testkit.scenarios.hostile_flink.truth import TrueJob

QUICK = Plan(interval=0.25, options={"job.autoscaler.metrics.window": "1 s"}, steps_every=4, passes=44)
LIE = Lie("details", "/vertices/1/parallelism", "null", 1)


@pytest.fixture
def verdicts() -> list[Verdict]:
    return []


@pytest.fixture
def cluster(verdicts: list[Verdict]) -> HostileCluster:
    """A cluster in the middle of a lie."""
    queues = [deque([LIE])]
    lying = HostileCluster("main", queues, limit=1.0, on_verdict=verdicts.append, steps_every=10**9, interval=60.0)
    for _ in range(3):
        lying.after_pass(a_pass(lying))
    lying.respond(FakeRequest("GET", f"/jobs/{lying.sick_jobs()[0].job_id}", {}, {}))
    return lying


def a_pass(cluster: HostileCluster, *, without: str = "", seconds: float = 0.1) -> PassReport:
    """Return a pass in which all jobs were evaluated but one."""
    keys = [f"{cluster.name}/{job.name}" for job in cluster.truth.jobs.values() if job.name != without]
    outcomes = {key: PassOutcome(key, PassPhase.EXECUTED, Hold(())) for key in keys}
    return PassReport(
        cluster.name, reports={key: JobPassReport(key, each) for key, each in outcomes.items()}, seconds=seconds
    )


def end_of_the_lie(cluster: HostileCluster, verdicts: list[Verdict]) -> Verdict:
    """Go on until the lie is over, and return what became of it."""
    for _ in range(5):
        cluster.after_pass(a_pass(cluster))
    (verdict,) = verdicts
    return verdict


def put(cluster: HostileCluster, job: TrueJob, parallelism: int) -> None:
    bounds = {"parallelism": {"lowerBound": 1, "upperBound": parallelism}}
    body = {vertex.vertex_id: bounds for vertex in job.vertices}
    cluster.respond(FakeRequest("PUT", f"/jobs/{job.job_id}/resource-requirements", {}, {}, body))


def test_a_lie_without_harm_breaks_no_judgement(cluster: HostileCluster, verdicts: list[Verdict]) -> None:
    verdict = end_of_the_lie(cluster, verdicts)

    assert (verdict.lie, verdict.told, verdict.was_ready, verdict.faults) == (str(LIE), 1, True, {})


def test_a_pass_without_the_healthy_job_is_noticed(cluster: HostileCluster, verdicts: list[Verdict]) -> None:
    cluster.after_pass(a_pass(cluster, without=HEALTHY))

    assert end_of_the_lie(cluster, verdicts).faults.keys() == {"missed"}


def test_a_pass_that_takes_too_long_is_noticed(cluster: HostileCluster, verdicts: list[Verdict]) -> None:
    cluster.after_pass(a_pass(cluster, seconds=4.0))

    assert end_of_the_lie(cluster, verdicts).late == ["4.0 s"]


@pytest.mark.parametrize("parallelism", [1, 3, 4, 50])
def test_a_request_that_nothing_calls_for_is_noticed(
    cluster: HostileCluster, verdicts: list[Verdict], parallelism: int
) -> None:
    put(cluster, cluster.sick_jobs()[0], parallelism)

    assert end_of_the_lie(cluster, verdicts).faults.keys() == {"wrong"}


def test_a_request_for_the_healthy_job_is_noticed(cluster: HostileCluster, verdicts: list[Verdict]) -> None:
    put(cluster, cluster.healthy, 4)

    assert end_of_the_lie(cluster, verdicts).faults.keys() == {"wrong"}


@pytest.mark.parametrize(
    ("needs", "parallelism", "is_wrong"),
    [
        pytest.param(4, 4, False, id="what is needed"),
        pytest.param(4, 3, False, id="a step towards it"),
        pytest.param(4, 5, True, id="more than that"),
        pytest.param(4, 1, True, id="the other direction"),
    ],
)
def test_a_request_that_the_load_calls_for_is_right(
    cluster: HostileCluster, verdicts: list[Verdict], needs: int, parallelism: int, is_wrong: bool
) -> None:
    cluster.healthy.needs = needs

    put(cluster, cluster.healthy, parallelism)

    assert bool(end_of_the_lie(cluster, verdicts).wrong) is is_wrong
    assert cluster.sent == (not is_wrong)


def test_a_traceback_in_the_log_is_noticed() -> None:
    found: list[tuple[str, str, str]] = []
    line = {
        "event": "pass_failed",
        "cluster": "main",
        "exception": 'Traceback (most recent call last):\n  File "/x/y.py", line 3, in f\nKeyError: 5',
    }

    Log(lambda *told: found.append(told)).write(json.dumps(line) + "\n")

    assert found == [("main", "", 'pass_failed: KeyError: 5 (y.py", line 3, in f)')]


def test_a_daemon_that_is_switched_off_is_noticed() -> None:
    options = {**QUICK.options, "job.autoscaler.scaling.enabled": "false"}

    figures = run_lies([], Plan(interval=0.25, options=options, steps_every=4, passes=44))

    assert (figures.count("not_sent") > 0, figures.sent) == (True, 0)


def test_a_daemon_that_looks_after_its_jobs_sends_what_they_need() -> None:
    figures = run_lies([], QUICK)

    assert figures.sent > 0
    assert [str(verdict) for verdict in figures.verdicts if verdict.faults.keys() - {"late"}] == []


def test_a_daemon_that_says_nothing_is_killed_and_told() -> None:
    figures = run_lies([LIE], Plan(slots=1, silence=0.01))

    assert [(verdict.lie, verdict.hung) for verdict in figures.verdicts] == [(str(LIE), ["killed"])]
    assert isinstance(figures, Figures)


def test_every_lie_is_told_by_its_text() -> None:
    lies = catalogue()

    assert {Lie.of(str(lie)) for lie in lies} == set(lies)
    assert {lie.scope for lie in lies} == set(Scope)
    assert len(lies) > 20_000


def test_a_seed_chooses_the_same_lies_again() -> None:
    assert chosen(500, 3) == chosen(500, 3) != chosen(500, 4)
    assert {lie.scope for lie in chosen(200, 3)} == set(Scope)
