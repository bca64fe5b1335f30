"""The lag of a consumer group, as a real broker tells it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from fake_flink import FakeFlink, chain
from kafka_broker import ADMIN, GUEST, Broker, running_broker, why_not
from lag_contracts import LagSourceContract

from flink_autoscaler.clients.kafka.lag import KafkaAddress, KafkaLag
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, ConnectError, RefusedError, ResponseError
from flink_autoscaler.core.model.metrics import FlinkMetric, ScalingMetric
from flink_autoscaler.core.ports.lag_sources import LagQuery
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.settings.loading import load_settings
from flink_autoscaler.standalone.settings.sources.configuration import load_configuration

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if (lacking := why_not()) is not None:
        pytest.skip(lacking)
    with running_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


class Topic:
    """A topic whose partitions have records, and a group that has read some of them."""

    def __init__(self, broker: Broker, name: str, written: list[int]) -> None:
        self.name = name
        self.broker = broker
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        done(self.admin.create_topics([NewTopic(name, len(written), 1)]))
        self.write(written)

    def write(self, counts: list[int]) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for partition, count in enumerate(counts):
            for _ in range(count):
                producer.produce(self.name, b"x", partition=partition)
        assert producer.flush(30) == 0

    def commit(self, group: str, offsets: dict[int, int]) -> None:
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": group})
        places = [TopicPartition(self.name, partition, offset) for partition, offset in offsets.items()]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()

    def grow(self, partitions: int) -> None:
        done(self.admin.create_partitions([NewPartitions(self.name, partitions)]))
        deadline = time.monotonic() + 20
        while len(self.admin.list_topics(self.name, timeout=5).topics[self.name].partitions) < partitions:
            assert time.monotonic() < deadline


def done(futures: dict[str, Future[Any]]) -> None:
    for future in futures.values():
        future.result(30)


def asking(bootstrap: str, properties: dict[str, str] | None = None, *, timeout: float = 10.0) -> KafkaLag:
    return KafkaLag(lambda: KafkaAddress("orders-kafka", (bootstrap,), properties or {}, timeout))


def signed_in(user: tuple[str, str]) -> dict[str, str]:
    mechanism = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    return {**mechanism, "sasl.username": user[0], "sasl.password": user[1]}


def query(group: str, *topics: str) -> LagQuery:
    return LagQuery("main/orders", "orders", "main", group=group, topics=topics)


def failure(lag: KafkaLag, asked: LagQuery) -> AutoscalerError:
    with pytest.raises(AutoscalerError) as raised:
        lag.lags(asked)
    return raised.value


def test_lag_is_end_minus_committed_by_partition(broker: Broker) -> None:
    topic = Topic(broker, "plain", [10, 20, 0])
    topic.commit("g-plain", {0: 4, 1: 20})

    found = asking(broker.bootstrap).lags(query("g-plain"))

    assert found == {"plain-0": 6.0, "plain-1": 0.0, "plain-2": 0.0}


def test_a_partition_that_was_added_is_unknown_once_it_has_records(broker: Broker) -> None:
    topic = Topic(broker, "grows", [10])
    topic.commit("g-grows", {0: 10})
    topic.grow(2)
    lag = asking(broker.bootstrap)

    assert lag.lags(query("g-grows", "grows")) == {"grows-0": 0.0, "grows-1": 0.0}
    topic.write([0, 5])
    error = failure(lag, query("g-grows", "grows"))

    assert isinstance(error, ResponseError)
    assert "no committed offset for grows-1" in str(error)


@pytest.mark.parametrize(
    ("asked", "kind", "words"),
    [
        pytest.param(query("nobody"), ResponseError, "no committed offsets", id="a group without commits"),
        pytest.param(query("g-some", "absent"), ResponseError, "", id="no such topic"),
        pytest.param(query(""), ConfigError, "lag.kafka.group", id="no group"),
    ],
)
def test_what_is_not_there_is_said(broker: Broker, asked: LagQuery, kind: type, words: str) -> None:
    if asked.topics:
        Topic(broker, "some", [1]).commit("g-some", {0: 1})

    error = failure(asking(broker.bootstrap), asked)

    assert isinstance(error, kind)
    assert words in str(error)


def test_a_topic_that_was_made_anew_is_unknown_and_no_negative_lag(broker: Broker) -> None:
    Topic(broker, "anew", [3]).commit("g-anew", {0: 50})

    error = failure(asking(broker.bootstrap), query("g-anew"))

    assert "above the end of anew-0" in str(error)


def test_acls_that_forbid_are_a_clear_message_without_the_password(broker: Broker) -> None:
    Topic(broker, "secret", [3]).commit("g-secret", {0: 1})
    allowed = asking(broker.secured, signed_in(ADMIN)).lags(query("g-secret"))
    error = failure(asking(broker.secured, signed_in(GUEST)), query("g-secret"))

    assert allowed == {"secret-0": 2.0}
    assert isinstance(error, RefusedError)
    assert "may not be described" in str(error)
    assert GUEST[1] not in str(error)


def test_brokers_that_are_away_are_told_in_time() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    started = time.monotonic()

    error = failure(asking(f"127.0.0.1:{port}", timeout=1.0), query("g"))

    assert isinstance(error, ConnectError)
    assert time.monotonic() - started < 5


def test_a_property_that_the_library_does_not_know_is_told_without_its_value() -> None:
    error = failure(asking("127.0.0.1:1", {"sasl.passwort": "hunter2"}), query("g"))

    assert isinstance(error, ConfigError)
    assert "hunter2" not in str(error)


class TestContract(LagSourceContract):
    @pytest.fixture
    def source(self, broker: Broker) -> KafkaLag:
        return asking(broker.bootstrap)

    @pytest.fixture(scope="class")
    def known(self, broker: Broker) -> LagQuery:
        Topic(broker, "contract", [4, 4]).commit("g-contract", {0: 1, 1: 2})
        return query("g-contract")

    @pytest.fixture
    def unknown(self) -> LagQuery:
        return query("g-nobody")


def outcomes(flink: FakeFlink, bootstrap: str, group: str) -> dict[str, PassOutcome]:
    """Do a pass of a daemon whose job ``orders`` has its lag from Kafka, and ``other`` from Flink."""
    values = {
        "autoscaler.clusters.0.name": "main",
        "autoscaler.clusters.0.url": flink.url,
        "autoscaler.engine.kind": "inline",
        "autoscaler.standalone.state-store.type": "heap",
        "autoscaler.kafka.0.name": "broker",
        "autoscaler.kafka.0.bootstrap-servers": bootstrap,
        "autoscaler.kafka.0.timeout": "1 s",
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "0 s",
        "job.autoscaler.lag.sources": "Source*=broker",
        "job.autoscaler.lag.kafka.group": group,
    }
    overrides = [f"{key}={value}" for key, value in values.items()]
    settings = load_settings(load_configuration(file=None, environment={}, overrides=overrides))
    with Wiring(settings) as wiring:
        reports = wiring.cluster_pass(settings.effective_clusters()[0]).run().reports
        return {key: report.outcome for key, report in reports.items()}


def lag_of(outcome: PassOutcome, source: str) -> float:
    assert outcome.sample is not None
    return outcome.sample.vertices[source][ScalingMetric.LAG]


def test_a_daemon_has_lag_and_partitions_from_the_broker(broker: Broker) -> None:
    Topic(broker, "daemon", [2000, 10, 10]).commit("g-daemon", {0: 100, 1: 4, 2: 10})
    with FakeFlink() as flink:
        vertices = flink.add_job("orders", chain(vertices=2)).vertices
        vertices[0].name = "Source: orders"
        outcome = outcomes(flink, broker.bootstrap, "g-daemon")["main/orders"]

    source = vertices[0].vertex_id
    assert lag_of(outcome, source) == 1906.0
    assert outcome.origins == {source: {FlinkMetric.PENDING_RECORDS: "broker"}}
    assert outcome.topology is not None
    assert outcome.topology.vertices[source].source_partitions == 3
    [skewed] = [event for event in outcome.events if event.reason == "SkewedPartition"]
    assert "daemon-0" in skewed.message


def test_a_broker_that_is_away_is_told_about_and_other_jobs_go_on() -> None:
    with FakeFlink() as flink:
        ours = flink.add_job("orders", chain(vertices=2)).vertices
        ours[0].name = "Source: orders"
        others = flink.add_job("other", chain(vertices=2)).vertices
        others[0].name = "generator"
        found = outcomes(flink, "127.0.0.1:1", "g")

    assert lag_of(found["main/orders"], ours[0].vertex_id) != lag_of(found["main/orders"], ours[0].vertex_id)
    assert [event.reason for event in found["main/orders"].events] == ["LagUnknown"]
    assert lag_of(found["main/other"], others[0].vertex_id) == 0.0
    assert not found["main/other"].events
