"""A daemon with two clusters, of which the Prometheus of one is wrong: its jobs wait, and those of the other go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.wiring import Wiring
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeJob, Fault, chain
from testkit.fakes.flink.driving import drive
from testkit.fakes.prometheus import FakePrometheus
from testkit.scenarios.runner.wired import settings_of

TICK, ENOUGH = 0.3, 15
"""Seconds between passes, and passes in which a job whose metrics are right has long been scaled down."""
RATE = 40.0
"""Records/s of jobs of four subtasks that do 100 each."""


def minutes_behind(prometheus: FakePrometheus) -> None:
    prometheus.age = 400.0


def partial(prometheus: FakePrometheus) -> None:
    prometheus.warnings = ["store gateway 3 did not answer"]


def resetting(prometheus: FakePrometheus) -> None:
    prometheus.fault("/", Fault.RESET)


def telling_no_numbers(prometheus: FakePrometheus) -> None:
    prometheus.lie = lambda name, _job, _vertex, truth: "NaN" if name.startswith("records") else truth


def telling_negative_lag(prometheus: FakePrometheus) -> None:
    prometheus.lie = lambda name, _job, _vertex, truth: -5.0 if name.startswith("pending") else truth


@contextmanager
def a_daemon(flink: FakeFlink, other: FakeFlink, prometheus: FakePrometheus) -> Iterator[dict[str, ClusterPass]]:
    values = {
        "autoscaler.clusters.0.name": "main",
        "autoscaler.clusters.0.url": flink.url,
        "autoscaler.clusters.0.metrics.source": "prometheus",
        "autoscaler.clusters.0.metrics.prometheus.url": prometheus.url,
        "autoscaler.clusters.1.name": "other",
        "autoscaler.clusters.1.url": other.url,
        "autoscaler.engine.kind": "inline",
        "autoscaler.standalone.state-store.type": "heap",
        "autoscaler.standalone.control-loop.interval": "200 ms",
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "0 s",
        "job.autoscaler.metrics.window": "1 s",
        "job.autoscaler.scale-down.interval": "0 s",
    }
    settings = settings_of(values)
    with Wiring(settings) as wiring:
        yield {each.name: wiring.cluster_pass(each) for each in settings.effective_clusters()}


def said(outcome: PassOutcome) -> str:
    return " ".join([*(reason.text for reason in outcome.decision.reasons), str(outcome.error or "")])


@pytest.mark.parametrize(
    ("goes_wrong", "words"),
    [
        (minutes_behind, "s old"),
        (partial, "store gateway 3 did not answer"),
        (resetting, "/api/v1/query"),
        (telling_no_numbers, "numRecordsIn is nan"),
        (telling_negative_lag, ""),
    ],
)
def test_a_prometheus_that_is_wrong_scales_nothing_down_and_the_other_cluster_goes_on(
    goes_wrong: Callable[[FakePrometheus], None], words: str
) -> None:
    with FakeFlink() as flink, FakeFlink() as other, FakePrometheus(flink) as prometheus:
        prometheus.age = 1.0
        jobs = [each.add_job("orders", chain(vertices=2, parallelism=4), start_ms=1) for each in (flink, other)]
        for job in jobs:
            reporting(job)
        goes_wrong(prometheus)
        seen, rescaled = list[PassOutcome](), list[PassOutcome]()
        with a_daemon(flink, other, prometheus) as passes:

            def other_is_scaled_down() -> bool:
                for job in jobs:
                    drive(job, RATE, TICK)
                seen.append(passes["main"].run().reports["main/orders"].outcome)
                outcome = passes["other"].run().reports["other/orders"].outcome
                rescaled.extend([outcome] if isinstance(outcome.decision, Rescale) else [])
                return bool(rescaled) and len(seen) >= ENOUGH

            wait_until("the other job is scaled down", other_is_scaled_down, 300, interval=TICK)

    assert not [outcome for outcome in seen if isinstance(outcome.decision, Rescale)]
    assert words in said(seen[-1])


def test_a_prometheus_that_is_right_has_the_same_job_scaled_down() -> None:
    with FakeFlink() as flink, FakeFlink() as other, FakePrometheus(flink) as prometheus:
        prometheus.age = 1.0
        job = flink.add_job("orders", chain(vertices=2, parallelism=4), start_ms=1)
        reporting(job)
        with a_daemon(flink, other, prometheus) as passes:

            def is_scaled_down() -> bool:
                drive(job, RATE, TICK)
                return isinstance(passes["main"].run().reports["main/orders"].outcome.decision, Rescale)

            wait_until("the job is scaled down", is_scaled_down, 300, interval=TICK)


def reporting(job: FakeJob) -> None:
    """Let a job tell all that Prometheus is asked for."""
    for vertex in job.vertices:
        vertex.busy_ms, vertex.waited_ms = 4e6, 8e6
