"""Flink answers from what it gathered when somebody asked before: what is older than a quiet time is no sample."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeMetricStore, Fault, chain
from testkit.scenarios.runner.wired import passes_of

RATE = 1000.0
INTERVAL = 1.0
QUIET = 2.5
CLOCK = "/taskmanagers/metrics"


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    """A cluster with a job that somebody has once looked at, some time ago."""
    with FakeFlink(store=FakeMetricStore(INTERVAL)) as fake:
        job = fake.add_job("orders", chain(vertices=2))
        for vertex in job.vertices:
            vertex.records_per_second = RATE
        yield fake


def ask(flink: FakeFlink) -> None:
    """Do what an open page of Flink's web interface does."""
    store = flink.store
    assert store is not None
    jobs = list(flink.jobs.values())
    wait_until("a dump", lambda: store.asked(flink.taskmanager_metrics, jobs).at is not None, interval=0.02)


def be_quiet(flink: FakeFlink, seconds: float = QUIET) -> None:
    store = flink.store
    assert store is not None
    wait_until("quiet for a while", lambda: time.monotonic() - store.dumps[-1] > seconds, interval=0.02)


def one_pass(passes: ClusterPass) -> PassOutcome:
    return passes.run().reports["main/orders"].outcome


def next_pass(flink: FakeFlink, passes: ClusterPass) -> PassOutcome:
    """Do a pass when the store takes the next wake-up."""
    be_quiet(flink, INTERVAL)
    return one_pass(passes)


def records(outcome: PassOutcome) -> float:
    assert outcome.observation.sample is not None
    (source,) = (each for each in outcome.observation.sample.vertices.values() if ScalingMetric.LAG in each)
    return source[ScalingMetric.NUM_RECORDS_IN]


def rate(earlier: PassOutcome, later: PassOutcome) -> float:
    assert earlier.observation.sample is not None
    assert later.observation.sample is not None
    return (
        1000 * (records(later) - records(earlier)) / (later.observation.sample.at_ms - earlier.observation.sample.at_ms)
    )


def test_first_rate_of_a_daemon_is_right_after_a_quiet_time(flink: FakeFlink) -> None:
    ask(flink)
    be_quiet(flink)

    with passes_of(flink) as passes:
        first, second = one_pass(passes), next_pass(flink, passes)

    assert (first.phase, second.phase) == (PassPhase.COLLECTING, PassPhase.WINDOW_FILLING)
    assert rate(first, second) == pytest.approx(RATE, rel=0.25)


def test_rates_are_right_after_nothing_was_read_for_a_while(flink: FakeFlink) -> None:
    with passes_of(flink) as passes:
        first = one_pass(passes)
        be_quiet(flink)
        flink.pause()
        assert passes.run().error is not None
        flink.resume()
        second = one_pass(passes)

    assert rate(first, second) == pytest.approx(RATE, rel=0.25)


def test_what_cannot_be_proven_fresh_is_no_sample_and_says_so(flink: FakeFlink) -> None:
    assert flink.store is not None
    ask(flink)
    be_quiet(flink)
    flink.store.takes = 60.0

    with passes_of(flink) as passes:
        outcome = one_pass(passes)
        flink.store.takes = 0.0
        healed = one_pass(passes)

    (reason,) = outcome.decision.reasons
    assert (outcome.phase, outcome.error, outcome.observation.sample) == (PassPhase.NOT_READY, None, None)
    assert (reason.code, reason.text) == (
        "METRICS_NOT_FRESH",
        "no sample taken: Flink has not gathered metrics since it was asked for them",
    )
    assert healed.phase is PassPhase.COLLECTING


def test_other_clusters_do_not_wait_for_one_that_gathers_slowly(flink: FakeFlink) -> None:
    assert flink.store is not None
    flink.store.takes = 60.0
    with FakeFlink(store=FakeMetricStore(INTERVAL)) as other, passes_of(flink) as slow, passes_of(other) as quick:
        other.add_job("orders")
        waiting = threading.Thread(target=slow.run)
        waiting.start()
        outcome = one_pass(quick)
        is_waiting = waiting.is_alive()
        waiting.join(300.0)

    assert outcome.phase is PassPhase.COLLECTING
    assert is_waiting


def test_job_manager_that_hangs_for_a_moment_gives_no_old_sample(flink: FakeFlink) -> None:
    ask(flink)
    be_quiet(flink)
    flink.fault(CLOCK, Fault.HANG, times=1)

    with passes_of(flink) as passes:
        first, second = one_pass(passes), one_pass(passes)

    assert (first.phase, first.error) == (PassPhase.NOT_READY, None)
    assert [reason.code for reason in first.decision.reasons] == ["METRICS_NOT_FRESH"]
    assert second.phase is PassPhase.COLLECTING
