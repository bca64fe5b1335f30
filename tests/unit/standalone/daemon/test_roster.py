"""Which jobs are there, and which are gone, when lists are whole and when they have gaps."""

from __future__ import annotations

from concurrent.futures import Future

from flink_autoscaler.core.errors import AutoscalerError, ConnectError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.daemon.job_state_cleaner import JobTracker
from testkit.builders.cluster_passes import a_listed_job

PROBLEM: dict[str, AutoscalerError] = {"application_1_1": ConnectError("no answer")}


def a_list(*jobs: str, gap: bool = False) -> JobList:
    return JobList(tuple(a_listed_job(job) for job in jobs), problems=PROBLEM if gap else {})


def gone(roster: JobTracker, job_list: JobList) -> list[JobKey]:
    return [context.job_key for context in roster.update(job_list)]


def working(roster: JobTracker, job_key: JobKey) -> Future[object]:
    work: Future[object] = Future()
    roster.track_work(job_key, work)
    return work


def test_what_is_still_not_there_when_the_gap_is_closed_is_gone_once() -> None:
    roster = JobTracker()
    roster.update(a_list("a", "b", "c"))
    roster.update(a_list("a", gap=True))

    assert gone(roster, a_list("a", "b")) == ["c"]
    assert gone(roster, a_list("a", "b")) == []


def test_job_that_was_first_seen_beside_a_gap_can_be_gone_later() -> None:
    roster = JobTracker()
    roster.update(a_list("a", gap=True))

    assert gone(roster, a_list("b")) == ["a"]


def test_gone_job_under_way_that_is_back_beside_a_gap_is_not_gone() -> None:
    roster = JobTracker()
    roster.update(a_list("a", "b"))
    work = working(roster, "a")
    roster.update(a_list("b"))

    roster.update(a_list("a", gap=True))
    work.set_result(None)

    assert gone(roster, a_list("a", "b")) == []


def test_gone_job_under_way_waits_for_the_gap_to_be_closed() -> None:
    roster = JobTracker()
    roster.update(a_list("a", "b"))
    work = working(roster, "a")
    roster.update(a_list("b"))

    work.set_result(None)

    assert gone(roster, a_list("b", gap=True)) == []
    assert gone(roster, a_list("b")) == ["a"]


def test_every_known_job_has_its_key() -> None:
    roster = JobTracker()
    roster.update(a_list("a", "b"))
    working(roster, "a")
    roster.update(a_list("b"))

    assert roster.job_keys() == {"a", "b"}
