"""Outages of a cluster: each job has one voice, so that a job that lies about its own moves no other one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.evaluate.restart_time import ClusterOutages, assumed_restart
from flink_autoscaler.core.model.decision import RestartSource, RestartTime
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision
from testkit.builders.core import a_context

ASSUMED = 300
LARGEST_MS = 10**9
JOBS = ("first", "second", "third", "fourth")

TRUE_MS = st.integers(5_000, 900_000)
"""Within what is planned with as it is."""

TRUE_OUTAGES = st.lists(TRUE_MS, min_size=1, max_size=5)
LIES = st.lists(st.one_of(st.just(0), st.just(LARGEST_MS), st.integers(0, LARGEST_MS)), min_size=1, max_size=40)


def measured(outages_ms: Sequence[int], *, latest_ms: int = 1_000_000) -> Supervision:
    decided = [latest_ms - number for number in range(len(outages_ms), 0, -1)]
    records = (
        RescaleRecord(at_ms, at_ms, {"v": 1}, {"v": 2}, stage=Stage.REACHED, outage_ms=outage)
        for at_ms, outage in zip(decided, outages_ms, strict=True)
    )
    return Supervision(past=tuple(records))


def assumed(own: Sequence[int], others: Sequence[Sequence[int]]) -> RestartTime:
    """Return what a job plans with beside others that were measured."""
    outages = ClusterOutages()
    for number, each in enumerate(others):
        outages.note("main", f"main/{number}", measured(each, latest_ms=1_000_000 + number))
    state = JobState(supervision=measured(own))
    outages.note("main", "main/own", state.supervision)
    return assumed_restart(state, outages.elsewhere("main", "main/own"), a_context().options)


@given(
    own=st.lists(TRUE_MS, max_size=2), honest=st.lists(TRUE_OUTAGES, max_size=12), lies=LIES, place=st.integers(0, 12)
)
def test_a_job_that_lies_moves_no_other_beyond_what_truthful_jobs_were_measured_with(
    own: list[int], honest: list[list[int]], lies: list[int], place: int
) -> None:
    found = assumed(own, [*honest[:place], lies, *honest[place:]])

    true_seconds = [-(-outage // 1000) for each in (own, *honest) for outage in each]
    allowed = {found.seconds == ASSUMED}
    if true_seconds:
        allowed.add(min(true_seconds) <= found.seconds <= max(true_seconds))
    assert True in allowed


def test_three_jobs_that_were_measured_replace_the_assumed_restart_time() -> None:
    found = assumed([], [[30_000, 40_000, 50_000], [60_000], [41_000, 43_000]])

    assert (found.seconds, found.basis.source, found.basis.elsewhere) == (42, RestartSource.MEASURED_OF_CLUSTER, 3)


def test_the_own_outages_count_beside_those_of_two_other_jobs() -> None:
    assert assumed([50_000], [[30_000] * 3, [60_000]]).seconds == 50


def test_many_outages_of_one_other_job_replace_nothing() -> None:
    assert assumed([50_000], [[30_000] * 20]).seconds == ASSUMED
