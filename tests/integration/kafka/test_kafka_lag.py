"""The lag of a consumer group, as a real broker tells it."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from flink_autoscaler.clients.kafka.lag import KafkaAddress, KafkaLag
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, ConnectError, RefusedError, ResponseError
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.ports.lag_sources import LagQuery
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.wiring import Wiring
from testkit.clusters.flink.waiting import wait_until
from testkit.contracts.lags import LagSourceContract
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.fakes.flink.driving import drive
from testkit.scenarios.runner.wired import settings_of
from testkit.servers.kafka import ADMIN, GUEST, Broker, running_broker, why_not

pytestmark = pytest.mark.suite(name="services")


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
        deadline = time.monotonic() + 300
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


def test_brokers_that_are_away_are_told() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

    error = failure(asking(f"127.0.0.1:{port}", timeout=1.0), query("g"))

    assert isinstance(error, ConnectError)


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


def by_scram(broker: Broker, user: tuple[str, str]) -> dict[str, str]:
    names = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user[0], "sasl.password": user[1]}
    return {"security.protocol": "SASL_SSL", "ssl.ca.location": broker.ca_file, **names}


def test_scram_over_tls_is_handed_through(broker: Broker) -> None:
    Topic(broker, "scram", [3]).commit("g-scram", {0: 1})

    found = asking(broker.scrambled, by_scram(broker, ADMIN)).lags(query("g-scram"))

    assert found == {"scram-0": 2.0}


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({"sasl.password": "hunter2-wrong"}, id="another password"),
        pytest.param({"ssl.ca.location": "/etc/ssl/certs/ca-certificates.crt"}, id="an authority that is not trusted"),
        pytest.param({"security.protocol": "SASL_PLAINTEXT"}, id="without TLS"),
    ],
)
def test_a_broker_that_refuses_to_talk_is_told_about_without_the_password(
    broker: Broker, properties: dict[str, str]
) -> None:
    refused = {**by_scram(broker, ADMIN), **properties}

    error = failure(asking(broker.scrambled, refused, timeout=2.0), query("g-scram"))

    assert isinstance(error, ConnectError | RefusedError)
    assert refused["sasl.password"] not in str(error)


def test_topics_of_a_group_are_told_apart_and_one_that_has_grown_harms_no_other(broker: Broker) -> None:
    Topic(broker, "apart.one", [5]).commit("g-apart", {0: 1})
    grown = Topic(broker, "apart.two", [5])
    grown.commit("g-apart", {0: 5})
    lag = asking(broker.bootstrap)

    one, two = lag.lags_by_topic(query("g-apart"))
    grown.grow(2)
    grown.write([0, 1])
    same, unknown = lag.lags_by_topic(query("g-apart"))

    assert (one.topic, one.total, two.topic, two.total) == ("apart.one", 4.0, "apart.two", 0.0)
    assert same == one
    assert (unknown.total, unknown.partitions) == (None, 2)
    assert "no committed offset for apart.two-1" in unknown.problem


@contextmanager
def a_daemon(flink: FakeFlink, bootstrap: str, **more: str) -> Iterator[ClusterPass]:
    """Run the daemon's own wiring; sources called ``Source...`` have their lag from Kafka."""
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
        "autoscaler.standalone.control-loop.interval": "200 ms",
        "job.autoscaler.metrics.window": "1 s",
        "job.autoscaler.scale-down.interval": "0 s",
        "job.autoscaler.lag.sources": "Source*=broker",
        **more,
    }
    settings = settings_of(values)
    with Wiring(settings) as wiring:
        yield wiring.cluster_pass(settings.effective_clusters()[0])


def one_pass(passes: ClusterPass) -> dict[str, PassOutcome]:
    return {key: report.outcome for key, report in passes.run().reports.items()}


def lag_of(outcome: PassOutcome, source: str) -> float:
    assert outcome.observation.sample is not None
    return outcome.observation.sample.vertices[source][ScalingMetric.LAG]


def reading_topics(job: FakeJob, *topics: str) -> None:
    """Let the sources of a job have metrics of these topics, in order, as Flink writes their names."""
    for source, topic in zip(job.vertices, topics, strict=False):
        source.names_without_value = [
            f"Source__a.KafkaSourceReader.topic.{topic.replace('.', '_')}.partition.0.currentOffset"
        ]


def test_a_daemon_has_lag_and_partitions_from_the_broker(broker: Broker) -> None:
    Topic(broker, "daemon.eu", [2000, 10, 10]).commit("g-daemon", {0: 100, 1: 4, 2: 10})
    with FakeFlink() as flink:
        job = flink.add_job("orders", chain(vertices=2))
        reading_topics(job, "daemon.eu")
        with a_daemon(flink, broker.bootstrap, **{"job.autoscaler.lag.kafka.group": "g-daemon"}) as passes:
            outcome = one_pass(passes)["main/orders"]

    source = job.vertices[0].vertex_id
    assert lag_of(outcome, source) == 1906.0
    assert set(outcome.observation.origins[source].values()) == {"broker"}
    assert outcome.observation.topology is not None
    assert outcome.observation.topology.vertices[source].source_partitions == 3
    [skewed] = [event for event in outcome.events if event.reason == "SkewedPartition"]
    assert "daemon.eu-0" in skewed.message


