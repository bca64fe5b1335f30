from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.decide.sizing.alignment import (
    Aligned,
    AlignmentMode,
    balanced,
    built_in_mode,
    custom_mode_name,
    evenly_spread,
    legacy_evenly_spread,
    legacy_maximize_utilisation,
    max_increase,
    off,
    search,
    within_increase,
    yielded,
)
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.ports.plugins import AlignmentRequest
from testkit.builders.core import options_with, vertex_id

HASH = frozenset({ShipStrategy.HASH})


def request(current: int, target: int, partitions: int, max_parallelism: int, upper: int = 200) -> AlignmentRequest:
    return AlignmentRequest(vertex_id(1), current, target, partitions, max_parallelism, 1, upper, HASH)


def limited(parallelism: int) -> Aligned:
    return Aligned(parallelism, is_limited=True)


@pytest.mark.parametrize(
    ("given_request", "expected"),
    [
        pytest.param(request(10, 13, 0, 120), (14, 15, 15, 14), id="10 to 13 of 120"),
        pytest.param(request(10, 17, 0, 120), (18, 20, 20, 18), id="10 to 17 of 120"),
        pytest.param(request(10, 61, 0, 120), (120, 120, 120, 120), id="10 to 61 of 120"),
        pytest.param(request(30, 26, 0, 120), (30, 30, 30, 30), id="30 to 26 of 120: stays"),
        pytest.param(request(26, 23, 0, 120), (24, 24, 24, 24), id="26 to 23 of 120"),
        pytest.param(request(60, 35, 0, 128), (43, 35, limited(32), 43), id="60 to 35 of 128"),
        pytest.param(request(5, 7, 97, 128), (8, 97, 97, 8), id="5 to 7 of 97 partitions"),
        pytest.param(request(50, 34, 97, 128), (49, 34, limited(33), 49), id="50 to 34 of 97 partitions"),
        pytest.param(request(20, 30, 24, 128), (30, 30, limited(24), limited(24)), id="beyond the partitions"),
        pytest.param(request(16, 20, 30, 128, 25), (20, 20, limited(16), limited(16)), id="blocked by 25"),
        pytest.param(request(14, 17, 40, 128, 18), (17, 17, limited(14), limited(14)), id="blocked by 18"),
        pytest.param(request(8, 10, 0, 64, 12), (11, 10, 10, 11), id="8 to 10 of 64 within 12"),
        pytest.param(request(10, 13, 0, 120, 14), (14, 13, limited(12), 14), id="10 to 13 of 120, 15 is not allowed"),
        pytest.param(request(14, 13, 0, 120), (14, 13, limited(12), 14), id="14 to 13 of 120, 15 would be up"),
        pytest.param(request(36, 18, 25, 30), (25, 25, 25, 25), id="36 to 18 of 25 partitions"),
    ],
)
def test_modes_align_as_documented(given_request: AlignmentRequest, expected: tuple[int | Aligned, ...]) -> None:
    modes = (balanced, evenly_spread, legacy_evenly_spread, legacy_maximize_utilisation)

    results = tuple(mode(given_request) for mode in modes)

    assert results == tuple(Aligned(value) if isinstance(value, int) else value for value in expected)
    assert off(given_request) == Aligned(given_request.target)


ALL_MODES = [off, balanced, evenly_spread, legacy_evenly_spread, legacy_maximize_utilisation]


