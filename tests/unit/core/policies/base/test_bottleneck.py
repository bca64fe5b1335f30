import math

import pytest

from flink_autoscaler.core.model.policy_values import VertexLimits, VertexSizing
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.policies.base.sizing import (
    Bottleneck,
    SizingSettings,
    find_bottlenecks,
    limited_sizing,
    size_vertex,
    sources_of,
    tightest,
)
from testkit.builders.core import a_topology, a_vertex, evaluated, options_with, vertex_id

NAN, INF = math.nan, math.inf
HASH = ShipStrategy.HASH
V = vertex_id(1)
SETTINGS = SizingSettings.of(options_with({"utilization.target": "0.5", "catch-up.duration": "0"}), 300)


def sizing(wanted: int, bound: int, *, current: int = 4) -> VertexSizing:
    """Make a sizing of which only the room to grow matters."""
    return VertexSizing(current, 100.0, 0.0, 0.0, wanted, VertexLimits(1, 200, bound), min(wanted, bound))


def share_of(*, target: float, rate: float, catch_up: float = 0.0, room: VertexSizing | None = None) -> float | None:
    """Return the share that a lone vertex sustains; without a sizing it is one that may not be scaled."""
    metrics = {V: evaluated(target=target, rate=rate, catch_up=catch_up)}
    found = find_bottlenecks(a_topology(a_vertex(1, parallelism=4)), metrics, {} if room is None else {V: room})
    return found[0].share if found else None


@pytest.mark.parametrize(
    ("wanted", "bound", "expected"),
    [
        pytest.param(12, 4, 1 / 3, id="no room at all"),
        pytest.param(12, 6, 1 / 2, id="room for half as much again"),
        pytest.param(12, 12, None, id="just enough room"),
        pytest.param(8, 200, None, id="room, though one step is not enough"),
        pytest.param(8, 8, None, id="room for this step"),
        pytest.param(16, 13, None, id="enough room without its spare capacity"),
    ],
)
def test_a_vertex_is_a_bottleneck_when_it_has_no_room_for_its_target(
    wanted: int, bound: int, expected: float | None
) -> None:
    assert share_of(target=300.0, rate=100.0, room=sizing(wanted, bound)) == expected


@pytest.mark.parametrize(
    ("target", "catch_up", "rate", "expected"),
    [
        pytest.param(200.0, 0.0, 100.0, 0.5, id="half of the target"),
        pytest.param(150.0, 50.0, 100.0, 0.5, id="a backlog counts"),
        pytest.param(0.8, 0.0, 0.4, 0.5, id="less than a record per second"),
        pytest.param(100.0, 0.0, 100.0, None, id="all of it"),
        pytest.param(0.0, 0.0, 100.0, None, id="nothing to do"),
        pytest.param(100.0, 0.0, 0.0, None, id="a rate of zero says nothing"),
        pytest.param(NAN, 0.0, 100.0, None, id="target unknown"),
        pytest.param(200.0, 0.0, NAN, None, id="rate unknown"),
        pytest.param(INF, 0.0, 100.0, None, id="target infinite"),
        pytest.param(200.0, 0.0, INF, None, id="idle"),
    ],
)
def test_a_vertex_that_may_not_be_scaled_sustains_what_it_does_now(
    target: float, catch_up: float, rate: float, expected: float | None
) -> None:
    assert share_of(target=target, catch_up=catch_up, rate=rate) == expected


def test_a_finished_vertex_is_no_bottleneck() -> None:
    topology = a_topology(a_vertex(1, is_finished=True))

    assert find_bottlenecks(topology, {V: evaluated(target=200.0, rate=100.0)}, {}) == []


# 1 -> 2 -> 4 and 3 -> 4: a join of two sources, one of which has a map before it.
JOIN = a_topology(
    a_vertex(1),
    a_vertex(2, inputs={1: HASH}),
    a_vertex(3),
    a_vertex(4, inputs={2: HASH, 3: HASH}),
)
SOURCES = {1: {1}, 2: {1}, 3: {3}, 4: {1, 3}}


def bottleneck(number: int, share: float) -> Bottleneck:
    return Bottleneck(vertex_id(number), share, frozenset(vertex_id(source) for source in SOURCES[number]))


