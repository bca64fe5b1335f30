"""Schedules are kept when the machine's clock is set."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from flink_autoscaler.standalone.daemon.clock_jumps import ClockJumpGuard, CoalescingInterval
from flink_autoscaler.standalone.settings.schema.types import cron_trigger
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.runner import LogLines

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
FAR = timedelta(days=365)


@pytest.fixture
def scheduler() -> Iterator[BackgroundScheduler]:
    """A scheduler whose clock is watched."""
    scheduler = BackgroundScheduler(timezone=UTC)
    watch = ClockJumpGuard(scheduler)
    scheduler.start()
    watch.start()
    yield scheduler
    watch.stop()
    scheduler.shutdown(wait=False)


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        pytest.param(0.0, 10.0, id="in time"),
        pytest.param(0.3, 10.0, id="a little late: the next one is not put off"),
        pytest.param(10.0, 20.0, id="one missed"),
        pytest.param(34.0, 40.0, id="some missed"),
    ],
)
def test_next_time_is_the_first_to_come(passed: float, expected: float) -> None:
    found = CoalescingInterval(10.0).get_next_fire_time(NOON, NOON + timedelta(seconds=passed))

    assert (found - NOON).total_seconds() == expected


def test_a_clock_that_leaps_from_1970_to_now_costs_nothing() -> None:
    trigger, begun = CoalescingInterval(0.1), datetime(1970, 1, 1, tzinfo=UTC)

    assert NOON < trigger.get_next_fire_time(begun, NOON) <= NOON + timedelta(seconds=0.1)


def test_what_a_clock_that_was_set_back_has_put_off_is_done_soon(scheduler: BackgroundScheduler) -> None:
    ran: list[float] = []
    with LogLines() as lines:
        scheduler.add_job(
            lambda: ran.append(time.monotonic()),
            CoalescingInterval(0.05),
            next_run_time=datetime.now(UTC) + FAR,
            id="passes",
        )
        wait_until("it ran again and again", lambda: len(ran) >= 3, 300, interval=0.01)
        told = lines.of("clock_set_back")

    assert [round(line["seconds"] / 86_400) for line in told] == [365]


def test_a_nightly_run_is_due_in_the_next_night_after_a_clock_was_set_back(scheduler: BackgroundScheduler) -> None:
    job = scheduler.add_job(len, cron_trigger("10 3 * * *", UTC), ("",), id="nightly")
    job.modify(next_run_time=job.next_run_time + FAR)

    def is_due_within_a_day() -> bool:
        return bool(scheduler.get_job("nightly").next_run_time - datetime.now(UTC) <= timedelta(days=1))

    wait_until("it is due within a day", is_due_within_a_day, 300, interval=0.01)


def test_schedules_in_time_are_left_alone(scheduler: BackgroundScheduler) -> None:
    with LogLines() as lines:
        due = scheduler.add_job(len, CoalescingInterval(3600.0), ("",), id="hourly").next_run_time
        ran: list[float] = []
        scheduler.add_job(lambda: ran.append(time.monotonic()), CoalescingInterval(0.3), id="often")
        wait_until("the watch has looked", lambda: ran and ran[-1] - ran[0] > 2.5, 300, interval=0.01)

        assert scheduler.get_job("hourly").next_run_time == due
        assert lines.of("clock_set_back") == []
