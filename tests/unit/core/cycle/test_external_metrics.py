"""Lag from outside of Flink: who is believed, and what is never done without knowing it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.external_metrics import external_metrics
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, ScalingMetric
from flink_autoscaler.core.model.reading import CollectorMemory, JobReading
from flink_autoscaler.core.model.source_lag import (
    FLINK,
    ExternalMetric,
    ExternalMetricKind,
    SourceLag,
    TopicLag,
    spread_lag,
    topic_lag,
    topics_read,
)
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.observe.metric_names import topics_of
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from testkit.builders.core import a_cluster, a_context, pipeline
from testkit.builders.core.pipeline import PIPELINE_SOURCE

MINUTE = 60_000
ALWAYS_FULL = {
    "stabilization.interval": "0 s",
    "metrics.window": "2 min",
    "scale-down.interval": "0 s",
}
KAFKA = SourceLag("*", "kafka", total=500.0, partitions=8)
AWAY = SourceLag("*", "kafka", problem="the brokers did not answer within 5 s")
OWN = SourceLag("*", FLINK)
EVEN = {f"orders-{n}": 100.0 for n in range(8)}


def reading_of(minute: int, *, pending: float | None = 0.0, busy: float = 500.0) -> JobReading:
    reading = pipeline(minute, pending=pending or 0.0, rate=100.0, busy_ms=(busy, busy))
    if pending is not None:
        return reading
    values: dict[FlinkMetric, Aggregate] = {
        m: v for m, v in reading.aggregates[PIPELINE_SOURCE].items() if m is not FlinkMetric.PENDING_RECORDS
    }
    return replace(reading, aggregates={**reading.aggregates, PIPELINE_SOURCE: values})


def passes(*lags: tuple[SourceLag, ...], busy: float = 500.0) -> list[PassOutcome]:
    """Do a pass a minute with what others say about the lag; Flink itself reports none."""
    state, outcomes = JobState(), []
    for minute, given_lags in enumerate(lags, start=1):
        context = a_context(ALWAYS_FULL)
        request = PassRequest(context, state, minute * MINUTE, lags=given_lags)
        outcomes.append(advance(request, reading_of(minute, pending=None, busy=busy), a_cluster()))
        state = outcomes[-1].state
    return outcomes


def wants(outcome: PassOutcome) -> Mapping[str, int]:
    decision = outcome.decision
    return {v: s.new for v, s in decision.summaries.items()} if isinstance(decision, Rescale) else {}


@pytest.mark.parametrize(
    ("lags", "pending", "expected", "origin"),
    [
        pytest.param((KAFKA,), 7.0, 500.0, "kafka", id="the only one that is asked"),
        pytest.param((OWN, KAFKA), 7.0, 7.0, None, id="Flink knows, and comes first"),
        pytest.param((OWN, KAFKA), None, 500.0, "kafka", id="Flink does not know"),
        pytest.param((AWAY, KAFKA), None, 500.0, "kafka", id="the first is away"),
        pytest.param((AWAY, OWN), 7.0, 7.0, None, id="the first is away, Flink knows"),
        pytest.param((AWAY, OWN), None, None, None, id="nobody knows"),
        pytest.param((replace(KAFKA, pattern="nothing like it"),), 7.0, 7.0, None, id="not about this source"),
        pytest.param((replace(KAFKA, pattern=PIPELINE_SOURCE),), 7.0, 500.0, "kafka", id="by its id"),
    ],
)
def test_the_first_that_knows_gives_the_lag(
    lags: tuple[SourceLag, ...], pending: float | None, expected: float | None, origin: str | None
) -> None:
    request = PassRequest(a_context(), EMPTY_STATE, MINUTE, lags=lags)

    found = external_metrics(request, reading_of(1, pending=pending)).reading

    assert found.aggregates[PIPELINE_SOURCE].get(FlinkMetric.PENDING_RECORDS, Aggregate()).total == expected
    assert found.origins.get(PIPELINE_SOURCE, {}).get(FlinkMetric.PENDING_RECORDS) == origin


def test_partitions_come_from_there_as_well() -> None:
    [outcome] = passes((KAFKA,))

    assert outcome.observation.topology is not None
    assert outcome.observation.topology.vertices[PIPELINE_SOURCE].source_partitions == 8
    assert outcome.observation.origins == {PIPELINE_SOURCE: {FlinkMetric.PENDING_RECORDS: "kafka"}}


def test_a_lag_that_nobody_knows_is_unknown_and_not_zero() -> None:
    [outcome] = passes((AWAY,))

    assert outcome.observation.sample is not None
    assert math.isnan(outcome.observation.sample.vertices[PIPELINE_SOURCE][ScalingMetric.LAG])
    assert [event.reason for event in outcome.events] == ["LagUnknown"]


def test_nothing_is_scaled_down_while_the_lag_is_unknown() -> None:
    known = passes(*[(replace(KAFKA, total=0.0),)] * 4, busy=50.0)
    unknown = passes(*[(replace(KAFKA, total=0.0),)] * 3, (AWAY,), busy=50.0)

    assert wants(known[-1])
    assert not wants(unknown[-1])
    codes = {reason.code for reason in unknown[-1].decision.reasons}
    assert "SOURCE_LAG_UNKNOWN" in codes
    assert "DIRECTION_OFF" not in codes, "nobody has switched it off"


def test_a_source_with_one_hot_partition_is_told_about_and_left_as_it_is() -> None:
    growing = [SourceLag("*", "kafka", 200_000.0 * n, 8) for n in range(1, 5)]
    spread = passes(*[(each,) for each in growing], busy=900.0)
    skewed = passes(*[(replace(each, hot="orders-3"),) for each in growing], busy=900.0)

    assert wants(spread[-1])[PIPELINE_SOURCE] > 4
    assert PIPELINE_SOURCE not in wants(skewed[-1])
    assert "SkewedPartition" in {event.reason for event in skewed[-1].events}
    assert "EXCLUDED" not in {reason.code for reason in skewed[-1].decision.reasons}, "nobody has excluded it"


def test_what_others_say_restricts_a_pass_without_changing_what_people_configured() -> None:
    lags = (SourceLag("*", "kafka", 200_000.0, 8, hot="orders-3"), AWAY)
    floor = ExternalMetric(ExternalMetricKind.FLOOR, "*", "planned", 2.5)
    request = PassRequest(a_context(), JobState(), MINUTE, lags=lags, numbers=(floor,))

    restricted = external_metrics(request, reading_of(1, pending=None)).request.context

    assert restricted.configuration == request.context.configuration
    assert restricted.restriction.fixed == {PIPELINE_SOURCE}
    assert set(restricted.restriction.floors.values()) == {3}


@pytest.mark.parametrize(
    ("lags", "hot"),
    [
        pytest.param(EVEN, "", id="all alike"),
        pytest.param({**EVEN, "orders-3": 50_000.0}, "orders-3", id="one has nearly all"),
        pytest.param({**EVEN, "orders-3": 900.0}, "", id="next to nothing"),
        pytest.param({"orders-0": 50_000.0}, "", id="the only partition"),
        pytest.param({**EVEN, "orders-3": 5e4, "orders-4": 5e4}, "", id="two are late"),
    ],
)
def test_a_partition_is_hot_that_has_most_of_the_lag_by_itself(lags: Mapping[str, float], hot: str) -> None:
    assert spread_lag("", "", lags).hot == hot


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_one_lag_that_cannot_be_makes_all_of_it_unknown(wrong: float) -> None:
    found = spread_lag("*", "kafka", {**EVEN, "orders-3": wrong})

    assert found.total is None
    assert "orders-3" in found.problem


LIES = some.one_of(
    some.just(AWAY),
    some.dictionaries(some.text(max_size=3), some.floats(), max_size=4).map(
        lambda lags: spread_lag("*", "kafka", lags)
    ),
)


@settings(max_examples=60, deadline=None)
@given(before=some.lists(LIES, min_size=2, max_size=3), busy=some.sampled_from([0.0, 50.0, 900.0]))
def test_an_unknown_lag_never_scales_down_whatever_was_said_before(before: list[SourceLag], busy: float) -> None:
    last = passes(*((each,) for each in (*before, AWAY)), busy=busy)[-1]

    assert all(new >= 4 for new in wants(last).values())


def arriving(value: float | None, problem: str = "") -> ExternalMetric:
    return ExternalMetric(ExternalMetricKind.ARRIVAL_RATE, "*", "gateway", value, problem)


def floor(value: float | None, problem: str = "", pattern: str = PIPELINE_SOURCE) -> ExternalMetric:
    return ExternalMetric(ExternalMetricKind.FLOOR, pattern, "planned", value, problem)


def last_of(*numbers: ExternalMetric, busy: float = 500.0, options: Mapping[str, str] | None = None) -> PassOutcome:
    """Do four passes with the same numbers; four subtasks read 100 records/s."""
    state = JobState()
    for minute in range(1, 5):
        context = a_context({**ALWAYS_FULL, **(options or {})})
        request = PassRequest(context, state, minute * MINUTE, numbers=numbers)
        outcome = advance(request, pipeline(minute, pending=0.0, rate=100.0, busy_ms=(busy, busy)), a_cluster())
        state = outcome.state
    return outcome


def target_of(outcome: PassOutcome) -> float:
    assert outcome.metrics is not None
    return outcome.metrics.vertices[PIPELINE_SOURCE][ScalingMetric.TARGET_DATA_RATE].average


def test_what_arrives_is_what_is_said_and_not_what_is_read() -> None:
    plain, told = last_of(), last_of(arriving(400.0))

    assert target_of(plain) == pytest.approx(100.0)
    assert target_of(told) == 400.0
    assert wants(told)[PIPELINE_SOURCE] > 4
    assert told.observation.origins == {PIPELINE_SOURCE: {FlinkMetric.ARRIVAL_RATE: "gateway"}}


def test_the_first_that_knows_counts() -> None:
    assert target_of(last_of(arriving(None, "away"), arriving(300.0))) == 300.0


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_a_rate_that_cannot_be_is_unknown_and_nothing_is_scaled_down(wrong: float) -> None:
    known, unknown = last_of(busy=50.0), last_of(arriving(wrong), busy=50.0)

    assert wants(known)
    assert not wants(unknown)
    assert target_of(unknown) == pytest.approx(100.0)
    assert {event.reason for event in unknown.events} == {"NumberUnknown"}
    codes = {reason.code for reason in unknown.decision.reasons}
    assert "ARRIVAL_RATE_UNKNOWN" in codes
    assert "DIRECTION_OFF" not in codes, "nobody has switched it off"


def test_a_floor_raises_a_vertex_that_nothing_else_would_scale() -> None:
    assert not wants(last_of())

    outcome = last_of(floor(6.2))

    assert wants(outcome)[PIPELINE_SOURCE] == 7
    assert "FLOOR" in {reason.code for reason in outcome.decision.reasons}
    assert outcome.observation.origins == {PIPELINE_SOURCE: {FlinkMetric.MIN_PARALLELISM: "planned"}}


def test_a_floor_keeps_a_vertex_from_going_below() -> None:
    assert wants(last_of(busy=50.0))[PIPELINE_SOURCE] < 3
    assert wants(last_of(floor(3.0), busy=50.0))[PIPELINE_SOURCE] >= 3


@pytest.mark.parametrize(
    "options", [{"vertex.max-parallelism": "5"}, {"vertex.bounds": f"{PIPELINE_SOURCE}=1..5"}], ids=str
)
def test_a_floor_does_not_lift_a_vertex_above_its_bounds(options: Mapping[str, str]) -> None:
    assert wants(last_of(floor(50.0), options=options))[PIPELINE_SOURCE] == 5


def test_an_unknown_floor_holds_scale_downs_and_lets_scale_ups_go_on() -> None:
    away = floor(None, "the service did not answer")

    assert not wants(last_of(away, busy=50.0))
    assert wants(last_of(away, arriving(400.0)))
    assert "the service did not answer" in last_of(away).events[0].message


ORDERS = topic_lag("orders.eu", {"orders.eu-0": 10.0, "orders.eu-1": 30.0})
USERS = topic_lag("users", {"users-0": 500.0})
GONE = TopicLag("gone", problem="there is no topic gone")
GROUP = SourceLag("*", "kafka", topics=(ORDERS, USERS, GONE))


def reading(**topics: tuple[str, ...]) -> JobReading:
    """Return a reading whose source, or another one, reads these topics by Flink's metrics."""
    ids = {"source": PIPELINE_SOURCE, "other": "other"}
    memory = CollectorMemory(topics={ids[name]: names for name, names in topics.items()})
    return replace(of_minute_one(), memory=memory)


