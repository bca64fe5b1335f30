"""Passes over jobs with a policy that needs no metric window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from flink_autoscaler.core.model.decision import PassPhase, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import LATEST_SAMPLES, PolicyInput, Proposal
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.topology import IoMetrics
from flink_autoscaler.core.policies.base.proposals import direction_of
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import Plugins
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_cluster,
    a_context,
    a_reading,
    a_vertex,
    single_source,
    source_answers,
    vertex_id,
)

OPTIONS = {**SINGLE_SOURCE_OPTIONS, "metrics.window": "10 min", "stabilization.interval": "5 min"}


@dataclass
class Sees:
    """Needs no window; wants a parallelism everywhere, and counts in its state how often it was asked."""

    target: int
    is_streaming: bool = True
    name: str = "sees"
    seen: list[PolicyInput] = field(default_factory=list)

    def propose(self, given: PolicyInput) -> Proposal:
        """Return the proposal."""
        self.seen.append(given)
        targets = dict.fromkeys(given.obs.vertices, self.target)
        state = {"asked": given.state.get("asked", 0) + 1}
        reason = (Reason("SEEN", f"{len(given.samples)} samples"),)
        return Proposal(self.name, targets, direction_of(given.obs, targets), {}, 1.0, reason, state=state)


def a_driver(policy: Sees, **options: str) -> JobDriver:
    """Make a job with a policy, whose window is full in minute 15."""
    context = a_context(
        {**OPTIONS, "policy": policy.name, **{key.replace("_", "-"): value for key, value in options.items()}}
    )
    return JobDriver(context, plugins=Plugins(policies={policy.name: policy}))


def source(minute: float, **changes: object) -> JobReading:
    """Read the source of parallelism 4 that is just large enough."""
    return single_source(minute, rate=200.0, busy_ms=500.0, **changes)  # type: ignore[arg-type]


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


def with_option(driver: JobDriver, options: Mapping[str, str]) -> None:
    driver.context = a_context({**OPTIONS, "policy": "sees", **options})


def test_a_policy_that_needs_no_window_decides_with_the_second_sample() -> None:
    driver = a_driver(Sees(6))

    first, second = driver.run(1 * MINUTE, source(1)), driver.run(2 * MINUTE, source(2))

    assert first.phase is PassPhase.COLLECTING
    assert second.phase is PassPhase.EXECUTED
    assert second.observation.is_window_full is False
    assert second.target.parallelism == {SINGLE_SOURCE: 6}
    assert codes(second) == ["SEEN", "PLANNED"]


def test_the_samples_that_it_is_shown_are_bounded() -> None:
    policy = Sees(4)
    driver = a_driver(policy)

    driver.run_each_minute([source(minute) for minute in range(1, 21)])

    assert max(len(given.samples) for given in policy.seen) == LATEST_SAMPLES
    assert [sample.at for sample in policy.seen[-1].samples] == [60.0 * minute for minute in range(13, 21)]
    assert [given.is_window_full for given in policy.seen] == [minute >= 15 for minute in range(2, 21)]


FILTERED = {
    "scale-down interval": {"scale-down.interval": "1 h"},
    "greatest step": {"scale-down.max-factor": "0.1"},
    "economics": {"scale-down.economics.enabled": "true", "scale-down.economics.factor": "1000"},
}


@pytest.mark.parametrize("options", FILTERED.values(), ids=FILTERED.keys())
@pytest.mark.parametrize("is_windowless", [True, False])
def test_what_exists_for_policies_with_a_window_does_not_hold_its_plans(
    options: Mapping[str, str], is_windowless: bool
) -> None:
    driver = a_driver(Sees(1, is_streaming=is_windowless))
    with_option(driver, {"scale-down.max-factor": "1", **options})

    outcomes = [driver.run(minute * MINUTE, source(minute)) for minute in range(1, 17)]

    down = next((each for each in outcomes if each.target.parallelism == {SINGLE_SOURCE: 1}), None)
    assert (down is not None) is is_windowless


PROTECTING = {
    "bounds": ({"vertex.min-parallelism": "3"}, 3),
    "switched off": ({"scale-down.enabled": "false"}, None),
    "excluded period": ({"excluded.periods": "00:00-23:59"}, None),
}


@pytest.mark.parametrize(("options", "reached"), PROTECTING.values(), ids=PROTECTING.keys())
def test_what_protects_the_job_holds_its_plans(options: Mapping[str, str], reached: int | None) -> None:
    driver = a_driver(Sees(1))
    with_option(driver, options)

    outcome = driver.run_each_minute([source(1), source(2)])

    assert outcome.target.parallelism == ({} if reached is None else {SINGLE_SOURCE: reached})


def test_what_it_remembers_goes_on_in_a_dry_run() -> None:
    driver = a_driver(Sees(6))
    with_option(driver, {"dry-run": "true"})

    outcome = driver.run_each_minute([source(minute) for minute in (1, 2, 3)])

    assert not isinstance(outcome.decision, Rescale)
    assert outcome.state.policies == {"sees": {"asked": 2}}


def test_what_it_remembers_goes_on_under_memory_pressure() -> None:
    driver = a_driver(Sees(6))
    with_option(driver, {"memory.gc-pressure.threshold": "0.5"})

    outcome = driver.run_each_minute([source(minute) for minute in (1, 2, 3)], a_cluster(gc_ms=501.0))

    assert codes(outcome)[0] == "MEMORY_PRESSURE"
    assert outcome.state.policies == {"sees": {"asked": 2}}


def test_what_it_has_seen_survives_a_decision_that_cannot_be_carried_out() -> None:
    outcome = a_driver(Sees(6)).run_each_minute([source(1), source(2)])

    assert outcome.undecided is not None
    assert outcome.undecided.policies == {"sees": {"asked": 1}}
    assert outcome.undecided.overrides == {}


def test_it_is_handed_what_it_remembers_after_the_job_graph_has_changed() -> None:
    policy = Sees(4)
    driver = a_driver(policy)
    driver.run_each_minute([source(1), source(2)])

    for minute in (4, 5):
        other = a_vertex(7, parallelism=4, io=IoMetrics(records_in=12_000 * minute, busy_ms=30_000.0 * minute))
        answers = {vertex_id(7): source_answers(busy_ms=500.0, rate=200.0)}
        driver.run(minute * MINUTE, a_reading([other], answers, running_at_ms=200_000))

    assert policy.seen[-1].obs.vertices.keys() == {vertex_id(7)}
    assert policy.seen[-1].state == {"asked": 1}


def test_what_it_remembers_goes_on_while_a_rescale_is_followed() -> None:
    driver = a_driver(Sees(6))
    asked_for = driver.run_each_minute([source(1), source(2)])
    facts = RescaleFacts(running={SINGLE_SOURCE: 4}, all_running=True, requirements={SINGLE_SOURCE: (1, 6)})

    followed = driver.run(3 * MINUTE, replace(source(3), facts=facts))

    assert isinstance(asked_for.decision, Rescale)
    assert codes(followed) == ["RESCALE_UNDER_WAY", "SEEN"]
    assert followed.state.policies == {"sees": {"asked": 2}}
