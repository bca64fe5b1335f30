import pytest

from flink_autoscaler.core.model.policy_values import VertexLimits, VertexSizing
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.policies.base.sizing import (
    Bottleneck,
    SizingSettings,
    find_bottlenecks,
    size_vertex,
    sizing_for_share,
)
from testkit.builders.core import a_topology, a_vertex, evaluated_vertex, options_with, vertex_id

HASH = ShipStrategy.HASH
V = vertex_id(1)
SETTINGS = SizingSettings.of(options_with({"utilization.target": "0.5", "catch-up.duration": "0"}), 300)


def sizing(wanted: int, bound: int, *, current: int = 4) -> VertexSizing:
    """Make a sizing of which only the room to grow matters."""
    return VertexSizing(current, 100.0, 0.0, 0.0, wanted, VertexLimits(1, 200, bound), min(wanted, bound))


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
    metrics = {vertex_id(number): evaluated_vertex(target=200.0, rate=rate) for number, rate in rates.items()}

    assert find_bottlenecks(JOIN, metrics, {V: sizing(8, 200)}) == [bottleneck(2, 0.5), bottleneck(4, 0.25)]


def limited(
    target: float, share: float, *, catch_up: float = 0.0, maximum: int = 128, coefficient: float = 1.0
) -> tuple[VertexSizing, VertexSizing]:
    """Size a vertex of parallelism 4 that processes 100 records/s, for the whole target and for a share of it."""
    vertex = a_vertex(1, parallelism=4, max_parallelism=maximum)
    metrics = evaluated_vertex(target=target, rate=100.0, catch_up=catch_up, parallelism=4)
    whole = size_vertex(vertex, metrics, SETTINGS, coefficient)
    assert whole is not None
    return whole, sizing_for_share(vertex, metrics, SETTINGS, sizing=whole, share=share)


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
