from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.fit import (
    Known,
    LoadFit,
    LoadSeries,
    Quantiles,
    SourceHistory,
    blend_quantiles,
    theil_sen,
    weekly_growth,
)
from flink_autoscaler.pipeline.profiles.source import SCHEMA, ProfileTask, backtest_profile

END = 1_992_864
SETTINGS = ProfileSettings(asof=END * 900)
BOUNDS = (0.8, 1.25)


def steady(weeks: float, *, rate: float = 50.0, end: int = END) -> LoadSeries:
    """Make a load that never changes."""
    index = range(end - round(672 * weeks), end)
    return LoadSeries(index, [(each - END) % 672 for each in index], [rate] * len(index))


def growing(weeks: int, *, growth: float = 1.1, noise: float = 0.0) -> LoadSeries:
    """Make a load that grows all the time, up to a day after ``END``, with evenly spread noise."""
    shake = random.Random(7)
    index = range(END - 672 * weeks, END + 96)
    usual = (100.0 * growth ** ((each - END) / 672) for each in index)
    return LoadSeries(
        index, [(each - END) % 672 for each in index], [rate * shake.uniform(1 - noise, 1 + noise) for rate in usual]
    )


def test_slope_ignores_a_wild_point() -> None:
    line = [(float(x), 3.0 * x + 1) for x in range(8)]

    assert theil_sen(line) == 3.0
    assert theil_sen([*line[:4], (4.0, 1e6), *line[5:]]) == pytest.approx(3.0, abs=0.01)


@pytest.mark.parametrize(
    ("levels", "growth"),
    [
        pytest.param({0: 100.0, 1: 50.0, 2: 25.0}, 1.0, id="three weeks are too few"),
        pytest.param({week: 100.0 * 1.1**-week for week in range(4)}, 1.1, id="four grow by a tenth"),
        pytest.param({week: 100.0 * 1.1**-week for week in (0, 2, 5, 7)}, 1.1, id="with gaps"),
        pytest.param({week: 2.0**-week for week in range(8)}, 1.25, id="no more than a quarter"),
        pytest.param({week: 2.0**week for week in range(8)}, 0.8, id="no less than a fifth"),
    ],
)
def test_growth_is_per_week_and_bounded(levels: dict[int, float], growth: float) -> None:
    assert weekly_growth(levels, BOUNDS) == pytest.approx(growth)


@given(st.dictionaries(st.integers(0, 7), st.floats(1e-3, 1e9), max_size=8))
def test_growth_is_always_within_bounds(levels: dict[int, float]) -> None:
    assert BOUNDS[0] <= weekly_growth(levels, BOUNDS) <= BOUNDS[1]


def test_steady_load_is_forecast_exactly() -> None:
    series = steady(5)

    found = backtest_profile(SourceHistory(series, SETTINGS), series, SETTINGS)

    assert found is not None
    assert found.wape == pytest.approx(0.0)
    # 168 origins, three leads; the last origins look beyond the end: 1 of half an hour, 1 of one, 2 of two.
    assert found.count == 3 * 168 - 3


def test_origins_know_nothing_of_what_came_later() -> None:
    before, after = steady(4, end=END - 672), steady(1, rate=100.0)
    series = LoadSeries([*before.index, *after.index], [*before.slot, *after.slot], [*before.rate, *after.rate])
    history = SourceHistory(series, SETTINGS)

    fit = history.fit(END - 672)

    assert fit == LoadFit(END - 672, {0: 50.0, 1: 50.0, 2: 50.0, 3: 50.0}, 4, 1.0)
    assert history.quantiles(fit, 0) == Quantiles(1.0, 1.0)


def test_level_of_a_week_that_is_not_usable_is_what_an_older_one_has_grown_to() -> None:
    fit = LoadFit(END, {1: 100.0, 2: 90.0}, 4, 1.1)

    assert fit.level == pytest.approx(110.0)
    assert fit.base(END) == pytest.approx(110.0 * math.sqrt(1.1))


@given(st.integers(END - 1344, END - 1))
def test_level_of_the_past_is_that_of_its_week_without_growth_and_continuous_with_it(index: int) -> None:
    fit = LoadFit(END, {0: 100.0, 1: 80.0}, 4, 1.0)

    def level(of: LoadFit) -> float:
        """Return what a rate of 1 is compared with."""
        [ratio] = of.compared(Known([index], [1.0]))
        return 1 / ratio

    assert level(fit) == pytest.approx(100.0 if index >= END - 672 else 80.0)
    assert level(replace(fit, growth=1.25)) == pytest.approx(replace(fit, growth=1.25).base(index))


def test_weeks_that_do_not_count_and_what_is_not_known_yet_are_not_compared_with() -> None:
    fit = LoadFit(END, {0: 100.0, 2: 50.0}, 4, 1.0)
    places = [END - 3 * 672 - 1, END - 3 * 672, END - 2 * 672 - 1, END - 2 * 672, END - 673, END - 672, END - 1, END]

    assert sorted(fit.compared(Known(places, [100.0] * len(places)))) == [1.0, 1.0, 2.0, 2.0]


