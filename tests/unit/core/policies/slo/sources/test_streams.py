"""What is remembered of several sources, and that it is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.sources.streams import (
    LEAST_SHARE,
    MINUTES,
    NO_STREAMS,
    SHARES,
    Streams,
    packed_share,
    shares_of,
)

TWO = Streams.of({"a": 2.0, "b": 1.0})


def after(streams: Streams, a: float, b: float, minutes: int) -> Streams:
    """Let so much arrive for some minutes; every fifth completes a bucket."""
    for minute in range(minutes):
        streams = streams.after({"a": a, "b": b}, 1, int(minute % 5 == 4)).shared([0.1, 0.2])
    return streams


def test_one_source_has_nothing_to_tell_apart() -> None:
    assert Streams.of({"a": 5.0}) == NO_STREAMS
    assert not NO_STREAMS.is_known
    assert NO_STREAMS.after({"a": 1.0}, 1, 0).each == ()


def test_sources_that_need_most_are_told_apart_and_the_others_are_not() -> None:
    found = Streams.of({"a": 1.0, "b": 7.0, "c": 2.0, "d": 5.0, "e": 3.0, "f": 0.0, "g": 4.0})

    assert [one.sources for one in found.each] == [("b",), ("d",), ("e",), ("g",), ("a", "c", "f")]


def test_what_several_sources_bring_is_taken_together() -> None:
    streams = Streams.of({"a": 9.0, "b": 8.0, "c": 7.0, "d": 6.0, "e": 2.0, "f": 1.0})

    found = streams.after({"a": 1.0, "e": 10.0, "f": 5.0}, 2, 0)

    assert found.each[-1].minutes == (15.0, 15.0)
    assert found.each[0].minutes == (1.0, 1.0)


def test_last_hour_and_every_half_hour_are_kept() -> None:
    found = after(after(TWO, 100.0, 50.0, 30), 100.0, 150.0, 60)

    assert [len(one.minutes) for one in found.each] == [60, 60]
    assert shares_of(found.each[0].shares) == pytest.approx([0.5, 0.25, 0.25], rel=0.05)
    assert shares_of(found.each[1].shares) == pytest.approx([0.5, 0.75, 0.75], rel=0.05)


def test_jump_of_one_source_is_its_own() -> None:
    found = after(after(TWO, 100.0, 50.0, 30), 200.0, 50.0, 3)

    assert found.each[0].since == 3.0
    assert found.each[1].since is None


def test_hole_leaves_nothing_recent_and_is_filled_as_it_was_a_day_before() -> None:
    day = after(after(TWO, 100.0, 0.0, 720), 0.0, 50.0, 720)

    found = day.after({"a": 100.0, "b": 0.0}, 1440, 288).shared([0.1, 0.2])

    assert [one.minutes for one in found.each] == [(100.0,), (0.0,)]
    assert found.each[0].since == 1.0
    assert len(found.each[0].shares) == 96
    assert shares_of(found.each[0].shares[50:60]) == pytest.approx([1.0] * 10)
    assert shares_of(found.each[0].shares[80:90]) == pytest.approx([LEAST_SHARE] * 10)


def test_shares_of_what_is_forgotten_are_forgotten() -> None:
    found = after(TWO, 100.0, 50.0, 600).trimmed(25)

    assert [len(one.shares) for one in found.each] == [5, 5]


@given(st.floats(LEAST_SHARE, 1.0))
def test_share_is_known_to_a_twentieth_of_it(share: float) -> None:
    assert shares_of(packed_share(share)) == pytest.approx([share], rel=0.051)


RATE = st.floats(0.0, 1e8)


@given(st.lists(st.tuples(RATE, RATE, st.integers(1, 4000)), max_size=30), st.floats(0.0, 1.0))
def test_shares_sum_to_one_and_all_is_bounded(passes: list[tuple[float, float, int]], factor: float) -> None:
    streams, minute = TWO, 0
    for a, b, minutes in passes:
        completed = (minute + minutes) // 5 - minute // 5
        streams, minute = streams.after({"a": a, "b": b}, minutes, completed).shared([factor, 1.0]), minute + minutes

        assert sum(streams.now([factor, 1.0], 5)) == pytest.approx(1.0)
        assert streams.due < 6
        assert all(len(one.minutes) <= MINUTES and len(one.packed) <= 3 * MINUTES for one in streams.each)
        assert all(len(one.shares) <= SHARES for one in streams.each)
