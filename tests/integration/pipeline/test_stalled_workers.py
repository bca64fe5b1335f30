"""A Spark worker that stands still for a while: rates are those of the load all the same."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.engine.inline import InlineEngine
from flink_autoscaler.pipeline.spark.driver import DriverSession
from flink_autoscaler.pipeline.spark.live import SparkEngine
from flink_autoscaler.pipeline.spark.session import PassSession, open_session
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from testkit.builders.pipeline import a_request
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeJob, FakeRequest, chain
from testkit.fakes.flink.load import rates_of, repeated
from testkit.fakes.flink.metric_store import FakeMetricStore
from testkit.processes import descendants_of

pytestmark = [pytest.mark.spark, pytest.mark.suite(name="spark")]

LOAD = 130.0
STALL = 6.0
"""Seconds: three times as long as Flink keeps metrics here, and as a sample may be labelled too late."""

APART = 3.0
"""Seconds from one pass to the next at least: what a sample may be labelled too late is little beside it."""


class Stalling:
    """An engine on Spark over a job with a constant load, which others look at, too."""

    def __init__(self, flink: FakeFlink, loop: EventLoopThread) -> None:
        start_ms = time.time_ns() // 1_000_000 - 3_600_000
        self.flink = flink
        self.job: FakeJob = flink.add_job("orders", chain(sources=1, vertices=2), start_ms=start_ms)
        for vertex in self.job.vertices:
            vertex.records_per_second = LOAD
        self._sessions: list[DriverSession] = []
        self.fallbacks: list[str] = []
        self.engine = SparkEngine(
            SparkSettings(master="local[1]", cut_after=60.0),  # else what takes as long is read once more
            InlineEngine(job_deadline=30.0, loop=loop, clients=ClientCache(loop)),
            job_deadline=30.0,
            pass_deadline=90.0,
            on_fallback=self.fallbacks.append,
            opener=self._open,
        )
        self._next = a_request(flink.endpoint(timeout=60.0), "orders", job_id=self.job.job_id)

    def run(self) -> PassOutcome:
        """Do a pass now."""
        request: PassRequest = replace(self._next, now_ms=time.time_ns() // 1_000_000)
        (outcome,) = self.engine.evaluate([request])
        self._next = replace(request, state=outcome.state, memory=outcome.memory)
        return outcome

    def look(self) -> None:
        """Look at the job as an open page of Flink's web interface does."""
        if self.flink.store is not None:
            self.flink.store.asked(self.flink.taskmanager_metrics, [self.job])

    def stopped_pass(self) -> PassOutcome:
        """Do a pass whose worker is stopped while it waits for an answer about the job."""
        arrived = threading.Event()

        def holds(request: FakeRequest) -> bool:
            is_held = request.path.startswith(f"/jobs/{self.job.job_id}")
            if is_held:
                arrived.set()
            return is_held

        def stall() -> None:
            arrived.wait(90.0)
            workers = descendants_of(self._sessions[-1].pid)
            _send(workers, signal.SIGSTOP)
            try:
                time.sleep(STALL)
            finally:
                _send(workers, signal.SIGCONT)
                self.flink.gate = None

        self.flink.gate = holds
        staller = threading.Thread(target=stall)
        staller.start()
        outcome = self.run()
        staller.join()
        return outcome

    def _open(self, settings: SparkSettings) -> PassSession:
        session = open_session(settings)
        assert isinstance(session, DriverSession)
        self._sessions.append(session)
        return session


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


@pytest.fixture
def stalling() -> Iterator[Stalling]:
    loop = EventLoopThread()
    with FakeFlink(store=FakeMetricStore(interval=2.0)) as flink:
        found = Stalling(flink, loop)
        yield found
        found.engine.close()
    loop.close()


def test_rates_are_those_of_the_load_though_a_worker_was_stopped(stalling: Stalling) -> None:
    with repeated(stalling.look, 0.1):

        def is_on_spark() -> bool:
            stalling.fallbacks.clear()
            return stalling.run().observation.sample is not None and not stalling.fallbacks

        wait_until("a pass on Spark", is_on_spark, 300, interval=APART)
        time.sleep(APART)
        stalling.run()
        time.sleep(APART)
        stopped = stalling.stopped_pass()
        time.sleep(APART)
        outcome = stalling.run()

    found = rates_of(outcome.state.samples, stalling.job.vertices[1].vertex_id)
    assert not stalling.fallbacks

    assert stopped.observation.sample is not None
    assert len(found) >= 3
    assert found == pytest.approx([LOAD] * len(found), rel=0.2)