def of_minute_one() -> JobReading:
    return pipeline(1, pending=7.0, rate=100.0, busy_ms=(500.0, 500.0))


def pending(found: JobReading) -> float | None:
    return found.aggregates[PIPELINE_SOURCE][FlinkMetric.PENDING_RECORDS].total


def supplemented_by(lag: SourceLag, found: JobReading) -> JobReading:
    return external_metrics(PassRequest(a_context(), JobState(), MINUTE, lags=(lag,)), found).reading


def test_metric_names_tell_topics_as_flink_writes_them() -> None:
    names = [
        f"Source__a.KafkaSourceReader.topic.{topic}.partition.{partition}.{offset}"
        for topic in ("users", "orders_eu")
        for partition in (0, 1)
        for offset in ("currentOffset", "committedOffset")
    ]

    assert topics_of([*names, "Source__a.numRecordsIn"]) == ("orders_eu", "users")


def test_a_source_has_the_lag_of_the_topics_that_its_metrics_name() -> None:
    found = supplemented_by(GROUP, reading(source=("orders_eu",)))

    assert pending(found) == 40.0
    assert found.memory.partitions[PIPELINE_SOURCE] == 2
    assert found.aggregates[PIPELINE_SOURCE][FlinkMetric.SLOWEST_PARTITION].total == 30.0
    assert set(found.origins[PIPELINE_SOURCE].values()) == {"kafka"}


