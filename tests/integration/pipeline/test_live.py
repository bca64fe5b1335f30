from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.ports.passes import EngineUse, PassOutcome, PassRequest
from flink_autoscaler.pipeline.spark.driver import DriverSession
from flink_autoscaler.pipeline.spark.live import SparkEngine
from flink_autoscaler.pipeline.spark.session import PassSession, open_session
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import SparkLostError
from testkit.builders.pipeline import Fleet, comparable, next_pass
from testkit.fakes.flink import Fault

pytestmark = pytest.mark.spark

SETTINGS = SparkSettings(master="local[2]", cut_after=120.0)  # else a busy machine has passes evaluated here
PASS_DEADLINE = 90.0
PATIENCE = 600.0
"""Seconds after which what has not come will not come."""


class Unpicklable(str):
    __slots__ = ()

    def __reduce__(self) -> str:
        raise RuntimeError("poison")


class Recorded:
    """An engine whose sessions and fallbacks are remembered."""

    def __init__(self, fleet: Fleet) -> None:
        self.sessions: list[DriverSession] = []
        self.fallbacks: list[str] = []
        self.engine = SparkEngine(
            SETTINGS,
            fleet.inline,
            job_deadline=20.0,
            pass_deadline=PASS_DEADLINE,
            on_fallback=self.fallbacks.append,
            opener=self._open,
        )

    def on_spark(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Evaluate until a pass is on Spark: a busy machine takes its time to start it."""
        end = time.monotonic() + PATIENCE
        while True:
            before = len(self.fallbacks)
            outcomes = self.engine.evaluate(requests)
            if len(self.fallbacks) == before:
                return outcomes
            assert "not ready" in self.fallbacks[-1], self.fallbacks
            assert time.monotonic() < end, self.fallbacks

    def _open(self, settings: SparkSettings) -> PassSession:
        session = open_session(settings)
        assert isinstance(session, DriverSession)
        self.sessions.append(session)
        return session


@pytest.fixture(scope="module")
def module_fleet() -> Iterator[Fleet]:
    with Fleet.serving() as fleet:
        yield fleet


@pytest.fixture(scope="module")
def module_spark(module_fleet: Fleet) -> Iterator[Recorded]:
    recorded = Recorded(module_fleet)
    recorded.on_spark([module_fleet.add("warm-up")])
    yield recorded
    recorded.engine.close()


@pytest.fixture
def fleet(module_fleet: Fleet) -> Fleet:
    module_fleet.flink.clear_faults()
    module_fleet.flink.jobs.clear()
    module_fleet.flink.requests.clear()
    return module_fleet


@pytest.fixture
def spark(module_spark: Recorded) -> Recorded:
    module_spark.fallbacks.clear()
    return module_spark


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "condition not met in time"
        time.sleep(0.01)


def jobs_run(session: DriverSession) -> set[int]:
    tracker = session.spark.sparkContext.statusTracker()
    labels = [f"flink-autoscaler pass {number}" for number in range(50)]
    return {job for label in labels for job in tracker.getJobIdsForGroup(label)}


def test_both_engines_give_equal_outcomes_in_the_order_of_requests(fleet: Fleet, spark: Recorded) -> None:
    requests = fleet.add_mixed()
    inline = fleet.inline.evaluate(requests)

    outcomes = spark.engine.evaluate(requests)

    assert [o.job_key for o in outcomes] == [r.context.job_key for r in requests]
    assert [comparable(o) for o in outcomes] == [comparable(o) for o in inline]
    assert not spark.fallbacks


def test_the_smallest_pass_runs_on_spark_and_says_so(fleet: Fleet, spark: Recorded) -> None:
    outcomes = spark.engine.evaluate([fleet.add("disabled", configuration={}), fleet.add("one")])

    assert [outcome.phase for outcome in outcomes] == [PassPhase.DISABLED, PassPhase.COLLECTING]
    assert [outcome.engine for outcome in outcomes] == [None, EngineUse("spark", "configured")]
    assert not spark.fallbacks


def test_both_engines_give_equal_outcomes_after_several_passes(fleet: Fleet, spark: Recorded) -> None:
    requests = [fleet.add(f"job {number}") for number in range(20)]
    for _ in range(3):
        outcomes = spark.engine.evaluate(requests)
        requests = [next_pass(*pair) for pair in zip(requests, outcomes, strict=True)]

    outcomes = spark.engine.evaluate(requests)

    assert [comparable(o) for o in outcomes] == [comparable(o) for o in fleet.inline.evaluate(requests)]
    assert {len(outcome.state.samples) for outcome in outcomes} == {4}


def test_pass_is_one_spark_job(fleet: Fleet, spark: Recorded) -> None:
    requests = [fleet.add(f"job {number}") for number in range(40)]
    spark.engine.evaluate(requests)
    session = spark.sessions[-1]
    before = jobs_run(session)

    spark.engine.evaluate(requests)

    assert len(jobs_run(session) - before) == 1


def test_both_engines_send_the_same_requests(fleet: Fleet, spark: Recorded) -> None:
    requests = [fleet.add(f"job {number}") for number in range(40)]
    fleet.inline.evaluate(requests)
    inline = sorted(fleet.flink.paths())
    fleet.flink.requests.clear()

    spark.engine.evaluate(requests)

    assert sorted(fleet.flink.paths()) == inline
    assert inline.count("/jobmanager/metrics") == 1
    assert fleet.flink.paths("GET") == fleet.flink.paths()


def test_workers_keep_connections_between_passes(fleet: Fleet, spark: Recorded) -> None:
    requests = [fleet.add(f"job {number}") for number in range(40)]
    spark.engine.evaluate(requests)
    opened = fleet.flink.connections

    spark.engine.evaluate(requests)

    assert fleet.flink.connections - opened <= 2


def test_poisoned_request_hurts_only_itself(fleet: Fleet, spark: Recorded) -> None:
    good, bad = fleet.add("good"), fleet.add("bad")
    poisoned = replace(bad, state=replace(bad.state, job_id=Unpicklable("x")))

    outcomes = spark.engine.evaluate([poisoned, good])

    assert [outcome.phase for outcome in outcomes] == [PassPhase.ERROR, PassPhase.COLLECTING]
    assert "poison" in str(outcomes[0].error)
    assert not spark.fallbacks


@pytest.mark.suite(name="spark")
def test_jvm_killed_between_passes_costs_one_pass_on_spark(fleet: Fleet, spark: Recorded) -> None:
    requests = [fleet.add("orders")]
    spark.on_spark(requests)
    os.kill(spark.sessions[-1].pid, signal.SIGKILL)
    opened, spark.fallbacks[:] = len(spark.sessions), []

    during = spark.engine.evaluate(requests)
    fallbacks = len(spark.fallbacks)
    after = spark.on_spark(requests)

    assert [during[0].phase, after[0].phase] == [PassPhase.COLLECTING, PassPhase.COLLECTING]
    assert fallbacks == 1
    assert len(spark.sessions) == opened + 1


def test_jvm_killed_during_a_pass_is_survived(fleet: Fleet, spark: Recorded) -> None:
    requests = [fleet.add("orders")]
    spark.on_spark(requests)
    fleet.flink.requests.clear()
    fleet.flink.fault(str(requests[0].context.job_id), Fault.HANG)
    opened, spark.fallbacks[:] = len(spark.sessions), []

    def kill_when_polled() -> None:
        wait_until(lambda: any(str(requests[0].context.job_id) in path for path in fleet.flink.paths()))
        os.kill(spark.sessions[-1].pid, signal.SIGKILL)
        fleet.flink.clear_faults()

    killer = threading.Thread(target=kill_when_polled)
    killer.start()
    during = spark.engine.evaluate(requests)
    killer.join()
    fallbacks = len(spark.fallbacks)
    after = spark.on_spark(requests)

    assert [during[0].phase, after[0].phase] == [PassPhase.COLLECTING, PassPhase.COLLECTING]
    assert fallbacks == 1
    assert len(spark.sessions) == opened + 1


def test_second_session_in_a_process_is_refused(fleet: Fleet, spark: Recorded) -> None:
    spark.engine.evaluate([fleet.add("orders")])

    with pytest.raises(SparkLostError, match="already"):
        open_session(SETTINGS)


def test_closed_engine_leaves_no_process_and_no_files(fleet: Fleet, spark: Recorded) -> None:
    spark.engine.evaluate([fleet.add("orders")])
    session = spark.sessions[-1]

    session.close()

    with pytest.raises(ProcessLookupError):
        os.kill(session.pid, 0)
    assert not session.scratch.exists()


def test_session_that_does_not_start_says_why() -> None:
    with pytest.raises(SparkLostError, match="Insufficient driver memory"):
        open_session(replace(SETTINGS, driver_memory="400m"))


def test_passes_run_inline_while_spark_starts_aside(fleet: Fleet) -> None:
    may_open, fallbacks = threading.Event(), list[str]()

    def open_slowly(settings: SparkSettings) -> PassSession:
        may_open.wait(PASS_DEADLINE)
        raise SparkLostError("not today")

    engine = SparkEngine(SETTINGS, fleet.inline, job_deadline=2.0, on_fallback=fallbacks.append, opener=open_slowly)
    engine.start()

    [outcome] = engine.evaluate([fleet.add("job")])

    assert (outcome.phase, fallbacks) == (PassPhase.COLLECTING, [])
    may_open.set()
    engine.close()
