"""The daemon's own schedule for load profiles: when they are made, by whom, and what is told about it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any, Final

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from flink_autoscaler.core.border import attempted
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, NotLeaderError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.load_profile import ProfileResult, zone_named
from flink_autoscaler.core.options.forecast import ForecastOptions
from flink_autoscaler.core.ports.forecast_store import ForecastStore
from flink_autoscaler.standalone.daemon.clock_steps import ClockWatch
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.schema.types import AUTO, OFF, cron_trigger
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.standalone.worker_process import WorkerProcess

log = structlog.get_logger(__name__)

NIGHTLY: Final = "10 3 * * *"
"""What ``auto`` stands for, where profiles are wanted."""

LATEST: Final = 3600
"""Seconds that a run may begin late, on a machine that slept; a later one is left out."""

_JOB: Final = "forecast-build"
_BUILDER: Final = "flink_autoscaler.standalone.history.profiles"
"""What the process runs; not imported, since this one need not have Spark."""


@dataclass(frozen=True, slots=True)
class BuildStatus:
    """The runs since the start of the daemon, as the series say it; None where there was none yet."""

    successes: int = 0
    failures: int = 0
    skipped: int = 0
    running: bool = False
    next_timestamp_seconds: float | None = None
    last_success_timestamp_seconds: float | None = None
    last_seconds: float | None = None
    last_sources: int | None = None
    last_profiles: int | None = None


def effective_schedule(settings: Settings) -> str:
    """Return the cron expression by which profiles are made, or that they are not."""
    asked = settings.forecast.build_schedule
    if asked != AUTO:
        return asked
    is_kept = settings.history.enabled and settings.history.path is not None
    return NIGHTLY if is_kept and _has_forecasts(settings) else OFF


def _has_forecasts(settings: Settings) -> bool:
    """Tell whether the configuration has forecasts for the jobs of a cluster."""
    try:
        return any(ForecastOptions(cluster.job_defaults).forecast_enabled for cluster in settings.effective_clusters())
    except ConfigError:
        return False  # checked before


@dataclass
class _Run:
    """Progress of a run so far."""

    sources: int = 0
    profiles: int = 0


class ProfileSchedule:
    """Makes load profiles when they are due, while this daemon leads, in a process of their own.

    A run that is due while the one before is still under way is left out, and that is told.

    Args:
        settings: Of the daemon; what is changed in them takes effect when it is restarted.
        store: Where profiles go.
        may_act: Tells whether this daemon leads.
        tell: Takes events; never raises.
        clock: Epoch seconds.
    """

    def __init__(
        self,
        settings: Settings,
        store: ForecastStore,
        *,
        may_act: Callable[[], bool],
        tell: Callable[[Event], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._store = store
        self._may_act = may_act
        self._tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._status = BuildStatus()
        self._process: WorkerProcess | None = None
        self._is_stopping = False
        self._schedule = effective_schedule(settings)
        self._scheduler = BackgroundScheduler(timezone=UTC, executors={"default": ThreadPoolExecutor(1)})
        self._scheduler.add_listener(lambda _: self._skip(), EVENT_JOB_MAX_INSTANCES)
        self._clock_watch = ClockWatch(self._scheduler)

    def start(self) -> None:
        """Begin to keep the schedule; nothing where it is off."""
        if self._schedule == OFF:
            return
        trigger = cron_trigger(self._schedule, zone_named(self._settings.forecast.build_timezone))
        limits: dict[str, Any] = {"max_instances": 1, "coalesce": True, "misfire_grace_time": LATEST}
        self._scheduler.add_job(self.run, trigger, id=_JOB, **limits)
        self._scheduler.start()
        self._clock_watch.start()
        log.info("forecast_builds_scheduled", schedule=self._schedule, timezone=self._settings.forecast.build_timezone)

    def stop(self) -> None:
        """Begin no more runs, and end the one under way."""
        with self._lock:
            self._is_stopping = True
            process = self._process
        self._clock_watch.stop()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        if process is not None:
            process.close()

    def status(self) -> BuildStatus:
        """Tell how it goes; from any thread."""
        job = self._scheduler.get_job(_JOB) if self._scheduler.running else None
        due = None if job is None or job.next_run_time is None else job.next_run_time.timestamp()
        with self._lock:
            return replace(self._status, next_timestamp_seconds=due)

    def run(self) -> None:
        """Make profiles now, if this daemon leads, and tell what came of it; for one thread at a time."""
        if not self._may_act():
            log.debug("forecast_build_left_to_the_leader")
            return
        log.info("forecast_build_started", history=masked(self._settings.history.path))
        began = time.perf_counter()
        self._note(running=True)
        done = attempted(self._build)  # a store of somebody else may raise anything: the schedule goes on
        if isinstance(done, AutoscalerError):
            self._failed(str(done), time.perf_counter() - began)
        else:
            self._succeeded(done, time.perf_counter() - began)

    def _build(self) -> _Run:
        process = WorkerProcess(_BUILDER, (self._settings, self._clock()))
        with self._lock:
            self._process = process
            is_too_late = self._is_stopping
        run = _Run()
        try:
            if is_too_late:
                raise AutoscalerError("the daemon ends")
            self._store.save(self._received(process, run))
        finally:
            with self._lock:
                self._process = None
            process.close()
        return run

    def _received(self, process: WorkerProcess, run: _Run) -> Iterator[ProfileResult]:
        for result in process.messages():
            if not self._may_act():
                raise NotLeaderError("another daemon leads now")
            run.sources += 1
            run.profiles += result.profile is not None
            yield result
        if not run.sources:
            raise AutoscalerError("there are no samples in that time; history info shows what there is")

    def _succeeded(self, run: _Run, seconds: float) -> None:
        log.info("forecast_build_finished", sources=run.sources, profiles=run.profiles, seconds=round(seconds, 3))
        text = f"{run.profiles} profiles of {run.sources} sources in {seconds:.1f} s"
        self._tell(Event(EventType.NORMAL, "ForecastsBuilt", text))
        self._note(
            running=False,
            successes=self._status.successes + 1,
            last_success_timestamp_seconds=self._clock(),
            last_seconds=seconds,
            last_sources=run.sources,
            last_profiles=run.profiles,
        )

    def _failed(self, problem: str, seconds: float) -> None:
        if self._is_stopping:
            self._note(running=False)
            log.info("forecast_build_ended_early", seconds=round(seconds, 3))
            return
        log.warning("forecast_build_failed", error=masked(problem), seconds=round(seconds, 3))
        self._tell(Event(EventType.WARNING, "ForecastBuildFailed", masked(problem)))
        self._note(running=False, failures=self._status.failures + 1, last_seconds=seconds)

    def _skip(self) -> None:
        log.warning("forecast_build_skipped", reason="the one before is still under way")
        self._tell(Event(EventType.WARNING, "ForecastBuildSkipped", "the one before is still under way"))
        self._note(skipped=self._status.skipped + 1)

    def _note(self, **changes: Any) -> None:
        with self._lock:
            self._status = replace(self._status, **changes)
