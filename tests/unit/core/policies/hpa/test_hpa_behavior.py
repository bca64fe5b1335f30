import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.options.hpa import (
    Behavior,
    HpaOptions,
    RateLimit,
    RateUnit,
    Rules,
    Select,
    behavior_of,
    parse_rate_limits,
)
from flink_autoscaler.core.options.option import PREFIX
from flink_autoscaler.core.policies.hpa.behavior import Behaved, Track, behave

START = 1_000.0
DAY = 86_400.0
FORGET = 900.0


def a_behavior(options: Mapping[str, str]) -> Behavior:
    """Make a behaviour from options, those of Kubernetes unless told otherwise."""
    settings = {"hpa.behavior": "kubernetes", **options}
    return behavior_of(HpaOptions({PREFIX + key: value for key, value in settings.items()}), FORGET)


KUBERNETES = a_behavior({})


def at_once(limits: str = "Percent 100 / 15 s", select: str = "Max") -> Behavior:
    """Make a behaviour without windows, with the same limits in both directions."""
    rules = Rules(0.0, parse_rate_limits(limits), Select(select))
    return Behavior(rules, rules, FORGET)


def steps(desired: int, current: int, behavior: Behavior, *, interval: float, count: int) -> list[int]:
    """Return the numbers that follow each other when every one is carried out at once."""
    numbers: list[int] = []
    track = None
    for turn in range(count):
        behaved = behave(desired, current, START + turn * interval, track, behavior)
        current, track = behaved.number, behaved.track
        numbers.append(current)
    return numbers


def recommended(values: list[int], current: int, behavior: Behavior, *, interval: float = 60.0) -> list[int]:
    """Return what becomes of recommendations while the number itself stays what it is."""
    numbers: list[int] = []
    track = None
    for turn, value in enumerate(values):
        behaved = behave(value, current, START + turn * interval, track, behavior)
        track = behaved.track
        numbers.append(behaved.number)
    return numbers


def test_kubernetes_takes_four_steps_from_3_to_40() -> None:
    assert steps(40, 3, KUBERNETES, interval=15.0, count=5) == [7, 14, 28, 40, 40]


def test_flink_takes_one_step_from_3_to_40() -> None:
    assert steps(40, 3, a_behavior({"hpa.behavior": "flink"}), interval=15.0, count=2) == [40, 40]


def test_flink_multiplies_by_at_most_sixteen_within_a_minute() -> None:
    flink = a_behavior({"hpa.behavior": "flink"})

    assert steps(1_000, 3, flink, interval=30.0, count=3) == [48, 48, 768]


def test_several_limits_allow_the_largest_change() -> None:
    limits = at_once("Pods 4 / 60 s, Percent 10 / 60 s")

    assert steps(1, 80, limits, interval=60.0, count=2) == [72, 64]


def test_several_limits_allow_the_smallest_change_when_told_so() -> None:
    limits = at_once("Pods 4 / 60 s, Percent 10 / 60 s", "Min")

    assert steps(1, 80, limits, interval=60.0, count=2) == [76, 72]


@pytest.mark.parametrize(
    ("limits", "current", "desired", "expected"),
    [
        pytest.param("Percent 10 / 15 s", 11, 20, 13, id="what may be added is rounded up"),
        pytest.param("Percent 10 / 15 s", 11, 1, 9, id="what may go is rounded up"),
        pytest.param("Percent 90 / 15 s", 10, 1, 1, id="a tenth of ten is left"),
        pytest.param("Percent 300 / 15 s", 10, 1, 1, id="more than everything may go"),
        pytest.param("Pods 3 / 15 s", 10, 20, 13, id="so many more"),
        pytest.param("Pods 3 / 15 s", 10, 1, 7, id="so many less"),
    ],
)
def test_limits_are_whole_numbers(limits: str, current: int, desired: int, expected: int) -> None:
    assert behave(desired, current, START, None, at_once(limits)).number == expected


@pytest.mark.parametrize("desired", [1, 20])
def test_disabled_stays(desired: int) -> None:
    assert behave(desired, 10, START, None, at_once(select="Disabled")).number == 10


def test_a_direction_counts_only_its_own_changes_within_the_period() -> None:
    behavior = at_once("Pods 4 / 60 s")
    first = behave(20, 10, START, None, behavior)

    second = behave(20, 14, START + 30.0, first.track, behavior)
    down = behave(1, 14, START + 31.0, second.track, behavior)
    third = behave(20, 14, START + 60.0, second.track, behavior)

    assert (first.number, second.number, down.number, third.number) == (14, 14, 10, 18)


def test_a_change_by_somebody_else_counts() -> None:
    behavior = at_once("Pods 4 / 60 s")
    first = behave(10, 10, START, None, behavior)

    assert behave(20, 13, START + 30.0, first.track, behavior).number == 14


def test_more_than_the_limit_was_added_already() -> None:
    behavior = at_once("Pods 4 / 60 s")
    first = behave(10, 10, START, None, behavior)

    assert behave(30, 20, START + 30.0, first.track, behavior).number == 20


