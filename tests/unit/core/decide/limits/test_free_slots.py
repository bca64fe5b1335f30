"""The built-in resource check, alone and chosen by a job through its entry point."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.decide.limits.slots import FreeSlotsCheck
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.ports.plugins import ResourceRequest
from testkit.builders.core_passes import SOURCE, outcome_after_full_window

CHOSEN = {"job.autoscaler.resource-check": "free-slots"}
# Needs twice the slots that the job has: at a target of 0.25 its ten subtasks become twenty.
GROWS = {"job.autoscaler.utilization.target": "0.25", "job.autoscaler.utilization.max": "0.3"}


@pytest.mark.parametrize(
    ("more", "available", "expected"),
    [
        pytest.param(3, "3", True, id="just enough"),
        pytest.param(4, "3", False, id="one short"),
        pytest.param(-2, "0", True, id="shrinking needs nothing"),
        pytest.param(0, None, True, id="no growth, number unknown"),
        pytest.param(1, None, False, id="growth, number unknown"),
        pytest.param(1, "many", False, id="growth, not a number"),
        pytest.param(1, "NaN", False, id="growth, NaN"),
    ],
)
def test_a_plan_has_to_fit_into_the_free_slots(more: int, available: str | None, expected: bool) -> None:
    request = ResourceRequest(1, 2, 1.0, 1, slots_used=4, slots_needed=4 + more, more_slots=more)
    cluster = ClusterReading({} if available is None else {"taskSlotsAvailable": available})

    assert FreeSlotsCheck().try_schedule(request, cluster) is expected


def test_a_job_that_chose_the_check_is_held_back_where_no_slot_is_free() -> None:
    options = {**GROWS, "job.autoscaler.utilization.min": "0"}

    free, checked = outcome_after_full_window(options), outcome_after_full_window({**options, **CHOSEN})

    assert isinstance(free.decision, Rescale)
    assert free.decision.summaries[SOURCE].new > 10
    assert isinstance(checked.decision, Hold)
    assert [event.reason for event in checked.events] == ["NotSchedulable"]
    assert dict(checked.state.overrides) == {}


def test_a_job_that_chose_the_check_may_shrink() -> None:
    outcome = outcome_after_full_window(CHOSEN)

    assert isinstance(outcome.decision, Rescale)
    assert outcome.decision.summaries[SOURCE].new < 10
