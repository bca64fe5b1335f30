"""Demand of the past, and its jumps."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.policies.slo import packing
from flink_autoscaler.core.policies.slo.history import DAY, KEPT, MINUTES, History, jumped


def a_history(*values: float) -> History:
    history = History()
    for value in values:
        history = history.after(value, 1)
    return history


def test_five_minutes_are_a_bucket() -> None:
    history = a_history(8.0, 9.0, 10.0, 11.0, 12.0, 50.0)

    assert history.count == 1
    assert history.bucket(0) == pytest.approx(10.0, rel=0.003)
    assert history.filling == 1
    assert history.day_mean == history.day_greatest == history.bucket(0)


def test_long_interval_counts_as_so_many_minutes() -> None:
    history = a_history(1.0, 1.0, 1.0).after(6.0, 9)

    assert history.minutes == (1.0,) * 3 + (6.0,) * 9
    assert packing.shorts(history.buckets) == pytest.approx([3.0, 6.0], rel=0.003)
    assert (history.completed, history.filling) == (2, 2)


def test_history_is_bounded() -> None:
    history = a_history(10.0)
    for _ in range(KEPT + 10):
        history = history.after(10.0, 5)

    assert (len(history.minutes), history.count) == (MINUTES, KEPT)
    assert len(history.packed) == MINUTES * packing.LONG


def test_packed_minutes_are_the_minutes() -> None:
    history = a_history(*(float(each) for each in range(1, 120)))

    assert packing.from_longs(history.packed) == pytest.approx(history.minutes, rel=1e-4)


def test_hole_is_filled_as_it_was_a_day_before() -> None:
    history = a_history()
    for bucket in range(DAY):
        history = history.after(5.0 if bucket < DAY // 2 else 20.0, 5)

    history = history.after(7.0, 720)

    assert history.count == DAY + DAY // 2
    assert packing.shorts(history.buckets)[DAY:] == pytest.approx([5.0] * (DAY // 2), rel=0.003)
    assert history.minutes == (7.0,)
    assert history.since == 1.0


def test_hole_of_a_first_day_is_filled_with_its_mean() -> None:
    history = a_history(*[10.0] * 20).after(30.0, 20)

    assert packing.shorts(history.buckets) == pytest.approx([10.0] * 4 + [30.0] * 4, rel=0.003)


@pytest.mark.parametrize(
    ("minutes", "since", "expected"),
    [
        pytest.param([12.0] * 20 + [24.0], None, 1.0, id="one minute after the jump"),
        pytest.param([12.0] * 20 + [24.0, 24.0], None, 2.0, id="two minutes after it"),
        pytest.param([24.0] * 20 + [12.0], None, 1.0, id="downwards"),
        pytest.param([12.0] * 20, None, None, id="steady"),
        pytest.param([12.0] * 20 + [24.0, 12.0], None, None, id="one spike that is over"),
        pytest.param([12.0] * 20 + [13.0, 13.0], None, None, id="less than an eighth"),
        pytest.param([10.0, 14.0] * 10 + [15.0, 15.0], None, None, id="no more than its noise"),
        pytest.param([12.0] * 2 + [24.0], None, None, id="too little history"),
        pytest.param([12.0] * 9 + [24.0], None, 1.0, id="a new job"),
        pytest.param([0.25, 1.14, 1.16, 1.16, 1.55, 2.15], None, 2.0, id="a new job, some minutes after its start"),
        pytest.param([12.0] * 9 + [15.0, 15.0], None, None, id="less than a third, of a new job"),
        pytest.param([12.0] * 20 + [24.0] * 4, 5.0, None, id="just after another one"),
        pytest.param([12.0] * 20 + [24.0] * 6 + [48.0], 7.0, 1.0, id="after another one"),
        pytest.param([0.001] * 20 + [5.0], None, 1.0, id="from nothing"),
    ],
)
def test_jump_is_told_from_noise(minutes: list[float], since: float | None, expected: float | None) -> None:
    assert jumped(minutes, since) == expected


def test_jump_is_a_surprise_unless_it_was_foreseen() -> None:
    history = a_history(*[12.0] * 20, 24.0)

    assert history.watched(None).surprise == 0.0
    assert history.watched(13.0).surprise == 0.0
    assert history.watched(22.0).surprise is None
    assert history.watched(22.0).since == 1.0


def test_surprise_ends_after_a_quarter_of_an_hour() -> None:
    history = a_history(*[12.0] * 20, 24.0).watched(None)

    assert history.after(24.0, 15).surprise == 15.0
    assert history.after(24.0, 15).after(24.0, 1).surprise is None


def test_nobody_looks_behind_a_jump() -> None:
    history = a_history(*[12.0] * 20, 24.0).watched(None).after(26.0, 1)

    assert history.last(5) == (24.0, 26.0)
