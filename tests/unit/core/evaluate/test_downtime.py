from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.evaluate.downtime import (
    LONGEST,
    SHORTEST,
    ClusterOutages,
    assumed_restart,
    estimate_downtime,
)
from flink_autoscaler.core.model.decision import RestartBasis, RestartSource, RestartTime
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Mechanism, RescaleRecord, Stage, Supervision
from testkit.builders.core import a_context

GB = 10**9
IN_PLACE, REACTIVE_LOSS = Mechanism.IN_PLACE, Mechanism.REACTIVE_LOSS


def estimated(
    outages: Sequence[float | None],
    mechanism: Mechanism = IN_PLACE,
    *,
    state_gb: float = 2.0,
    taskmanagers: int | None = 1,
    subtasks: int = 20,
) -> tuple[float, float]:
    """Return the median and what nine in ten stay below, of a job that was rescaled in place before."""
    past = [
        RescaleRecord(
            at, at, {"a": 1}, {"a": 2}, stage=Stage.REACHED, outage_ms=None if each is None else int(1e3 * each)
        )
        for at, each in enumerate(outages)
    ]
    estimate = estimate_downtime(
        past, mechanism, state_bytes=round(state_gb * GB), taskmanagers=taskmanagers, subtasks=subtasks
    )
    return estimate.mean, estimate.q90


@pytest.mark.parametrize(
    ("outages", "expected"),
    [
        pytest.param([], (36.0, 72.0), id="none: 15 s, 10 s per GB, 0.05 s per subtask, and twice that"),
        pytest.param([None, None, None], (36.0, 72.0), id="none that was measured"),
        pytest.param([50.0], (43.0, 50.0), id="one, and what is usual"),
        pytest.param([50.0, 8.0], (36.0, 50.0), id="two, and what is usual"),
        pytest.param([50.0, 8.0, 9.0], (9.0, 50.0), id="three speak for themselves"),
        pytest.param([*[8.0] * 17, 90.0, 50.0, 9.0], (8.0, 9.0), id="nine in ten of twenty"),
        pytest.param([*[500.0] * 9, *[8.0] * 20], (8.0, 8.0), id="the newest twenty"),
        pytest.param([0.0] * 3, (SHORTEST, SHORTEST), id="none so short"),
        pytest.param([5_000.0] * 3, (LONGEST, LONGEST), id="none so long"),
    ],
)
def test_outages_of_the_same_kind_tell_what_the_next_one_is_like(
    outages: list[float | None], expected: tuple[float, float]
) -> None:
    assert estimated(outages) == expected


def test_outages_of_another_kind_tell_nothing() -> None:
    assert estimated([8.0, 8.0, 8.0], REACTIVE_LOSS) == (86.0, 172.0)


def test_state_that_is_spread_over_more_taskmanagers_is_restored_sooner() -> None:
    assert [estimated([], state_gb=10.0, taskmanagers=count)[0] for count in (1, 5, None)] == [116.0, 36.0, 116.0]


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

    assert found == RestartTime(42, RestartBasis(RestartSource.MEASURED_OF_CLUSTER, 0, 3))


def test_the_own_outages_count_beside_those_of_two_other_jobs() -> None:
    assert assumed([50_000], [[30_000] * 3, [60_000]]).seconds == 50


def test_many_outages_of_one_other_job_replace_nothing() -> None:
    assert assumed([50_000], [[30_000] * 20]).seconds == ASSUMED
