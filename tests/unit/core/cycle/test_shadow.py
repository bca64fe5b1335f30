"""Shadow mode: a second policy beside those in charge says what it would do, and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from flink_autoscaler.core.cycle.recording import signature
from flink_autoscaler.core.model.decision import PassPhase, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import PolicyInput, Proposal, ProposalDirection
from flink_autoscaler.core.model.topology import IoMetrics
from flink_autoscaler.core.policies.base.proposals import METRIC_MISSING, abstention, direction_of
from flink_autoscaler.core.policies.policy_runner import SHADOW
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import Plugins
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    a_reading,
    a_vertex,
    single_source,
    source_answers,
    vertex_id,
)

OPTIONS = {**SINGLE_SOURCE_OPTIONS, "policy.shadow": "second"}


@dataclass
class Second:
    """Wants a parallelism, abstains, or fails; counts in its state how often it was asked."""

    target: int | None
    is_streaming: bool = False
    problem: Exception | None = None
    name: str = "second"
    seen: list[PolicyInput] = field(default_factory=list)

    def propose(self, given: PolicyInput) -> Proposal:
        """Return the proposal."""
        self.seen.append(given)
        if self.problem is not None:
            raise self.problem
        state = {"asked": given.state.get("asked", 0) + 1}
        if self.target is None:
            return abstention(self.name, (Reason(METRIC_MISSING, "nothing is known"),), state)
        targets = dict.fromkeys(given.obs.vertices, self.target)
        reason = (Reason("WANTED", "because I say so"),)
        return Proposal(self.name, targets, direction_of(given.obs, targets), {}, 1.0, reason, state=state)


def a_driver(policy: Second, options: Mapping[str, str] | None = None) -> JobDriver:
    """Make a job that ``capacity`` manages, beside a second policy; its window is full in minute 3."""
    return JobDriver(a_context({**OPTIONS, **(options or {})}), plugins=Plugins(policies={"second": policy}))


def run(driver: JobDriver, minutes: int, busy_ms: float = 500.0, **changes: Any) -> PassOutcome:
    """Look at a source of parallelism 4 that is just large enough, unless told otherwise, once a minute."""
    for minute in range(1, minutes + 1):
        outcome = driver.run(minute * MINUTE, single_source(minute, rate=200.0, busy_ms=busy_ms, **changes))
    return outcome


def test_what_it_would_do_is_told_and_nothing_is_done() -> None:
    outcome = run(a_driver(Second(6)), 3)

    shadow = outcome.shadow
    assert shadow is not None
    assert (shadow.policy, shadow.direction) == ("second", ProposalDirection.UP)
    assert (shadow.held, shadow.wanted) == (4, 6)
    assert shadow.changes == {SINGLE_SOURCE: 6}
    assert [reason.text for reason in shadow.reasons] == ["second: because I say so"]
    assert not isinstance(outcome.decision, Rescale)
    assert outcome.target.parallelism == {}
    assert "WANTED" not in {reason.code for reason in outcome.decision.reasons}


@pytest.mark.parametrize(("is_windowless", "asked"), [(True, 2), (False, 1)])
def test_it_is_asked_when_it_would_be_in_charge(is_windowless: bool, asked: int) -> None:
    policy = Second(6, is_streaming=is_windowless)
    driver = a_driver(policy)

    filling = run(driver, 2)
    run(driver, 3)

    assert filling.phase is PassPhase.WINDOW_FILLING
    assert (filling.shadow is not None) is is_windowless
    assert len(policy.seen) == asked + is_windowless


REFERENCE = {"compat": "reference"}
CHARGES = {
    "capacity": {},
    "varga": {"policy": "varga"},
    "the reference": REFERENCE,
    "the reference with a dry run": {**REFERENCE, "dry-run": "true"},
}


@pytest.mark.parametrize("charge", CHARGES.values(), ids=CHARGES.keys())
@pytest.mark.parametrize("second", [Second(1), Second(None), Second(1, problem=ValueError("boom"))], ids=repr)
@pytest.mark.parametrize("busy_ms", [100.0, 500.0, 950.0], ids=["less", "enough", "more"])
def test_decisions_are_what_they_are_without_it(charge: Mapping[str, str], second: Second, busy_ms: float) -> None:
    beside = a_driver(second, charge)
    alone = a_driver(second, charge)
    alone.context = a_context({**SINGLE_SOURCE_OPTIONS, **charge})

    for minute in range(1, 6):
        reading = single_source(minute, rate=200.0, busy_ms=busy_ms)
        one, other = (driver.run(minute * MINUTE, reading) for driver in (beside, alone))
        assert one.decision == other.decision
        assert one.target.parallelism == other.target.parallelism
        assert one.phase == other.phase
        assert without_memory(one) == other.state.policies


def without_memory(outcome: PassOutcome) -> Mapping[str, Any]:
    return {name: memory for name, memory in outcome.state.policies.items() if name != SHADOW}


def test_one_that_fails_is_told_and_harms_nothing() -> None:
    outcome = run(a_driver(Second(6, problem=ValueError("boom"))), 3)

    assert outcome.error is None
    assert outcome.phase is PassPhase.EXECUTED
    assert outcome.shadow is not None
    assert outcome.shadow.wanted is None
    assert [reason.code for reason in outcome.shadow.reasons] == ["POLICY_FAILED"]
    assert [event.reason for event in outcome.events] == ["PluginProblem"]


def test_one_that_does_not_exist_is_told_and_harms_nothing() -> None:
    outcome = run(a_driver(Second(6), {"policy.shadow": "typo"}), 3)

    assert outcome.phase is PassPhase.EXECUTED
    assert outcome.shadow is not None
    assert outcome.shadow.wanted is None
    assert "typo" in outcome.events[0].message


def test_the_default_policy_can_be_the_second_one() -> None:
    driver = a_driver(Second(4), {"policy": "second", "policy.shadow": "capacity"})

    outcome = run(driver, 3, busy_ms=950.0)

    assert outcome.target.parallelism == {}
    assert outcome.shadow is not None
    assert outcome.shadow.direction is ProposalDirection.UP
    assert outcome.shadow.wanted == 8


def test_it_is_asked_in_a_dry_run() -> None:
    outcome = run(a_driver(Second(6), {"dry-run": "true"}), 4, busy_ms=950.0)

    assert outcome.target.parallelism == {}
    assert outcome.shadow is not None
    assert outcome.shadow.wanted == 6
    assert outcome.state.policies == {SHADOW: {"policy": "second", "state": {"asked": 2}}}


def test_one_that_is_put_in_charge_goes_on_with_what_it_has_learned() -> None:
    policy = Second(4)
    driver = a_driver(policy)
    run(driver, 4)
    driver.context = a_context({**SINGLE_SOURCE_OPTIONS, "policy": "second"})

    outcome = driver.run(5 * MINUTE, single_source(5, rate=200.0, busy_ms=500.0))

    assert policy.seen[-1].state == {"asked": 2}
    assert outcome.state.policies == {"second": {"asked": 3}}


def test_one_that_steps_aside_goes_on_with_what_it_has_learned() -> None:
    policy = Second(4)
    driver = a_driver(policy)
    driver.context = a_context({**SINGLE_SOURCE_OPTIONS, "policy": "second"})
    run(driver, 4)
    driver.context = a_context(OPTIONS)

    driver.run(5 * MINUTE, single_source(5, rate=200.0, busy_ms=500.0))

    assert policy.seen[-1].state == {"asked": 2}


def test_what_it_remembers_is_forgotten_when_it_is_switched_off() -> None:
    driver = a_driver(Second(4))
    run(driver, 4)
    driver.context = a_context(SINGLE_SOURCE_OPTIONS)

    outcome = driver.run(5 * MINUTE, single_source(5, rate=200.0, busy_ms=500.0))

    assert outcome.shadow is None
    assert outcome.state.policies == {}


@pytest.mark.parametrize("is_windowless", [True, False])
def test_another_job_graph_is_for_a_policy_that_needs_no_window_to_see(is_windowless: bool) -> None:
    policy = Second(4, is_streaming=is_windowless)
    driver = a_driver(policy)
    run(driver, 3)
    other = a_vertex(7, parallelism=4, io=IoMetrics(records_in=48_000, busy_ms=1.0))
    answers = {vertex_id(7): source_answers(busy_ms=500.0, rate=200.0)}

    outcome = driver.run(4 * MINUTE, a_reading([other], answers, running_at_ms=200_000))

    assert (SHADOW in outcome.state.policies) is is_windowless


def test_its_memory_survives_a_decision_that_cannot_be_carried_out() -> None:
    outcome = run(a_driver(Second(4)), 3, busy_ms=950.0)

    assert isinstance(outcome.decision, Rescale)
    assert outcome.undecided is not None
    assert outcome.undecided.policies == {SHADOW: {"policy": "second", "state": {"asked": 1}}}


def test_a_pass_is_worth_recording_when_it_turns() -> None:
    policy = Second(4)
    driver = a_driver(policy)
    still = run(driver, 4)
    policy.target = 6

    turned = driver.run(5 * MINUTE, single_source(5, rate=200.0, busy_ms=500.0))

    assert replace(still, shadow=None).decision == replace(turned, shadow=None).decision
    assert signature(still) != signature(turned)
