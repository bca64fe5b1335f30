"""What a request for another parallelism is said to be about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.model.supervision import Origin, RescaleRecord, Supervision
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.rescale.tracking import WANTED_BEFORE, WANTED_BY_PERSON
from flink_autoscaler.standalone.observability.pass_reporter import request_facts

HOLD = Hold((Reason("NO_CHANGE", "no vertex needs another parallelism now"),))
LOAD = Rescale({}, (Reason("SIZED", "needs more", "a"),))
PLAN = Rescale({}, (Reason("PLANNED", "as planned", "a"),))


def outcome_of(decision: Hold | Rescale, origin: Origin, reason: str = "") -> PassOutcome:
    record = RescaleRecord(1000, 1000, {"a": 2, "b": 3}, {"a": 4, "b": 3}, origin, reason=reason)
    state = replace(EMPTY_STATE, supervision=Supervision(current=record))
    return PassOutcome("main/orders", PassPhase.EXECUTED, decision, state)


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        pytest.param(outcome_of(LOAD, Origin.AUTOSCALER), "load", id="load"),
        pytest.param(outcome_of(PLAN, Origin.AUTOSCALER), "plan", id="a planned time"),
        pytest.param(outcome_of(HOLD, Origin.OPERATOR, WANTED_BY_PERSON), "pin", id="a pin"),
        pytest.param(outcome_of(HOLD, Origin.OPERATOR, "ann: a test"), "order", id="a rollback that was ordered"),
        pytest.param(outcome_of(HOLD, Origin.OPERATOR, WANTED_BEFORE), "earlier", id="what was decided before"),
        pytest.param(outcome_of(HOLD, Origin.AUTOSCALER), "earlier", id="the same again"),
        pytest.param(outcome_of(HOLD, Origin.ROLLBACK), "rollback", id="a rollback"),
    ],
)
def test_request_says_what_changes_and_why(outcome: PassOutcome, cause: str) -> None:
    facts = request_facts(outcome, {"a": 4, "b": 3})

    assert (facts["cause"], facts["text"]) == (cause, "a 2 → 4")
    assert facts["changes"] == [{"vertex": "a", "vertex_id": "a", "from": 2, "to": 4}]
    assert facts["parallelism"] == {"a": 4, "b": 3}
