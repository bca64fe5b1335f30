from typing import Any

import pytest

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import JobObservation, Proposal, ProposalDirection
from flink_autoscaler.core.policies.base.proposals import direction_of
from flink_autoscaler.core.policies.policy_runner import PolicyPlan, abstention_after_error, plan_of
from testkit.builders.policies import observation, vertex

OBS = observation(vertex(parallelism=4), vertex("map", parallelism=4))


def sizes(obs: JobObservation) -> dict[str, int]:
    return {vertex_id: vertex.parallelism for vertex_id, vertex in obs.vertices.items()}


def wants(source: int, mapper: int, name: str = "one", **changes: Any) -> Proposal:
    targets = {"source": source, "map": mapper}
    fields = {"capacity": {"source": source * 10.0, "map": mapper * 10.0}, "state": {"name": name}, **changes}
    return Proposal(
        name, targets, direction_of(OBS, targets), confidence=1.0, reasons=(Reason("WHY", f"says {name}"),), **fields
    )


def abstains(code: str, name: str = "two", **changes: Any) -> Proposal:
    return Proposal(name, None, ProposalDirection.NONE, {}, 0.0, (Reason(code, f"says {name}"),), **changes)


def codes(plan: PolicyPlan) -> list[str]:
    return [reason.code for reason in plan.reasons]


@pytest.mark.parametrize(
    ("proposal", "expected"),
    [
        pytest.param(wants(6, 2), (6, 2), id="an opinion"),
        pytest.param(abstains("WARM_UP"), (4, 4), id="none"),
        pytest.param(wants(2, 2, blocks_down=True), (4, 4), id="it may block itself"),
        pytest.param(wants(6, 2, blocks_down=True), (6, 4), id="but not what goes up"),
        pytest.param(abstention_after_error("two", "boom", {}), (4, 4), id="failed"),
    ],
)
def test_a_proposal_becomes_a_plan(proposal: Proposal, expected: tuple[int, int]) -> None:
    plan = plan_of(proposal, sizes(OBS))

    assert plan.targets == dict(zip(("source", "map"), expected, strict=True))
    assert plan.reasons


def test_what_stops_a_scale_down_is_a_reason_only_where_it_does() -> None:
    assert codes(plan_of(wants(4, 2, blocks_down=True), sizes(OBS)))[-1] == "DOWN_BLOCKED"
    assert "DOWN_BLOCKED" not in codes(plan_of(wants(6, 6, blocks_down=True), sizes(OBS)))


def test_reasons_and_state_are_kept() -> None:
    plan = plan_of(abstention_after_error("two", "boom", {"old": 1}), sizes(OBS))

    assert codes(plan) == ["POLICY_FAILED", "NO_OPINION"]
    assert plan.states == {"two": {"old": 1}}


def test_a_vertex_without_a_target_stays() -> None:
    partly = Proposal("one", {"map": 6}, ProposalDirection.UP, {}, 1.0, (Reason("WHY", "because"),))

    plan = plan_of(partly, sizes(OBS))

    assert plan.targets == {"source": 4, "map": 6}
    assert plan.unknown == {"source"}
