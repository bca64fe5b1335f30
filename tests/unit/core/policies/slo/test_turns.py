"""What the rescales of a day say: how often the load has turned, and whether smaller sizes have lasted."""

from __future__ import annotations

from itertools import pairwise

import pytest

from flink_autoscaler.core.model.policy_values import PastRescale
from flink_autoscaler.core.policies.slo.budget import DAY
from flink_autoscaler.core.policies.slo.turns import patience, reversals

HOUR = 3600.0
NOW = 2 * DAY


def past(*sizes: int, ago: float = 0.0) -> list[PastRescale]:
    return [
        PastRescale(DAY - ago + 60.0 * place, {"v": before}, {"v": after})
        for place, (before, after) in enumerate(pairwise(sizes))
    ]


def bursts(*stays: float, large: float = 0.5, until: float = NOW - 1.0) -> list[PastRescale]:
    """Return rescales of two vertices to a large size and back, the smaller one being kept for so many hours each."""
    found, at = [PastRescale(until, {"v": 1, "w": 1}, {"v": 2, "w": 4})], until
    for stay in reversed(stays):
        at -= stay * HOUR
        found.append(PastRescale(at, {"v": 2, "w": 4}, {"v": 1, "w": 1}))
        at -= large * HOUR
        found.append(PastRescale(at, {"v": 1, "w": 1}, {"v": 2, "w": 4}))
    return found


def test_changes_of_direction_within_a_day_are_counted() -> None:
    assert reversals([], DAY) == 0
    assert reversals(past(1, 2, 3, 4), NOW) == 0
    assert reversals(past(1, 5, 2, 6, 3, 7), NOW - 1.0) == 4
    assert reversals(past(1, 5, 2, 6, 3, 7, ago=DAY), NOW) == 0


@pytest.mark.parametrize(
    ("rescales", "share"),
    [
        pytest.param([], 0.4, id="no rescales"),
        pytest.param(bursts(5.0, 6.0), 0.4, id="two scale-downs say too little"),
        pytest.param(bursts(5.0, 1.0, 6.0), 0.2, id="three that lasted"),
        pytest.param(bursts(5.0, 0.9, 6.0, 4.0), 0.2, id="all but one"),
        pytest.param(bursts(5.0, 0.9, 6.0, 0.9), 0.4, id="two that did not"),
        pytest.param(bursts(5.0, 6.0, large=0.1), 0.4, id="how long the larger size was kept is no matter"),
        pytest.param(bursts(5.0, 1.0, 6.0, until=NOW - DAY + HOUR), 0.4, id="of the day before"),
        pytest.param(past(9, 7, 5, 3, 2), 0.4, id="steps down that follow each other"),
    ],
)
def test_a_day_whose_smaller_sizes_lasted_halves_the_patience(rescales: list[PastRescale], share: float) -> None:
    assert patience(0.4, rescales, NOW) == pytest.approx(share)


def test_a_scale_down_that_nothing_has_followed_says_nothing_yet() -> None:
    down = PastRescale(NOW, {"v": 4}, {"v": 1})

    assert patience(0.4, [*bursts(5.0, 6.0), down], NOW) == pytest.approx(0.4)


def test_rescales_that_change_the_sum_by_nothing_are_no_turns() -> None:
    moved = [PastRescale(NOW - hour * HOUR, {"v": 4, "w": 1}, {"v": 1, "w": 4}) for hour in range(8)]

    assert reversals(moved, NOW) == 0
    assert patience(0.4, moved, NOW) == pytest.approx(0.4)