@pytest.mark.parametrize("mode", ALL_MODES)
def test_nothing_is_aligned_where_nothing_is_spread(mode: AlignmentMode) -> None:
    plain = AlignmentRequest(vertex_id(1), 10, 13, 0, 120, 1, 200, frozenset({ShipStrategy.REBALANCE}))

    assert mode(plain) == Aligned(13)


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        pytest.param({}, balanced, id="default"),
        pytest.param({"scaling.parallelism-alignment.mode": "OFF"}, off, id="off"),
        pytest.param({"scaling.parallelism-alignment.mode": "EVENLY_SPREAD"}, evenly_spread, id="evenly spread"),
        pytest.param({"scaling.parallelism-alignment.mode": "off"}, balanced, id="names are case-sensitive"),
        pytest.param(
            {"scaling.key-group.partitions.adjust.mode": "evenly_spread"}, legacy_evenly_spread, id="legacy mode"
        ),
        pytest.param(
            {"scaling.key-group.partitions.adjust.mode": "MAXIMIZE_UTILISATION"},
            legacy_maximize_utilisation,
            id="the other legacy mode",
        ),
        pytest.param(
            {
                "scaling.parallelism-alignment.mode": "BALANCED",
                "scaling.key-group.partitions.adjust.mode": "EVENLY_SPREAD",
            },
            balanced,
            id="the new option wins",
        ),
    ],
)
def test_the_mode_is_chosen_by_options(options: dict[str, str], mode: AlignmentMode) -> None:
    assert built_in_mode(options_with(options)) is mode


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, None),
        ({"scaling.parallelism-alignment.mode": "OFF"}, None),
        ({"scaling.parallelism-alignment.mode": "off"}, "off"),
    ],
    ids=["default", "built in", "any other text"],
)
def test_any_other_name_is_a_custom_mode(options: dict[str, str], name: str | None) -> None:
    assert custom_mode_name(options_with(options)) == name


@pytest.mark.parametrize("mode", ALL_MODES)
@given(data=st.data())
def test_alignment_never_moves_against_the_target_and_never_beyond_the_limits(
    mode: AlignmentMode, data: st.DataObject
) -> None:
    current = data.draw(st.integers(1, 150))
    max_parallelism = data.draw(st.integers(current, 300))
    upper = data.draw(st.integers(current, 300))
    target = data.draw(st.integers(1, min(max_parallelism, upper)).filter(lambda t: t != current))
    partitions = data.draw(st.integers(0, 300))

    result = mode(request(current, target, partitions, max_parallelism, upper)).parallelism

    low, high = (current, min(max_parallelism, upper)) if target > current else (1, current)
    assert low <= result <= high


@pytest.mark.parametrize("mode", ["BALANCED", "EVENLY_SPREAD", "legacy EVENLY_SPREAD", "legacy MAXIMIZE_UTILISATION"])
@given(data=st.data())
def test_what_alignment_can_come_to_is_all_that_it_comes_to(mode: str, data: st.DataObject) -> None:
    current, upper = data.draw(st.integers(1, 90)), data.draw(st.integers(1, 200))
    max_parallelism = data.draw(st.integers(current, 200))
    asked = replace(request(current, 1, data.draw(st.integers(0, 200)), max_parallelism, max(current, upper)), lower=1)
    key = "key-group.partitions.adjust.mode" if mode.startswith("legacy") else "parallelism-alignment.mode"
    options = options_with({f"scaling.{key}": mode.removeprefix("legacy ")})

    found = yielded(asked, options)

    every = [target for target in range(1, max(asked.bound, current) + 1) if target != current]
    mode_of, most = built_in_mode(options), max_increase(options)
    aligned = {within_increase(t, mode_of(replace(asked, target=t)), most).parallelism for t in every}
    assert found == tuple(sorted({current, *aligned}))


@pytest.mark.parametrize("mode", ["OFF", "of my own"])
def test_of_some_modes_it_is_not_known(mode: str) -> None:
    assert yielded(request(4, 5, 0, 128, 128), options_with({"scaling.parallelism-alignment.mode": mode})) is None


@given(
    target=st.integers(1, 300), groups=st.integers(1, 300), current=st.integers(1, 300), accepts_less_load=st.booleans()
)
def test_the_search_finds_what_trying_one_by_one_finds(
    target: int, groups: int, current: int, accepts_less_load: bool
) -> None:
    asked = request(current, target, 0, groups, 300)
    end = asked.bound if asked.is_scale_up else min(current, asked.bound)
    share = groups // target
    tried = (
        each for each in range(target, end + 1) if groups % each == 0 or (accepts_less_load and groups // each < share)
    )

    assert search(asked, accepts_less_load=accepts_less_load) == next(tried, None)
