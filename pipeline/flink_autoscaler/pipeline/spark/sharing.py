"""Which jobs share a Spark job: passes due together do, clusters that are slow or large leave the others alone.

A Spark job costs some tens of milliseconds whatever is in it, too much for each of two hundred small clusters. But a
shared job ends when its slowest cluster does. Therefore a cluster that takes long in a shared job is given up there and
read again in a job of the slow ones, where it stays until it is quick again.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.inline.engine import Answer, whole
from flink_autoscaler.pipeline.spark.supply import SparkLostError
from flink_autoscaler.pipeline.spark.task import WHOLE_JOBS

AT_ONCE: Final = 2
"""Spark jobs of a kind at the same time: one is prepared and read out while the other one runs."""

MOST_SHARED: Final = 2 * WHOLE_JOBS
"""Jobs in a shared Spark job; with more of them the arithmetic takes so long that quick clusters look slow."""

MOST_SLOW: Final = 4096
"""Slow endpoints that are remembered; of more, those that were slow longest ago count as quick."""

Run = Callable[[Sequence[PassRequest], float], Sequence[Answer]]
"""Runs one Spark job over requests that gives endpoints up after so many seconds."""


class SharedJobs:
    """Puts the requests of passes into Spark jobs. Thread-safe: each pass asks from a thread of its own.

    Args:
        run: Runs a Spark job; raises :class:`SparkLostError`.
        cut_after: Seconds that an endpoint may take beside others.
    """

    def __init__(self, run: Run, *, cut_after: float) -> None:
        self._run = run
        self._cut_after = cut_after
        self._quick = _Gathered(partial(_swapped, run, cut_after), "spark-quick")
        self._slow = _Gathered(partial(_swapped, run, math.inf), "spark-slow")
        self._slow_endpoints = _Slow()

    def evaluate(self, requests: Sequence[PassRequest]) -> list[PassOutcome]:
        """Return one outcome per request of a pass, in the same order.

        Raises:
            SparkLostError: Spark failed.
        """
        if len(requests) > WHOLE_JOBS:
            return whole(self._run(requests, math.inf))
        slow = {place for place, request in enumerate(requests) if request.context.endpoint in self._slow_endpoints}
        quick = [place for place in range(len(requests)) if place not in slow]
        in_slow_job = self._asked(self._slow, requests, sorted(slow))
        answers = self._asked(self._quick, requests, quick)()
        cut = [place for place, answer in answers.items() if answer.outcome is None]
        self._slow_endpoints.add(requests[place].context.endpoint for place in cut)
        again = self._asked(self._slow, requests, cut)
        answers |= self._seen(requests, in_slow_job()) | self._seen(requests, again())
        return whole(answers[place] for place in range(len(requests)))

    @property
    def waiting(self) -> int:
        """Passes, or parts of them, that wait for a Spark job to be theirs."""
        return len(self._quick) + len(self._slow)

    def close(self) -> None:
        """Give up everything that waits; whoever waits for it is told."""
        self._quick.close()
        self._slow.close()

    def _asked(
        self, gathered: _Gathered, requests: Sequence[PassRequest], places: Sequence[int]
    ) -> Callable[[], dict[int, Answer]]:
        """Ask for some of the requests, and return what waits for the answers."""
        if not places:
            return dict
        future = gathered.submit([requests[place] for place in places])
        return lambda: dict(zip(places, future.result(), strict=True))

    def _seen(self, requests: Sequence[PassRequest], answers: dict[int, Answer]) -> dict[int, Answer]:
        """Take note of endpoints that were not slow this time."""
        self._slow_endpoints.discard(
            requests[place].context.endpoint for place, answer in answers.items() if answer.seconds < self._cut_after
        )
        return answers


class _Gathered:
    """Gathers what is asked for while as many Spark jobs run as may, and puts it into the next one."""

    def __init__(self, run: Callable[[Sequence[PassRequest]], Sequence[Answer]], name: str) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Sequence[PassRequest], Future[Sequence[Answer]]]] = deque()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=name)
        self._is_closed = False

    def submit(self, requests: Sequence[PassRequest]) -> Future[Sequence[Answer]]:
        """Have requests answered, in their order; may end with what running raises."""
        future: Future[Sequence[Answer]] = Future()
        with self._lock:
            if self._is_closed:
                future.set_exception(SparkLostError("Spark was closed"))
                return future
            self._waiting.append((requests, future))
            # One call per submission: those that find nothing left to do end at once.
            self._threads.submit(self._serve)
        return future

    def __len__(self) -> int:
        with self._lock:
            return len(self._waiting)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            left, self._waiting = self._waiting, deque()
        for _, future in left:
            future.set_exception(SparkLostError("Spark was closed"))
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _serve(self) -> None:
        batch = self._next()
        if not batch:
            return
        try:
            answers = iter(self._run([request for requests, _ in batch for request in requests]))
            for requests, future in batch:
                future.set_result([next(answers) for _ in requests])
        except BaseException as error:  # handed to those who wait
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)

    def _next(self) -> list[tuple[Sequence[PassRequest], Future[Sequence[Answer]]]]:
        """Take as much of what waits as goes into one Spark job, at least one."""
        batch: list[tuple[Sequence[PassRequest], Future[Sequence[Answer]]]] = []
        with self._lock:
            jobs = 0
            while self._waiting and (not batch or jobs + len(self._waiting[0][0]) <= MOST_SHARED):
                batch.append(self._waiting.popleft())
                jobs += len(batch[-1][0])
        return batch


class _Slow:
    """Endpoints that were slow when they were last read; of a bounded number. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._endpoints: OrderedDict[Endpoint, None] = OrderedDict()

    def __contains__(self, endpoint: Endpoint) -> bool:
        with self._lock:
            return endpoint in self._endpoints

    def add(self, endpoints: Iterable[Endpoint]) -> None:
        with self._lock:
            self._endpoints.update(dict.fromkeys(endpoints))
            while len(self._endpoints) > MOST_SLOW:
                self._endpoints.popitem(last=False)

    def discard(self, endpoints: Iterable[Endpoint]) -> None:
        with self._lock:
            for endpoint in set(endpoints):
                self._endpoints.pop(endpoint, None)


def _swapped(run: Run, cut_after: float, requests: Sequence[PassRequest]) -> Sequence[Answer]:
    return run(requests, cut_after)
