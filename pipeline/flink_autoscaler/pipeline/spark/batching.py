"""Batches of jobs that share a Spark job: passes due together do.

A Spark job costs some tens of milliseconds whatever is in it, too much for each of two hundred small clusters. So two
run at a time, and what is asked for meanwhile goes into the next one: nobody waits for a time to pass.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.pipeline.engine.base import Answer
from flink_autoscaler.pipeline.spark.supply import SparkLostError
from flink_autoscaler.pipeline.spark.task import WHOLE_JOBS

AT_ONCE: Final = 2
"""Shared Spark jobs at the same time: one is prepared and read out while the other one runs."""

MOST_SHARED: Final = 2 * WHOLE_JOBS
"""Jobs in a shared Spark job; with more of them the arithmetic takes so long that quick clusters look slow."""

MOST_SLOW: Final = 4096
"""Slow endpoints that are remembered; with more of them, as YARN may have over time, all count as quick again."""

Run = Callable[[Sequence[PassRequest], float], Sequence[Answer]]
"""Runs one Spark job over requests that gives endpoints up after so many seconds."""

_Submission = tuple[Sequence[PassRequest], Future[Sequence[Answer]]]


class JobBatcher:
    """Puts the requests of passes into Spark jobs. Thread-safe: each pass asks from a thread of its own.

    Args:
        run: Runs a Spark job; raises :class:`SparkLostError`.
        timeout: Seconds that an endpoint may take beside others; after that it has no outcome.
    """

    def __init__(self, run: Run, *, timeout: float) -> None:
        self._run = run
        self._timeout = timeout
        self._lock = threading.Lock()
        self._waiting: deque[_Submission] = deque()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="spark-shared")
        self._is_closed = False

    def submit(self, requests: Sequence[PassRequest]) -> Future[Sequence[Answer]]:
        """Have the requests of a pass answered, in their order; may end with :class:`SparkLostError`.

        A large pass has a Spark job of its own, in which nothing is given up; this returns when it is done.
        """
        future: Future[Sequence[Answer]] = Future()
        if len(requests) > WHOLE_JOBS:
            self._answer([(requests, future)], math.inf)
            return future
        with self._lock:
            if self._is_closed:
                future.set_exception(SparkLostError("Spark was closed"))
                return future
            self._waiting.append((requests, future))
            # One call per submission: those that find nothing left to do end at once.
            self._threads.submit(self._serve)
        return future

    @property
    def waiting(self) -> int:
        """Passes that wait for a Spark job to be theirs."""
        with self._lock:
            return len(self._waiting)

    def close(self) -> None:
        """Give up everything that waits; whoever waits for it is told."""
        with self._lock:
            self._is_closed = True
            left, self._waiting = self._waiting, deque()
        for _, future in left:
            future.set_exception(SparkLostError("Spark was closed"))
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _serve(self) -> None:
        if batch := self._next():
            self._answer(batch, self._timeout)

    def _answer(self, batch: Sequence[_Submission], timeout: float) -> None:
        try:
            answers = iter(self._run([request for requests, _ in batch for request in requests], timeout))
            for requests, future in batch:
                future.set_result([next(answers) for _ in requests])
        except BaseException as error:  # handed to those who wait
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)

    def _next(self) -> list[_Submission]:
        """Take as much of what waits as goes into one Spark job, at least one."""
        batch: list[_Submission] = []
        with self._lock:
            jobs = 0
            while self._waiting and (not batch or jobs + len(self._waiting[0][0]) <= MOST_SHARED):
                batch.append(self._waiting.popleft())
                jobs += len(batch[-1][0])
        return batch


class SlowEndpoints:
    """The endpoints that took longer than their time-out when they were last read. Thread-safe.

    Args:
        timeout: Seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._endpoints: set[Endpoint] = set()

    def __contains__(self, endpoint: Endpoint) -> bool:
        with self._lock:
            return endpoint in self._endpoints

    def note(self, endpoint: Endpoint, seconds: float) -> None:
        """Remember how long an endpoint took."""
        with self._lock:
            if seconds < self._timeout:
                self._endpoints.discard(endpoint)
            elif len(self._endpoints) < MOST_SLOW:
                self._endpoints.add(endpoint)
            else:
                self._endpoints = {endpoint}
