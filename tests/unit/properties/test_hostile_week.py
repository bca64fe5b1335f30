"""Days with metrics that invite endless rescaling: how often a job is rescaled, with the filters and without."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.outcome import without_reading
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, RescaleFacts, TaskManagerFacts
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.model.topology import IoMetrics
from flink_autoscaler.core.ports.passes import PassRequest
from testkit.builders.core import a_cluster, a_context, a_reading, a_vertex, source_answers, vertex_id

VERTEX: Final = vertex_id(1)
MINUTE, DAY = 60_000, 86_400_000
PASS = 10 * MINUTE
DAYS = 3
MOST = 24
BUDGET = 24
FOR_UP_ONLY = BUDGET // 4

OPTIONS: Mapping[str, str] = {
    "metrics.window": "20 min",
    "stabilization.interval": "5 min",
    "scale-down.interval": "0",
    "scale-down.max-factor": "1",
    "catch-up.duration": "0",
    "utilization.max": "0.8",
    "utilization.min": "0.6",
    "vertex.min-parallelism": "1",
    "vertex.max-parallelism": str(MOST),
}
"""Nothing of what usually waits: a scale-down may follow at once."""

Load = Callable[["HostileJob"], tuple[float, float]]
"""Records/s that are said to arrive, and the busy time in ms/s that is said to be needed for them."""


@dataclass
class HostileJob:
    """A job of one vertex that says what it is told to say, and takes every rescale at once.

    Attributes:
        rescales: Instant, parallelism before and after, of every decision.
    """

    load: Load
    options: Mapping[str, str] = field(default_factory=dict)
    parallelism: int = 4
    now_ms: int = 100 * DAY
    running_ms: int = 100 * DAY
    records: float = 0.0
    state: JobState = EMPTY_STATE
    rescales: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def rescaled(self) -> int:
        """Rescales so far."""
        return len(self.rescales)

    def live(self, days: int) -> None:
        for _ in range(days * DAY // PASS):
            self._look()

    def _look(self) -> None:
        self.now_ms += PASS
        rate, busy_ms = self.load(self)
        self.records += rate * PASS / 1000
        request = PassRequest(a_context({**OPTIONS, **self.options}), self.state, self.now_ms)
        outcome = without_reading(request) or advance(request, self._reading(rate, busy_ms), a_cluster())
        self.state = outcome.state
        if isinstance(outcome.decision, Rescale):
            self._take(outcome.target.parallelism[VERTEX])

    def _take(self, parallelism: int) -> None:
        self.rescales.append((self.now_ms, self.parallelism, parallelism))
        self.parallelism, self.running_ms, self.records = parallelism, self.now_ms + 1, 0.0

    def _reading(self, rate: float, busy_ms: float) -> JobReading:
        io = IoMetrics(records_in=round(self.records), records_out=round(self.records))
        vertex = a_vertex(1, parallelism=self.parallelism, io=io)
        answers = {VERTEX: source_answers(busy_ms=busy_ms, rate=rate)}
        reading = a_reading([vertex], answers, running_at_ms=self.running_ms)
        return replace(reading, facts=self._facts())

    def _facts(self) -> RescaleFacts:
        asked = self.state.overrides.get(VERTEX, self.parallelism)
        return RescaleFacts(
            now_ms=self.now_ms,
            initialized_ms=1,
            running={VERTEX: self.parallelism},
            all_running=True,
            requirements={VERTEX: (1, asked)},
            exceptions=(),
            checkpoints=CheckpointFacts(self.now_ms, 10**9, 60_000),
            taskmanagers=(TaskManagerFacts("tm-1", 32, 8),),
            restarts=0,
        )


def oscillating(job: HostileJob) -> tuple[float, float]:
    """A load whose period is barely longer than the window."""
    rate = 1_000 + 900 * math.sin(2 * math.pi * job.now_ms / (70 * MINUTE))
    return rate, min(1000.0, rate / job.parallelism)


def jumping(job: HostileJob) -> tuple[float, float]:
    """A constant load, for which the busy time is reported tenfold every other half an hour."""
    is_high = job.now_ms // (30 * MINUTE) % 2
    return 500.0, 900.0 if is_high else 90.0


def greedy(job: HostileJob) -> tuple[float, float]:
    """A job that is always saturated, whatever it gets, and forgets that every other hour."""
    return 500.0, 1000.0 if job.now_ms // (60 * MINUTE) % 2 else 50.0


def flipping(job: HostileJob) -> tuple[float, float]:
    """A job that says after each rescale the contrary of what it said before."""
    return 500.0, 950.0 if job.rescaled % 2 else 100.0


FILTERS_OFF = {"rescale-filters.enabled": "false"}


def most_in_a_day(job: HostileJob) -> int:
    """Return the greatest number of rescales within any 24 hours."""
    instants = [at for at, _, _ in job.rescales]
    return max((sum(start <= at < start + DAY for at in instants) for start in instants), default=0)


def most_downs_beyond(job: HostileJob, allowed: int) -> int:
    """Return how many scale-downs came when that many rescales of their day were used up already."""
    rescales = job.rescales
    return sum(
        after < before and sum(at - DAY < earlier < at for earlier, _, _ in rescales) >= allowed
        for at, before, after in rescales
    )


def reversals(job: HostileJob) -> int:
    """Return how many scale-downs were followed by a scale-up within an hour."""
    pairs = zip(job.rescales, job.rescales[1:], strict=False)
    return sum(a[2] < a[1] and b[2] > b[1] and b[0] - a[0] <= 60 * MINUTE for a, b in pairs)


@pytest.mark.parametrize("load", [oscillating, jumping, greedy, flipping], ids=lambda load: load.__name__)
def test_rescales_keep_within_their_budget_however_hostile_the_metrics_are(load: Load) -> None:
    calm, wild = HostileJob(load), HostileJob(load, FILTERS_OFF)

    for job in (calm, wild):
        job.live(DAYS)

    print(
        f"\n{load.__name__}: rescales in {DAYS} days {calm.rescaled}, most in 24 h {most_in_a_day(calm)}, reversals "
        f"{reversals(calm)}; without any filter {wild.rescaled}, {most_in_a_day(wild)}, {reversals(wild)}"
    )
    assert most_in_a_day(wild) > BUDGET
    assert most_in_a_day(calm) <= BUDGET
    assert most_downs_beyond(calm, BUDGET - FOR_UP_ONLY) == 0
    assert reversals(calm) < reversals(wild)
    assert all(1 <= after <= MOST for job in (calm, wild) for _, _, after in job.rescales)
