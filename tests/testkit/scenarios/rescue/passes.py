"""The passes of the daemon over one real cluster, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from flink_autoscaler.core.autoscaler import ALWAYS, JobAutoScaler
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import AutoScalerStateStore, ScalingRealizer
from flink_autoscaler.core.ports.passes import PassRequest, Recorded
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass, PassDependencies, PassReport
from flink_autoscaler.standalone.daemon.vanished import VanishedJobs
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.stores import HeapStateStore
from flink_autoscaler.stores.heap import HeapTombstones
from testkit.clusters.flink import FlinkCluster, HarnessError, job
from testkit.scenarios.rescue.telling import Telling, Told
from testkit.scenarios.watching.wired import settings_of

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


def _unchanged(realizer: ScalingRealizer) -> ScalingRealizer:
    return realizer


def _patient(autoscaler: JobAutoScaler, settings: Settings) -> VanishedJobs:
    """Keep the state of jobs that are gone for as long as the daemon does."""
    gone = settings.jobs_gone
    return VanishedJobs(
        "e2e", autoscaler=autoscaler, tombstones=HeapTombstones(), grace=gone.grace, retention=gone.retention
    )


class _WithOrders(JobAutoScaler):
    """Gives every request what the test ordered."""

    orders: Orders = NO_ORDERS

    def request(
        self,
        context: JobAutoScalerContext,
        now_ms: int,
        *,
        term: int | None = ALWAYS,
        orders: Orders = NO_ORDERS,
        recorded: Recorded | None = None,
    ) -> PassRequest:
        """Return what an engine needs to look at a job, with the orders of the test."""
        given = orders if self.orders is NO_ORDERS else self.orders
        return super().request(context, now_ms, term=term, orders=given, recorded=recorded)


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
        realizer: Callable[[ScalingRealizer], ScalingRealizer] = _unchanged,
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
        self._telling = Telling()
        self._options = dict(options or {})
        self._wrap = realizer
        self._selects = selects
        self._open = ExitStack()

    def __enter__(self) -> Self:
        values = {
            **FAST_OPTIONS,
            "autoscaler.clusters.0.name": "e2e",
            "autoscaler.clusters.0.url": self.cluster.rest_url,
            **self._options,
        }
        settings = settings_of(values)
        watched = settings.effective_clusters()[0]
        wiring = self._open.enter_context(Wiring(settings))
        self._autoscaler = _WithOrders(
            store=self.store, realizer=self._wrap(wiring.realizer), event_handler=self._telling
        )
        self._passes = ClusterPass(
            watched.name,
            fetcher=wiring.fetcher(watched),
            engine=wiring.engine_of(watched),
            autoscaler=self._autoscaler,
            parallelism=2,
            deadline=settings.engine.pass_deadline,
            selects=self._selects,
            dependencies=PassDependencies(vanished=_patient(self._autoscaler, settings)),
        )
        self._open.callback(self._passes.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def told(self) -> list[Told]:
        """All events so far."""
        return self._telling.told

    @property
    def seconds(self) -> float:
        """Time since the passes were prepared."""
        return self._telling.seconds

    @property
    def orders(self) -> Orders:
        """What people ordered for every job."""
        return self._autoscaler.orders

    @orders.setter
    def orders(self, orders: Orders) -> None:
        self._autoscaler.orders = orders

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
