"""One demo from nothing to the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from demo.daemon import DEFAULT_ENGINE, PASSES, DaemonPages, DaemonProcess, configuration
from demo.job_watch import JobPoller
from demo.plan import LEAD_IN, SLOTS, DemoPlan
from demo.screen import Frame, Screen
from demo.stop_signals import StoppedError, StopSignals
from demo.story import LogReader, Story, shortfalls
from testkit.clusters.flink import FlinkCluster
from testkit.clusters.flink import job as scaling_job
from testkit.clusters.flink.distribution import distribution
from testkit.clusters.flink.waiting import wait_until

FLINK_VERSION = "2.3"
OVERTIME = 60.0
"""Seconds after the end of the curve in which what is missing may still happen, on a slow machine."""
_DAEMON_TIMEOUT = 120.0
_POLL_INTERVAL = 1.0


@dataclass
class Show:
    """Runs the demo once.

    Attributes:
        plan: The script.
        directory: Where logs and configurations go; the caller decides what becomes of them.
        console: Where to tell about it.
        engine: Where the daemon evaluates: ``spark`` or ``inline``.
        story: What happened, also when the run was cut short; empty before the job runs.
        start: Second 0 of the curve, epoch seconds.
        totals: The daemon's own counters at the end; empty when it was not asked.
        screen: Who shows the frames; None takes what fits the console.
        is_kept: Whether Flink and the daemon stay at the end, until somebody ends the demo.
    """

    plan: DemoPlan
    directory: Path
    console: Console
    engine: str = DEFAULT_ENGINE
    story: Story = field(default_factory=Story)
    start: float = 0.0
    totals: dict[str, float] = field(default_factory=dict)
    screen: Screen | None = None
    is_kept: bool = False

    def run(self, signals: StopSignals) -> list[str]:
        """Run everything, stop everything; return what is missing for a success.

        Raises:
            HarnessError: Flink or the daemon did not start, or ended on its own.
        """
        with ExitStack() as parts:
            cluster = self._start_cluster(parts)
            daemon, log, pages = self._start_daemon(cluster, parts)
            watch = self._submit(cluster)
            self.story.vertices = watch.vertices

            def require_running() -> None:
                daemon.require_running()
                cluster.require_running()

            self._watch(self.story, watch, log, require_running)
            self.totals = pages.totals()
            if self.is_kept:
                self._stay(pages.url, require_running)
            signals.tidy_up()
        found = shortfalls(self.story, self.plan.drained_lag)
        if self.engine == DEFAULT_ENGINE and not self.totals.get(f"{PASSES} on {DEFAULT_ENGINE}"):
            found.append("no pass ran on Spark, as far as the daemon told")
        return found

    def _stay(self, url: str, require_running: Callable[[], None]) -> None:
        """Leave everything running until somebody ends it; the verdict comes then."""
        self._say(f"the daemon's page stays: {url} (Ctrl-C ends it)")
        with suppress(StoppedError):
            while True:
                require_running()
                time.sleep(_POLL_INTERVAL)

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _start_cluster(self, parts: ExitStack) -> FlinkCluster:
        release = distribution(FLINK_VERSION).release
        scaling_job.build(FLINK_VERSION)
        self._say(f"starting Flink {release} with the adaptive scheduler, one TaskManager of {SLOTS} slots")
        cluster = FlinkCluster(FLINK_VERSION, slots=SLOTS, directory=self.directory / "flink")
        parts.enter_context(cluster)
        self._say(f"Flink's own page: {cluster.rest_url}")
        return cluster

    def _start_daemon(self, cluster: FlinkCluster, parts: ExitStack) -> tuple[DaemonProcess, LogReader, DaemonPages]:
        config = configuration(cluster.rest_url, self.plan.options, self.engine)
        daemon = parts.enter_context(DaemonProcess(config, self.directory))
        self._say(f"starting flink-autoscaler run --config {daemon.config_file} ({self.engine} engine)")
        log = LogReader(daemon.log_file)

        def listening() -> str:
            daemon.require_running()
            return next((each["url"] for each in log.new_records() if each.get("event") == "http_listening"), "")

        def is_ready() -> bool:
            daemon.require_running()
            return pages.is_ready()

        url = wait_until("the daemon listens", listening, _DAEMON_TIMEOUT)
        self._say(f"the daemon's page: {url}")
        pages = DaemonPages(url)
        wait_until("the daemon has looked at the cluster", is_ready, _DAEMON_TIMEOUT)
        return daemon, log, pages

    def _submit(self, cluster: FlinkCluster) -> JobPoller:
        self._say(f"submitting the job; arrivals follow {self.plan.curve} (second:records/s)")
        start_ms = int((time.time() + LEAD_IN) * 1000)
        self.start = start_ms / 1000
        return JobPoller(cluster.rest, scaling_job.submit(cluster, self.plan.job(start_ms)))

    def _watch(self, story: Story, watch: JobPoller, log: LogReader, require_running: Callable[[], None]) -> None:
        screen = self.screen or Screen(self.console)
        with screen.opened():
            while True:
                require_running()
                for record in log.new_records():
                    story.add_log_record(record)
                story.add_sample(watch.poll())
                frame = self._frame(story)
                screen.show(frame)
                if frame.second >= self.plan.seconds + (OVERTIME if frame.waiting_for else 0):
                    return
                time.sleep(_POLL_INTERVAL)

    def _frame(self, story: Story) -> Frame:
        now = time.time()
        is_over = now >= self.start + self.plan.seconds
        missing = shortfalls(story, self.plan.drained_lag) if is_over else []
        return Frame(self.plan, story, self.start, now, self.engine, tuple(missing))
