"""Which jobs share a Spark job: passes due together do, clusters that are slow or large leave the others alone.

A Spark job costs some tens of milliseconds whatever is in it, too much for each of two hundred small clusters. But a
shared job ends when its slowest cluster does. Therefore a cluster that takes long in a shared job is given up there and
read again in a job of the slow ones, where it stays until it is quick again. One that takes very long there, too, is
left to a third kind: where the machine is busy, healthy clusters look slow, and are not to wait for those that hang.
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

VERY_LONG: Final = 2.0
"""Of the seconds that an endpoint may take beside quick ones, those that it may take beside slow ones."""

MOST_SLOW: Final = 4096
"""Slow endpoints that are remembered; of more, those that were slow longest ago count as quick."""

_LANES: Final = ("spark-quick", "spark-slow", "spark-hanging")

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
        limits = (cut_after, VERY_LONG * cut_after, math.inf)
        self._lanes = tuple(map(partial(_Lane, run), _LANES, limits))
        self._slow = _Slow()

    def evaluate(self, requests: Sequence[PassRequest]) -> list[PassOutcome]:
        """Return one outcome per request of a pass, in the same order.

        Raises:
            SparkLostError: Spark failed.
        """
        if len(requests) > WHOLE_JOBS:
            return whole(self._run(requests, math.inf))
        lane_of = [self._slow.lane(request.context.endpoint) for request in requests]
        asked = [
            lane.ask(requests, [place for place, its in enumerate(lane_of) if its == number])
            for number, lane in enumerate(self._lanes)
        ]
        answers: dict[int, Answer] = {}
        cut: list[int] = []
        for lane, found in zip(self._lanes, asked, strict=True):
            again = lane.ask(requests, cut)
            answers |= found() | again()
            cut = [place for place, answer in answers.items() if answer.outcome is None]
        self._slow.note((requests[place].context.endpoint, self._lane(each.seconds)) for place, each in answers.items())
        return whole(answers[place] for place in range(len(requests)))

    @property
    def waiting(self) -> int:
        """Passes, or parts of them, that wait for a Spark job to be theirs."""
        return sum(len(lane.gathered) for lane in self._lanes)

    def close(self) -> None:
        """Give up everything that waits; whoever waits for it is told."""
        for lane in self._lanes:
            lane.gathered.close()

    def _lane(self, seconds: float) -> int:
        """Return the number of the lane for an endpoint that took so long."""
        return sum(seconds >= lane.limit for lane in self._lanes)


class _Lane:
    """Spark jobs of one kind: those in which an endpoint may take so many seconds."""

    def __init__(self, run: Run, name: str, limit: float) -> None:
        self.limit = limit
        self.gathered = _Gathered(lambda requests: run(requests, limit), name)

    def ask(self, requests: Sequence[PassRequest], places: Sequence[int]) -> Callable[[], dict[int, Answer]]:
        """Ask for some of the requests, and return what waits for the answers."""
        if not places:
            return dict
        future = self.gathered.submit([requests[place] for place in places])
        return lambda: dict(zip(places, future.result(), strict=True))


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
    """The lanes of endpoints that were slow when they were last read; of a bounded number of them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes: OrderedDict[Endpoint, int] = OrderedDict()

    def lane(self, endpoint: Endpoint) -> int:
        """Return the number of the lane that an endpoint was last slow enough for; 0 for one that was not slow."""
        with self._lock:
            return self._lanes.get(endpoint, 0)

    def note(self, lanes: Iterable[tuple[Endpoint, int]]) -> None:
        """Remember the lanes of endpoints; what is told about one last counts."""
        with self._lock:
            for endpoint, lane in lanes:
                self._lanes.pop(endpoint, None)
                if lane:
                    self._lanes[endpoint] = lane
            while len(self._lanes) > MOST_SLOW:
                self._lanes.popitem(last=False)
