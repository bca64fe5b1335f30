"""The same job of a real Flink with Flink's own Kafka source, scaled up and down three ways at the same time.

Three jobs read one topic, each with a group of its own, and each is scaled by a daemon of its own: one by Flink's REST
API, one by Prometheus, one by the lag that the broker tells. What arrives is the same, so decisions have to agree, and
each tells where its numbers came from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.wiring import Wiring
from testkit.scenarios.runner.wired import settings_of
from testkit.servers.kafka import running_broker, why_not
from testkit.servers.kafka_job import SOURCE_VERTEX, WORK_VERTEX, Arriving, KafkaReadingCluster, submit
from testkit.servers.prometheus import Prometheus, require

pytestmark = [pytest.mark.suite(name="services"), pytest.mark.e2e]

WAYS = ("rest", "prometheus", "kafka")
TOPIC, PARTITIONS = "orders.eu", 8
"""Flink's metrics call it ``orders_eu``."""
LOW, HIGH, COST_MICROS = 60.0, 400.0, 5000
"""One subtask of ``work`` does 200 records/s at most: at the target of 0.7, 400 and their backlog take four."""
ENOUGH = 3
INTERVAL = 4.0
PHASE = 420.0
"""Seconds in which all three have to be done, on a busy machine."""


@dataclass
class Way:
    """A job, the daemon that scales it, and what that decided.

    Attributes:
        decided: Parallelism of the work vertex before and after each rescale.
        seen: Outcomes, of passes with a sample.
    """

    name: str
    job_id: str
    passes: ClusterPass
    decided: list[tuple[int, int]] = field(default_factory=list)
    seen: list[PassOutcome] = field(default_factory=list)

    def look(self) -> None:
        (report,) = self.passes.run().reports.values()
        outcome = report.outcome
        if outcome.observation.sample is not None:
            self.seen.append(outcome)
        if isinstance(outcome.decision, Rescale) and outcome.observation.topology is not None:
            for vertex_id, summary in outcome.decision.summaries.items():
                if outcome.observation.topology.vertices[vertex_id].name == WORK_VERTEX:
                    self.decided.append((summary.current, summary.new))

    def vertex_id(self, name: str) -> str:
        topology = self.seen[-1].observation.topology
        assert topology is not None
        return next(v for v, vertex in topology.vertices.items() if vertex.name == name)

    @property
    def size(self) -> int:
        """Parallelism of the work vertex in the last sample."""
        topology = self.seen[-1].observation.topology if self.seen else None
        return topology.vertices[self.vertex_id(WORK_VERTEX)].parallelism if topology else 0

    def origins(self, outcome: PassOutcome) -> set[tuple[str, str]]:
        return {
            (metric.value, origin)
            for metric, origin in outcome.observation.origins.get(self.vertex_id(SOURCE_VERTEX), {}).items()
        }


@contextmanager
def passes_of(way: str, cluster: KafkaReadingCluster, prometheus: str, bootstrap: str) -> Iterator[ClusterPass]:
    values = {
        "autoscaler.clusters.0.name": way,
        "autoscaler.clusters.0.url": cluster.rest_url,
        "autoscaler.clusters.0.include": way,
        "autoscaler.engine.kind": "inline",
        "autoscaler.standalone.state-store.type": "heap",
        "job.autoscaler.enabled": "true",
        "job.autoscaler.metrics.window": "40 s",
        "job.autoscaler.stabilization.interval": "10 s",
        "job.autoscaler.scale-down.interval": "20 s",
        "job.autoscaler.catch-up.duration": "10 min",
        "job.autoscaler.vertex.max-parallelism": "6",
    }
    if way == "prometheus":
        values |= {
            "autoscaler.clusters.0.metrics.source": "prometheus",
            "autoscaler.clusters.0.metrics.prometheus.url": prometheus,
        }
    if way == "kafka":  # which topics and which group is not said
        values |= {
            "autoscaler.kafka.0.name": "orders-kafka",
            "autoscaler.kafka.0.bootstrap-servers": bootstrap,
            "job.autoscaler.lag.sources": "orders-kafka",
        }
    settings = settings_of(values)
    with Wiring(settings) as wiring:
        yield wiring.cluster_pass(settings.effective_clusters()[0])


@contextmanager
def running(folder_of: pytest.TempPathFactory) -> Iterator[tuple[Sequence[Way], Arriving, KafkaReadingCluster]]:
    with ExitStack() as open_:
        broker = open_.enter_context(running_broker(folder_of.mktemp("kafka")))
        client = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in client.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            future.result(30)
        cluster = open_.enter_context(KafkaReadingCluster(taskmanagers=2, slots=10))
        rules: dict[str, list[str]] = {"groups": []}
        prometheus = open_.enter_context(
            Prometheus(folder_of.mktemp("prometheus"), target=cluster.targets, rules=rules, interval="2s")
        )
        arriving = open_.enter_context(Arriving(broker.bootstrap, TOPIC, PARTITIONS, LOW))
        ways = []
        for name in WAYS:
            job_id = submit(cluster, name, broker.bootstrap, TOPIC, f"group-{name}", COST_MICROS)
            passes = open_.enter_context(passes_of(name, cluster, prometheus.url, broker.bootstrap))
            ways.append(Way(name, job_id, passes))
        yield ways, arriving, cluster


def is_over(instant: float) -> bool:
    return time.monotonic() >= instant


def passes_until(cluster: KafkaReadingCluster, ways: Sequence[Way], is_done: Callable[[Way], bool]) -> None:
    """Let all daemons do their passes until each of them is done, not necessarily at the same time."""
    deadline, done = time.monotonic() + PHASE, set[str]()
    with ThreadPoolExecutor(len(ways)) as pool:
        while len(done) < len(ways):
            due = time.monotonic() + INTERVAL
            list(pool.map(Way.look, ways))
            done |= {way.name for way in ways if is_done(way)}
            told = {way.name: (way.size, way.decided, way.seen and way.seen[-1].decision.reasons) for way in ways}
            assert time.monotonic() < deadline, told
            cluster.wait_until("the next pass is due", partial(is_over, due))


def test_three_ways_come_to_the_same_and_say_where_their_numbers_came_from(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    if (lacking := why_not()) is not None:
        pytest.skip(lacking)
    require()
    with running(tmp_path_factory) as (ways, arriving, cluster):
        passes_until(cluster, ways, lambda way: way.size == 1)
        arriving.rate = HIGH
        passes_until(cluster, ways, lambda way: way.size >= ENOUGH)
        arriving.rate = LOW
        passes_until(cluster, ways, lambda way: way.size == 1)

    told = {way.name: way.decided for way in ways}
    up = [max(new for _, new in way.decided) for way in ways]
    assert max(up) - min(up) <= 1, told
    for way in ways:
        assert way.decided[0][1] > way.decided[0][0], told
        assert way.decided[-1][1] == 1, told
        topics = way.seen[-1].memory.topics
        assert topics == {way.vertex_id(SOURCE_VERTEX): ("orders_eu",)}, way.name
    rest, by_prometheus, by_kafka = ways
    assert {frozenset(rest.origins(outcome)) for outcome in rest.seen} == {frozenset()}
    assert {origin for _, origin in by_prometheus.origins(by_prometheus.seen[-1])} == {"prometheus"}
    assert (FlinkMetric.PENDING_RECORDS.value, "orders-kafka") in by_kafka.origins(by_kafka.seen[-1])
    last = by_kafka.seen[-1].observation.topology
    assert last is not None
    assert last.vertices[by_kafka.vertex_id(SOURCE_VERTEX)].source_partitions == PARTITIONS
