"""The policy ``slo`` in charge of jobs whose load changes, through the daemon's own parts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from testkit.builders.slots import STEP_MS, SharedCluster, held
from testkit.fakes.flink import FakeJob

PENDING = "Source__source_0.pendingRecords"
STEP = STEP_MS / 1000
"""Seconds between two passes."""
MINUTE = 6
"""Passes."""
SOURCE_RATE = 100_000.0
"""Records/s that a source can read."""

OPTIONS = {
    "job.autoscaler.policy": "slo",
    "job.autoscaler.slo.lag": "60 s",
    "job.autoscaler.restart.time": "20 s",
    "job.autoscaler.vertex.max-parallelism": "16",
}


class Arrivals(SharedCluster):
    """A cluster whose jobs keep waiting what they cannot do at once.

    Attributes:
        tells_lag: Whether sources tell how much waits.
        outage: Seconds for which a rescale stops a job, less than a pass.
        waiting: Records, by name of the job.
    """

    def __init__(
        self, slots: int, options: Mapping[str, str] | None = None, *, tells_lag: bool = True, outage: float = 0.0
    ) -> None:
        super().__init__(slots, {**OPTIONS, **(options or {})})
        self.tells_lag, self.outage = tells_lag, outage
        self.waiting: dict[str, float] = {}
        self._executions: dict[str, int] = {}
        self._busy = 0.0

    def _count(self, job: FakeJob) -> None:
        seconds = STEP
        if self._executions.get(job.name) != job.running_at_ms:  # in the time of these passes, and counted anew
            seconds -= self.outage if job.name in self._executions else 0.0
            began = STEP_MS * self.number - round(1000 * seconds)
            job.running_at_ms = self._executions[job.name] = max(began, 1)
            self.counted[job.name] = 0.0
        arriving, most = self.loads[job.name] or 0.0, 100.0 * job.vertices[1].parallelism
        there = self.waiting.get(job.name, 0.0) + arriving * STEP
        done = min(there, most * seconds)
        self.waiting[job.name] = there - done
        self.loads[job.name] = done / STEP
        super()._count(job)
        self.loads[job.name] = arriving
        source = job.vertices[0]
        self._busy += done / SOURCE_RATE * 1000.0
        source.busy_ms, source.metrics["busyTimeMsPerSecond"] = self._busy, done / STEP / SOURCE_RATE * 1000.0
        source.metrics.pop(PENDING, None)
        if self.tells_lag:
            source.metrics[PENDING] = self.waiting[job.name]


def figures(cluster: Arrivals, code: str) -> dict[str, float]:
    """Return the figures of a reason of the last pass that has it."""
    outcomes = (report.reports["main/orders"].outcome for report in reversed(cluster.reports))
    reasons = (reason for outcome in outcomes for reason in outcome.decision.reasons)
    return next(dict(reason.figures) for reason in reasons if reason.code == code)


def test_a_job_with_fewer_slots_than_it_is_to_have_takes_those_that_are_there_and_later_the_others() -> None:
    with Arrivals(4) as cluster:
        orders = cluster.add("orders", 1, load=60.0)
        cluster.run(15 * MINUTE)
        cluster.loads["orders"] = 600.0
        cluster.run(15 * MINUTE)
        narrow, asked = held(orders), cluster.asked("orders")
        cluster.slots = 12
        cluster.run_until(lambda: cluster.waiting["orders"] < 60 * 600.0, 90 * MINUTE)

    assert (narrow, asked[-1]) == (4, 4)
    assert sorted(asked) == asked
    assert held(orders) > 6


def test_a_job_that_is_too_large_is_made_smaller_and_one_that_tells_no_lag_is_not() -> None:
    sizes = []
    for tells_lag in (True, False):
        with Arrivals(12, tells_lag=tells_lag) as cluster:
            orders = cluster.add("orders", 8, load=150.0)
            cluster.run(60 * MINUTE)
            sizes.append(held(orders))

    assert sizes[0] in {2, 3}
    assert sizes[1] == 8


def late_seconds(limit: int) -> tuple[float, float]:
    """Let a rescale make a job late between two passes; return the seconds that are known of, and the greatest lag.

    Args:
        limit: Lag above which it is late, seconds.
    """
    options = {"job.autoscaler.slo.lag": f"{limit} s", "job.autoscaler.restart.time": "6 s"}
    lags = []
    with Arrivals(12, options, outage=6.0) as cluster:
        cluster.add("orders", 8, load=150.0)
        for _ in range(60 * MINUTE):
            cluster.run()
            lags.append(cluster.waiting["orders"] / 150.0)
        assert cluster.asked("orders") == [2]
        return figures(cluster, "SLO_BUDGET")["late_share"] * 3600.0, max(lags)


def test_what_a_rescale_makes_late_counts_although_it_is_over_before_the_next_pass() -> None:
    late, greatest = late_seconds(5)

    # After 6 s without work 150 records/s are 6 s behind, of which 200 that are done take away a third in each second.
    assert greatest < 5.0
    assert late == pytest.approx(1.0 + 3.0, abs=1.0)
    assert late_seconds(7)[0] == 0.0
