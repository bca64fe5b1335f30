from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.forecast.online import (
    Bucket,
    Horizons,
    correction,
    expected_rate,
    peak_rate,
    source_forecast,
)
from flink_autoscaler.core.model.load_profile import BUCKET, WEEK, LoadProfile, bucket_start, upper_quantile
from flink_autoscaler.core.model.policy_values import Outage
from flink_autoscaler.core.options.forecast import ForecastParams

MONDAY = datetime(2026, 11, 2, tzinfo=UTC).timestamp()
NOW = MONDAY + 10 * 3600
SETTINGS = ForecastParams()
MINUTE = 60.0


def a_profile(q50: float | None = 0.9, q90: float | None = 1.0, **values: float) -> LoadProfile:
    """Make a profile that is the same at any time."""
    fields = {"level": 80_000.0, "growth": 1.0, "asof": NOW} | values
    return LoadProfile(q50=(q50,) * 672, q90=(q90,) * 672, weeks=5, **fields)  # type: ignore[arg-type]


def with_share(shares: tuple[float | None, ...], at: float, share: float | None) -> tuple[float | None, ...]:
    slot = round(at - MONDAY) // BUCKET % 672
    return (*shares[:slot], share, *shares[slot + 1 :])


def last_hour(*rates: float, now: float = NOW) -> tuple[Bucket, ...]:
    """Make the quarter hours before now, the last one last."""
    end = bucket_start(now)
    return tuple(Bucket(end - BUCKET * back, rate) for back, rate in zip(range(len(rates), 0, -1), rates, strict=True))


def test_worked_example() -> None:
    """A level of 80,000 records/s that grows by 4 % a week, and an hour 5 % above the usual."""
    at = NOW + 45 * MINUTE
    profile = a_profile(growth=1.04)
    profile = replace(profile, q90=with_share(profile.q90, at, 1.30))

    k = correction(profile, last_hour(*[77_000.0] * 4), NOW, SETTINGS)
    forecast = expected_rate(profile, profile.q90, at, now=NOW, k=k, tau=SETTINGS.decay_time)

    assert profile.base(NOW) == pytest.approx(81_584, abs=1)
    assert profile.base(at) == pytest.approx(81_599, abs=1)
    assert k == pytest.approx(1.0487, abs=3e-4)
    assert math.exp(-45 / 120) == pytest.approx(0.6873, abs=1e-4)
    assert forecast == pytest.approx(109_627, rel=3e-4)
    assert (forecast or 0) / 0.7 == pytest.approx(156_610, rel=3e-4)


def test_level_grows_by_the_week() -> None:
    profile = a_profile(level=100.0, growth=1.21, asof=NOW)

    assert profile.base(NOW - WEEK / 2) == pytest.approx(100)
    assert profile.base(NOW) == pytest.approx(110)
    assert profile.base(NOW + WEEK / 2) == pytest.approx(121)


@pytest.mark.parametrize(
    ("rates", "expected_k"),
    [
        pytest.param((), 1.0, id="nothing measured"),
        pytest.param((99_000.0,), 1.0, id="one quarter hour is not enough"),
        pytest.param((72_000.0, 90_000.0), 1.125, id="two: half way"),
        pytest.param((72_000.0, 72_000.0, 72_000.0, 720_000.0), 1.0, id="one wild quarter hour does not count"),
        pytest.param((7_200_000.0,) * 4, 2.0, id="at most twice"),
        pytest.param((0.0,) * 4, 0.5, id="at least half"),
    ],
)
def test_correction_is_the_bounded_median_of_the_last_hour(rates: tuple[float, ...], expected_k: float) -> None:
    assert correction(a_profile(), last_hour(*rates), NOW, SETTINGS) == pytest.approx(expected_k)


def test_correction_looks_back_one_hour_only() -> None:
    old = last_hour(*[144_000.0] * 4, now=NOW - 3600)

    assert correction(a_profile(), old, NOW, SETTINGS) == 1.0


def test_correction_leaves_out_the_quarter_hour_under_way() -> None:
    under_way = (Bucket(bucket_start(NOW + 60), 144_000.0), *last_hour(144_000.0, now=NOW + 60))

    assert correction(a_profile(), under_way, NOW + 60, SETTINGS) == 1.0


@pytest.mark.parametrize("share", [None, 0.0])
def test_correction_leaves_out_what_the_profile_does_not_expect(share: float | None) -> None:
    assert correction(a_profile(q50=share), last_hour(*[5.0] * 4), NOW, SETTINGS) == 1.0


