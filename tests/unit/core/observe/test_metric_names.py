import math
import time

import pytest

from flink_autoscaler.core.errors import MissingMetricError
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.observe.metric_names import by_metric, choose_names, count_partitions
from flink_autoscaler.core.observe.plausibility import active_partitions
from testkit.builders.core import a_vertex

SOURCE = a_vertex(1)
OPERATOR = a_vertex(2, inputs={1: ShipStrategy.HASH})
REQUIRED = {
    "busyTimeMsPerSecond": FlinkMetric.BUSY_TIME,
    "backPressuredTimeMsPerSecond": FlinkMetric.BACKPRESSURE_TIME,
    "Source__S.numRecordsInPerSecond": FlinkMetric.SOURCE_RECORDS_IN_RATE,
    "Source__S.numRecordsIn": FlinkMetric.SOURCE_RECORDS_IN,
}


def test_a_source_is_asked_for_everything_it_offers() -> None:
    optional = {
        "Source__S.numRecordsOut": FlinkMetric.SOURCE_RECORDS_OUT,
        "a.pendingRecords": FlinkMetric.PENDING_RECORDS,
        "Source__S.DynamicKafkaSource.activeSplitCount": FlinkMetric.ACTIVE_SPLITS,
    }
    others = ["numRecordsInPerSecond", "Source__S.numRecordsOutPerSecond", "0.numRecordsIn", "currentInputWatermark"]

    names = choose_names(SOURCE, [*REQUIRED, *optional, *others])

    assert names == {**REQUIRED, **optional}


def test_the_optional_metrics_of_a_source_may_be_missing() -> None:
    assert choose_names(SOURCE, list(REQUIRED)) == REQUIRED


@pytest.mark.parametrize("missing", list(REQUIRED))
def test_a_source_without_a_required_metric_is_not_ready(missing: str) -> None:
    with pytest.raises(MissingMetricError) as raised:
        choose_names(SOURCE, [name for name in REQUIRED if name != missing])

    assert raised.value.metric == REQUIRED[missing].value
    assert raised.value.vertex_id == SOURCE.vertex_id


def test_an_operator_needs_its_busy_time_only() -> None:
    assert choose_names(OPERATOR, ["busyTimeMsPerSecond"]) == {"busyTimeMsPerSecond": FlinkMetric.BUSY_TIME}


def test_an_operator_is_asked_for_its_input_rate_where_it_offers_it() -> None:
    names = choose_names(OPERATOR, [*REQUIRED, "numRecordsInPerSecond", "x.pendingRecords"])

    assert names == {
        "busyTimeMsPerSecond": FlinkMetric.BUSY_TIME,
        "numRecordsInPerSecond": FlinkMetric.RECORDS_IN_RATE,
    }


@pytest.mark.parametrize("vertex", [SOURCE, OPERATOR], ids=["source", "operator"])
def test_a_vertex_that_offers_nothing_is_not_ready(vertex: object) -> None:
    assert isinstance(vertex, type(SOURCE))

    with pytest.raises(MissingMetricError):
        choose_names(vertex, [])


def test_all_pending_records_are_asked_for() -> None:
    names = choose_names(SOURCE, [*REQUIRED, "b.pendingRecords", "a.pendingRecords"])

    assert [name for name, meaning in names.items() if meaning is FlinkMetric.PENDING_RECORDS] == [
        "a.pendingRecords",
        "b.pendingRecords",
    ]


def test_the_first_id_in_lexicographical_order_is_chosen_of_several() -> None:
    available = [*REQUIRED, "Source__R.numRecordsIn", "Source__T.numRecordsIn"]

    names = choose_names(SOURCE, available)

    chosen = [name for name, meaning in names.items() if meaning is FlinkMetric.SOURCE_RECORDS_IN]
    assert chosen == ["Source__R.numRecordsIn"]


