"""The evaluation engine that takes Spark for many jobs, and the daemon's own process for few."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.inline.engine import InlineEngine, with_settled
from flink_autoscaler.pipeline.spark.live import SparkEngine

STAY: Final = 0.8
"""Share of the number of jobs from which Spark is taken, down to which it is kept."""

REMEMBERED: Final = 900.0
"""Seconds for which the jobs of a cluster count that is not asked about any more."""


class AutoEngine:
    """Chooses for each pass (an ``EvaluationEngine``), by the jobs to be read that the whole daemon has.

    The two engines belong to the caller, who closes them. Thread-safe.

    Args:
        spark: Takes the passes of many jobs; not started before there are so many.
        inline: Takes those of few.
        min_jobs: Jobs from which Spark is taken.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        spark: SparkEngine,
        inline: InlineEngine,
        *,
        min_jobs: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._inline = inline
        self._min_jobs = min_jobs
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[str, tuple[int, float]] = {}
        self._takes_spark = False
        self._starts_aside = False

    def start(self) -> None:
        """Let Spark, once it is needed, start in the background."""
        self._starts_aside = True

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return one outcome per request, in the same order.

        Raises:
            ConnectError: The event loop of the inline engine is closed.
        """
        return with_settled(requests, self._evaluate)

    def close(self) -> None:
        """Do nothing: the engines belong to the caller."""

    def _evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        if not self._is_spark_worth(requests[0].context.cluster, len(requests)):
            return self._inline.evaluate_open(requests, f"auto: fewer than {self._min_jobs} jobs")
        if self._starts_aside:
            self._spark.start()
        return self._spark.evaluate_open(requests, f"auto: {self._min_jobs} jobs or more")

    def _is_spark_worth(self, cluster: str, jobs: int) -> bool:
        now = self._clock()
        with self._lock:
            self._jobs[cluster] = jobs, now
            self._jobs = {name: seen for name, seen in self._jobs.items() if now - seen[1] < REMEMBERED}
            total = sum(count for count, _ in self._jobs.values())
            self._takes_spark = total >= self._min_jobs * (STAY if self._takes_spark else 1.0)
            return self._takes_spark
