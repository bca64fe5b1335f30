"""Policies that want to look again before the next pass is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import pytest
from core_builders import MINUTE, SINGLE_SOURCE_OPTIONS, JobDriver, a_cluster, a_context, single_source

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.model.early import LookAgain
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import PolicyInput, Proposal
from flink_autoscaler.core.policies.base.proposals import direction_of
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.core.ports.plugins import Plugins


@dataclass
class Suspects:
    """Needs no window, wants a parallelism everywhere, and to look again some seconds later; None for no wish."""

    after: float | None = 0.0
    target: int = 4
    name: str = "suspects"
    needs_no_window: bool = True

    def propose(self, given: PolicyInput) -> Proposal:
        """Return the proposal."""
        targets = dict.fromkeys(given.obs.vertices, self.target)
        at = None if self.after is None else given.obs.now + self.after
        reasons = (Reason("SEEN", "a sample"),)
        return Proposal(self.name, targets, direction_of(given.obs, targets), {}, 1.0, reasons, look_again_at=at)


def after_two_passes(
    policy: Suspects, interval_ms: int = 0, early: str = "", options: Mapping[str, str] = MappingProxyType({})
) -> PassOutcome:
    """Return what the second pass over a job of parallelism 4 comes to, in minute 2."""
    context = a_context({**SINGLE_SOURCE_OPTIONS, "metrics.window": "10 min", "policy": policy.name, **options})
    plugins = Plugins(policies={policy.name: policy})
    driver = JobDriver(context, plugins=plugins)
    driver.run(MINUTE, single_source(1, rate=200.0, busy_ms=500.0))
    request = PassRequest(context, driver.state, 2 * MINUTE, early=early)
    cluster = replace(a_cluster(), interval_ms=interval_ms)
    return advance(request, single_source(2, rate=200.0, busy_ms=500.0), cluster, plugins)


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


@pytest.mark.parametrize(
    ("wish", "interval_ms", "options", "seconds"),
    [
        pytest.param(0.0, 0, {}, 15, id="as soon as may be"),
        pytest.param(20.0, 0, {}, 20, id="later than that"),
        pytest.param(0.0, 0, {"early-pass.delay": "30 s"}, 30, id="a longer delay"),
        pytest.param(0.0, 0, {"early-pass.delay": "1 s"}, 5, id="never at once"),
        pytest.param(0.0, 20_000, {}, 20, id="not before metrics are gathered again"),
    ],
)
def test_a_wish_is_put_off_until_new_samples_can_be_there(
    wish: float, interval_ms: int, options: dict[str, str], seconds: int
) -> None:
    outcome = after_two_passes(Suspects(wish), interval_ms=interval_ms, options=options)

    assert outcome.look_again == LookAgain(2 * MINUTE + 1000 * seconds, "suspects", 12)
    assert f"suspects asks to look again in {seconds} s, where the next pass is due later" in [
        reason.text for reason in outcome.decision.reasons
    ]


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        pytest.param(Suspects(None), {}, id="nobody asks"),
        pytest.param(Suspects(target=6), {}, id="it is rescaled"),
        pytest.param(Suspects(), {"compat": "reference"}, id="like the reference"),
        pytest.param(Suspects(), {"improvement.early-passes": "false"}, id="switched off"),
        pytest.param(Suspects(), {"early-pass.per-hour": "0"}, id="none an hour"),
    ],
)
def test_no_pass_is_asked_for(policy: Suspects, options: dict[str, str]) -> None:
    outcome = after_two_passes(policy, options=options)

    assert "SEEN" in codes(outcome)
    assert outcome.look_again is None
    assert "LOOKS_AGAIN" not in codes(outcome)


def test_an_instant_that_is_none_is_a_failure_of_the_policy() -> None:
    outcome = after_two_passes(Suspects(float("nan")))

    assert outcome.look_again is None
    assert "POLICY_FAILED" in codes(outcome)


def test_an_early_pass_says_who_asked_for_it() -> None:
    outcome = after_two_passes(Suspects(None), early="slo of main/orders")

    (reason,) = [each for each in outcome.decision.reasons if each.code == "EARLY_PASS"]
    assert reason.text == "this pass came before its time: slo of main/orders asked for it"
