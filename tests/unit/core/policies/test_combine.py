from collections.abc import Mapping
from typing import Any

import pytest
from policy_setup import NOW, observation, vertex

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import JobObservation, Proposal, ProposalDirection
from flink_autoscaler.core.options.option import PREFIX
from flink_autoscaler.core.policies.base.proposals import direction_of
from flink_autoscaler.core.policies.combining import Combination, CombinedPlan, combine, failed, hpa_window

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


def codes(plan: CombinedPlan) -> list[str]:
    return [reason.code for reason in plan.reasons]


@pytest.mark.parametrize(
    ("proposals", "combination", "expected", "direction"),
    [
        pytest.param([wants(6, 2)], "max", (6, 2), ProposalDirection.MIXED, id="one opinion"),
        pytest.param(
            [wants(6, 2), wants(5, 3, "two")], "max", (6, 3), ProposalDirection.MIXED, id="the greatest counts"
        ),
        pytest.param(
            [wants(2, 2), wants(4, 4, "two")], "max", (4, 4), ProposalDirection.NONE, id="to keep is an opinion"
        ),
        pytest.param(
            [wants(2, 2), abstains("WARM_UP")], "max", (2, 2), ProposalDirection.DOWN, id="to abstain is none"
        ),
        pytest.param([abstains("WARM_UP")], "max", (4, 4), ProposalDirection.NONE, id="no opinion at all"),
        pytest.param([], "max", (4, 4), ProposalDirection.NONE, id="no policy at all"),
        pytest.param(
            [wants(6, 2), wants(2, 6, "two")], "first", (6, 2), ProposalDirection.MIXED, id="the first one wins"
        ),
        pytest.param(
            [abstains("WARM_UP"), wants(2, 6, "two")],
            "first",
            (2, 6),
            ProposalDirection.MIXED,
            id="that has an opinion",
        ),
        pytest.param([wants(2, 2, blocks_down=True)], "max", (4, 4), ProposalDirection.NONE, id="it may block itself"),
        pytest.param(
            [wants(6, 2), wants(4, 2, "two", blocks_down=True)], "max", (6, 4), ProposalDirection.UP, id="or others"
        ),
        pytest.param(
            [wants(2, 6), abstains("NO_PLAN", blocks_down=True)],
            "first",
            (4, 6),
            ProposalDirection.UP,
            id="without an opinion",
        ),
        pytest.param(
            [wants(2, 2), abstains("METRIC_MISSING")], "max", (4, 4), ProposalDirection.NONE, id="unsure: not down"
        ),
        pytest.param(
            [wants(6, 2), abstains("INCOMPLETE_WINDOW")], "max", (6, 4), ProposalDirection.UP, id="unsure: up"
        ),
        pytest.param(
            [wants(2, 2), abstains("NOT_RUNNING")], "first", (4, 4), ProposalDirection.NONE, id="unsure and first"
        ),
        pytest.param(
            [wants(2, 2), failed("two", "boom", {})], "max", (4, 4), ProposalDirection.NONE, id="failed: not down"
        ),
    ],
)
def test_proposals_become_one_plan(
    proposals: list[Proposal], combination: str, expected: tuple[int, int], direction: ProposalDirection
) -> None:
    plan = combine(proposals, sizes(OBS), Combination(combination))

    assert plan.targets == dict(zip(("source", "map"), expected, strict=True))
    assert plan.direction is direction
    assert plan.reasons


def test_the_greatest_is_the_default() -> None:
    proposals = [wants(6, 2), wants(5, 3, "two")]

    assert combine(proposals, sizes(OBS)) == combine(proposals, sizes(OBS), Combination.MAX)


@pytest.mark.parametrize(
    ("other", "code"),
    [
        pytest.param(wants(4, 2, "two", blocks_down=True), "DOWN_BLOCKED", id="blocked"),
        pytest.param(abstains("METRIC_MISSING"), "DOWN_UNSURE", id="unsure"),
        pytest.param(failed("two", "boom", {}), "DOWN_UNSURE", id="failed"),
    ],
)
def test_what_stops_a_scale_down_is_a_reason_only_where_it_does(other: Proposal, code: str) -> None:
    assert codes(combine([wants(2, 2), other], sizes(OBS)))[-1] == code
    assert code not in codes(combine([wants(6, 6), other], sizes(OBS)))


def test_reasons_and_states_of_all_policies_are_kept() -> None:
    plan = combine([wants(6, 2), failed("two", "boom", {"old": 1})], sizes(OBS))

    assert codes(plan) == ["WHY", "POLICY_FAILED", "DOWN_UNSURE"]
    assert plan.states == {"one": {"name": "one"}, "two": {"old": 1}}


def test_nobody_having_an_opinion_is_a_reason() -> None:
    assert codes(combine([], sizes(OBS))) == ["NO_OPINION"]


def test_the_capacity_is_that_of_the_target_that_counts() -> None:
    bigger = wants(6, 3, "two", capacity={"source": 70.0, "map": 1.0})
    silent = wants(6, 3, "three", capacity={})

    assert combine([wants(6, 5), bigger, silent], sizes(OBS)).capacity == {"source": 70.0, "map": 50.0}
    assert combine([wants(6, 2, blocks_down=True)], sizes(OBS)).capacity == {"source": 60.0}


def test_a_vertex_without_a_target_stays() -> None:
    partly = Proposal("one", {"map": 6}, ProposalDirection.UP, {}, 1.0, (Reason("WHY", "because"),))

    assert combine([partly], sizes(OBS)).targets == {"source": 4, "map": 6}


def filtered(plans: list[tuple[float, int, int]], options: Mapping[str, str]) -> list[CombinedPlan]:
    """Return what the filter leaves of plans at instants for both vertices."""
    config = {PREFIX + key: value for key, value in options.items()}
    state: Mapping[str, Any] = {}
    results = []
    for at, source, mapper in plans:
        obs: JobObservation = observation(*OBS.vertices.values(), now=NOW + at)
        plan, state = hpa_window(combine([wants(source, mapper)], sizes(obs)), obs, config, state)
        results.append(plan)
    return results


ON = {"hpa.filter.enabled": "true", "hpa.behavior": "kubernetes"}


def test_the_filter_does_nothing_unless_told_so() -> None:
    plan = combine([wants(40, 2)], sizes(OBS))

    assert hpa_window(plan, OBS, {}, {"source": {}}) == (plan, {})


def test_the_filter_limits_every_vertex() -> None:
    plan = filtered([(0.0, 40, 2)], ON)[0]

    assert plan.targets == {"source": 8, "map": 4}
    assert plan.direction is ProposalDirection.UP
    assert codes(plan) == ["WHY", "RATE_LIMITED", "STABILIZED"]
    assert plan.capacity == {"source": 80.0, "map": 40.0}


def test_the_filter_lets_a_scale_down_pass_once_five_minutes_agree() -> None:
    plans = filtered([(0.0, 2, 4), (150.0, 2, 4), (299.0, 2, 2), (300.0, 2, 2), (450.0, 2, 2)], ON)

    assert [plan.targets["source"] for plan in plans] == [4, 4, 4, 2, 2]
    assert [plan.targets["map"] for plan in plans] == [4, 4, 4, 4, 2]
