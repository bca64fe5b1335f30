"""The loop: one schedule per cluster, until somebody says stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, JobSubmissionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from flink_autoscaler.standalone.announcer import Announcer
from flink_autoscaler.standalone.cluster_pass import ClusterPass, PassReport
from flink_autoscaler.standalone.gauges import Gauges

log = structlog.get_logger(__name__)

HEARTBEAT = 1.0
HEARTBEATS_MISSED = 15
_HEARTBEAT_ID = "heartbeat"
_CLUSTER_ID = "cluster:"


@dataclass(frozen=True)
class Watch:
    """A cluster to look after: its passes, who tells about them, and the seconds from one start to the next."""

    passes: ClusterPass
    announcer: Announcer
    interval: float


class Daemon:
    """Runs the passes of all clusters, each on its own schedule.

    A pass that takes longer than its interval is not started a second time: what was due meanwhile is left out, and
    the daemon says so. No exception ends a schedule.
    """

    def __init__(self, watches: Sequence[Watch], *, gauges: Gauges) -> None:
        self._watches = {watch.passes.cluster: watch for watch in watches}
        self._gauges = gauges
        self._late: set[str] = set()
        self._running = 0
        self._is_stopping = False
        self._is_abandoned = False
        self._idle = threading.Condition()
        self._heartbeat = time.monotonic()
        # One thread per cluster and one for the heartbeat: none ever waits for another.
        executor = ThreadPoolExecutor(len(watches) + 1)
        self._scheduler = BackgroundScheduler(timezone=UTC, executors={"default": executor})
        self._scheduler.add_listener(self._on_overrun, EVENT_JOB_MAX_INSTANCES)

    def start(self) -> None:
        """Begin; the first pass of every cluster starts at once."""
        for cluster, watch in self._watches.items():
            self._schedule(_CLUSTER_ID + cluster, self._run_pass, watch.interval, watch)
        self._schedule(_HEARTBEAT_ID, self._beat, HEARTBEAT)
        self._scheduler.start()

    def is_alive(self) -> bool:
        """Tell whether schedules are still being kept, or the last passes are coming to their end."""
        return self._is_stopping or time.monotonic() - self._heartbeat < HEARTBEAT * HEARTBEATS_MISSED

    def stop(self, grace: float) -> bool:
        """Start no more passes and wait for those that run.

        Args:
            grace: Seconds to wait at most.

        Returns:
            Whether all passes have ended, and what they began for single jobs, too.
        """
        self._is_stopping = True
        self._scheduler.shutdown(wait=False)
        with self._idle:
            has_ended = self._idle.wait_for(lambda: self._running == 0, timeout=grace)
        is_idle = has_ended and all(watch.passes.is_idle() for watch in self._watches.values())
        # What goes wrong from here on is the shutdown's doing and would mislead.
        self._is_abandoned = not is_idle
        return is_idle

    def _schedule(self, identity: str, function: Callable[..., None], interval: float, *args: object) -> None:
        self._scheduler.add_job(
            function,
            IntervalTrigger(seconds=interval, timezone=UTC),
            args,
            id=identity,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
            next_run_time=datetime.now(UTC),
        )

    def _run_pass(self, watch: Watch) -> None:
        with self._idle:
            self._running += 1
        try:
            report = watch.passes.run()
            if not self._is_abandoned:
                watch.announcer.announce(report)
                self._note_duration(report, watch.interval)
        except Exception:
            # The schedule goes on whatever a plug-in's text, name or number did to the announcement.
            log.exception("pass_failed", cluster=watch.passes.cluster)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def _beat(self) -> None:
        self._heartbeat = time.monotonic()

    def _on_overrun(self, event: JobSubmissionEvent) -> None:
        cluster = event.job_id.removeprefix(_CLUSTER_ID)
        watch = self._watches.get(cluster)
        if watch is None:
            return
        self._gauges.record_overrun(cluster)
        if cluster not in self._late:
            self._late.add(cluster)
            log.warning("pass_overran", cluster=cluster, interval=watch.interval)

    def _note_duration(self, report: PassReport, interval: float) -> None:
        if report.cluster in self._late and report.seconds < interval:
            self._late.discard(report.cluster)
            log.info("pass_in_time_again", cluster=report.cluster, seconds=round(report.seconds, 3), interval=interval)
