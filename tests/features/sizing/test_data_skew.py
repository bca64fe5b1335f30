"""Work that cannot be spread, in whole passes: what holds a vertex back, what does not, and what cannot be believed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import RescaleRecord, Supervision
from flink_autoscaler.core.model.topology import IoMetrics
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    a_reading,
    a_vertex,
    history_entry,
    source_answers,
)

NAN = float("nan")
RAISED = {SINGLE_SOURCE: (history_entry(MINUTE, 2, 4, rate=1000.0, expected=2000.0),)}
LOWERED = {SINGLE_SOURCE: (history_entry(MINUTE, 8, 4, rate=1000.0, expected=500.0),)}


@dataclass(frozen=True)
class Busy:
    """What a cluster says about the busy time of 4 subtasks, ms/s: three aggregates, and how their counter grows."""

    least: float | None
    mean: float | None
    most: float | None
    counted: float

    @classmethod
    def of(cls, *subtasks: float) -> Busy:
        return cls(min(subtasks), sum(subtasks) / len(subtasks), max(subtasks), sum(subtasks))


HOT = Busy.of(1000, 0, 0, 0)
EVEN = Busy.of(1000, 1000, 1000, 1000)


def a_job(minute: int, busy: Busy, *, hot_minutes: int = 0) -> JobReading:
    """Read a source of parallelism 4 whose busy subtasks read 1,000 records/s each, 500 fewer than arrive.

    Args:
        minute: Since it began.
        busy: How busy it is now, and was all along.
        hot_minutes: How many of the minutes only one subtask was busy.
    """
    rate = 1000.0 if busy is not EVEN else 4000.0
    rest = minute - hot_minutes
    io = IoMetrics(
        records_in=round(60 * (1000 * hot_minutes + rate * rest)),
        busy_ms=60 * (HOT.counted * hot_minutes + busy.counted * rest),
    )
    answers = {
        **source_answers(busy_ms=1000, rate=rate, pending=500.0 * 60 * minute),
        FlinkMetric.BUSY_TIME: Aggregate(busy.least, busy.most, busy.mean, busy.counted),
    }
    return a_reading([a_vertex(1, parallelism=4, io=io)], {SINGLE_SOURCE: answers})


def decided(busy: Busy, state: JobState, **options: str) -> PassOutcome:
    job = JobDriver(a_context({**SINGLE_SOURCE_OPTIONS, **options}), state)
    return job.run_each_minute(a_job(minute, busy) for minute in (1, 2, 3))


def is_skewed(outcome: PassOutcome) -> bool:
    return "DATA_SKEW" in {reason.code for reason in outcome.decision.reasons}


@pytest.mark.parametrize(
    ("busy", "state"),
    [
        pytest.param(HOT, JobState(history=RAISED), id="one subtask does everything"),
        pytest.param(Busy.of(1000, 60, 60, 60), JobState(history=RAISED), id="the others do next to nothing"),
        pytest.param(Busy.of(1000, 500, 300, 200), JobState(history=RAISED), id="uneven, and nothing was gained"),
        pytest.param(
            HOT,
            JobState(
                supervision=Supervision(
                    current=RescaleRecord(MINUTE, MINUTE, before={SINGLE_SOURCE: 2}, target={SINGLE_SOURCE: 4})
                )
            ),
            id="the decision is forgotten, its rescale is not",
        ),
    ],
)
def test_a_skewed_vertex_is_not_scaled_up_again(busy: Busy, state: JobState) -> None:
    outcome = decided(busy, state)

    assert (is_skewed(outcome), dict(outcome.target.parallelism)) == (True, {})
    assert [event.reason for event in outcome.events if event.reason == "DataSkew"] == ["DataSkew"]


@pytest.mark.parametrize(
    ("busy", "state"),
    [
        pytest.param(HOT, JobState(), id="it was never scaled up"),
        pytest.param(HOT, JobState(history=LOWERED), id="it was scaled down last"),
        pytest.param(EVEN, JobState(history=RAISED), id="all subtasks are busy: something else limits them"),
        pytest.param(
            Busy.of(1000, 500, 300, 200),
            JobState(history={SINGLE_SOURCE: (history_entry(MINUTE, 2, 4, rate=600.0, expected=1200.0),)}),
            id="uneven, but the last time it gained",
        ),
    ],
)
def test_a_vertex_that_may_gain_is_scaled_up(busy: Busy, state: JobState) -> None:
    outcome = decided(busy, state)

    assert (is_skewed(outcome), outcome.target.parallelism[SINGLE_SOURCE] > 4) == (False, True)


@pytest.mark.parametrize(
    "busy",
    [
        pytest.param(replace(HOT, least=500), id="the least is above the mean"),
        pytest.param(Busy(0, 1500, 1000, 1000), id="the mean is above the greatest"),
        pytest.param(Busy(0, 0, 1000, 0), id="zeros"),
        pytest.param(Busy(0, 100, 1000, 400), id="the mean is too small for the greatest"),
        pytest.param(replace(HOT, mean=1000.0), id="the counters say another mean"),
        pytest.param(replace(HOT, counted=4000.0), id="the reported mean is another one than that of the counters"),
        pytest.param(replace(HOT, mean=NAN), id="the mean is not a number"),
        pytest.param(replace(HOT, mean=None), id="no mean"),
        pytest.param(replace(HOT, mean=-250.0), id="negative"),
        pytest.param(Busy(10, 11, 15, 44), id="hardly anything is done"),
    ],
)
def test_shares_that_contradict_each_other_are_no_skew(busy: Busy) -> None:
    assert not is_skewed(decided(busy, JobState(history=RAISED)))


@pytest.mark.parametrize("counted", [NAN, -1000.0], ids=["none", "impossible ones"])
def test_a_mean_without_counters_is_enough(counted: float) -> None:
    assert is_skewed(decided(replace(HOT, counted=counted), JobState(history=RAISED)))


def test_skew_counts_until_the_window_has_none_any_more() -> None:
    job = JobDriver(a_context({**SINGLE_SOURCE_OPTIONS, "metrics.window": "5 min"}), JobState(history=RAISED))
    job.run_each_minute(a_job(minute, HOT) for minute in range(1, 7))

    # The key is gone, and all subtasks work; the rates of the window are still those of one.
    held = job.run(7 * MINUTE, a_job(7, EVEN, hot_minutes=6))
    for minute in range(8, 13):
        outcome = job.run(minute * MINUTE, a_job(minute, EVEN, hot_minutes=6))

    assert (is_skewed(held), dict(held.target.parallelism)) == (True, {})
    assert (is_skewed(outcome), outcome.target.parallelism[SINGLE_SOURCE] > 4) == (False, True)


def test_a_restart_between_two_samples_is_no_skew() -> None:
    job = JobDriver(a_context(SINGLE_SOURCE_OPTIONS), JobState(history=RAISED))
    job.run_each_minute(a_job(minute, EVEN) for minute in (1, 2, 3))

    # The counters begin at zero again although the cluster does not say that the job was restarted.
    outcome = job.run(4 * MINUTE, a_job(1, EVEN))

    assert not is_skewed(outcome)


def test_the_reference_knows_no_skew() -> None:
    outcome = decided(HOT, JobState(history=RAISED), compat="reference")

    assert (is_skewed(outcome), outcome.target.parallelism[SINGLE_SOURCE] > 4) == (False, True)
