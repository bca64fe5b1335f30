"""The passes of the daemon over one real cluster, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final, Self

from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import AutoScalerStateStore, ScalingRealizer
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.stores import HeapStateStore
from testkit.clusters.flink import FlinkCluster, HarnessError, job
from testkit.scenarios.rescue.telling import Telling, Told
from testkit.scenarios.runner.wired import passes_over

FAST_OPTIONS: Final[Mapping[str, str]] = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "6 s",
    "job.autoscaler.stabilization.interval": "3 s",
    "job.autoscaler.scale-down.interval": "0",
    "job.autoscaler.restart.time": "3 s",
    "job.autoscaler.catch-up.duration": "30 s",
    "job.autoscaler.utilization.target": "0.7",
    "job.autoscaler.metrics.busy-time.aggregator": "AVG",
    "job.autoscaler.rollback.observation-window": "10 s",
    "autoscaler.standalone.control-loop.interval": "1 s",
    "autoscaler.engine.kind": "inline",
}
"""Waits that are right for production and too long for a test."""

ONLY_WORK: Final[Mapping[str, str]] = {"job.autoscaler.vertex.bounds": f"{job.SOURCE_VERTEX}=1..1;sink: *=1..1"}
"""Holds source and sink of the scaling job, so that its work vertex alone is scaled."""

INTERVAL: Final = 1.0
"""Seconds between two passes."""


class SupervisedPasses:
    """Fetcher, client, engine, autoscaler and realizer of the daemon, driven pass by pass; a context manager.

    Attributes:
        told: All events so far, in order.
        orders: What people ordered for every job; set it at any time.
        store: The states of jobs; hand it to later passes to be a daemon that was started again.
        reports: What every pass came to.
    """

    def __init__(
        self,
        cluster: FlinkCluster,
        options: Mapping[str, str] | None = None,
        *,
        store: AutoScalerStateStore | None = None,
        realizer: Callable[[ScalingRealizer], ScalingRealizer] = lambda realizer: realizer,
        selects: Callable[[JobAutoScalerContext], bool] = lambda _: True,
    ) -> None:
        """Prepare passes; nothing is sent yet.

        Args:
            cluster: A running cluster.
            options: Settings that win over :data:`FAST_OPTIONS`.
            store: Where the states of jobs are; an empty one of its own by default.
            realizer: Gives what is called instead of the realizer of the daemon, such as a wrapper that fails.
            selects: Tells which jobs to look at.
        """
        self.cluster = cluster
        self.store = HeapStateStore() if store is None else store
        self.reports: list[PassReport] = []
        self.orders: Orders = NO_ORDERS
        self._telling = Telling()
        self._options = dict(options or {})
        self._wrap = realizer
        self._selects = selects
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._passes = passes_over(
            self.cluster.rest_url,
            {**FAST_OPTIONS, **self._options},
            self._open,
            store=self.store,
            told=self._telling,
            orders=lambda: self.orders,
            realizer=self._wrap,
            selects=self._selects,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def told(self) -> list[Told]:
        """All events so far."""
        return self._telling.told

    @property
    def seconds(self) -> float:
        """Time since the passes were prepared."""
        return self._telling.seconds

    def reasons(self, *left_out: str) -> list[str]:
        """Return the reasons of all events in order, without those left out."""
        return [each.event.reason for each in self.told if each.event.reason not in left_out]

    def messages(self, reason: str) -> list[str]:
        """Return the messages of all events with a reason."""
        return [each.event.message for each in self.told if each.event.reason == reason]

    def state(self) -> JobState:
        """Return what is remembered about the only job."""
        (job_key,) = self.store.job_keys()
        return self.store.load(job_key)

    def supervision(self) -> Supervision:
        """Return what is remembered about the rescales of the only job."""
        return self.state().supervision

    def hold_codes(self) -> set[str]:
        """Return the codes of why the last pass decided what it did."""
        reports = self.reports[-1].reports.values() if self.reports else ()
        return {reason.code for report in reports for reason in report.outcome.decision.reasons}

    def run(self) -> PassReport:
        """Do one pass now."""
        report = self._passes.run()
        self.reports.append(report)
        return report

    def until(self, description: str, is_reached: Callable[[], object], *, timeout: float = 300.0) -> None:
        """Do a pass every second until a condition holds, which is looked at between passes.

        Raises:
            HarnessError: Not in time; with the events and the last decisions.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            next_pass = time.monotonic() + INTERVAL
            self.run()
            while True:
                if is_reached():
                    return
                if time.monotonic() >= next_pass:
                    break
                time.sleep(0.05)
        seen = f"{self.timeline()}\n{self._last_passes()}\n{self.cluster.log_tails()}"
        raise HarnessError(f"not within {timeout:g} s: {description}\n{seen}")

    def until_told(self, reason: str, *, count: int = 1, timeout: float = 300.0) -> Told:
        """Do passes until an event with a reason was told so many times; return the latest one of them."""
        self.until(f"event {reason}", lambda: len(self.messages(reason)) >= count, timeout=timeout)
        return [each for each in self.told if each.event.reason == reason][count - 1]

    def repeat(self, count: int) -> None:
        """Do some passes at the usual distance, to see that nothing happens."""
        wanted = len(self.reports) + count
        self.until(f"{count} passes", lambda: len(self.reports) >= wanted, timeout=60.0 + 10 * count)

    def work_parallelism(self, job_id: str) -> int:
        """Return with what parallelism the work vertex runs; 0 while not all tasks run."""
        is_running = self.cluster.rest.all_tasks_running(job_id)
        return self.cluster.rest.parallelism(job_id)[job.WORK_VERTEX] if is_running else 0

    def timeline(self) -> str:
        """Return all events with their times, one per line."""
        return "\n".join(map(str, self.told)) or "(no event)"

    def show(self, title: str) -> None:
        """Print the timeline; pytest shows it with ``-s`` or ``-rP``."""
        print(f"\n--- {title}, Flink {self.cluster.version}\n{self.timeline()}")

    def _last_passes(self) -> str:
        lines = []
        for report in self.reports[-5:]:
            lines += [f"pass: {report.error}"] if report.error else []
            lines += [f"{r.outcome.phase}: {r.outcome.decision}; errors {r.errors}" for r in report.reports.values()]
        return "\n".join(lines)
