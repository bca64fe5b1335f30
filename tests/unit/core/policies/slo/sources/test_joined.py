"""What is expected of several sources together, and of every vertex."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.model.load_profile import LoadProfile
from flink_autoscaler.core.policies.slo.arrivals import Needs
from flink_autoscaler.core.policies.slo.history import History
from flink_autoscaler.core.policies.slo.model import HORIZON, Seen, SeenVertex
from flink_autoscaler.core.policies.slo.sources.joined import Joined, histories, joined, usual_of
from flink_autoscaler.core.policies.slo.sources.streams import Streams

VERTICES = {
    "a": SeenVertex(4, is_source=True, slot_group="all"),
    "b": SeenVertex(4, is_source=True, slot_group="all"),
    "map of a": SeenVertex(4, slot_group="all"),
    "map of b": SeenVertex(4, slot_group="all"),
}
UNITS = {"a": 100.0, "b": 100.0, "map of a": 10.0, "map of b": 20.0}
SEEN = Seen(0.0, 0.0, VERTICES, (("a", "map of a"), ("b", "map of b")))
NEEDS = Needs.of(SEEN, {}, UNITS, [{"a": 1.0}, {"b": 1.0}])
"""A record/s of ``a`` keeps 0.1 slots busy, one of ``b`` 0.05; the branch that needs more says how many there are."""

Load = Callable[[float], float]


def told(a: Load, b: Load, minutes: int) -> tuple[History, Streams]:
    """Let so much arrive, minute by minute."""
    history, streams = History(), Streams.of({"a": 1.0, "b": 1.0})
    for minute in range(minutes):
        rates = {"a": a(float(minute)), "b": b(float(minute))}
        history = history.after(NEEDS.demand([[rates["a"]], [rates["b"]]])[0], 1)
        streams = streams.after(rates, 1, history.completed).shared(NEEDS.alone)
    return history, streams


def expected(a: Load, b: Load, minutes: int) -> Joined:
    return joined(*told(a, b, minutes), NEEDS, (), (None, None))


def rising(minute: float) -> float:
    return 40.0 + minute


def steady(_: float) -> float:
    return 300.0


def test_branch_is_seen_to_rise_before_it_is_the_one_that_needs_most() -> None:
    found = expected(rising, steady, 90)

    assert found.paths["last"] == pytest.approx((15.0,) * HORIZON)
    assert found.paths["trend"][0] == pytest.approx(15.0)
    assert found.paths["trend"][95] == pytest.approx((130.0 + 60.0) * 0.1, rel=0.02)
    assert found.rates["trend"][0][0] == pytest.approx(rising(92.0), rel=0.01)
    assert found.rates["trend"][1] == pytest.approx([300.0] * HORIZON)


def test_vertex_has_what_it_needs_within_half_an_hour_and_within_hours() -> None:
    found = expected(rising, steady, 90)

    mixes = found.mixes(NEEDS, {"trend": 1.0})

    assert mixes["map of a"].soon == pytest.approx((129.0 + 60.0 * (1.0 - math.exp(-27.5 / 60.0))) / 15.0, rel=0.01)
    assert mixes["map of a"].ever == pytest.approx(10.0)
    assert mixes["a"] == mixes["map of a"]
    assert mixes["map of b"].soon == mixes["map of b"].ever == pytest.approx(20.0)


def day(minute: float) -> float:
    return 100.0 + 80.0 * math.sin(2.0 * math.pi * minute / 1440.0)


def night(minute: float) -> float:
    return 200.0 - 160.0 * math.sin(2.0 * math.pi * minute / 1440.0)


def test_history_of_every_source_is_found_again_in_that_of_the_demand() -> None:
    history, streams = told(day, night, 1500)

    one, two = histories(history, streams, NEEDS)

    middles = [5.0 * bucket + 2.0 for bucket in range(300)]
    assert one.day() == pytest.approx([0.1 * day(each) for each in middles[12:]], rel=0.12)
    assert two.day() == pytest.approx([0.05 * night(each) for each in middles[12:]], rel=0.12)
    assert one.minutes[-1] == pytest.approx(0.1 * day(1499.0))


def test_sources_in_opposite_phase_come_back_each_in_its_own() -> None:
    found = expected(day, night, 2 * 1440)

    a, b = found.rates["day"]
    after = [2880.0 + 5.0 * bucket + 2.0 for bucket in range(HORIZON)]
    assert a == pytest.approx([day(each) for each in after], rel=0.15)
    assert b == pytest.approx([night(each) for each in after], rel=0.15)
    assert found.paths["day"] == pytest.approx([max(0.1 * day(each), 0.05 * night(each)) for each in after], rel=0.1)


def test_history_from_before_sources_were_told_apart_is_divided_as_it_is_now() -> None:
    history, streams = told(lambda _: 100.0, lambda _: 100.0, 600)

    old = histories(history, streams.trimmed(0), NEEDS)

    assert [one.bucket(0) for one in old] == pytest.approx([10.0, 5.0], rel=0.06)


def test_source_without_profile_is_expected_to_go_on() -> None:
    shares = (1.0,) * 672
    profile = LoadProfile(shares, shares, weeks=4, level=400.0, growth=1.0, asof=1e9)
    usual = usual_of({"a": profile}, ("a",), {"a": 100.0}, 0.1, (1e9, 1e9))

    found = joined(*told(lambda _: 200.0, steady, 90), NEEDS, (), (usual, None))

    assert usual is not None
    assert usual.ahead == pytest.approx((40.0,) * HORIZON)
    assert found.paths["profile"][0] == pytest.approx(20.0, rel=0.01)
    assert found.paths["profile"][95] == pytest.approx(40.0 * 0.5 ** math.exp(-477.5 / 360.0), rel=0.01)
    assert found.rates["profile"][1] == pytest.approx([300.0] * HORIZON)


def test_sources_that_are_taken_together_may_have_few_profiles() -> None:
    shares = (1.0,) * 672
    profile = LoadProfile(shares, shares, weeks=4, level=400.0, growth=1.0, asof=1e9)

    found = usual_of({"a": profile}, ("a", "b"), {"a": 100.0, "b": 50.0}, 0.1, (1e9, 1e9))

    assert found is not None
    assert found.before == pytest.approx((45.0,) * 12)
    assert usual_of({"x": profile}, ("a", "b"), {}, 0.1, (1e9, 1e9)) is None


RATES = st.lists(st.tuples(st.floats(0.0, 1e9), st.floats(0.0, 1e9), st.integers(1, 200)), min_size=1, max_size=20)


@settings(max_examples=50, deadline=None)
@given(RATES)
def test_nothing_that_arrives_makes_it_lose_its_senses(passes: list[tuple[float, float, int]]) -> None:
    history, streams = History(), Streams.of({"a": 1.0, "b": 1.0})
    for a, b, minutes in passes:
        history = history.after(NEEDS.demand([[a], [b]])[0], minutes)
        streams = streams.after({"a": a, "b": b}, minutes, history.completed).shared(NEEDS.alone)

    found = joined(history, streams, NEEDS, (), (None, None))

    assert all(0.0 < each < math.inf for path in found.paths.values() for each in path)
    mixes = found.mixes(NEEDS, dict.fromkeys(found.paths, 1.0 / len(found.paths)))
    assert all(0.0 <= mix.soon <= mix.ever < math.inf for mix in mixes.values())
