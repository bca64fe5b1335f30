"""What a source shows of itself: its limit where busy time is none, that it falls behind, that it has read all."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, ScalingMetric
from flink_autoscaler.core.model.reading import JobReading
from testkit.builders.core import FETCHING_SOURCE, FetchingJob

OPTIONS = {
    "metrics.window": "15 min",
    "stabilization.interval": "1 min",
    "utilization.target": "0.7",
    "scale-down.interval": "60 min",
    "catch-up.duration": "30 min",
    "slo.lag": "60 s",
}
SLO_IS_BLIND = pytest.mark.xfail(strict=True, reason="slo measures capacity by busy time alone")


def slow_fetchers(**options: str) -> FetchingJob:
    """Make a job of a source that is 5 % busy and reads 3,000/s of the 5,000/s that arrive."""
    return FetchingJob(
        5000.0, fetched=750.0, source_cost=0.05 * 4 / 3000, mapped=5000.0, options={**OPTIONS, **options}
    )


@pytest.mark.parametrize("policy", ["capacity", pytest.param("slo", marks=SLO_IS_BLIND)])
def test_lag_that_grows_while_the_source_waits_shows_its_capacity(policy: str) -> None:
    job = slow_fetchers(policy=policy)

    job.run(40)

    source, mapper = job.parallelism
    assert 750 * source >= 5000
    assert mapper <= 4


def test_capacity_sizes_the_source_for_what_arrives_in_one_step() -> None:
    job = slow_fetchers()

    job.run(20)

    assert len(job.sizes) == 2
    assert 10 <= job.parallelism[0] <= 20


def test_source_that_keeps_pace_again_is_not_made_as_small_as_it_was() -> None:
    job = slow_fetchers()

    job.run(240)

    assert all(750 * source >= 5000 for source, _ in job.sizes[1:])
    assert job.lag == 0.0


def test_lag_behind_backpressure_shows_nothing_of_the_source() -> None:
    job = FetchingJob(5000.0, mapped=750.0, source_cost=1e-5, options=OPTIONS)

    job.run(20)

    assert job.parallelism[1] >= 7
    assert job.parallelism[0] <= 4


@pytest.mark.parametrize("policy", ["capacity", "slo"])
def test_burst_and_a_rising_load_show_nothing(policy: str) -> None:
    job = FetchingJob(1000.0, mapped=500.0, options={**OPTIONS, "policy": policy})
    job.run(16)
    before = job.parallelism

    job.arrivals = 1030.0
    job.lag = 60_000.0
    job.run(14)

    assert job.parallelism[0] <= before[0]


def blind_job(**fields: object) -> FetchingJob:
    """Make a job of unknown lag that can do 385/s of the 600/s that arrive, with reports that differ by 1 %."""
    options = {**OPTIONS, **fields.pop("options", {})}  # type: ignore[dict-item]
    noise = (1.0, 0.99, 1.005, 0.985)
    return FetchingJob(600.0, mapped=96.25, tells_lag=False, noise=noise, options=options, **fields)  # type: ignore[arg-type]


SLO_NEEDS_FULL_USE = pytest.mark.xfail(strict=True, reason="slo knows no lag but what is told, and grows at full use")
BLIND = [("capacity", 1.0), ("capacity", 0.87), ("slo", 1.0), pytest.param("slo", 0.87, marks=SLO_NEEDS_FULL_USE)]


@pytest.mark.parametrize(("policy", "busy"), BLIND)
def test_backpressured_source_of_unknown_lag_falls_behind(policy: str, busy: float) -> None:
    job = blind_job(map_limit=busy, options={"policy": policy})

    job.run(90)

    assert 96.25 * job.parallelism[1] >= 600
    assert job.parallelism[0] == 4
    assert [size for _, size in job.sizes] == sorted(size for _, size in job.sizes)


def test_scale_up_of_a_job_of_unknown_lag_says_why_and_nothing_of_lag() -> None:
    job = blind_job()
    texts = []
    while len(job.sizes) == 1 and job.minute < 30:
        outcome = job.run(1)
        texts += [reason.text for reason in outcome.decision.reasons]

    assert isinstance(outcome.decision, Rescale)
    assert "HELD_BACK" in {reason.code for reason in outcome.decision.reasons}
    assert not [text for text in texts if "lag does not grow" in text]


def test_bounds_of_a_job_of_unknown_lag_do_not_speak_of_lag() -> None:
    job = FetchingJob(340.0, mapped=100.0, tells_lag=False, options=OPTIONS)

    outcome = job.run(20)

    (within,) = [reason for reason in outcome.decision.reasons if reason.code == "WITHIN_BOUNDS"]
    assert "85 % busy" in within.text
    assert "lag" not in within.text
    assert math.isnan(job.driver.state.samples[-1].vertices[FETCHING_SOURCE][ScalingMetric.LAG])


def test_source_of_unknown_lag_that_waits_for_records_keeps_pace() -> None:
    job = FetchingJob(40.0, mapped=100.0, tells_lag=False, options={**OPTIONS, "scale-down.interval": "0"})

    job.run(90)

    assert job.parallelism[1] == 1


def test_what_is_left_of_a_topic_that_was_read_is_no_backlog() -> None:
    job = FetchingJob(
        0.0,
        partitions=64,
        options={**OPTIONS, "scale-down.interval": "0"},
        parallelism=(16, 16),
        stuck=64.0,
    )

    job.run(120)

    assert max(job.parallelism) <= 4


def test_backlog_that_prevents_a_scale_down_is_named() -> None:
    job = FetchingJob(0.0, partitions=64, options=OPTIONS, parallelism=(16, 16), stuck=5000.0)

    outcome = job.run(120)

    assert job.parallelism == (16, 16)
    (reason,) = [reason for reason in outcome.decision.reasons if reason.code == "PROCESSING_BACKLOG"]
    assert "5000" in reason.text


@pytest.mark.parametrize("rate", [20.0, 100.0])
def test_slo_makes_an_idle_job_small(rate: float) -> None:
    options = {**OPTIONS, "policy": "slo"}
    job = FetchingJob(rate, mapped=2000.0, options=options, parallelism=(8, 8))

    job.run(6 * 60)

    assert max(job.parallelism) < 8


def test_slo_learns_nothing_of_a_job_that_never_read_a_record_and_leaves_it_as_it_is() -> None:
    job = FetchingJob(0.0, mapped=2000.0, options={**OPTIONS, "policy": "slo"}, parallelism=(8, 8))

    outcome = job.run(6 * 60)

    assert job.parallelism == (8, 8)
    assert "SLO_LEARNING" in {reason.code for reason in outcome.decision.reasons}


def told(number: float) -> Callable[[int, JobReading], JobReading]:
    """Say a lag in every second minute."""
    return lambda minute, reading: with_lag(reading, number) if minute % 2 else reading


def with_lag(reading: JobReading, lag: float) -> JobReading:
    answers = {**reading.aggregates[FETCHING_SOURCE], FlinkMetric.PENDING_RECORDS: Aggregate(total=lag)}
    return replace(reading, aggregates={**reading.aggregates, FETCHING_SOURCE: answers})


def with_counters(reading: JobReading, **counters: Any) -> JobReading:
    details = reading.details
    assert details is not None
    source, *others = details.vertices
    source = replace(source, io=replace(source.io, **counters))
    return replace(reading, details=replace(details, vertices=(source, *others)))


LAG_LIES = {
    "now and then not a number": told(math.nan),
    "now and then huge": told(1e12),
    "now and then negative": told(-1.0),
    "a step": lambda minute, reading: with_lag(reading, 1e6 if minute > 20 else 0.0),
    "one wrong answer": lambda minute, reading: with_lag(reading, 1e9 if minute == 25 else 0.0),
    "grows while nothing is read": lambda minute, reading: with_lag(with_counters(reading, records_in=7), 1e5 * minute),
    "grows while it never waits": lambda minute, reading: with_lag(
        with_counters(reading, idle_ms=0.0, backpressured_ms=240_000.0 * minute, busy_ms=0.0), 1e5 * minute
    ),
    "grows while nobody knows whether it waits": lambda minute, reading: with_lag(
        with_counters(reading, idle_ms=math.nan), 1e5 * minute
    ),
    "grows while its wait goes back": lambda minute, reading: with_lag(
        with_counters(reading, idle_ms=1e9 / minute, backpressured_ms=0.0), 1e5 * minute
    ),
}


@pytest.mark.parametrize("lie", LAG_LIES.values(), ids=LAG_LIES)
def test_contradicting_lag_shows_no_capacity(lie: Callable[[int, JobReading], JobReading]) -> None:
    job = FetchingJob(1000.0, mapped=420.0, options=OPTIONS, lie=lie)
    shown = []

    for _ in range(45):
        outcome = job.run(1)
        if outcome.metrics is not None:
            metrics = outcome.metrics.vertices[FETCHING_SOURCE]
            shown.append((metrics[ScalingMetric.TRUE_PROCESSING_RATE].average, outcome.error))

    assert shown
    assert all(not rate <= 2000.0 and error is None for rate, error in shown)


HELD_BACK_LIES = {
    "backpressure that nobody causes": {"idle_ms": 0.0, "backpressured_ms": 240_000.0},
    "both all the time": {"idle_ms": 240_000.0, "backpressured_ms": 240_000.0},
    "not a number": {"idle_ms": math.nan, "backpressured_ms": 240_000.0},
    "without idle time": {"idle_ms": None, "backpressured_ms": 240_000.0},
    "zeros": {"idle_ms": 0.0, "backpressured_ms": 0.0, "busy_ms": 0.0},
}


@pytest.mark.parametrize("a_minute", HELD_BACK_LIES.values(), ids=HELD_BACK_LIES)
def test_contradicting_backpressure_scales_nothing_up(a_minute: dict[str, float | None]) -> None:
    def lie(minute: int, reading: JobReading) -> JobReading:
        return with_counters(reading, **{name: each and each * minute for name, each in a_minute.items()})

    job = FetchingJob(1000.0, mapped=420.0, tells_lag=False, options=OPTIONS, lie=lie)

    outcome = job.run(45)

    assert outcome.error is None
    assert all(source <= 4 and mapped <= 4 for source, mapped in job.sizes)


def test_restarts_between_samples_show_nothing() -> None:
    def lie(minute: int, reading: JobReading) -> JobReading:
        assert reading.details is not None
        return replace(reading, details=replace(reading.details, running_at_ms=minute * 60_000 - 30_000))

    job = slow_fetchers()
    job.lie = lie

    job.run(45)

    assert len(job.sizes) == 1
