from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.evaluate.downtime import (
    LONGEST,
    SHORTEST,
    ClusterOutages,
    Size,
    assumed_restart,
    estimate_downtime,
)
from flink_autoscaler.core.model.decision import RestartSource, RestartTime
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Mechanism, RescaleRecord, Stage, Supervision
from testkit.builders.core import a_context

GB = 10**9
NOW_MS = 1_700_000_000_000
SIZE = Size(2.5, 32)


def outage(seconds: float, *, state_gb: float, subtasks: int, days_ago: float = 0.0) -> RescaleRecord:
    return RescaleRecord(
        decided_ms=NOW_MS - round(days_ago * 86_400_000),
        since_ms=NOW_MS,
        before={"a": 1},
        target={"a": subtasks},
        stage=Stage.REACHED,
        outage_ms=round(seconds * 1000),
        reached={"a": subtasks},
        state_bytes=round(state_gb * GB),
        taskmanagers=1,
    )


OUTAGES = (
    outage(52, state_gb=2, subtasks=40),
    outage(44, state_gb=1.5, subtasks=56),
    outage(80, state_gb=4, subtasks=20),
)


@pytest.mark.parametrize(("mechanism", "mean"), [(Mechanism.REACTIVE_LOSS, 91.6)])
def test_mechanisms_have_priors_of_their_own(mechanism: Mechanism, mean: float) -> None:
    estimate = estimate_downtime(OUTAGES, mechanism, SIZE, now_ms=NOW_MS)

    assert estimate.mean == pytest.approx(mean)
    assert estimate.samples == 0


def test_an_outage_of_30_days_ago_counts_half() -> None:
    fresh = estimate_downtime(OUTAGES[:1], Mechanism.IN_PLACE, SIZE, now_ms=NOW_MS)
    older = [outage(52, state_gb=2, subtasks=40, days_ago=30)]

    half = estimate_downtime(older, Mechanism.IN_PLACE, SIZE, now_ms=NOW_MS)

    assert 41.6 < half.mean < fresh.mean


def test_an_outage_that_was_not_measured_does_not_count() -> None:
    unknown = replace(OUTAGES[0], outage_ms=None)

    assert estimate_downtime([unknown], Mechanism.IN_PLACE, SIZE, now_ms=NOW_MS).samples == 0


def test_more_state_never_makes_an_outage_shorter() -> None:
    misleading = [outage(60 - 20 * gb, state_gb=gb, subtasks=10) for gb in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)]

    small, large = (
        estimate_downtime(misleading, Mechanism.IN_PLACE, Size(gb, 10), now_ms=NOW_MS).mean for gb in (1.0, 4.0)
    )

    assert large >= small


@pytest.mark.parametrize(("seconds", "bound"), [(0.0, SHORTEST), (5_000.0, LONGEST)])
def test_estimates_stay_within_bounds(seconds: float, bound: float) -> None:
    many = [outage(seconds, state_gb=0.0, subtasks=0)] * 200

    assert estimate_downtime(many, Mechanism.IN_PLACE, Size(0.0, 0), now_ms=NOW_MS).q90 == pytest.approx(bound, abs=3.0)


def test_scatter_is_measured_once_there_are_eight_outages() -> None:
    scattered = [outage(seconds, state_gb=1, subtasks=10) for seconds in (20, 60, 20, 60, 20, 60, 20)]
    size = Size(1.0, 10)

    seven = estimate_downtime(scattered, Mechanism.IN_PLACE, size, now_ms=NOW_MS)
    eight = estimate_downtime([*scattered, scattered[1]], Mechanism.IN_PLACE, size, now_ms=NOW_MS)

    assert eight.q90 - eight.mean > 1.5 * (seven.q90 - seven.mean)


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