def test_the_greatest_recommendation_of_the_window_holds_a_scale_down_back() -> None:
    track = None
    for at, value in zip((0.0, 60.0, 120.0, 180.0, 240.0), (10, 10, 9, 7, 6), strict=True):
        behaved = behave(value, 10, START + at, track, KUBERNETES)
        track = behaved.track
        assert behaved.number == 10

    assert behave(6, 10, START + 299.0, track, KUBERNETES).number == 10
    assert behave(6, 10, START + 360.0, track, KUBERNETES).number == 9


def test_a_scale_down_waits_for_the_window_after_the_start() -> None:
    assert recommended([4] * 7, 8, KUBERNETES) == [8, 8, 8, 8, 8, 4, 4]


def test_the_least_recommendation_of_the_window_holds_a_scale_up_back() -> None:
    behavior = a_behavior({"hpa.scale-up.window": "2 min"})

    assert recommended([16, 12, 16, 16, 16], 8, behavior) == [8, 8, 12, 16, 16]


def test_windows_shorter_than_the_time_between_two_looks_hold_nothing_back() -> None:
    behavior = a_behavior({"hpa.scale-down.window": "10 s"})

    assert recommended([4, 4], 8, behavior) == [8, 4]


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(START + FORGET + 301.0, id="nobody looked for long"),
        pytest.param(START - 1.0, id="the clock went back"),
    ],
)
def test_what_is_remembered_is_forgotten(later: float) -> None:
    track = Track(START, 8, ((START - 290.0, 4),))

    assert behave(4, 8, later, track, KUBERNETES) == Behaved(8, 8, Track(later, 8, ((later, 8), (later, 4))))


def test_only_what_can_still_matter_is_remembered() -> None:
    track = None
    for turn in range(600):
        track = behave(20 - turn // 60, 20, START + turn, track, KUBERNETES).track

    assert len(track.recommendations if track else ()) <= 7


@pytest.mark.parametrize(
    "saved",
    [
        None,
        {},
        "text",
        {"seen_at": 1.0},
        {"seen_at": 1.0, "size": 4, "recommendations": [[1.0, "x"]], "changes": []},
        {"seen_at": 1.0, "size": 4, "recommendations": [], "changes": [[1.0]]},
    ],
)
def test_what_is_not_a_track_is_none(saved: object) -> None:
    assert Track.read(saved) is None


NUMBERS = st.integers(1, 200)
LIMITS = st.lists(
    st.builds(RateLimit, st.sampled_from(RateUnit), st.integers(1, 300), st.floats(1.0, 600.0)), min_size=1, max_size=3
).map(tuple)
RULES = st.builds(Rules, st.floats(0.0, 600.0), LIMITS, st.sampled_from(Select))
BEHAVIORS = st.builds(Behavior, RULES, RULES, st.just(FORGET))
LOOKS = st.lists(st.tuples(st.floats(1.0, 300.0), NUMBERS), min_size=1, max_size=20)


@given(behavior=BEHAVIORS, looks=LOOKS, current=NUMBERS)
def test_a_number_moves_toward_a_recommendation_and_never_beyond(
    behavior: Behavior, looks: list[tuple[float, int]], current: int
) -> None:
    now, track = START, None
    for wait, desired in looks:
        now += wait
        behaved = behave(desired, current, now, track, behavior)
        assert min(current, desired) <= behaved.number <= max(current, desired)
        assert min(current, behaved.stabilized) <= behaved.number <= max(current, behaved.stabilized)
        current, track = max(1, behaved.number), behaved.track


@given(behavior=BEHAVIORS, looks=LOOKS, current=NUMBERS)
def test_forgetting_what_cannot_matter_changes_nothing(
    behavior: Behavior, looks: list[tuple[float, int]], current: int
) -> None:
    now, track, everything = START, None, [(START + looks[0][0], current)]
    for wait, desired in looks:
        now += wait
        behaved = behave(desired, current, now, track, behavior)
        low = min([desired, *(value for at, value in everything if at > now - behavior.up.window)])
        high = max([desired, *(value for at, value in everything if at > now - behavior.down.window)])
        assert behaved.stabilized == min(max(current, low), high)
        everything.append((now, desired))
        track = behaved.track


@given(behavior=BEHAVIORS, looks=LOOKS, current=NUMBERS)
def test_a_track_survives_being_written_as_json(
    behavior: Behavior, looks: list[tuple[float, int]], current: int
) -> None:
    now, track = START, None
    for wait, desired in looks:
        now += wait
        behaved = behave(desired, current, now, track, behavior)
        track = behaved.track
        assert Track.read(json.loads(json.dumps(track.saved()))) == track
        current = max(1, behaved.number)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        pytest.param("Percent 100 / 15 s", [RateLimit(RateUnit.PERCENT, 100, 15.0)], id="one"),
        pytest.param(
            "percent 100/15s,PODS 4 / 1 min",
            [RateLimit(RateUnit.PERCENT, 100, 15.0), RateLimit(RateUnit.PODS, 4, 60.0)],
            id="two, any case, any blanks",
        ),
    ],
)
def test_rate_limits_are_read(text: str, limits: list[RateLimit]) -> None:
    assert parse_rate_limits(text) == tuple(limits)


@pytest.mark.parametrize(
    "text", ["", "Percent 100", "Percent / 15 s", "Percent -1 / 15 s", "Pods 0 / 15 s", "Pods 4 / 0 s", "Cats 4 / 15 s"]
)
def test_rate_limits_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_rate_limits(text)
