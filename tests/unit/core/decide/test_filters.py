from __future__ import annotations

import math

import pytest

from flink_autoscaler.core.decide.filters import ScaleDownCase, late_seconds, usual_duration
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage

HOUR_MS = 3_600_000
NOW_MS = 100 * 24 * HOUR_MS


def test_time_above_the_lag_limit_after_an_outage() -> None:
    assert late_seconds(100e3, 150e3, outage=60, limit=30) == pytest.approx(90)


@pytest.mark.parametrize(
    ("arrival", "capacity", "outage", "late"),
    [(100.0, 200.0, 30.0, 0.0), (0.0, 1.0, 600.0, 0.0), (100.0, 100.0, 60.0, math.inf)],
    ids=["a short outage", "nothing arrives", "no capacity to spare"],
)
def test_edges_of_lateness(arrival: float, capacity: float, outage: float, late: float) -> None:
    assert late_seconds(arrival, capacity, outage, limit=30) == late


def test_a_smaller_size_is_never_assumed_to_last_for_more_than_a_day() -> None:
    case = ScaleDownCase(slots_now=2, slots_new=1, outage_down=0, outage_up=0, hold=1e9, late=0)

    assert case.savings == 86_400


def a_rescale(hours_ago: float, before: int, after: int, stage: Stage = Stage.REACHED) -> RescaleRecord:
    at_ms = NOW_MS - round(hours_ago * HOUR_MS)
    return RescaleRecord(at_ms, at_ms, {"a": before}, {"a": after}, stage=stage)


@pytest.mark.parametrize(
    ("past", "seconds"),
    [
        ([], None),
        ([a_rescale(9, 1, 2), a_rescale(5, 2, 4)], None),
        ([a_rescale(9, 4, 2), a_rescale(5, 2, 4)], 4 * 3600),
        (
            [a_rescale(9, 4, 2), a_rescale(7, 2, 1), a_rescale(5, 1, 4), a_rescale(4, 4, 2), a_rescale(0, 2, 4)],
            3 * 3600,
        ),
        ([a_rescale(9, 4, 2, Stage.REFUSED), a_rescale(5, 2, 4)], None),
        ([a_rescale(15 * 24, 4, 2), a_rescale(5, 2, 4)], None),
    ],
    ids=["no past", "only upward", "one example", "the middle of two", "refused ones do not count", "too old"],
)
def test_how_long_a_smaller_size_usually_lasts(past: list[RescaleRecord], seconds: float | None) -> None:
    assert usual_duration(past, NOW_MS) == seconds
