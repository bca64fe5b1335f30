"""Flink's min-parallelism-increase: a scale-up asks for at least that much more, or waits and says so."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import SINGLE_SOURCE, SINGLE_SOURCE_OPTIONS, JobDriver, a_context, full_window

INCREASE = "jobmanager.adaptive-scheduler.min-parallelism-increase"
FORCED = "jobmanager.adaptive-scheduler.scaling-interval.max"


def outcome_of(flink: dict[str, str], options: dict[str, str] | None = None, *, busy: float = 0.87) -> PassOutcome:
    """Return the first decision about a source of 4 subtasks at a target of 0.5: at 0.87 it wants 7."""
    driver = JobDriver(a_context({**SINGLE_SOURCE_OPTIONS, **(options or {})}, flink))
    return full_window(driver, rate=200.0, busy_ms=busy * 1000)


def wanted(outcome: PassOutcome) -> int | None:
    return outcome.decision.summaries[SINGLE_SOURCE].new if isinstance(outcome.decision, Rescale) else None


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


@pytest.mark.parametrize(
    ("flink", "options", "expected"),
    [
        pytest.param({}, {}, 7, id="no threshold"),
        pytest.param({INCREASE: "3"}, {}, 7, id="met"),
        pytest.param({INCREASE: "4"}, {}, 8, id="one short of it"),
        pytest.param({INCREASE: "4", FORCED: "5 min"}, {}, 7, id="Flink does it later"),
        pytest.param({INCREASE: "4"}, {"compat": "reference"}, 7, id="the reference"),
        pytest.param({INCREASE: "NaN"}, {}, 7, id="no number"),
        pytest.param({INCREASE: "-4"}, {}, 7, id="negative"),
        pytest.param({INCREASE: "4", FORCED: "NaN"}, {}, 8, id="no duration"),
        pytest.param({INCREASE: "4"}, {"vertex.max-parallelism": "7"}, None, id="not within its bounds"),
        pytest.param({INCREASE: "1000000"}, {}, None, id="beyond any bound"),
    ],
)
def test_a_scale_up_asks_for_what_flink_does(
    flink: dict[str, str], options: dict[str, str], expected: int | None
) -> None:
    assert wanted(outcome_of(flink, options)) == expected


def test_it_is_said_that_more_is_asked_for() -> None:
    outcome = outcome_of({INCREASE: "4"})

    reason = next(each for each in outcome.decision.reasons if each.code == "RAISED_TO_THRESHOLD")
    assert dict(reason.figures) == {"wanted": 7, "raised": 8}
    assert INCREASE in reason.text


def test_it_is_said_why_a_scale_up_waits() -> None:
    outcome = outcome_of({INCREASE: "4"}, {"vertex.max-parallelism": "7"})

    assert "RESCALE_TOO_SMALL" in codes(outcome)
    assert outcome.target.parallelism == {}
    assert outcome.state.history == {}


def test_a_scale_down_needs_no_threshold() -> None:
    assert wanted(outcome_of({INCREASE: "4"}, busy=0.3)) == 3
