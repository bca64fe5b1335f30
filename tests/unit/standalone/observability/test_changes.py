from __future__ import annotations

import pytest

from flink_autoscaler.standalone.observability.announcer import MOST_CHANGES, PERIOD, News, Troubles

DOWN, UP = "no answer", ""


class Bench:
    """One subject on a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.troubles = Troubles(clock=lambda: self.now)

    def take(self, text: str, *, after: float = 10.0) -> News:
        self.now += after
        return self.troubles.take("a", text)

    def flap(self, changes: int, *, every: float = 10.0) -> list[News]:
        return [self.take(UP if number % 2 else DOWN, after=every) for number in range(changes)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param([UP, UP], [News.NOTHING, News.NOTHING], id="always fine"),
        pytest.param([DOWN, DOWN], [News.BEGAN, News.NOTHING], id="lasts"),
        pytest.param([DOWN, "HTML"], [News.BEGAN, News.BEGAN], id="another one"),
        pytest.param([DOWN, UP, UP], [News.BEGAN, News.ENDED, News.NOTHING], id="over"),
        pytest.param([DOWN, UP, DOWN], [News.BEGAN, News.ENDED, News.BEGAN], id="back"),
    ],
)
def test_what_changes_is_news(texts: list[str], expected: list[News]) -> None:
    bench = Bench()

    assert [bench.take(text) for text in texts] == expected


def test_what_changes_again_and_again_is_said_to_flap_once() -> None:
    news = Bench().flap(20)

    assert News.NOTHING not in news[:MOST_CHANGES]
    assert news[MOST_CHANGES] is News.FLAPS
    assert set(news[MOST_CHANGES + 1 :]) == {News.NOTHING}


def test_what_flaps_for_an_hour_is_told_a_few_times() -> None:
    news = Bench().flap(360)

    assert news.count(News.FLAPS) == 6
    assert len(news) - news.count(News.NOTHING) == MOST_CHANGES + 6


@pytest.mark.parametrize("text", [pytest.param(DOWN, id="in trouble"), pytest.param(UP, id="fine")])
def test_what_does_not_flap_any_more_has_settled_once(text: str) -> None:
    bench = Bench()
    bench.flap(20)

    news = [bench.take(text) for _ in range(120)]

    assert news.count(News.SETTLED) == 1
    assert set(news) == {News.NOTHING, News.SETTLED}


def test_after_it_has_settled_changes_are_told_again() -> None:
    bench = Bench()
    bench.flap(20)
    bench.take(DOWN)
    bench.take(DOWN, after=PERIOD)

    assert bench.take(UP) is News.ENDED


def test_rare_changes_are_all_told() -> None:
    news = Bench().flap(50, every=PERIOD / MOST_CHANGES)

    assert set(news) == {News.BEGAN, News.ENDED}


def test_what_has_been_fine_for_long_is_forgotten() -> None:
    bench = Bench()
    bench.flap(2)

    bench.take(UP, after=PERIOD)

    assert bench.troubles.subjects() == frozenset()


def test_only_what_is_kept_is_remembered() -> None:
    bench = Bench()
    bench.take(DOWN)

    bench.troubles.keep_only(())

    assert bench.take(DOWN) is News.BEGAN