def test_every_bottleneck_is_found_with_the_sources_that_feed_it() -> None:
    rates = {1: 1000.0, 2: 100.0, 3: 1000.0, 4: 50.0}
    metrics = {vertex_id(number): evaluated(target=200.0, rate=rate) for number, rate in rates.items()}

    assert find_bottlenecks(JOIN, metrics, {V: sizing(8, 200)}) == [bottleneck(2, 0.5), bottleneck(4, 0.25)]


@pytest.mark.parametrize(
    ("bottlenecks", "number", "expected"),
    [
        pytest.param([], 1, None, id="none"),
        pytest.param([bottleneck(2, 0.5)], 1, 2, id="behind the only source of it"),
        pytest.param([bottleneck(2, 0.5)], 2, None, id="not itself"),
        pytest.param([bottleneck(2, 0.5)], 3, None, id="another source"),
        pytest.param([bottleneck(2, 0.5)], 4, None, id="one of two inputs only"),
        pytest.param([bottleneck(4, 0.5)], 3, 4, id="a join holds all its sources back"),
        pytest.param([bottleneck(2, 0.5), bottleneck(4, 0.25)], 1, 4, id="the tightest of two"),
        pytest.param([bottleneck(2, 0.25), bottleneck(4, 0.5)], 1, 2, id="in any order"),
        pytest.param([bottleneck(2, 0.5), bottleneck(4, 0.25)], 4, None, id="the join itself"),
    ],
)
def test_a_vertex_is_limited_by_what_holds_back_everything_that_feeds_it(
    bottlenecks: list[Bottleneck], number: int, expected: int | None
) -> None:
    found = tightest(bottlenecks, vertex_id(number), sources_of(JOIN)[vertex_id(number)])

    assert (None if found is None else found.vertex_id) == (None if expected is None else vertex_id(expected))


def limited(
    target: float, share: float, *, catch_up: float = 0.0, maximum: int = 128, coefficient: float = 1.0
) -> tuple[VertexSizing, VertexSizing]:
    """Size a vertex of parallelism 4 that processes 100 records/s, for the whole target and for a share of it."""
    vertex = a_vertex(1, parallelism=4, max_parallelism=maximum)
    metrics = evaluated(target=target, rate=100.0, catch_up=catch_up, parallelism=4)
    whole = size_vertex(vertex, metrics, SETTINGS, coefficient)
    assert whole is not None
    return whole, limited_sizing(vertex, metrics, SETTINGS, sizing=whole, share=share)


@pytest.mark.parametrize(
    ("target", "catch_up", "share", "coefficient", "expected"),
    [
        pytest.param(200.0, 0.0, 0.5, 1.0, 8, id="half of 16"),
        pytest.param(100.0, 200.0, 0.5, 1.0, 8, id="a backlog is limited too"),
        pytest.param(200.0, 0.0, 0.5, 0.8, 10, id="a vertex that scales badly"),
        pytest.param(200.0, 0.0, 0.1, 1.0, 4, id="never below the present parallelism"),
    ],
)
def test_a_scale_up_goes_no_further_than_the_bottleneck_lets_through(
    target: float, catch_up: float, share: float, coefficient: float, expected: int
) -> None:
    _, sizing = limited(target, share, catch_up=catch_up, coefficient=coefficient)

    assert sizing.target == expected


@pytest.mark.parametrize(
    ("target", "share", "maximum"),
    [
        pytest.param(30.0, 0.5, 128, id="it is scaled down"),
        pytest.param(50.0, 0.5, 128, id="it stays"),
        pytest.param(200.0, 0.5, 6, id="its own limit is tighter"),
    ],
)
def test_a_vertex_that_would_not_take_more_anyway_is_not_limited(target: float, share: float, maximum: int) -> None:
    whole, sizing = limited(target, share, maximum=maximum)

    assert sizing is whole


def test_sources_are_found_quickly_in_a_graph_that_forks_and_joins_again_and_again() -> None:
    diamonds = 60
    vertices = [a_vertex(1)]
    for at in range(1, 3 * diamonds, 3):
        vertices += [
            a_vertex(at + 1, inputs={at: HASH}),
            a_vertex(at + 2, inputs={at: HASH}),
            a_vertex(at + 3, inputs={at + 1: HASH, at + 2: HASH}),
        ]

    assert set(sources_of(a_topology(*vertices)).values()) == {frozenset({vertex_id(1)})}
