"""Schedules that are kept whatever the clock of the machine does.

APScheduler goes by that clock. One that is set back would have every schedule wait until it has caught up, and one that
leaps ahead, such as that of a machine without a battery from 1970 to now, would have every missed time counted one by
one.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

log = structlog.get_logger(__name__)

POLL_INTERVAL: Final = 1.0
"""Seconds from one look at the schedules to the next."""

_TOLERANCE: Final = timedelta(seconds=1)


class CoalescingInterval(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """Fires every so many seconds. Times that were missed count as one, however many there were."""

    def __init__(self, seconds: float) -> None:
        self._interval = timedelta(seconds=seconds)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Return the first time after the previous one that is yet to come; an interval from now without one."""
        if previous_fire_time is None:
            return now + self._interval
        missed = max(0, (now - previous_fire_time) // self._interval)
        return previous_fire_time + (missed + 1) * self._interval


class ClockJumpGuard:
    """Brings forward what is due later than its trigger would ask for now: the clock was set back since.

    Args:
        scheduler: Whose schedules are looked at, from a thread of its own.
    """

    def __init__(self, scheduler: BackgroundScheduler) -> None:
        self._scheduler = scheduler
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock-watch", daemon=True)

    def start(self) -> None:
        """Begin. Called at most once."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more. From any thread."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(POLL_INTERVAL):
            now = datetime.now(UTC)
            late = [self._bring_forward(job, now) for job in self._scheduler.get_jobs()]
            if set_back := max(late, default=0.0):
                log.warning("clock_set_back", seconds=round(set_back, 3), effect="what was put off by it is due again")

    def _bring_forward(self, job: object, now: datetime) -> float:
        """Return the seconds by which a schedule was late; 0 where it was not."""
        due, soonest = job.next_run_time, job.trigger.get_next_fire_time(None, now)  # type: ignore[attr-defined]
        if due is None or soonest is None or due - soonest <= _TOLERANCE:
            return 0.0
        try:
            self._scheduler.modify_job(job.id, next_run_time=soonest)  # type: ignore[attr-defined]
        except JobLookupError:  # removed at this moment
            return 0.0
        return float((due - soonest).total_seconds())
