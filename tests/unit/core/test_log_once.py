from __future__ import annotations

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.log_once import PERIOD, AlertTransition, LogOnce

MOST_CHANGES = 5
DOWN, UP = "no answer", ""


class Bench:
    """One subject on a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.log_once = LogOnce(MOST_CHANGES, clock=lambda: self.now)

    def take(self, text: str, *, after: float = 10.0) -> AlertTransition:
        self.now += after
        return self.log_once.update("a", text)

    def flap(self, changes: int, *, every: float = 10.0) -> list[AlertTransition]:
        return [self.take(UP if number % 2 else DOWN, after=every) for number in range(changes)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param([UP, UP], [AlertTransition.NONE, AlertTransition.NONE], id="always fine"),
        pytest.param([DOWN, DOWN], [AlertTransition.RAISED, AlertTransition.NONE], id="lasts"),
        pytest.param([DOWN, "HTML"], [AlertTransition.RAISED, AlertTransition.RAISED], id="another one"),
        pytest.param(
            [DOWN, UP, UP], [AlertTransition.RAISED, AlertTransition.CLEARED, AlertTransition.NONE], id="over"
        ),
        pytest.param(
            [DOWN, UP, DOWN], [AlertTransition.RAISED, AlertTransition.CLEARED, AlertTransition.RAISED], id="back"
        ),
    ],
)
def test_what_changes_is_news(texts: list[str], expected: list[AlertTransition]) -> None:
    bench = Bench()

    assert [bench.take(text) for text in texts] == expected


def test_what_changes_again_and_again_is_said_to_flap_once() -> None:
    news = Bench().flap(20)

    assert AlertTransition.NONE not in news[:MOST_CHANGES]
    assert news[MOST_CHANGES] is AlertTransition.FLAPPING
    assert set(news[MOST_CHANGES + 1 :]) == {AlertTransition.NONE}


def test_what_flaps_for_an_hour_is_told_a_few_times() -> None:
    news = Bench().flap(360)

    assert news.count(AlertTransition.FLAPPING) == 6
    assert len(news) - news.count(AlertTransition.NONE) == MOST_CHANGES + 6


@pytest.mark.parametrize("text", [pytest.param(DOWN, id="in trouble"), pytest.param(UP, id="fine")])
def test_what_does_not_flap_any_more_has_settled_once(text: str) -> None:
    bench = Bench()
    bench.flap(20)

    news = [bench.take(text) for _ in range(120)]

    assert news.count(AlertTransition.STABLE) == 1
    assert set(news) == {AlertTransition.NONE, AlertTransition.STABLE}


def test_after_it_has_settled_changes_are_told_again() -> None:
    bench = Bench()
    bench.flap(20)
    bench.take(DOWN)
    bench.take(DOWN, after=PERIOD)

    assert bench.take(UP) is AlertTransition.CLEARED


def test_rare_changes_are_all_told() -> None:
    news = Bench().flap(50, every=PERIOD / MOST_CHANGES)

    assert set(news) == {AlertTransition.RAISED, AlertTransition.CLEARED}


def test_what_has_been_fine_for_long_is_forgotten() -> None:
    bench = Bench()
    bench.flap(2)

    bench.take(UP, after=PERIOD)

    assert bench.log_once.subjects() == frozenset()


def test_only_what_is_kept_is_remembered() -> None:
    bench = Bench()
    bench.take(DOWN)

    bench.log_once.keep_only(())

    assert bench.take(DOWN) is AlertTransition.RAISED


def test_what_lasts_is_logged_once_and_its_end_as_well() -> None:
    log_once = LogOnce()
    errors = [None, ConfigError("a"), ConfigError("a"), ConfigError("b"), None, None, ConfigError("a")]

    assert [log_once.is_news("x", error) for error in errors] == [False, True, False, True, True, False, True]
    assert log_once.is_news("another", ConfigError("a"))
