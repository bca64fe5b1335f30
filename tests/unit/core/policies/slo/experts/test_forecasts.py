"""Opinions on what comes, and how far they are trusted."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model.load_profile import LoadProfile
from flink_autoscaler.core.policies.slo.experts import forecasts
from flink_autoscaler.core.policies.slo.experts.forecasts import Match, Usual, nearest_hours, paths, usual_rates
from flink_autoscaler.core.policies.slo.experts.trust import MIX, Trust, due_length
from flink_autoscaler.core.policies.slo.history import DAY, History
from flink_autoscaler.core.policies.slo.model import HORIZON, LEAST_DEMAND


def a_history(load: Callable[[float], float], minutes: int) -> History:
    history = History()
    for minute in range(minutes):
        history = history.after(load(float(minute)), 1)
    return history


def day(minute: float) -> float:
    return 10.0 + 6.0 * math.sin(2.0 * math.pi * minute / 1440.0)


def ahead(load: Callable[[float], float], now: float) -> list[float]:
    return [load(now + 5.0 * place + 2.0) for place in range(HORIZON)]


def test_first_minute_is_all_that_is_expected() -> None:
    found = paths(a_history(lambda _: 7.0, 1), ())

    assert found == {"last": (7.0,) * HORIZON, "slow": (7.0,) * HORIZON}


def test_last_and_slow_are_means_of_five_and_thirty_minutes() -> None:
    found = paths(a_history(lambda minute: minute + 1.0, 29), ())

    assert found["last"][0] == 27.0
    assert found["slow"][95] == 15.0
    assert "trend" not in found


def test_trend_goes_on_and_fades() -> None:
    path = paths(a_history(lambda minute: 10.0 + 0.1 * minute, 60), ())["trend"]

    assert path[0] == pytest.approx(15.9 + 0.1 * 60.0 * (1.0 - math.exp(-2.5 / 60.0)))
    assert path[95] == pytest.approx(15.9 + 6.0, abs=0.01)


def test_drift_is_the_line_of_two_hours() -> None:
    path = paths(a_history(lambda minute: 10.0 + 0.05 * minute, 120), ())["drift"]

    assert path[0] == pytest.approx(16.0 + 0.05 * 2.5, rel=0.01)
    assert path[95] < 16.0 + 0.05 * 180.0 + 0.1


def test_mean_expects_what_is_unusual_to_be_gone_within_half_an_hour() -> None:
    def shares(minute: float) -> float:
        return 14.0 if minute % 90.0 < 30.0 else 8.0

    path = paths(a_history(shares, 365), ())["mean"]

    assert path[0] == pytest.approx(10.0 + 4.0 * math.exp(-2.5 / 20.0), rel=0.01)
    assert path[11] == pytest.approx(10.0, rel=0.04)
    assert path[95] == pytest.approx(10.0, rel=0.01)
    assert "mean" not in paths(a_history(shares, 119), ())


@pytest.mark.parametrize("burst", [pytest.param(60.0, id="bursts"), pytest.param(1e12, id="what no load can be")])
def test_nothing_goes_back_to_a_mean_of_bursts(burst: float) -> None:
    found = paths(a_history(lambda minute: burst if 100.0 <= minute < 130.0 else 10.0, 180), ())

    assert "mean" not in found


def test_nothing_goes_back_to_a_mean_that_the_last_hour_goes_away_from() -> None:
    def rising_at_last(minute: float) -> float:
        return 10.0 + (0.05 * (minute - 300.0) if minute > 300.0 else math.sin(minute))

    assert "mean" in paths(a_history(rising_at_last, 300), ())
    assert "mean" not in paths(a_history(rising_at_last, 360), ())


def test_no_path_leaves_what_a_load_can_do() -> None:
    found = paths(a_history(lambda minute: max(60.0 - minute, 0.0), 60), ())

    assert min(found["trend"]) == 0.001
    assert max(max(path) for path in found.values()) <= 180.0


def test_ramp_follows_a_surprise_only() -> None:
    calm = a_history(lambda _: 10.0, 20)
    surprised = calm.after(14.0, 1).watched(None).after(20.0, 1)

    assert "ramp" not in paths(calm, ())
    assert paths(surprised, ())["ramp"][95] == pytest.approx(20.0 + 4.0 * 8.0)
    assert paths(surprised.after(18.0, 1), ())["ramp"][95] == 18.0


def test_day_repeats_itself() -> None:
    found = paths(a_history(day, 2 * 1440 + 300), ())

    assert found["day"] == pytest.approx(ahead(day, 300.0), rel=0.02)
    assert "week" not in found


def test_day_that_is_larger_than_the_one_before_stays_so() -> None:
    found = paths(a_history(lambda minute: day(minute) * (1.5 if minute >= 1440.0 else 1.0), 2 * 1440 + 300 - 1440), ())

    assert "day" not in found or found["day"][0] > 0.0
    later = paths(a_history(lambda minute: day(minute) * (1.5 if minute >= 1440.0 else 1.0), 1440 + 500), ())
    assert later["day"] == pytest.approx([1.5 * each for each in ahead(day, 500.0)], rel=0.03)


def test_day_after_a_load_has_doubled_for_good_it_does_not_double_again() -> None:
    found = paths(a_history(lambda minute: 12.0 if minute < 480.0 else 24.0, 1440 + 470), ())

    assert max(found["day"]) == pytest.approx(24.0, rel=0.01)


def test_day_that_is_a_third_higher_than_the_one_before_may_become_higher_than_any() -> None:
    """After a Sunday, at three quarters of a working day."""
    found = paths(a_history(lambda minute: day(minute) * (1.0 if minute >= 1440.0 else 0.75), 1440 + 500), ())

    assert max(found["day"]) == pytest.approx(max(ahead(day, 500.0)), rel=0.1)


def test_day_after_a_load_has_grown_for_good_it_does_not_grow_on() -> None:
    found = paths(a_history(lambda minute: min(max(minute - 600.0, 0.0), 120.0) / 5.0 + 4.0, 1440 + 740), ())

    assert max(found["day"]) == pytest.approx(28.0, rel=0.02)


def test_week_repeats_itself() -> None:
    def week(minute: float) -> float:
        return day(minute) * (0.3 if minute % 10080.0 < 2880.0 else 1.0)

    history = History()
    for bucket in range(2016 + 30):
        history = history.after(week(5.0 * bucket), 5)

    assert paths(history, ())["week"] == pytest.approx(ahead(week, 5.0 * 30), rel=0.02)
    assert max(paths(history, ())["day"]) > 1.5 * max(paths(history, ())["week"])


def test_hours_like_the_last_one_are_found_a_period_ago() -> None:
    def waves(minute: float) -> float:
        return 10.0 + 4.0 * math.sin(2.0 * math.pi * minute / 360.0) + minute / 5000.0

    history = a_history(waves, 1440)

    matches = nearest_hours(history)

    assert len(matches) == 3
    away = [min(abs(each.age - 72 * turn) for turn in (1, 2, 3)) for each in matches]
    assert away[0] <= 3
    assert max(away) <= 9
    expected = ahead(waves, 1440.0)
    assert paths(history, matches)["analog"][:60] == pytest.approx(expected[:60], rel=0.15)


@pytest.mark.parametrize("filling", range(5))
def test_hours_like_the_last_one_are_followed_from_now_on_and_not_from_the_last_whole_bucket(filling: int) -> None:
    def rising(minute: float) -> float:
        return 10.0 * math.exp((minute % 240.0) / 120.0)

    minutes = 12 * 240 + 60
    history = a_history(rising, minutes + filling)
    path = paths(history, nearest_hours(history))["analog"]

    assert path[:12] == pytest.approx(ahead(rising, minutes + filling)[:12], rel=0.006)


def test_steady_load_has_few_hours_to_compare() -> None:
    history = History()
    for _ in range(8 * DAY):
        history = history.after(10.0, 5)

    matches = nearest_hours(history)

    assert [abs(one.age - two.age) > 6 for one, two in pairwise(matches)] == [True, True]
    assert paths(history, matches)["analog"] == pytest.approx((10.0,) * HORIZON, rel=0.003)


def test_match_that_history_has_lost_says_nothing() -> None:
    history = a_history(day, 300)

    assert "analog" not in paths(history, (Match(55, 1.0), Match(3, 1.0)))


def usual(load: Callable[[float], float], now: float) -> Usual:
    """What profiles expect that are made of a load, at an instant at which no bucket has begun."""
    before = [load(now + 5.0 * place + 2.0) for place in range(-12, 0)]
    return Usual(before, before[-6:], ahead(load, now))


def test_profile_that_is_right_is_what_is_expected() -> None:
    found = paths(a_history(day, 300), (), usual(day, 300.0))

    assert found["profile"] == pytest.approx(ahead(day, 300.0), rel=0.005)
    assert "profile" not in paths(a_history(day, 300), ())


def test_what_is_unusual_now_fades_from_what_a_profile_expects() -> None:
    path = paths(a_history(lambda minute: 1.5 * day(minute), 300), (), usual(day, 300.0))["profile"]

    expected = ahead(day, 300.0)
    assert path[0] == pytest.approx(1.5 * expected[0], rel=0.02)
    assert path[71] / expected[71] == pytest.approx(1.5 ** math.exp(-1.0), rel=0.02)


def test_half_hour_that_is_unusual_fades_within_the_next_hours() -> None:
    path = paths(
        a_history(lambda minute: 20.0 if minute >= 300.0 else 10.0, 330),
        (),
        Usual([10.0] * 12, [10.0] * 6, [10.0] * HORIZON),
    )["profile"]

    assert path[0] == pytest.approx(20.0, rel=0.05)
    assert path[95] < 12.0


PARTS = st.lists(st.floats(LEAST_DEMAND, 1e6), min_size=HORIZON, max_size=HORIZON)


@given(PARTS, st.integers(1, 40))
def test_no_profile_expects_what_a_load_cannot_do(expected: list[float], minutes: int) -> None:
    path = paths(a_history(day, minutes), (), Usual(expected[:12], expected[:6], expected))["profile"]

    assert len(path) == HORIZON
    assert LEAST_DEMAND <= min(path) <= max(path) <= 3.0 * 16.0


QUARTERS = tuple(1.0 + slot % 96 for slot in range(672))
"""1 in the first quarter hour of every day, 96 in the last."""
MONDAY = 1_699_833_600.0


PROFILE = LoadProfile(QUARTERS, QUARTERS, weeks=4, level=100.0, growth=1.0, asof=MONDAY)


def test_profile_tells_the_hour_before_the_half_hour_before_and_what_comes() -> None:
    found = usual_rates(PROFILE, MONDAY + 36_000.0, MONDAY + 36_150.0)

    assert found is not None
    before, lately, to_come = found
    assert (len(before), len(lately), len(to_come)) == (12, 6, HORIZON)
    assert before[-1] == pytest.approx(100.0 * (40.5 - 1 / 6))  # 9:57:30, 7.5 minutes before the middle of a quarter
    assert lately[-1] == pytest.approx(before[-1] + 100.0 / 6)
    assert to_come[0] == pytest.approx(before[-1] + 100.0 / 2)


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(replace(PROFILE, q50=(None, *QUARTERS[1:])), id="a quarter hour in which nothing was ever seen"),
        pytest.param(replace(PROFILE, level=1e308, growth=1.25), id="a level beyond all numbers"),
        pytest.param(replace(PROFILE, growth=1e300, asof=0.0), id="growth beyond all numbers"),
    ],
)
def test_profile_that_does_not_know_all_of_it_tells_nothing(profile: LoadProfile) -> None:
    assert usual_rates(profile, MONDAY, MONDAY) is None


def trusting(actual: Callable[[int], float], said: Callable[[int], float], buckets: int = 300) -> Trust:
    """Let an expert say something beside the last value, bucket by bucket."""
    trust = Trust()
    for bucket in range(buckets):
        trust = trust.after(actual(bucket), 0.0)
        ahead_ = tuple(said(bucket + 1 + place) for place in range(HORIZON))
        trust = trust.saying({"last": (actual(bucket),) * HORIZON, "day": ahead_}, ahead_)
    return trust


def swing(bucket: int) -> float:
    return 10.0 + 5.0 * math.sin(bucket / 8.0)


EQUAL = {"last": (1.0,) * HORIZON, "day": (1.0,) * HORIZON}


def test_experts_of_which_nothing_is_known_are_believed_alike() -> None:
    assert Trust().weights(EQUAL, is_surprised=False) == {"last": 0.5, "day": 0.5}


def test_expert_that_is_right_is_believed() -> None:
    trust = trusting(swing, swing)

    assert trust.weights(EQUAL, is_surprised=False)["day"] > 0.99
    assert trust.mix.total / trust.mix.count < 2e-5


def test_expert_that_is_wrong_is_not_believed() -> None:
    trust = trusting(lambda _: 10.0, swing)

    assert trust.weights(EQUAL, is_surprised=False)["last"] > 0.99
    assert trust.mix.total / trust.mix.count == pytest.approx(0.0144, rel=0.2)


def test_noise_is_expected_to_pass() -> None:
    chance, noise, history, trust = random.Random(7), 0.0, History(), Trust()
    for _ in range(1440):
        noise = 0.9 * noise + 0.087 * chance.gauss(0.0, 1.0)
        history = history.after(20.0 * math.exp(noise), 1)
        if history.completed:
            trust = trust.after(history.bucket(history.count - 1), 0.0).saying(
                paths(history, nearest_hours(history)), ()
            )

    weights = trust.weights(paths(history, nearest_hours(history)), is_surprised=False)

    assert max(weights, key=weights.__getitem__) == "mean"


def test_what_is_due_is_bounded_and_compared_at_its_time() -> None:
    trust = trusting(swing, lambda bucket: float(bucket + 1), buckets=40)

    assert {name: len(text) for name, text in trust.due.items()} == {
        name: due_length(name) for name in ("last", "day", MIX)
    }
    after = trust.after(40.5, 0.0)
    gained = [
        new.total - old.total * 0.5 ** (1 / 72)
        for new, old in zip(after.scores_of("day"), trust.scores_of("day"), strict=True)
    ]
    assert gained == pytest.approx([math.log(40.5 / 41.0) ** 2] * 7, abs=2e-3)


def test_the_mix_does_not_err_where_hardly_anything_comes() -> None:
    trust = Trust()
    for _ in range(3):
        trust = trust.saying({}, (2.0,) * HORIZON)
    nothing = trust.after(2.0, 0.0).mix.total

    assert trust.after(0.2, day_mean=10.0).mix.total == pytest.approx(nothing, abs=1e-4)
    assert trust.after(2.6, day_mean=10.0).mix.total == pytest.approx(nothing + math.log(2.6 / 2.5) ** 2, abs=1e-4)
    assert trust.after(2.1, day_mean=4.0).mix.total == pytest.approx(nothing + math.log(2.1 / 2.0) ** 2, abs=3e-4)


def test_expert_without_a_path_is_not_scored_for_it() -> None:
    trust = Trust().saying({"last": (1.0,) * HORIZON}, ()).after(1.0, 0.0)

    assert [score.count for score in trust.scores_of("last")] == pytest.approx([1, 0, 0, 0, 0, 0, 0], rel=1e-4)
    assert trust.silent().after(1.0, 0.0).scores_of("last") == trust.scores_of("last")


def test_surprise_gives_half_of_the_weight_to_what_just_happened() -> None:
    with_ramp = {**EQUAL, "ramp": (1.0,) * HORIZON}

    assert Trust().weights(with_ramp, is_surprised=True) == pytest.approx({"last": 0.45, "day": 0.25, "ramp": 0.3})
    assert Trust().weights(with_ramp, is_surprised=False)["ramp"] == 0.0


def test_half_hour_is_compared_to_the_same_minutes_of_the_other_day() -> None:
    assert forecasts.HALF_HOUR == 30
    history = a_history(lambda minute: day(minute) * (2.0 if minute >= 1900.0 else 1.0), 1930)

    path = paths(history, ())["day"]

    assert path[0] == pytest.approx(2.0 * day(1932.0), rel=0.04)
    assert path[95] == pytest.approx(day(1930.0 + 477.0), rel=0.02)
