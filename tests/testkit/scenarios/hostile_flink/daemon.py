"""The daemon's own parts around lying clusters, in this process: wiring, loop, announcer and log."""

from __future__ import annotations

import io
import json
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.pass_reporter import EngineChanges, PassReporter
from flink_autoscaler.standalone.service.loop import ClusterSchedule, Daemon
from flink_autoscaler.standalone.settings.schema.settings import Settings
from testkit.scenarios.runner import LogLines, wired

INTERVAL: Final = 1.0
"""Seconds from one pass to the next; a pass that waits for an answer that never comes overruns it."""

LIMIT: Final = 3.5
"""Seconds that a pass may take: once the timeout of a request, and what a busy machine adds."""

OPTIONS: Final[Mapping[str, str]] = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "4 s",
    "job.autoscaler.stabilization.interval": "0 s",
    "job.autoscaler.scale-down.interval": "0 s",
    "job.autoscaler.scale-down.max-factor": "1",
    "job.autoscaler.scale-down.economics.enabled": "false",
    "job.autoscaler.rescale.budget.per-day": "0",
    "job.autoscaler.restart.time": "1 s",
    "job.autoscaler.catch-up.duration": "0 s",
    "job.autoscaler.utilization.target": "0.7",
    "job.autoscaler.utilization.min": "0.4",
    "job.autoscaler.utilization.max": "1.0",
    "job.autoscaler.vertex.min-parallelism": "2",
    "job.autoscaler.vertex.max-parallelism": "4",
    "job.autoscaler.rollback.observation-window": "2 s",
    "job.autoscaler.flink.rest-client.timeout": "2500 ms",
    "autoscaler.engine.kind": "inline",
    "autoscaler.standalone.control-loop.interval": f"{INTERVAL:g} s",
    "autoscaler.standalone.control-loop.parallelism": "8",
    "autoscaler.standalone.state-store.type": "JDBC",
    "autoscaler.standalone.event-handler.type": "JDBC",
    "autoscaler.http.enabled": "false",
}
"""Waits short enough for many lies, and limits that leave a wrong rescale its two directions."""


class Log(io.TextIOBase):
    """What the daemon logs: tracebacks are handed on, the rest is counted.

    Args:
        on_traceback: Takes cluster, job key and the end of the traceback; from any thread.
    """

    def __init__(self, on_traceback: Callable[[str, str, str], None]) -> None:
        self._on_traceback = on_traceback
        self.lines = 0

    def write(self, text: str) -> int:
        """Take a line."""
        self.lines += text.count("\n")
        if "Traceback (most recent call last)" in text:
            self._hand_on(text)
        return len(text)

    def _hand_on(self, text: str) -> None:
        try:
            line: dict[str, Any] = json.loads(text)
        except ValueError:
            line = {"exception": text}
        last = str(line.get("exception", text)).strip().splitlines()[-1]
        frames = [row.strip() for row in str(line.get("exception", text)).splitlines() if 'File "' in row]
        where = frames[-1].rpartition("/")[2] if frames else ""
        told = f"{line.get('event', '')}: {last[:300]} ({where})"
        self._on_traceback(str(line.get("cluster", "")), str(line.get("job_key", "")), told)


class _Reporter(PassReporter):
    """Tells the harness about a pass, after everybody else."""

    def __init__(self, on_report: Callable[[PassReport], None], **parts: Any) -> None:
        super().__init__(**parts)
        self._on_report = on_report

    def report(self, report: PassReport) -> None:
        """Announce, and hand on."""
        try:
            super().report(report)
        finally:
            self._on_report(report)


def settings_of(clusters: Mapping[str, Mapping[str, str]], folder: Path, options: Mapping[str, str]) -> Settings:
    """Return settings with these clusters: by name the options below their entry."""
    values = {
        **OPTIONS,
        "autoscaler.standalone.jdbc.url": f"jdbc:sqlite:{folder / 'autoscaler.db'}",
        **options,
    }
    for number, (name, entry) in enumerate(clusters.items()):
        values |= {f"autoscaler.clusters.{number}.{key}": value for key, value in {"name": name, **entry}.items()}
    return wired.settings_of(values)


class RunningDaemon:
    """Manages clusters from start to end; a context manager.

    Args:
        settings: Of the daemon.
        on_report: Takes what every pass came to, in the thread of the passes.
        on_traceback: Takes cluster, job key and text of every traceback; from any thread.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        on_report: Callable[[PassReport], None],
        on_traceback: Callable[[str, str, str], None],
    ) -> None:
        self._settings = settings
        self._on_report = on_report
        self._on_traceback = on_traceback
        self._open = ExitStack()
        self.wiring: Wiring

    def __enter__(self) -> Self:
        self._log()
        self.wiring = self._open.enter_context(Wiring(self._settings))
        gauges, engines = Gauges(), EngineChanges()
        health = Health({cluster.name: 60.0 for cluster in self._settings.effective_clusters()})
        watches = [
            ClusterSchedule(
                self.wiring.cluster_pass(cluster),
                _Reporter(self._on_report, gauges=gauges, health=health, engines=engines),
                cluster.interval,
            )
            for cluster in self._settings.effective_clusters()
        ]
        self.daemon = Daemon(watches, gauges=gauges)
        self.wiring.storage.start()
        self.wiring.start_engines()
        self.daemon.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.stop(10.0)
        self._open.close()

    def _log(self) -> None:
        """Hand on what is logged and what ends a thread, until the end."""
        self._open.enter_context(LogLines(stream=Log(self._on_traceback)))  # type: ignore[arg-type]
        self._open.callback(setattr, threading, "excepthook", threading.excepthook)
        self._open.callback(setattr, sys, "unraisablehook", sys.unraisablehook)
        threading.excepthook = lambda error: self._on_error(error.exc_value)
        sys.unraisablehook = lambda error: self._on_error(error.exc_value)

    def _on_error(self, error: BaseException | None) -> None:
        text = "".join(traceback.format_exception(error)).strip().splitlines()[-1] if error else "?"
        self._on_traceback("", "", f"unhandled in a thread: {text}")