KAFKA = "S.KafkaSourceReader.topic.a.partition"


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        pytest.param(
            [
                f"{KAFKA}.0.currentOffset",
                f"{KAFKA}.1.currentOffset",
                "S.kafkaCluster.c1.KafkaSourceReader.topic.a.partition.1.currentOffset",
                f"{KAFKA}.2.committedOffset",
            ],
            3,
            id="Kafka, the cluster is part of the identity",
        ),
        pytest.param(
            [
                "P.PulsarConsumer.t-partition-4.x1.numMsgsReceived",
                "P.PulsarConsumer.t-partition-4.x2.numMsgsReceived",
            ],
            1,
            id="Pulsar, consumers of one partition count once",
        ),
        pytest.param([f"{KAFKA}.0.currentOffset", f"R.{KAFKA}.0.currentOffset"], 1, id="the prefix does not count"),
        pytest.param(
            [f"S.KafkaSourceReader.topic.{topic}.partition.0.currentOffset" for topic in ("a.b", "a.c")],
            2,
            id="topics with dots",
        ),
        pytest.param([".KafkaSourceReader.topic.a.partition.0.currentOffset"], 1, id="an empty prefix"),
        pytest.param([f"{KAFKA}.x.currentOffset", f"{KAFKA}.1.currentOffset.more"], 0, id="not the shape"),
        pytest.param([], 0, id="nothing"),
    ],
)
def test_distinct_partitions_are_counted(available: list[str], expected: int) -> None:
    assert count_partitions(available) == expected


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        pytest.param(Aggregate(2, 4, 3, 12), 12, id="all four subtasks tell"),
        pytest.param(Aggregate(0, 12, 3, 12), 12, id="one of them reads everything"),
        pytest.param(Aggregate(9, 12, 10, 40), 40, id="more than there are names of"),
        pytest.param(Aggregate(), 24, id="not told"),
        pytest.param(Aggregate(0, 0, 0, 0), 24, id="none is handed out yet"),
        pytest.param(Aggregate(3, 3, 3, 9), 24, id="one subtask is missing"),
        pytest.param(Aggregate(total=12), 24, id="nobody knows of how many subtasks"),
        pytest.param(Aggregate(3, 3, 3, -12), 24, id="negative"),
        pytest.param(Aggregate(3, 3, 3.05, 12.2), 24, id="not a whole number"),
        pytest.param(Aggregate(3, 3, math.nan, math.nan), 24, id="NaN"),
        pytest.param(Aggregate(3, 3, math.inf, math.inf), 24, id="infinite"),
        pytest.param(Aggregate(3, 3, 2.0**60, 2.0**62), 24, id="beyond what there can be"),
    ],
)
def test_active_splits_go_before_the_names_of_partitions(splits: Aggregate, expected: int) -> None:
    assert active_partitions(24, {FlinkMetric.ACTIVE_SPLITS: splits}, 4) == expected
    assert active_partitions(24, {}, 4) == 24


def test_by_meaning_groups_answers_and_ignores_unknown_ids() -> None:
    names = {"busyTimeMsPerSecond": FlinkMetric.BUSY_TIME}
    busy = Aggregate(1.0, 2.0, 1.5, 3.0)

    assert by_metric(names, {"busyTimeMsPerSecond": busy, "other": busy}) == {FlinkMetric.BUSY_TIME: busy}


def test_by_meaning_combines_several_ids_of_one_meaning() -> None:
    names = {f"{name}.pendingRecords": FlinkMetric.PENDING_RECORDS for name in "abc"}
    answers = {
        "a.pendingRecords": Aggregate(minimum=1.0, maximum=5.0, average=2.0, total=10.0, skew=30.0),
        "b.pendingRecords": Aggregate(minimum=0.5, maximum=9.0, average=3.0, total=20.0, skew=10.0),
        "c.pendingRecords": Aggregate(total=30.0),
    }

    combined = by_metric(names, answers)

    assert combined == {FlinkMetric.PENDING_RECORDS: Aggregate(0.5, 9.0, None, 60.0, 30.0)}


@pytest.mark.parametrize(
    "name",
    [
        ".kafkaCluster.x" * 60 + ".KafkaSourceReader.topic.x" * 35 + ".partition.x.currentOffset",
        ".KafkaSourceReader.topic.x" * 75 + ".partition.x.currentOffset",
        ".KafkaSourceReader.topic." + ".partition.1" * 150 + ".currentOffset",
        ".PulsarConsumer.x" * 110 + "-partition-x.numMsgsReceived",
        ".PulsarConsumer." + "-partition-1" * 160 + ".numMsgsReceived",
    ],
    ids=lambda name: name[:25],
)
def test_names_made_to_be_looked_at_for_long_are_not(name: str) -> None:
    started = time.thread_time()

    count_partitions([f"{number}{name}" for number in range(1000)])

    assert time.thread_time() - started < 1.0