def test_group_and_topics_are_found_from_the_job_itself(broker: Broker) -> None:
    Topic(broker, "found.orders", [10]).commit("g-found", {0: 4})
    Topic(broker, "found.users", [500]).commit("g-found", {0: 1})
    Topic(broker, "found.left-over", [900]).commit("g-found", {0: 1})
    with FakeFlink() as flink:
        job = flink.add_job("orders", chain(sources=2, vertices=3))
        job.user_config["properties.group.id"] = "g-found"
        reading_topics(job, "found.orders", "found.users")
        with a_daemon(flink, broker.bootstrap) as passes:
            outcome = one_pass(passes)["main/orders"]

    orders, users = (vertex.vertex_id for vertex in job.vertices[:2])
    assert (lag_of(outcome, orders), lag_of(outcome, users)) == (6.0, 499.0)


def test_a_job_reaches_no_broker_that_the_daemon_does_not_declare(broker: Broker) -> None:
    Topic(broker, "border", [10]).commit("g-border", {0: 4})
    with FakeFlink() as flink, socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        other.setblocking(False)
        place = f"127.0.0.1:{other.getsockname()[1]}"
        job = flink.add_job("orders", chain(vertices=2))
        own = {"bootstrap.servers": place, "properties.bootstrap.servers": place, "group.id": f"g-border,{place}"}
        job.user_config |= own | {"job.autoscaler.lag.sources": place}
        with a_daemon(flink, broker.bootstrap) as passes:
            outcome = one_pass(passes)["main/orders"]

        with pytest.raises(BlockingIOError):
            other.accept()
    [told] = [event for event in outcome.events if event.reason == "LagUnknown"]
    assert "neither in autoscaler.kafka" in told.message


def a_group_without_commits(broker: Broker) -> tuple[str, dict[str, str]]:
    Topic(broker, "uncommitted", [10])
    return broker.bootstrap, {"job.autoscaler.lag.kafka.group": "g-uncommitted"}


def a_topic_that_has_grown(broker: Broker) -> tuple[str, dict[str, str]]:
    topic = Topic(broker, "grown", [10])
    topic.commit("g-grown", {0: 10})
    topic.grow(2)
    topic.write([0, 5])
    return broker.bootstrap, {"job.autoscaler.lag.kafka.group": "g-grown", "job.autoscaler.lag.kafka.topics": "grown"}


def a_topic_that_was_made_anew(broker: Broker) -> tuple[str, dict[str, str]]:
    Topic(broker, "renewed", [3]).commit("g-renewed", {0: 50})
    return broker.bootstrap, {
        "job.autoscaler.lag.kafka.group": "g-renewed",
        "job.autoscaler.lag.kafka.topics": "renewed",
    }


def forbidding_acls(broker: Broker) -> tuple[str, dict[str, str]]:
    Topic(broker, "forbidden", [3]).commit("g-forbidden", {0: 1})
    signed = {f"autoscaler.kafka.0.properties.{key}": text for key, text in signed_in(GUEST).items()}
    return broker.secured, {"job.autoscaler.lag.kafka.group": "g-forbidden", **signed}


def a_broker_that_is_away(_: Broker) -> tuple[str, dict[str, str]]:
    return "127.0.0.1:1", {"job.autoscaler.lag.kafka.group": "g"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (a_broker_that_is_away, "did not answer"),
        (a_group_without_commits, "no committed offsets"),
        (a_topic_that_has_grown, "no committed offset for grown-1"),
        (a_topic_that_was_made_anew, "above the end of renewed-0"),
        (forbidding_acls, "grant DESCRIBE"),
    ],
)
def test_what_a_broker_does_not_tell_scales_nothing_down_and_harms_no_other_job(
    broker: Broker, wrong: Callable[[Broker], tuple[str, dict[str, str]]], words: str
) -> None:
    bootstrap, options = wrong(broker)
    with FakeFlink() as flink:
        ours, other = (flink.add_job(name, chain(vertices=2, parallelism=4)) for name in ("orders", "other"))
        other.vertices[0].name = "generator"
        seen: list[PassOutcome] = []
        with a_daemon(flink, bootstrap, **options) as passes:

            def other_is_scaled_down() -> bool:
                for job in (ours, other):
                    drive(job, 20.0, 0.3)
                found = one_pass(passes)
                seen.append(found["main/orders"])
                return isinstance(found["main/other"].decision, Rescale)

            wait_until("the other job is scaled down", other_is_scaled_down, 300, interval=0.3)

    assert not [outcome for outcome in seen if isinstance(outcome.decision, Rescale)]
    source = ours.vertices[0].vertex_id
    assert all(math.isnan(lag_of(outcome, source)) for outcome in seen)
    told = [event for outcome in seen for event in outcome.events if event.reason == "LagUnknown"]
    assert words in told[0].message
    assert GUEST[1] not in told[0].message
