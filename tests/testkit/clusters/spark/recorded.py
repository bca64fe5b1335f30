"""A Spark engine that is looked at while things happen to its cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.spark.live import SparkEngine
from flink_autoscaler.pipeline.spark.session import PassSession, open_driver
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from testkit.builders.pipeline import JOB_DEADLINE, Fleet, comparable
from testkit.clusters.flink.waiting import wait_until

PASS_DEADLINE = 20.0
START_SECONDS = 240.0
"""A busy machine takes its time to start Spark."""


class Recorded:
    """An engine whose sessions and fallbacks are remembered."""

    def __init__(self, settings: SparkSettings, fleet: Fleet) -> None:
        self.sessions: list[PassSession] = []
        self.fallbacks: list[str] = []
        self._fleet = fleet
        self.engine = SparkEngine(
            settings,
            fleet.inline,
            job_deadline=JOB_DEADLINE,
            pass_deadline=PASS_DEADLINE,
            on_fallback=self.fallbacks.append,
            opener=self._open,
        )

    def wait_for_spark(self) -> None:
        """Send passes until one runs on Spark; forgets the fallbacks before it."""

        def passes_on_spark() -> bool:
            self.fallbacks.clear()
            self.engine.evaluate([self._fleet.add("warm-up")])
            return not self.fallbacks

        wait_until("a pass on Spark", passes_on_spark, START_SECONDS, context=lambda: str(self.fallbacks))

    def _open(self, settings: SparkSettings) -> PassSession:
        self.sessions.append(open_driver(settings))
        return self.sessions[-1]


def evaluate_while(
    recorded: Recorded, fleet: Fleet, requests: Sequence[PassRequest], action: Callable[[], object]
) -> Sequence[PassOutcome]:
    """Run a pass, and do something as soon as its tasks have asked for the first job."""
    fleet.flink.requests.clear()
    asked = str(requests[0].context.job_id)

    def act() -> None:
        wait_until("the pass polls", lambda: any(asked in path for path in fleet.flink.paths()), 300, interval=0.01)
        action()

    thread = threading.Thread(target=act)
    thread.start()
    outcomes = recorded.engine.evaluate(requests)
    thread.join()
    return outcomes


def comparables(outcomes: Sequence[PassOutcome]) -> list[object]:
    """Return outcomes as values that can be compared."""
    return [comparable(outcome) for outcome in outcomes]