def test_growth_within_the_week_does_not_become_the_shape_of_the_week() -> None:
    history = SourceHistory(growing(5), SETTINGS)
    fit = history.fit(END)
    assert fit is not None

    shape = [quantiles.q50 for slot in range(672) if (quantiles := history.quantiles(fit, slot))]

    assert fit.growth == pytest.approx(1.1)
    assert shape == pytest.approx([1.0] * 672, abs=1e-3)


def exceeded_in_a_day(history: SourceHistory, series: LoadSeries, fit: LoadFit, known: LoadFit) -> float:
    """Return how often more arrived in the day after ``END`` than the upper quantile of what is ``known``."""
    day = [(index, series.rate[history.place[index]]) for index in range(END, END + 96)]
    uppers = [known_there.q90 for index, _ in day if (known_there := history.quantiles(known, (index - END) % 672))]
    return sum(rate > fit.base(index) * upper for (index, rate), upper in zip(day, uppers, strict=True)) / 96


def test_upper_quantile_of_a_growing_load_is_exceeded_as_often_as_it_says() -> None:
    series = growing(5, noise=0.1)
    history = SourceHistory(series, SETTINGS)
    fit = history.fit(END)
    assert fit is not None

    # A tenth is what it promises. With ratios to the flat level of each week it is several times as often.
    assert 0.05 < exceeded_in_a_day(history, series, fit, known=fit) < 0.18
    assert exceeded_in_a_day(history, series, fit, known=replace(fit, growth=1.0)) > 0.3


def test_backtest_of_a_growing_load_is_not_biased() -> None:
    series = growing(6, noise=0.1)

    found = backtest_profile(SourceHistory(series, SETTINGS), series, SETTINGS)

    assert found is not None
    assert found.wape < 0.06
    assert found.exceed < 0.18


@pytest.mark.parametrize(
    ("weeks", "quantiles"),
    [
        pytest.param(1, Quantiles(1.75, 3.0), id="a quarter of the week, the greater upper one"),
        pytest.param(2, Quantiles(1.5, 3.0), id="half"),
        pytest.param(4, Quantiles(1.0, 2.0), id="the week alone"),
    ],
)
def test_few_weeks_are_blended_with_the_day(weeks: int, quantiles: Quantiles) -> None:
    assert blend_quantiles(Quantiles(1.0, 2.0), Quantiles(2.0, 3.0), weeks) == quantiles


@pytest.mark.parametrize(
    ("count", "is_enough"),
    [pytest.param(287, False, id="a quarter hour short of three days"), pytest.param(288, True, id="three days")],
)
def test_profile_needs_three_days(count: int, is_enough: bool) -> None:
    history = SourceHistory(steady(count / 672), SETTINGS)

    assert (history.fit(END) is not None) is is_enough


@pytest.mark.parametrize(("count", "weeks"), [(537, 1), (538, 2)])
def test_week_needs_four_fifths_of_its_quarter_hours(count: int, weeks: int) -> None:
    newest, older = steady(count / 672), steady(1, end=END - 672)
    series = LoadSeries([*older.index, *newest.index], [*older.slot, *newest.slot], [*older.rate, *newest.rate])

    fit = SourceHistory(series, SETTINGS).fit(END)

    assert fit is not None
    assert fit.weeks == weeks


@pytest.mark.parametrize(
    ("rates", "problem"),
    [
        pytest.param([], "too little history: 0 of the 288", id="nothing"),
        pytest.param([1.0] * 100, "too little history: 100 of the 288", id="a day"),
        pytest.param([0.0] * 400, "in most quarter hours nothing arrived", id="idle"),
    ],
)
def test_row_without_profile_says_why(rates: list[float], problem: str) -> None:
    index = list(range(END - len(rates), END))
    row = {
        "job_key": "main/orders", "source_id": "source", "first": index[0] if index else None, "recent": len(index),
        "index": index, "slot": [each % 672 for each in index], "rate": rates,
    }  # fmt: skip

    found = ProfileTask(SETTINGS).result(row)

    assert found["problem"].startswith(problem)
    assert found.get("level") is None
    assert set(found) <= set(SCHEMA.names)


@given(st.integers(0, 10_000), st.floats(0.0, 0.7))
def test_weeks_are_the_same_in_whatever_order_they_are_looked_at(seed: int, missing: float) -> None:
    chance = random.Random(seed)
    index = [each for each in range(END - 1500, END) if chance.random() >= missing]
    series = LoadSeries(index, [each % 672 for each in index], [float(chance.randint(0, 20)) for _ in index])
    origins = range(END - 300, END, 4)
    one_by_one, at_once = SourceHistory(series, SETTINGS), SourceHistory(series, SETTINGS)
    at_once.measure(origins)

    for origin in sorted(origins, key=lambda _: chance.random()):
        rates = [series.rate[place] for place, each in enumerate(index) if origin - 672 <= each < origin]
        newest = one_by_one.weeks(origin)[0]
        assert newest == (len(rates), median(rates) if rates else 0.0)
        assert at_once.weeks(origin) == one_by_one.weeks(origin)


def test_night_after_night_forecasts_are_tested_as_on_the_first_look() -> None:
    series = growing(6, noise=0.1)
    kept = SourceHistory(series, SETTINGS)

    for night in range(5, -1, -1):
        settings = replace(SETTINGS, asof=(END - 96 * night) * 900)
        assert backtest_profile(kept, series, settings) == backtest_profile(
            SourceHistory(series, settings), series, settings
        )
