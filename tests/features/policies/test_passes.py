"""Passes over jobs that have chosen their policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import PolicyInput, Proposal
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.policies.base.proposals import METRIC_MISSING, abstention, direction_of
from flink_autoscaler.core.policies.policy_runner import POLICIES, unknown_policies
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import Plugins
from testkit.builders.core import (
    MINUTE,
    PIPELINE_MAP,
    PIPELINE_SOURCE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    a_reading,
    a_vertex,
    full_window,
    history_entry,
    options_with,
    pipeline,
    single_source,
    source_answers,
    vertex_id,
)

OPTIONS = dict(SINGLE_SOURCE_OPTIONS)


@dataclass
class Wants:
    """Proposes a parallelism for all vertices, or abstains; counts in its state how often it was asked."""

    target: int | None
    name: str = "mine"
    seen: list[PolicyInput] = field(default_factory=list)

    def propose(self, given: PolicyInput) -> Proposal:
        """Return the proposal."""
        self.seen.append(given)
        state = {"asked": given.state.get("asked", 0) + 1}
        if self.target is None:
            return abstention(self.name, (Reason(METRIC_MISSING, "nothing is known"),), state)
        targets = dict.fromkeys(given.obs.vertices, self.target)
        reason = (Reason("WANTED", "because I say so"),)
        return Proposal(self.name, targets, direction_of(given.obs, targets), {}, 1.0, reason, state=state)


def a_driver(policy: Any, options: Mapping[str, str] | None = None, state: JobState | None = None) -> JobDriver:
    """Make a job with one plug-in policy, which has the name ``mine``."""
    context = a_context({**OPTIONS, "policy": "mine", **(options or {})})
    return JobDriver(context, state or JobState(), Plugins(policies={"mine": policy}))


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


def enough(driver: JobDriver) -> PassOutcome:
    """Do three passes over a source of parallelism 4 that is just large enough."""
    return full_window(driver, rate=200.0, busy_ms=500.0)


def test_what_a_policy_remembers_survives_a_decision_and_is_undone_with_it() -> None:
    outcome = enough(a_driver(Wants(6)))

    assert outcome.state.policies == {"mine": {"asked": 1}}
    assert outcome.undecided is not None
    assert outcome.undecided.policies == {}


def test_another_job_graph_begins_anew() -> None:
    driver = a_driver(Wants(4))
    enough(driver)
    other = a_vertex(7, parallelism=4, io=IoMetrics(records_in=1, busy_ms=1.0))
    answers = {vertex_id(7): source_answers(busy_ms=500.0, rate=200.0)}

    outcome = driver.run(4 * MINUTE, a_reading([other], answers, running_at_ms=200_000))

    assert outcome.state.policies == {}


def test_a_policy_stays_within_the_bounds_of_a_vertex_and_of_one_step() -> None:
    assert enough(a_driver(Wants(50), {"vertex.max-parallelism": "10"})).target.parallelism == {SINGLE_SOURCE: 10}
    assert enough(a_driver(Wants(50), {"scale-up.max-factor": "1.0"})).target.parallelism == {SINGLE_SOURCE: 8}
    assert enough(a_driver(Wants(1), {"scale-down.max-factor": "0.5"})).target.parallelism == {SINGLE_SOURCE: 2}
    assert enough(a_driver(Wants(1), {"vertex.bounds": "*=3.."})).target.parallelism == {SINGLE_SOURCE: 3}


def test_a_busy_vertex_is_not_scaled_down_by_a_policy() -> None:
    driver = JobDriver(
        a_context({**OPTIONS, "policy": "mine"}),
        plugins=Plugins(policies={"mine": Wants(2)}),
    )

    outcome = driver.run_each_minute(pipeline(at, pending=0.0, rate=100.0, busy_ms=(100.0, 800.0)) for at in (1, 2, 3))

    assert outcome.target.parallelism == {PIPELINE_SOURCE: 2, PIPELINE_MAP: 4}
    assert "SATURATED" in codes(outcome)


def test_a_policy_is_held_back_after_a_scale_up_that_brought_too_little() -> None:
    # From 2 to 4 it was to have 400 instead of 200 records/s; now it has 210.
    history = {SINGLE_SOURCE: (history_entry(1, 2, 4, rate=200.0, expected=400.0),)}
    options = {"scaling.effectiveness.detection.enabled": "true"}

    outcome = full_window(a_driver(Wants(8), options, JobState(history=history)), rate=105.0, busy_ms=500.0)

    assert "INEFFECTIVE_SCALING" in codes(outcome)
    assert isinstance(outcome.decision, Hold)


def test_a_plan_for_a_job_of_unknown_rates_is_carried_out() -> None:
    """A source that reads nothing has no processing rate; a schedule raises it all the same."""
    history = {SINGLE_SOURCE: (history_entry(1, 2, 4, rate=200.0, expected=400.0),)}
    options = {
        "schedule.plans": "min-parallelism=8",
        "scaling.effectiveness.detection.enabled": "true",
    }

    outcome = full_window(a_driver(Wants(1), options, JobState(history=history)), rate=0.0, busy_ms=0.0)

    assert outcome.target.parallelism == {SINGLE_SOURCE: 8}
    assert outcome.report is not None


def test_an_unknown_policy_is_an_invalid_configuration_from_the_first_pass_on() -> None:
    outcome = a_driver(Wants(6), {"policy": "yours"}).run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0))

    assert outcome.phase is PassPhase.INVALID_CONFIG
    [reason] = outcome.decision.reasons
    assert "'yours', but the policies are capacity" in reason.text
    assert [event.reason for event in outcome.events] == ["AutoScaler Options Validation"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"policy": "capacity;slo"}, "for key 'job.autoscaler.policy': expected the name of one", id="two"),
        pytest.param({"policy": " "}, "for key 'job.autoscaler.policy': expected the name of one", id="none"),
        pytest.param({"policy": "varga", "varga.tolerance": "-1"}, "job.autoscaler.varga.tolerance", id="its own"),
        pytest.param({"schedule.plans": "x"}, "job.autoscaler.schedule.plans", id="plans"),
    ],
)
def test_settings_of_policies_are_checked(options: dict[str, str], problem: str) -> None:
    assert problem in (validate(options_with(options)) or "")


def test_settings_of_policies_that_nobody_uses_are_not_checked() -> None:
    options = options_with({"policy": "mine", "varga.tolerance": "-1"})

    assert validate(options) is None
    assert unknown_policies(options, {"mine": Wants(1)}) is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, False, id="nothing set"),
        pytest.param({"policy": "capacity"}, False, id="the default set"),
        pytest.param({"policy": "varga"}, True, id="another one"),
        pytest.param({"policy.shadow": "varga"}, True, id="one beside it"),
    ],
)
def test_jobs_that_choose_nothing_are_sized_as_ever(options: dict[str, str], expected: bool) -> None:
    assert options_with(options).has_own_policies is expected


# A source that is always busy with 200 records/s of parallelism 4, while 100 more arrive each second.
@pytest.mark.parametrize("name", POLICIES)
def test_every_built_in_policy_decides_about_a_job_in_passes(name: str) -> None:
    options = {
        "policy": name,
        "varga.lag-threshold": "100",
        "backlog-processing.lag-threshold": "10 min",
    }
    driver = JobDriver(a_context({**OPTIONS, **options}))

    outcomes = [
        driver.run(at * MINUTE, single_source(at, rate=200.0, busy_ms=1000.0, pending=6_000.0 * at))
        for at in range(1, 9)
    ]

    first = next(outcome for outcome in outcomes if isinstance(outcome.decision, Rescale))
    assert all(outcome.error is None for outcome in outcomes)
    assert first.target.parallelism[SINGLE_SOURCE] > 4
    assert all(text.startswith((f"{name}: ", "schedule: ")) for text in _policy_texts(first))


def _policy_texts(outcome: PassOutcome) -> list[str]:
    others = ("PLANNED", "SIZED", "BUDGET_SPENT")
    return [reason.text for reason in outcome.decision.reasons if reason.code not in others]


def test_a_job_with_a_join_is_observed_over_all_its_edges() -> None:
    policy = Wants(4)
    driver = a_driver(policy)
    for minute in (1, 2, 3):
        driver.run(minute * MINUTE, _join(minute))

    [given] = policy.seen
    assert given.obs.edges == {(vertex_id(1), vertex_id(3)): 1.0, (vertex_id(2), vertex_id(3)): 1.0}
    assert given.obs.vertices[vertex_id(3)].target_rate == 300.0


def _join(minute: int) -> Any:
    sources = [
        a_vertex(n, parallelism=4, io=IoMetrics(records_in=6_000 * n * minute, records_out=6_000 * n * minute))
        for n in (1, 2)
    ]
    inputs = dict.fromkeys((1, 2), ShipStrategy.HASH)
    join = a_vertex(3, parallelism=4, io=IoMetrics(records_in=18_000 * minute), inputs=inputs)
    answers = {vertex_id(n): source_answers(busy_ms=500.0, rate=100.0 * n) for n in (1, 2, 3)}
    return a_reading([*sources, join], answers)
