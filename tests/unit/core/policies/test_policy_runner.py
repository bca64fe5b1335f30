"""The policies of a job are asked, and their proposals become one plan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.events import EventType, Reason
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal, ProposalDirection
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.options.option import OptionSet
from flink_autoscaler.core.options.policies import OPTIONS_OF
from flink_autoscaler.core.policies.base.proposals import METRIC_MISSING, abstention, direction_of
from flink_autoscaler.core.policies.policy_runner import (
    POLICIES,
    PolicyPlan,
    abstention_after_error,
    plan_of,
    run_job_policy,
    unknown_policies,
)
from flink_autoscaler.core.ports.passes import EvaluatedJob
from testkit.builders.core import a_cluster, a_context, a_vertex, options_with
from testkit.builders.policies import given, observation, vertex

OBS = observation(vertex("source", parallelism=4), vertex("map", parallelism=8))


@dataclass
class Wants:
    """Proposes some targets, and writes down what it was shown."""

    targets: Mapping[VertexId, int] | None
    state: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    seen: list[PolicyInput] = field(default_factory=list)
    name: str = "some other name"

    def propose(self, shown: PolicyInput) -> Proposal:
        """Return the proposal."""
        self.seen.append(shown)
        reason = Reason("WANTED", "I want it", "map", (("figure", 1.0),))
        if self.targets is None:
            return abstention(self.name, (Reason(METRIC_MISSING, "nothing is known"),), self.state)
        direction = direction_of(shown.obs, {v: t for v, t in self.targets.items() if v in shown.obs.vertices})
        proposal = Proposal(self.name, self.targets, direction, {}, 1.0, (reason,), state=self.state)
        return replace(proposal, **self.changes)


@dataclass
class Does:
    """Does something else than proposing."""

    what: Callable[[], Any]
    name: str = "does"

    def propose(self, shown: PolicyInput) -> Proposal:
        """Do it."""
        result: Proposal = self.what()
        return result


def chosen(
    policies: Mapping[str, Any],
    options: Mapping[str, str] | None = None,
    memories: Mapping[str, Mapping[str, Any]] | None = None,
) -> PolicyPlan:
    """Ask the first of some plug-ins."""
    options = {"policy": next(iter(policies)), **(options or {})}
    return run_job_policy(lambda: given(OBS, options), a_job(OBS, options, memories or {}), policies)


def a_job(
    obs: JobObservation, options: Mapping[str, str], memories: Mapping[str, Mapping[str, Any]] | None = None
) -> EvaluatedJob:
    """Return the job of an observation, of which a policy that is shown that sees nothing else."""
    return EvaluatedJob(
        context=a_context(options),
        topology=JobTopology(
            {v: replace(a_vertex(1, parallelism=each.parallelism), vertex_id=v) for v, each in obs.vertices.items()}
        ),
        metrics=EvaluatedMetrics({}, {}),
        state=JobState(policies=memories or {}),
        cluster=a_cluster(),
        excluded=frozenset(),
        restart_time=0,
        now_ms=0,
    )


def codes(asked: PolicyPlan) -> list[str]:
    return [reason.code for reason in asked.reasons]


def test_a_policy_is_handed_back_what_it_returned() -> None:
    policy = Wants({"map": 9}, state={"seen": (1, 2)})

    memories = chosen({"a": policy}, memories={"a": {"kept": 1}, "gone": {"x": 1}}).memories

    assert memories == {"a": {"seen": [1, 2]}}
    assert policy.seen[0].state == {"kept": 1}
    assert json.loads(json.dumps(memories)) == memories


def fails() -> Proposal:
    raise ZeroDivisionError("oh")


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        pytest.param(Does(fails), "ZeroDivisionError: oh", id="raises"),
        pytest.param(Does(lambda: 7), "it returned int, not a proposal", id="returns something else"),
        pytest.param(Wants({"nowhere": 3}), "its target 3 for 'nowhere'", id="another job's vertex"),
        pytest.param(Wants({"map": 0}), "its target 0 for 'map'", id="no parallelism"),
        pytest.param(Wants({"map": 2.5}), "its target 2.5 for 'map'", id="no whole number"),  # type: ignore[dict-item]
        pytest.param(Wants({"map": 3}, state={"x": object()}), "TypeError", id="a state that cannot be stored"),
        pytest.param(Wants({"map": 3}, state={"x": float("nan")}), "ValueError", id="a state that is no JSON"),
    ],
)
def test_a_policy_that_fails_abstains_and_is_told(policy: Any, problem: str) -> None:
    asked = chosen({"bad": policy}, memories={"bad": {"kept": 1}})

    assert asked.targets == {"source": 4, "map": 8}
    assert codes(asked)[0] == "POLICY_FAILED"
    assert problem in asked.failures["bad"]
    assert asked.memories == {"bad": {"kept": 1}}
    assert not asked.is_sure
    [event] = asked.events(options_with())
    assert (event.type, event.reason) == (EventType.WARNING, "PluginProblem")
    assert "policy bad failed" in event.message
    assert asked.events(options_with({"compat": "reference"})) == []


def test_a_vertex_that_cannot_grow_is_told() -> None:
    limited = (Reason("SCALING_LIMITED", "needs 12 subtasks, but may have 8", "map"),)

    [event] = chosen({"a": Wants({"map": 8}, changes={"reasons": limited})}).events(options_with())

    assert (event.reason, event.message) == ("ScalingLimited", "a: needs 12 subtasks, but may have 8")
    assert event.key == "ScalingLimitedmap"
    assert event.interval == options_with().scaling_event_interval


def test_what_stays_for_want_of_metrics_is_not_sure() -> None:
    assert chosen({"a": Wants({"map": 8})}).is_sure
    assert not chosen({"a": Wants(None)}).is_sure


def test_an_unknown_policy_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'hpaa', but the policies are capacity, mine, slo, varga"):
        chosen({"mine": Wants(None)}, {"policy": "hpaa"})


def test_a_policy_that_declares_an_attribute_by_its_old_name_is_refused_with_the_new_one() -> None:
    class Streaming(Wants):
        needs_no_window = True

    problem = unknown_policies(options_with({"policy": "old"}), {"old": Streaming({})})

    assert problem == "The policy 'old' declares needs_no_window, which was renamed; declare is_streaming"


def test_a_plug_in_replaces_a_built_in_policy_of_its_name() -> None:
    assert chosen({"capacity": Wants({"map": 99})}).targets["map"] == 99


def test_a_schedule_limits_what_others_propose() -> None:
    policy = Wants({"source": 4})
    chosen({"other": policy}, {"schedule.plans": "vertex=map, max-parallelism=10"})

    shown = policy.seen[0].obs.vertices
    assert (shown["source"].max_parallelism, shown["map"].max_parallelism) == (128, 10)


@pytest.mark.parametrize("wanted", [None, {"source": 1, "map": 20}])
def test_a_schedule_holds_whatever_a_policy_wants(wanted: Mapping[str, int] | None) -> None:
    plans = {"schedule.plans": "vertex=map, max-parallelism=6; vertex=source, min-parallelism=5"}

    asked = chosen({"other": Wants(wanted)}, plans)

    assert asked.targets == {"source": 5, "map": 6}
    assert {"PLAN_HOLDS", "PLAN_BOUNDS"} <= set(codes(asked))
    assert set(asked.memories) == {"schedule"}


def test_every_built_in_policy_has_the_name_and_the_options_that_are_declared_for_it() -> None:
    assert set(POLICIES) == set(OPTIONS_OF)
    assert all(issubclass(kind, OptionSet) for kinds in OPTIONS_OF.values() for kind in kinds)


def _example() -> dict[str, Any]:
    """Return what the guide's example defines: a policy, and the contract for it."""
    page = (Path(__file__).parents[4] / "docs" / "guide" / "policies.md").read_text()
    namespace: dict[str, Any] = {"__name__": __name__}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        exec(compile(block, "policies.md", "exec"), namespace)
    return namespace


