"""What a course of sizes and lags comes to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from testkit.clusters.flink.curve import Curve
from testkit.scenarios.agreement.figures import Course, Figures, by_history, integral, on_average, seen
from testkit.scenarios.agreement.recording import Look

EVEN = Curve(((0.0, 10.0), (1000.0, 10.0)))
"""Ten records a second."""


def a_look(at: float, work: int = 1, pending: float | None = 0.0, *, is_running: bool = True) -> Look:
    parallelism = {"Source: orders": 1, "work": work} if work else {}
    return Look(at, "orders", is_running, parallelism, pending)


def test_a_course_is_counted_from_the_second_zero_to_the_end() -> None:
    course = Course(
        sizes=[(-10.0, 1), (1800.0, 3), (3600.0, 8)],
        rescales=[(-5.0, 1), (1800.0, 3), (3600.0, 8), (3700.0, 9)],
        lags=[(0.0, 5.0), (60.0, 31.0), (180.0, 30.0)],
    )

    assert course.figures(3600.0, limit=30.0) == Figures(slot_hours=2.0, rescales=2, minutes_late=2.0)


def test_minutes_late_are_unknown_without_lags() -> None:
    assert Course([(0.0, 1)], []).figures(60.0, limit=30.0).minutes_late is None


def test_several_runs_are_averaged_figure_by_figure() -> None:
    runs = [Figures(2.0, 9, 5.0), Figures(3.0, 8, 6.0), Figures(2.5, 6, 7.0)]

    assert on_average(runs) == Figures(2.5, 8, 6.0)
    assert on_average([Figures(2.0, 9, None)]) == Figures(2.0, 9, None)


def test_what_is_first_seen_held_from_the_beginning() -> None:
    assert integral([(10.0, 2.0), (20.0, 0.0)], 30.0) == 40.0
    assert integral([], 30.0) == 0.0


def test_flink_tells_slots_and_rescales() -> None:
    looks = [a_look(0.0), a_look(1.0, 0, None, is_running=False), a_look(2.0, 4), a_look(3.0, 4)]

    course = seen(looks, EVEN)

    assert course.sizes == [(0.0, 1), (1.0, 1), (2.0, 4), (3.0, 4)]
    assert course.rescales == [(2.0, 4)]


def test_lag_is_the_age_of_the_oldest_record_that_waits() -> None:
    looks = [a_look(100.0, pending=0.0), a_look(110.0, pending=50.0), a_look(120.0, pending=1.0)]

    lags = seen(looks, EVEN).lags

    assert [lag for _, lag in lags] == pytest.approx([0.0, 5.0, 0.0], abs=0.11)


def test_nothing_is_taken_in_while_the_job_is_away() -> None:
    looks = [a_look(100.0, pending=20.0), a_look(110.0, pending=None, is_running=False)]

    assert [lag for _, lag in seen(looks, EVEN).lags] == pytest.approx([2.0, 12.0], abs=0.11)


def at(second: float) -> datetime:
    return datetime.fromtimestamp(1000.0 + second, UTC)


def test_the_history_tells_sizes_and_rescales_that_came_true() -> None:
    vertices = [
        {"ts": at(second), "parallelism": parallelism}
        for second, parallelism in ((0.0, 1), (0.0, 2), (10.0, 1), (10.0, 4))
    ]

    def rescale(second: float, stage: str) -> dict[str, Any]:
        return {"decided_at": at(second), "stage": stage, "reached": [{"parallelism": 1}, {"parallelism": 4}]}

    rescales = [rescale(5.0, "reached"), rescale(5.0, "reached"), rescale(7.0, "refused")]

    assert by_history(vertices, rescales, 1000.0) == Course([(0.0, 2), (10.0, 4)], [(5.0, 4)])
