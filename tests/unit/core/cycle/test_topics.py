"""Which topics of a consumer group a source reads, and what is known then."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.external_metrics import external_metrics
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.reading import CollectorMemory, JobReading
from flink_autoscaler.core.model.source_lag import FLINK, SourceLag, TopicLag, topic_lag, topics_read
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.observe.metric_names import topics_of
from flink_autoscaler.core.ports.passes import PassRequest
from testkit.builders.core import a_cluster, a_context, pipeline
from testkit.builders.core.pipeline import PIPELINE_SOURCE

MINUTE = 60_000
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

    assert outcome.topology is not None
    assert outcome.topology.vertices[PIPELINE_SOURCE].source_partitions == 2
    assert outcome.origins == {}


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