EXAMPLE = _example()


TestPerSubtaskPolicy = EXAMPLE["TestPerSubtaskPolicy"]


def test_the_example_of_the_guide_decides_as_a_plug_in() -> None:
    policy = EXAMPLE["PerSubtaskPolicy"]()
    shown = observation(vertex("source", parallelism=4, rate_in=2_500.0))
    options = {"policy": "per-subtask"}

    asked = run_job_policy(lambda: given(shown, options), a_job(shown, options), {"per-subtask": policy})

    assert asked.targets == {"source": 3}


PAIR = observation(vertex(parallelism=4), vertex("map", parallelism=4))


def sizes(obs: JobObservation) -> dict[str, int]:
    return {vertex_id: vertex.parallelism for vertex_id, vertex in obs.vertices.items()}


def wants(source: int, mapper: int, name: str = "one", **changes: Any) -> Proposal:
    targets = {"source": source, "map": mapper}
    fields = {"capacity": {"source": source * 10.0, "map": mapper * 10.0}, "state": {"name": name}, **changes}
    return Proposal(
        name, targets, direction_of(PAIR, targets), confidence=1.0, reasons=(Reason("WHY", f"says {name}"),), **fields
    )


def abstains(code: str, name: str = "two", **changes: Any) -> Proposal:
    return Proposal(name, None, ProposalDirection.NONE, {}, 0.0, (Reason(code, f"says {name}"),), **changes)


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
    plan = plan_of(proposal, sizes(PAIR))

    assert plan.targets == dict(zip(("source", "map"), expected, strict=True))
    assert plan.reasons


def test_what_stops_a_scale_down_is_a_reason_only_where_it_does() -> None:
    assert codes(plan_of(wants(4, 2, blocks_down=True), sizes(PAIR)))[-1] == "DOWN_BLOCKED"
    assert "DOWN_BLOCKED" not in codes(plan_of(wants(6, 6, blocks_down=True), sizes(PAIR)))


def test_reasons_and_state_are_kept() -> None:
    plan = plan_of(abstention_after_error("two", "boom", {"old": 1}), sizes(PAIR))

    assert codes(plan) == ["POLICY_FAILED", "NO_OPINION"]
    assert plan.states == {"two": {"old": 1}}


def test_a_vertex_without_a_target_stays() -> None:
    partly = Proposal("one", {"map": 6}, ProposalDirection.UP, {}, 1.0, (Reason("WHY", "because"),))

    plan = plan_of(partly, sizes(PAIR))

    assert plan.targets == {"source": 4, "map": 6}
    assert plan.unknown == {"source"}
