from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import PREFIX
from flink_autoscaler.core.options.policies import RateLimit, RateUnit, parse_rate_limits
from flink_autoscaler.core.policies.varga import ScalingHistory, apply_behavior

START = 1_000.0
FORGET = 900.0
KUBERNETES = {"scale-up.policies": "Percent 100 / 15 s, Pods 4 / 15 s", "scale-down.window": "5 min"}


def a_behavior(options: Mapping[str, str]) -> AutoscalerOptions:
    """Make windows and limits from options."""
    settings = {f"{PREFIX}varga.{key}": value for key, value in options.items()}
    return AutoscalerOptions({**settings, f"{PREFIX}metrics.window": f"{FORGET:.0f} s"})


def at_once(limits: str = "Percent 100 / 15 s", select: str = "Max") -> AutoscalerOptions:
    """Make a behaviour without windows, with the same limits in both directions."""
    return a_behavior(
        {
            "scale-down.window": "0 s",
            "scale-up.policies": limits,
            "scale-down.policies": limits,
            "scale-up.select": select,
            "scale-down.select": select,
        }
    )


def steps(desired: int, current: int, behavior: AutoscalerOptions, *, interval: float, count: int) -> list[int]:
    """Return the numbers that follow each other when every one is carried out at once."""
    numbers: list[int] = []
    history = None
    for turn in range(count):
        _, current, history = apply_behavior(desired, current, START + turn * interval, history, behavior)
        numbers.append(current)
    return numbers


def recommended(values: list[int], current: int, options: Mapping[str, str], *, interval: float = 60.0) -> list[int]:
    """Return what becomes of recommendations while the number itself stays what it is."""
    numbers: list[int] = []
    history = None
    for turn, value in enumerate(values):
        _, number, history = apply_behavior(value, current, START + turn * interval, history, a_behavior(options))
        numbers.append(number)
    return numbers


def test_kubernetes_takes_four_steps_from_3_to_40() -> None:
    assert steps(40, 3, a_behavior(KUBERNETES), interval=15.0, count=5) == [7, 14, 28, 40, 40]


def test_the_default_takes_one_step_from_3_to_40() -> None:
    assert steps(40, 3, a_behavior({}), interval=15.0, count=2) == [40, 40]


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
    assert apply_behavior(desired, current, START, None, at_once(limits))[1] == expected


@pytest.mark.parametrize("desired", [1, 20])
def test_disabled_stays(desired: int) -> None:
    assert apply_behavior(desired, 10, START, None, at_once(select="Disabled"))[1] == 10


def test_a_direction_counts_only_its_own_changes_within_the_period() -> None:
    behavior = at_once("Pods 4 / 60 s")
    _, first, history = apply_behavior(20, 10, START, None, behavior)

    _, second, history = apply_behavior(20, 14, START + 30.0, history, behavior)
    _, down, _ = apply_behavior(1, 14, START + 31.0, history, behavior)
    _, third, _ = apply_behavior(20, 14, START + 60.0, history, behavior)

    assert (first, second, down, third) == (14, 14, 10, 18)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param(13, 14, id="a part of it"),
        pytest.param(20, 20, id="more than the limit"),
    ],
)
def test_a_change_by_somebody_else_counts(size: int, expected: int) -> None:
    behavior = at_once("Pods 4 / 60 s")
    _, _, history = apply_behavior(10, 10, START, None, behavior)

    assert apply_behavior(30, size, START + 30.0, history, behavior)[1] == expected


def test_the_greatest_recommendation_of_the_window_holds_a_scale_down_back() -> None:
    assert recommended([10, 10, 9, 7, 6, 6, 6], 10, KUBERNETES) == [10, 10, 10, 10, 10, 10, 9]


def test_a_scale_down_waits_for_the_window_after_the_start() -> None:
    assert recommended([4] * 7, 8, KUBERNETES) == [8, 8, 8, 8, 8, 4, 4]


def test_the_least_recommendation_of_the_window_holds_a_scale_up_back() -> None:
    assert recommended([16, 12, 16, 16, 16], 8, {"scale-up.window": "2 min"}) == [8, 8, 12, 16, 16]


def test_windows_shorter_than_the_time_between_two_looks_hold_nothing_back() -> None:
    assert recommended([4, 4], 8, {"scale-down.window": "10 s"}) == [8, 4]


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(START + FORGET + 301.0, id="nobody looked for long"),
        pytest.param(START - 1.0, id="the clock went back"),
    ],
)
def test_what_is_remembered_is_forgotten(later: float) -> None:
    history = ScalingHistory(START, 8, ((START - 290.0, 4),))

    limited = apply_behavior(4, 8, later, history, a_behavior(KUBERNETES))

    assert limited == (8, 8, ScalingHistory(later, 8, ((later, 8), (later, 4))))


def test_only_what_can_still_matter_is_remembered() -> None:
    history = None
    for turn in range(600):
        _, _, history = apply_behavior(20 - turn // 60, 20, START + turn, history, a_behavior(KUBERNETES))

    assert len(history.recommendations if history else ()) <= 7


NUMBERS = st.integers(1, 200)
SECONDS = st.integers(0, 600).map(lambda seconds: f"{seconds} s")
LIMITS = st.lists(
    st.tuples(st.sampled_from(RateUnit), st.integers(1, 300), st.integers(1, 600)), min_size=1, max_size=3
).map(lambda limits: ", ".join(f"{unit} {amount} / {period} s" for unit, amount, period in limits))
SELECTS = st.sampled_from(["Max", "Min", "Disabled"])
BEHAVIORS = st.fixed_dictionaries(
    {
        f"{direction}.{name}": values
        for direction in ("scale-up", "scale-down")
        for name, values in (("window", SECONDS), ("policies", LIMITS), ("select", SELECTS))
    }
).map(a_behavior)
LOOKS = st.lists(st.tuples(st.floats(1.0, 300.0), NUMBERS), min_size=1, max_size=20)


@given(behavior=BEHAVIORS, looks=LOOKS, current=NUMBERS)
def test_a_number_moves_toward_a_recommendation_and_never_beyond(
    behavior: AutoscalerOptions, looks: list[tuple[float, int]], current: int
) -> None:
    now, history = START, None
    for wait, desired in looks:
        now += wait
        stabilized, number, history = apply_behavior(desired, current, now, history, behavior)
        assert min(current, desired) <= number <= max(current, desired)
        assert min(current, stabilized) <= number <= max(current, stabilized)
        current = max(1, number)


@given(behavior=BEHAVIORS, looks=LOOKS, current=NUMBERS)
def test_forgetting_what_cannot_matter_changes_nothing(
    behavior: AutoscalerOptions, looks: list[tuple[float, int]], current: int
) -> None:
    now, history, everything = START, None, [(START + looks[0][0], current)]
    for wait, desired in looks:
        now += wait
        stabilized, _, history = apply_behavior(desired, current, now, history, behavior)
        low = min([desired, *(value for at, value in everything if at > now - behavior.varga_up.window)])
        high = max([desired, *(value for at, value in everything if at > now - behavior.varga_down.window)])
        assert stabilized == min(max(current, low), high)
        everything.append((now, desired))


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
