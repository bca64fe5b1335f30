import math

import pytest

from flink_autoscaler.core.errors import EvaluationError
from flink_autoscaler.core.model.state import HistoryEntry
from flink_autoscaler.core.policies.base.scalability import Gains, ineffective_gains, scalability_coefficient
from testkit.builders.core import history_entry, options_with

NAN, INF = math.nan, math.inf


def entries(*observations: tuple[int, float]) -> tuple[HistoryEntry, ...]:
    """Make a history, oldest first, from pairs of (parallelism, rate)."""
    return tuple(history_entry(at, p, p + 1, rate=rate) for at, (p, rate) in enumerate(observations))


@pytest.mark.parametrize(
    "history",
    [entries((4, 0.0), (8, 0.0), (16, 0.0)), entries((4, INF), (8, 720.0), (16, 1280.0))],
    ids=["all rates are zero", "an infinite baseline"],
)
def test_an_undefined_coefficient_is_one_but_fails_in_the_reference(history: tuple[HistoryEntry, ...]) -> None:
    assert scalability_coefficient(history, options_with()) == 1.0
    with pytest.raises(EvaluationError, match=r"^the observed scalability coefficient is undefined \(rates of 0"):
        scalability_coefficient(history, options_with({"compat": "reference"}))


LAST = (history_entry(0, 4, 8, rate=500.0, expected=1000.0),)


@pytest.mark.parametrize(
    ("history", "current", "rate", "expected"),
    [
        pytest.param(LAST, 8, 540.0, Gains(500.0, 40.0), id="8 % of the gain"),
        pytest.param(LAST, 8, 550.0, None, id="exactly a tenth"),
        pytest.param(LAST, 7, 540.0, None, id="somebody has changed the parallelism since"),
        pytest.param((history_entry(0, 8, 4, rate=500.0, expected=250.0),), 4, 1.0, None, id="the last was down"),
        pytest.param((), 8, 540.0, None, id="no history"),
    ],
)
def test_a_scale_up_is_ineffective_when_it_gains_too_little(
    history: tuple[HistoryEntry, ...], current: int, rate: float, expected: Gains | None
) -> None:
    assert ineffective_gains(history, current, rate, 0.1) == expected


def test_unknown_gains_are_not_effective() -> None:
    assert ineffective_gains(LAST, 8, NAN, 0.1) is not None
