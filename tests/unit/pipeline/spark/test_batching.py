from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from flink_autoscaler.core.cycle.outcome import failed_outcome
from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.pipeline.engine.base import EvaluationResult
from flink_autoscaler.pipeline.spark import batching
from flink_autoscaler.pipeline.spark.batching import AT_ONCE, MAX_BATCH_JOBS, JobBatcher, SlowEndpoints
from flink_autoscaler.pipeline.spark.live import SparkEngine
from flink_autoscaler.pipeline.spark.session import PassSession
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import SparkLostError
from flink_autoscaler.pipeline.spark.task import WHOLE_JOBS, OutcomeRow, PartitionPlan, PassTask
from testkit.builders.pipeline import Fleet, a_request
from testkit.clusters.flink.waiting import wait_until

TIMEOUT = 2.0


class Spark:
    """Runs Spark jobs that take as long as a test says."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.may_end.set()
        self.jobs: list[list[str]] = []
        self.timeouts: list[float] = []
        self.error: Exception | None = None
        self._lock = threading.Lock()

    def run(self, requests: Sequence[PassRequest], timeout: float) -> list[EvaluationResult]:
        with self._lock:
            self.jobs.append(keys(requests))
            self.timeouts.append(timeout)
        assert self.may_end.wait(300)
        if self.error is not None:
            raise self.error
        return [EvaluationResult(failed_outcome(request, ConnectError("away")), 0.1) for request in requests]


@pytest.fixture
def spark() -> Spark:
    return Spark()


@pytest.fixture
def batcher(spark: Spark) -> Iterator[JobBatcher]:
    batcher = JobBatcher(spark.run, timeout=TIMEOUT)
    yield batcher
    batcher.close()


def jobs_of(cluster: str, count: int = 1) -> list[PassRequest]:
    return [a_request(Endpoint(f"http://{cluster}"), f"{cluster} {n}", cluster=cluster) for n in range(count)]


def keys(requests: Sequence[PassRequest]) -> list[str]:
    return [request.context.job_key for request in requests]


def answered(future: Future[Sequence[EvaluationResult]]) -> list[str]:
    return ["" if answer.outcome is None else answer.outcome.job_key for answer in future.result(30)]


@contextmanager
def waiting_passes(
    spark: Spark, batcher: JobBatcher, passes: Sequence[Sequence[PassRequest]]
) -> Iterator[list[Future[Sequence[EvaluationResult]]]]:
    """Ask for passes while as many Spark jobs run as may; these may end when the block does."""
    spark.may_end.clear()
    for number in range(AT_ONCE):
        batcher.submit(jobs_of(f"first {number}"))
        wait_until("the first jobs", lambda wanted=number + 1: len(spark.jobs) == wanted, 300)  # type: ignore[misc]
    asked = [batcher.submit(requests) for requests in passes]
    assert batcher.pending_count == len(passes)
    try:
        yield asked
    finally:
        spark.may_end.set()


def test_passes_that_come_while_spark_is_busy_share_the_next_job(spark: Spark, batcher: JobBatcher) -> None:
    passes = [jobs_of(f"cluster {number}", 3) for number in range(20)]

    with waiting_passes(spark, batcher, passes) as asked:
        spark.may_end.set()
        found = [answered(each) for each in asked]

    assert found == [keys(requests) for requests in passes]
    assert [len(job) for job in spark.jobs] == [1] * AT_ONCE + [60]
    assert set(spark.timeouts) == {TIMEOUT}


def test_shared_job_takes_no_more_jobs_than_are_quick_to_evaluate(spark: Spark, batcher: JobBatcher) -> None:
    passes = [jobs_of(f"cluster {number}", 50) for number in range(5)]

    with waiting_passes(spark, batcher, passes) as asked:
        spark.may_end.set()
        [each.result(30) for each in asked]

    assert max(len(job) for job in spark.jobs) <= MAX_BATCH_JOBS
    assert sum(len(job) for job in spark.jobs) == AT_ONCE + 250


def test_large_cluster_has_a_job_of_its_own_that_gives_nothing_up(spark: Spark, batcher: JobBatcher) -> None:
    assert len(answered(batcher.submit(jobs_of("large", WHOLE_JOBS + 1)))) == WHOLE_JOBS + 1
    assert [len(job) for job in spark.jobs] == [WHOLE_JOBS + 1]
    assert spark.timeouts == [math.inf]


def test_failure_of_a_shared_job_reaches_every_pass_in_it(spark: Spark, batcher: JobBatcher) -> None:
    with waiting_passes(spark, batcher, [jobs_of("a"), jobs_of("b")]) as asked:
        spark.error = SparkLostError("gone")
        spark.may_end.set()
        errors = [each.exception(30) for each in asked]

    assert [str(error) for error in errors] == ["gone", "gone"]


def test_closing_tells_those_that_wait(spark: Spark, batcher: JobBatcher) -> None:
    with waiting_passes(spark, batcher, [jobs_of("a")]) as asked:
        batcher.close()
        error = asked[0].exception(30)

    assert isinstance(error, SparkLostError)
    with pytest.raises(SparkLostError, match="closed"):
        batcher.submit(jobs_of("b")).result(30)


def test_endpoint_is_slow_until_it_is_quick_again() -> None:
    slow = SlowEndpoints(TIMEOUT)
    endpoint = Endpoint("http://a")

    seen = []
    for seconds in (TIMEOUT / 2, TIMEOUT, TIMEOUT * 9, TIMEOUT / 2):
        slow.record(endpoint, seconds)
        seen.append(endpoint in slow)

    assert seen == [False, True, True, False]


def test_no_more_slow_endpoints_are_remembered_than_the_bound_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MAX_SLOW_ENDPOINTS", 2)
    slow = SlowEndpoints(TIMEOUT)

    for number in range(3):
        slow.record(Endpoint(f"http://{number}"), TIMEOUT)

    assert [Endpoint(f"http://{number}") in slow for number in range(3)] == [False, False, True]


class SlowHere:
    """A session whose tasks run in this process, and in which the endpoints that a test names are given up."""

    def __init__(self) -> None:
        self.slow: set[int] = set()
        self.ran: list[int] = []

    spark = None

    def slots(self) -> int:
        return 1

    def run(self, plan: PartitionPlan, task: PassTask, *, label: str) -> list[OutcomeRow]:
        rows = [row for piece in plan.pieces for row in task.evaluate_rows(piece)]
        self.ran.append(len([row for piece in plan.pieces for row in piece if row[2]]))
        return [(row[0], None, None, task.cut_after) if row[0] in self.slow else row for row in rows]

    def cancel(self, label: str) -> None: ...

    def is_alive(self) -> bool:
        return True

    def close(self) -> None: ...

    def kill(self) -> None: ...


def test_slow_cluster_is_given_up_on_spark_and_read_in_this_process_until_it_is_quick() -> None:
    session = SlowHere()

    def opened(_: SparkSettings) -> PassSession:
        return session

    with Fleet.serving() as fleet:
        engine = SparkEngine(SparkSettings(cut_after=60.0), fleet.inline, job_deadline=2.0, opener=opened)
        request = fleet.add("orders")
        session.slow = {0}
        [first] = engine.evaluate([request])
        session.slow = set()
        [second] = engine.evaluate([request])
        engine.close()

    # The pass in which it was given up read it at once, quickly: the next one is on Spark again.
    assert [each.engine.engine for each in (first, second) if each.engine is not None] == ["inline", "spark"]
    assert session.ran[-2:] == [1, 1]
