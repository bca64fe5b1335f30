"""When the simulator agrees with Flink."""

from __future__ import annotations

import pytest

from testkit.scenarios.agreement.comparing import Comparison
from testkit.scenarios.agreement.figures import Figures

FLINK = Figures(slot_hours=2.0, rescales=8, minutes_late=10.0)


@pytest.mark.parametrize(
    ("simulated", "words"),
    [
        pytest.param(Figures(2.19, 10, 11.9), [], id="just within"),
        pytest.param(Figures(2.21, 8, 10.0), ["slot-hours"], id="too many slots"),
        pytest.param(Figures(1.79, 8, 10.0), ["slot-hours"], id="too few slots"),
        pytest.param(Figures(2.0, 5, 10.0), ["rescales"], id="three rescales"),
        pytest.param(Figures(2.0, 8, 7.9), ["minutes late"], id="a fifth of the minutes"),
        pytest.param(Figures(2.0, 8, None), ["nobody knows"], id="no lag"),
    ],
)
def test_agreement_has_tolerances(simulated: Figures, words: list[str]) -> None:
    problems = list(Comparison("capacity", FLINK, FLINK, simulated).problems())

    assert len(problems) == len(words)
    assert all(word in problem for word, problem in zip(words, problems, strict=True))


@pytest.mark.parametrize(("late", "count"), [(1.4, 0), (1.6, 1)])
def test_a_minute_is_forgiven_where_little_is_late(late: float, count: int) -> None:
    flink, simulated = Figures(2.0, 8, 0.5), Figures(2.0, 8, late)

    assert len(list(Comparison("slo", flink, flink, simulated).problems())) == count
