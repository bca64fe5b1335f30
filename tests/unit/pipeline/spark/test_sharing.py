from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from pipeline_setup import a_request

from flink_autoscaler.core.cycle.ending import failed
from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.inline.engine import Answer
from flink_autoscaler.pipeline.spark.sharing import AT_ONCE, MOST_SHARED, VERY_LONG, SharedJobs
from flink_autoscaler.pipeline.spark.supply import SparkLostError
from flink_autoscaler.pipeline.spark.task import WHOLE_JOBS
from flink_cluster.waiting import wait_until

CUT_AFTER = 2.0


class Spark:
    """Runs Spark jobs that take as long as a test says; endpoints take the seconds that it gives them."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.may_end.set()
        self.seconds: dict[str, float] = {}
        self.jobs: list[list[str]] = []
        self.error: Exception | None = None
        self._lock = threading.Lock()

    def run(self, requests: Sequence[PassRequest], cut_after: float) -> list[Answer]:
        with self._lock:
            self.jobs.append([request.context.job_key for request in requests])
        assert self.may_end.wait(30)
        if self.error is not None:
            raise self.error
        return [self._answer(request, cut_after) for request in requests]

    def _answer(self, request: PassRequest, cut_after: float) -> Answer:
        seconds = self.seconds.get(request.context.endpoint.url, 0.1)
        outcome = failed(request, ConnectError(f"of {request.context.job_key}"))
        return Answer(None if seconds > cut_after else outcome, min(seconds, cut_after))


@pytest.fixture
def spark() -> Spark:
    return Spark()


@pytest.fixture
def shared(spark: Spark) -> Iterator[SharedJobs]:
    shared = SharedJobs(spark.run, cut_after=CUT_AFTER)
    yield shared
    shared.close()


def jobs_of(cluster: str, count: int = 1) -> list[PassRequest]:
    return [a_request(Endpoint(f"http://{cluster}"), f"{cluster} {n}", cluster=cluster) for n in range(count)]


def keys(outcomes: Sequence[PassOutcome]) -> list[str]:
    return [outcome.job_key for outcome in outcomes]


@contextmanager
def waiting_passes(
    spark: Spark, shared: SharedJobs, passes: Sequence[Sequence[PassRequest]]
) -> Iterator[list[Future[list[PassOutcome]]]]:
    """Start passes while as many Spark jobs run as may; these may end when the block does."""
    spark.may_end.clear()
    with ThreadPoolExecutor(AT_ONCE + len(passes)) as pool:
        for number in range(AT_ONCE):
            pool.submit(shared.evaluate, jobs_of(f"first {number}"))
            wait_until("the first jobs", lambda wanted=number + 1: len(spark.jobs) == wanted, 30)  # type: ignore[misc]
        asked = [pool.submit(shared.evaluate, requests) for requests in passes]
        wait_until("all passes to wait", lambda: shared.waiting == len(passes), 30)
        try:
            yield asked
        finally:
            spark.may_end.set()


def test_passes_that_come_while_spark_is_busy_share_the_next_job(spark: Spark, shared: SharedJobs) -> None:
    passes = [jobs_of(f"cluster {number}", 3) for number in range(20)]

    with waiting_passes(spark, shared, passes) as asked:
        spark.may_end.set()
        outcomes = [each.result(30) for each in asked]

    assert [keys(each) for each in outcomes] == [[r.context.job_key for r in requests] for requests in passes]
    assert [len(job) for job in spark.jobs] == [1] * AT_ONCE + [60]


def test_shared_job_takes_no_more_jobs_than_are_quick_to_evaluate(spark: Spark, shared: SharedJobs) -> None:
    passes = [jobs_of(f"cluster {number}", 50) for number in range(5)]

    with waiting_passes(spark, shared, passes) as asked:
        spark.may_end.set()
        [each.result(30) for each in asked]

    assert max(len(job) for job in spark.jobs) <= MOST_SHARED
    assert sum(len(job) for job in spark.jobs) == AT_ONCE + 250


def test_large_cluster_has_a_job_of_its_own_that_gives_nothing_up(spark: Spark, shared: SharedJobs) -> None:
    spark.seconds["http://large"] = CUT_AFTER * 10

    outcomes = shared.evaluate(jobs_of("large", WHOLE_JOBS + 1))

    assert len(outcomes) == WHOLE_JOBS + 1
    assert [len(job) for job in spark.jobs] == [WHOLE_JOBS + 1]


def test_cluster_that_is_slow_beside_others_is_read_apart_until_it_is_quick(spark: Spark, shared: SharedJobs) -> None:
    spark.seconds["http://slow"] = CUT_AFTER * 2
    first = shared.evaluate([*jobs_of("slow"), *jobs_of("quick")])
    second = shared.evaluate(jobs_of("slow"))
    spark.seconds["http://slow"] = CUT_AFTER / 2
    shared.evaluate(jobs_of("slow"))
    shared.evaluate([*jobs_of("slow"), *jobs_of("quick")])

    assert keys(first) == ["test/slow 0", "test/quick 0"]
    assert keys(second) == ["test/slow 0"]
    # Given up and read again; apart; apart and quick; beside the other one.
    assert spark.jobs == [
        ["test/slow 0", "test/quick 0"],
        ["test/slow 0"],
        ["test/slow 0"],
        ["test/slow 0"],
        ["test/slow 0", "test/quick 0"],
    ]


def test_cluster_that_only_looks_slow_does_not_wait_for_one_that_hangs(spark: Spark, shared: SharedJobs) -> None:
    spark.seconds |= {"http://hangs": CUT_AFTER * 100, "http://slow": CUT_AFTER * VERY_LONG * 0.9}
    first = shared.evaluate([*jobs_of("hangs"), *jobs_of("slow"), *jobs_of("quick")])
    spark.jobs.clear()
    shared.evaluate([*jobs_of("hangs"), *jobs_of("slow"), *jobs_of("quick")])

    assert keys(first) == ["test/hangs 0", "test/slow 0", "test/quick 0"]
    assert sorted(spark.jobs) == [["test/hangs 0"], ["test/quick 0"], ["test/slow 0"]]


def test_failure_of_a_shared_job_reaches_every_pass_in_it(spark: Spark, shared: SharedJobs) -> None:
    with waiting_passes(spark, shared, [jobs_of("a"), jobs_of("b")]) as asked:
        spark.error = SparkLostError("gone")
        spark.may_end.set()
        errors = [each.exception(30) for each in asked]

    assert [str(error) for error in errors] == ["gone", "gone"]


def test_closing_tells_those_that_wait(spark: Spark, shared: SharedJobs) -> None:
    with waiting_passes(spark, shared, [jobs_of("a")]) as asked:
        shared.close()
        error = asked[0].exception(30)

    assert isinstance(error, SparkLostError)
    with pytest.raises(SparkLostError, match="closed"):
        shared.evaluate(jobs_of("b"))


def test_limit_of_a_job_for_clusters_that_hang_is_the_pass(spark: Spark) -> None:
    limits: list[float] = []

    def run(requests: Sequence[PassRequest], cut_after: float) -> list[Answer]:
        limits.append(cut_after)
        return Spark().run(requests, cut_after) if len(limits) > 2 else [Answer(None, cut_after) for _ in requests]

    shared = SharedJobs(run, cut_after=CUT_AFTER)
    shared.evaluate(jobs_of("slow"))
    shared.close()

    assert limits == [CUT_AFTER, VERY_LONG * CUT_AFTER, math.inf]
