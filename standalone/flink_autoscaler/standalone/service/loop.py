"""The loop: one schedule per cluster, until somebody says stop."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, JobSubmissionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from flink_autoscaler.pipeline.engine.garbage import Garbage
from flink_autoscaler.standalone.daemon.clock_jumps import ClockJumpGuard, CoalescingInterval
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.pass_reporter import PassReporter

log = structlog.get_logger(__name__)

HEARTBEAT: Final = 5.0
"""Seconds; each one wakes two threads, which takes a daemon at rest as long as five jobs do."""

HEARTBEATS_MISSED: Final = 3
_HEARTBEAT: Final = "heartbeat"
_PASSES: Final = "passes"
_MAX_CLUSTERS: Final = 10_000
"""Threads are made only when none is idle: the number costs nothing, and clusters that are added later have theirs."""


@dataclass(frozen=True)
class ClusterSchedule:
    """A cluster to manage: its passes, who tells about them, and the seconds from one start to the next."""

    passes: ClusterPass
    reporter: PassReporter
    interval: float


class Daemon:
    """Runs the passes of all clusters, each on its own schedule.

    A pass that takes longer than its interval is not started a second time: what was due meanwhile is left out, and
    the daemon says so. No exception ends a schedule, and no step of the clock holds one up. Clusters come, change and
    go while the others go on.

    Args:
        watches: The clusters to begin with.
        gauges: Told about overruns, and which clusters have gone.
        on_left: Takes a watch that has run its last pass, or never will run any; from any thread.
        on_report: Takes what a pass came to, after it was announced; from the thread of the pass.
    """

    def __init__(
        self,
        watches: Sequence[ClusterSchedule],
        *,
        gauges: Gauges,
        on_left: Callable[[ClusterSchedule], None] = lambda _: None,
        on_report: Callable[[PassReport], None] = lambda _: None,
    ) -> None:
        self._gauges = gauges
        self._on_removed = on_left
        self._on_report = on_report
        self._changed = threading.Condition()
        self._schedules = {watch.passes.cluster: watch for watch in watches}
        self._scheduled: dict[str, ClusterSchedule] = {}
        self._running: set[str] = set()
        # What follows the pass that runs: another watch of the cluster, or nothing.
        self._replacements: dict[str, ClusterSchedule | None] = {}
        # Of clusters that have gone while work on a job was still under way.
        self._unfinished: dict[str, ClusterPass] = {}
        self._late: set[str] = set()
        self._generations = itertools.count()
        self._is_stopping = False
        self._is_abandoned = False
        self._heartbeat = time.monotonic()
        self._garbage = Garbage()
        executors = {_PASSES: ThreadPoolExecutor(_MAX_CLUSTERS), _HEARTBEAT: ThreadPoolExecutor(1)}
        self._scheduler = BackgroundScheduler(timezone=UTC, executors=executors)
        self._scheduler.add_listener(self._on_overrun, EVENT_JOB_MAX_INSTANCES)
        self._clock_watch = ClockJumpGuard(self._scheduler)

    def start(self) -> None:
        """Begin; the first pass of every cluster starts at once."""
        with self._changed:
            for watch in self._schedules.values():
                self._schedule(watch)
        self._add(_HEARTBEAT, self._record_heartbeat, HEARTBEAT, executor=_HEARTBEAT)
        self._scheduler.start()
        self._clock_watch.start()

    def add_or_replace(self, watch: ClusterSchedule) -> None:
        """Manage a cluster from now on. One of the same name is replaced between two passes and keeps its jobs."""
        cluster = watch.passes.cluster
        with self._changed:
            if cluster in self._schedules:
                left = self._replace(cluster, watch)
            else:
                left = []
                self._start_schedule(watch, self._unfinished.pop(cluster, None))
        self._notify_removed(left)

    def remove(self, cluster: str) -> None:
        """Manage a cluster no more. The pass that runs ends first."""
        with self._changed:
            left = self._replace(cluster, None) if cluster in self._schedules else []
        self._notify_removed(left)

    def is_alive(self) -> bool:
        """Tell whether schedules are still being kept, or the last passes are coming to their end."""
        return self._is_stopping or time.monotonic() - self._heartbeat < HEARTBEAT * HEARTBEATS_MISSED

    def stop(self, grace: float) -> bool:
        """Start no more passes and wait for those that run, so many seconds at most.

        Returns:
            Whether all passes have ended, and what they began for single jobs, too.
        """
        self._is_stopping = True
        self._clock_watch.stop()
        self._scheduler.shutdown(wait=False)
        with self._changed:
            has_ended = self._changed.wait_for(lambda: not self._running, timeout=grace)
            passes = [*(watch.passes for watch in self._schedules.values()), *self._unfinished.values()]
        is_idle = has_ended and all(each.is_idle() for each in passes)
        # What goes wrong from here on is the shutdown's doing and would mislead.
        self._is_abandoned = not is_idle
        return is_idle

    def _replace(self, cluster: str, successor: ClusterSchedule | None) -> list[ClusterSchedule]:
        """Let a watch be followed by another one, or by none, and return those that have left."""
        for identity in [key for key, each in self._scheduled.items() if each.passes.cluster == cluster]:
            del self._scheduled[identity]
            self._scheduler.remove_job(identity)
        never_begun = self._replacements.pop(cluster, None)
        left = [] if never_begun is None else [never_begun]
        if cluster in self._running:
            self._replacements[cluster] = successor
            return left
        return [*left, self._hand_over(cluster, successor)]

    def _hand_over(self, cluster: str, successor: ClusterSchedule | None) -> ClusterSchedule:
        before = self._schedules.pop(cluster)
        self._late.discard(cluster)
        if successor is not None:
            self._start_schedule(replace(successor, reporter=before.reporter), before.passes)
            return before
        self._gauges.forget_cluster(cluster)
        before.passes.forget_jobs()
        self._unfinished = {name: passes for name, passes in self._unfinished.items() if not passes.is_idle()}
        if not before.passes.is_idle():
            self._unfinished[cluster] = before.passes
        return before

    def _start_schedule(self, watch: ClusterSchedule, before: ClusterPass | None) -> None:
        if before is not None:
            watch.passes.take_over(before)
        self._schedules[watch.passes.cluster] = watch
        self._schedule(watch)

    def _notify_removed(self, watches: Iterable[ClusterSchedule]) -> None:
        for watch in watches:
            try:
                self._on_removed(watch)
            except Exception:
                log.exception("close_failed", cluster=watch.passes.cluster)

    def _schedule(self, watch: ClusterSchedule) -> None:
        # A name of its own: what is left of an earlier schedule of the cluster does not count as an overrun.
        identity = f"{next(self._generations)}:{watch.passes.cluster}"
        self._scheduled[identity] = watch
        self._add(identity, self._run_pass, watch.interval, watch, executor=_PASSES)

    def _add(self, identity: str, function: Callable[..., None], interval: float, *args: object, executor: str) -> None:
        self._scheduler.add_job(
            function,
            CoalescingInterval(interval),
            args,
            id=identity,
            executor=executor,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
            next_run_time=datetime.now(UTC),
        )

    def _run_pass(self, watch: ClusterSchedule) -> None:
        cluster = watch.passes.cluster
        with self._changed:
            if self._schedules.get(cluster) is not watch:  # replaced since it was due
                return
            self._running.add(cluster)
        report: PassReport | None = None
        try:
            report = watch.passes.run()
            if not self._is_abandoned:
                watch.reporter.report(report)
                self._on_report(report)
                self._check_duration(report, watch.interval)
        except Exception:
            # The schedule goes on whatever a plug-in's text, name or number did to the announcement.
            log.exception("pass_failed", cluster=cluster)
        finally:
            self._end_pass(cluster)
            report = None
            self._garbage.after_pass()

    def _end_pass(self, cluster: str) -> None:
        left = []
        with self._changed:
            self._running.discard(cluster)
            if cluster in self._replacements and not self._is_stopping:
                left.append(self._hand_over(cluster, self._replacements.pop(cluster)))
            self._changed.notify_all()
        self._notify_removed(left)

    def _record_heartbeat(self) -> None:
        self._heartbeat = time.monotonic()

    def _on_overrun(self, event: JobSubmissionEvent) -> None:
        with self._changed:
            watch = self._scheduled.get(event.job_id)
            if watch is None:
                return
            cluster = watch.passes.cluster
            self._gauges.record_overrun(cluster)
            is_news = cluster not in self._late
            self._late.add(cluster)
        if is_news:
            log.warning("pass_overran", cluster=cluster, interval=watch.interval)

    def _check_duration(self, report: PassReport, interval: float) -> None:
        if report.cluster in self._late and report.seconds < interval:
            self._late.discard(report.cluster)
            log.info(
                "pass_overrun_recovered", cluster=report.cluster, seconds=round(report.seconds, 3), interval=interval
            )