def test_a_source_without_records_yet_has_what_no_other_source_reads() -> None:
    lag = replace(GROUP, topics=(ORDERS, USERS))

    assert pending(supplemented_by(lag, reading(other=("users",)))) == 40.0


@pytest.mark.parametrize(
    ("known", "seen", "elsewhere", "words"),
    [
        pytest.param((ORDERS, USERS), ("other",), (), "has no committed offsets", id="a topic without commits"),
        pytest.param((USERS,), (), ("users",), "no other source reads", id="nothing is left"),
        pytest.param(
            (ORDERS, TopicLag("orders-eu")), ("orders_eu",), (), "may be orders.eu, orders-eu: set", id="two look alike"
        ),
    ],
)
def test_what_cannot_be_told_is_said(
    known: tuple[TopicLag, ...], seen: tuple[str, ...], elsewhere: tuple[str, ...], words: str
) -> None:
    assert words in str(topics_read(known, seen, elsewhere))


def test_a_name_that_a_topic_really_has_is_that_topic() -> None:
    plain = TopicLag("orders_eu")

    assert topics_read((ORDERS, plain), ("orders_eu",), ()) == (plain,)


def test_a_topic_that_is_unknown_makes_the_lag_of_its_source_unknown_and_no_other() -> None:
    assert pending(supplemented_by(GROUP, reading(source=("gone",)))) is None
    assert pending(supplemented_by(GROUP, reading(source=("users",)))) == 500.0