def test_peak_sees_the_quarter_hour_in_which_the_horizon_ends() -> None:
    profile = a_profile()
    profile = replace(profile, q90=with_share(profile.q90, NOW + 30 * MINUTE, 3.0))

    assert peak_rate(profile, NOW, 30 * MINUTE, k=1.0, tau=7200) == pytest.approx(240_000)
    assert peak_rate(profile, NOW, 29 * MINUTE, k=1.0, tau=7200) == pytest.approx(80_000)


def test_peak_skips_quarter_hours_that_are_not_known() -> None:
    profile = a_profile(q90=None)
    known = replace(profile, q90=with_share(profile.q90, NOW + 15 * MINUTE, 1.0))

    assert peak_rate(profile, NOW, 3600, k=1.0, tau=7200) is None
    assert peak_rate(known, NOW, 3600, k=1.0, tau=7200) == pytest.approx(80_000)
    assert source_forecast(profile, (), NOW, Horizons(60, 3600), SETTINGS) is None


@pytest.mark.parametrize(
    ("catch_up", "expected_horizons"),
    [
        pytest.param(1800.0, Horizons(2160.0, 3600.0), id="half an hour: an hour for scale-downs"),
        pytest.param(7200.0, Horizons(7560.0, 7560.0), id="two hours: the same for both"),
    ],
)
def test_horizons_cover_delay_outage_and_catching_up(catch_up: float, expected_horizons: Horizons) -> None:
    assert Horizons.of(Outage(mean=100, q90=300, delay=60), catch_up) == expected_horizons


def test_unknown_time_zone_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match="'Europe/Nowhere' is not known"):
        source_forecast(replace(a_profile(), timezone="Europe/Nowhere"), (), NOW, Horizons(60, 3600), SETTINGS)


@pytest.mark.parametrize(
    ("zone", "at", "slot"),
    [
        pytest.param("UTC", MONDAY, 0, id="the week begins on Monday"),
        pytest.param("UTC", MONDAY - 1, 671, id="and ends on Sunday"),
        pytest.param("Europe/Berlin", MONDAY, 4, id="winter: an hour ahead"),
        pytest.param("Europe/Berlin", MONDAY - 9 * 86_400, 5 * 96 + 8, id="summer: two hours ahead"),
        pytest.param("Asia/Kolkata", MONDAY, 22, id="half hours"),
    ],
)
def test_slot_is_the_quarter_hour_of_the_local_week(zone: str, at: float, slot: int) -> None:
    assert replace(a_profile(), timezone=zone).slot(at) == slot


@pytest.mark.parametrize(
    ("count", "quantile", "rank"), [(1, 0.9, 1), (2, 0.5, 1), (3, 0.5, 2), (10, 0.9, 9), (15, 0.9, 14), (24, 0.5, 12)]
)
def test_quantile_is_one_of_the_values(count: int, quantile: float, rank: int) -> None:
    assert upper_quantile(list(range(1, count + 1)), quantile) == rank


shares = st.lists(st.none() | st.floats(0, 10), min_size=12, max_size=12).map(lambda some: tuple(some * 56))


@given(
    q90=shares,
    growth=st.floats(0.8, 1.25),
    k_rate=st.floats(0, 1e6),
    now=st.floats(NOW - WEEK, NOW + WEEK),
    horizons=st.lists(st.floats(0, 4 * 3600), min_size=2, max_size=2).map(sorted),
)
def test_longer_horizon_never_expects_less(
    q90: tuple[float | None, ...], growth: float, k_rate: float, now: float, horizons: list[float]
) -> None:
    profile = replace(a_profile(growth=growth), q90=q90)

    found = source_forecast(profile, last_hour(*[k_rate] * 4, now=now), now, Horizons(*horizons), SETTINGS)

    assert found is None or 0 <= found.up <= found.down < math.inf


@given(q90=shares, low=st.floats(0, 1e6), more=st.floats(0, 1e6), horizon=st.floats(0, 4 * 3600))
def test_more_in_the_last_hour_never_expects_less(
    q90: tuple[float | None, ...], low: float, more: float, horizon: float
) -> None:
    profile = replace(a_profile(), q90=q90)

    found = [
        source_forecast(profile, last_hour(*[rate] * 4), NOW, Horizons(horizon, horizon), SETTINGS)
        for rate in (low, low + more)
    ]

    assert found[0] is None or (found[1] is not None and found[0].up <= found[1].up)


@given(level=st.floats(1, 1e9), k=st.floats(0.5, 2), lead=st.floats(0, 1e6))
def test_correction_fades_to_the_profile(level: float, k: float, lead: float) -> None:
    profile = a_profile(level=level)
    usual = 0.9 * level

    found = expected_rate(profile, profile.q50, NOW + lead, now=NOW, k=k, tau=SETTINGS.decay_time)

    assert found is not None
    assert min(usual, k * usual) <= found * (1 + 1e-9)
    assert found <= max(usual, k * usual) * (1 + 1e-9)
