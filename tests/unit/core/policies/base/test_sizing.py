import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.decide.alignment import align_balanced
from flink_autoscaler.core.model.policy_values import VertexLimits, VertexSizing
from flink_autoscaler.core.model.topology import ShipStrategy, Vertex
from flink_autoscaler.core.policies.base.sizing import (
    Bottleneck,
    SizingSettings,
    find_bottlenecks,
    limits_of,
    size_vertex,
    sizing_for_share,
)
from flink_autoscaler.core.ports.plugins import AlignmentRequest
from testkit.builders.core import a_topology, a_vertex, evaluated_vertex, options_with, vertex_id

NAN, INF = math.nan, math.inf


REBALANCE, HASH = {9: ShipStrategy.REBALANCE}, {9: ShipStrategy.HASH}


def settings(options: dict[str, str] | None = None, *, compat: str = "reference") -> SizingSettings:
    return SizingSettings.of(options_with({"compat": compat, **(options or {})}), 300)


def sized(
    vertex: Vertex, *, target: float, rate: float, catch_up: float = 0.0, compat: str = "reference"
) -> VertexSizing:
    metrics = evaluated_vertex(target=target, rate=rate, catch_up=catch_up, parallelism=vertex.parallelism)
    sizing = size_vertex(vertex, metrics, settings(compat=compat))
    assert sizing is not None
    return sizing


def aligned(vertex: Vertex, sizing: VertexSizing) -> int:
    limits = sizing.limits
    strategies = frozenset(vertex.inputs.values())
    request = AlignmentRequest(
        vertex_id=vertex.vertex_id,
        current=sizing.current,
        target=sizing.target,
        partitions=vertex.source_partitions,
        max_parallelism=vertex.max_parallelism,
        lower=limits.lower,
        upper=limits.upper,
        strategies=strategies,
    )
    return align_balanced(request).parallelism


@pytest.mark.parametrize(
    ("vertex", "target", "catch_up", "rate", "capacity", "factor", "clamped", "parallelism"),
    [
        pytest.param(
            a_vertex(parallelism=8, max_parallelism=720, inputs=REBALANCE),
            1500.0,
            15.5,
            900.0,
            2408.0,
            2.675555,
            22,
            22,
            id="up, not aligned",
        ),
        pytest.param(
            a_vertex(parallelism=8, max_parallelism=720, inputs=HASH),
            1500.0,
            15.5,
            900.0,
            2408.0,
            2.675555,
            22,
            23,
            id="up, aligned to key groups",
        ),
        pytest.param(
            a_vertex(parallelism=10, max_parallelism=720, inputs=REBALANCE),
            40.0,
            0.0,
            900.0,
            64.0,
            0.4,
            4,
            4,
            id="down by the greatest step",
        ),
        pytest.param(
            a_vertex(parallelism=100, max_parallelism=720, inputs=REBALANCE),
            5000.0,
            0.0,
            800.0,
            7976.0,
            9.97,
            200,
            200,
            id="up to the configured maximum",
        ),
        pytest.param(
            a_vertex(parallelism=100, max_parallelism=150, inputs=REBALANCE),
            5000.0,
            0.0,
            800.0,
            7976.0,
            9.97,
            150,
            150,
            id="up to the key groups",
        ),
        pytest.param(
            a_vertex(parallelism=3, max_parallelism=128, inputs=REBALANCE),
            200.0,
            0.0,
            INF,
            319.0,
            0.4,
            2,
            2,
            id="idle",
        ),
        pytest.param(
            a_vertex(parallelism=20, max_parallelism=128, partitions=24),
            1500.0,
            0.0,
            1000.0,
            2393.0,
            2.393,
            48,
            48,
            id="a source beyond its partitions in the reference",
        ),
    ],
)
def test_parallelism_follows_the_capacity_that_is_needed(
    vertex: Vertex,
    target: float,
    catch_up: float,
    rate: float,
    capacity: float,
    factor: float,
    clamped: int,
    parallelism: int,
) -> None:
    sizing = sized(vertex, target=target, rate=rate, catch_up=catch_up)

    assert (sizing.capacity, sizing.target) == (capacity, clamped)
    assert sizing.factor == pytest.approx(factor, rel=1e-5)
    assert aligned(vertex, sizing) == parallelism


@pytest.mark.parametrize(("target", "rate"), [(200.0, NAN), (NAN, 100.0)], ids=["rate", "target"])
def test_nothing_is_said_about_a_vertex_with_something_unknown(target: float, rate: float) -> None:
    metrics = evaluated_vertex(target=target, rate=rate, parallelism=3)

    assert size_vertex(a_vertex(parallelism=3), metrics, settings()) is None


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        pytest.param(1515.9, True, id="below"),
        pytest.param(1516.0, False, id="on the lower edge"),
        pytest.param(4016.0, False, id="on the upper edge"),
        pytest.param(INF, True, id="above"),
    ],
)
def test_the_edges_belong_to_the_band(rate: float, expected: bool) -> None:
    metrics = evaluated_vertex(target=1500.0, rate=rate, up=1516.0, down=4016.0)

    sizing = size_vertex(a_vertex(parallelism=3), metrics, settings())

    assert sizing is not None
    assert sizing.is_outside is expected


positive = st.floats(min_value=0.0, max_value=1e9)


@given(target=positive, rate=positive | st.just(INF), current=st.integers(1, 500), partitions=st.integers(0, 300))
def test_a_target_stays_within_all_limits(target: float, rate: float, current: int, partitions: int) -> None:
    vertex = a_vertex(parallelism=current, max_parallelism=512, partitions=partitions)

    sizing = sized(vertex, target=target, rate=rate, compat="improved")

    assert 1 <= sizing.target <= max(200, current)
    assert sizing.target <= 512
    assert partitions == 0 or sizing.target <= max(partitions, current)


def test_limits_may_leave_one_parallelism_but_not_none() -> None:
    assert VertexLimits(lower=5, upper=5, bound=5).clamp(7) == 5
    with pytest.raises(ValueError, match=r"^least parallelism 6 is above the greatest one 5$"):
        VertexLimits(lower=6, upper=5, bound=5)


@pytest.mark.parametrize(("compat", "bound"), [("improved", 6), ("reference", 128)])
def test_sources_are_capped_but_in_the_reference(compat: str, bound: int) -> None:
    source = a_vertex(parallelism=4, partitions=6)

    assert limits_of(source, 4, settings({}, compat=compat)).bound == bound


BY_KEY = ShipStrategy.HASH


V = vertex_id(1)


SETTINGS = SizingSettings.of(options_with({"utilization.target": "0.5", "catch-up.duration": "0"}), 300)


def sizing(wanted: int, bound: int, *, current: int = 4) -> VertexSizing:
    """Make a sizing of which only the room to grow matters."""
    return VertexSizing(current, 100.0, 0.0, 0.0, wanted, VertexLimits(1, 200, bound), min(wanted, bound))


# 1 -> 2 -> 4 and 3 -> 4: a join of two sources, one of which has a map before it.
JOIN = a_topology(
    a_vertex(1),
    a_vertex(2, inputs={1: BY_KEY}),
    a_vertex(3),
    a_vertex(4, inputs={2: BY_KEY, 3: BY_KEY}),
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