def test_partitions_that_flink_does_not_tell_come_from_who_knows_them_although_flink_knows_the_lag() -> None:
    request = PassRequest(
        a_context(), JobState(), MINUTE, lags=(SourceLag("*", FLINK), replace(GROUP, topics=(ORDERS,)))
    )

    outcome = advance(request, of_minute_one(), a_cluster())

    assert outcome.observation.topology is not None
    assert outcome.observation.topology.vertices[PIPELINE_SOURCE].source_partitions == 2
    assert outcome.observation.origins == {}


def test_a_topic_that_grows_raises_the_bound_of_its_source_before_its_lag_is_known_again() -> None:
    grown = TopicLag("orders.eu", partitions=6, problem="no committed offset for orders.eu-5")

    found = supplemented_by(replace(GROUP, topics=(grown,)), reading(source=("orders_eu",)))

    assert found.memory.partitions[PIPELINE_SOURCE] == 6
    assert pending(found) is None


@pytest.mark.parametrize(
    ("total", "most"), [(math.nan, 0.0), (math.inf, 0.0), (-1.0, 0.0), (5.0, 6.0), (5.0, math.nan)]
)
def test_a_lag_of_a_topic_that_cannot_be_is_unknown(total: float, most: float) -> None:
    wrong = TopicLag("users", total, 2, "users-0", most)

    found = supplemented_by(replace(GROUP, topics=(wrong,)), reading(source=("users",)))

    assert pending(found) is None
