import math
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st
from policy_setup import NOW, codes, given, observation, run, vertex

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.policy_values import JobObservation, Proposal, ProposalDirection, VertexObs
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.core.policies.hpa.policy import HpaPolicy, Tolerance, advised, filled
from flink_autoscaler.core.policies.testing.contract import ScalingPolicyContract
from flink_autoscaler.core.ports.plugins import ScalingPolicy

TENTH = Tolerance(0.1, 0.1)
AT_ONCE = {"hpa.scale-down.window": "0 s"}
"""Without it a scale-down waits for an hour."""


def proposed(obs: JobObservation, options: Mapping[str, str] = AT_ONCE) -> Proposal:
    return HpaPolicy().propose(given(obs, options))


def later(obs: JobObservation, seconds: float) -> JobObservation:
    return replace(obs, now=obs.now + seconds, window=(obs.window[0] + seconds, obs.window[1] + seconds))


class TestHpaPolicy(ScalingPolicyContract):
    needs = ()
    patience = 2
    expected: ClassVar[Set[ProposalDirection]] = frozenset({ProposalDirection.UP})  # a scale-down takes an hour
    most_rescales = 16  # a saturated job cannot tell by how much it is too small

    def make_policy(self) -> ScalingPolicy:
        return HpaPolicy()


class TestHpaPolicyByVertex(TestHpaPolicy):
    expected = frozenset({ProposalDirection.UP, ProposalDirection.DOWN, ProposalDirection.MIXED})
    most_rescales = 40

    def config(self) -> Mapping[str, str]:
        return {"job.autoscaler.hpa.unit": "vertex", "job.autoscaler.hpa.scale-down.window": "0 s"}


class TestHpaPolicyLikeKubernetes(TestHpaPolicy):
    expected = frozenset({ProposalDirection.UP, ProposalDirection.DOWN})
    interval = 120.0
    patience = 4
    most_rescales = 30

    def config(self) -> Mapping[str, str]:
        return {"job.autoscaler.hpa.behavior": "kubernetes", "job.autoscaler.hpa.lag-per-subtask": "1000"}


@pytest.mark.parametrize(
    ("current", "metric", "target", "expected"),
    [
        pytest.param(4, 0.91, 0.7, 6, id="1.3 times the target: ceil(5.2)"),
        pytest.param(4, 0.75, 0.7, 4, id="1.07 times: within the tolerance"),
        pytest.param(10, 0.77, 0.7, 10, id="the limit of the tolerance belongs to it"),
        pytest.param(10, 0.63, 0.7, 10, id="the lower limit as well"),
        pytest.param(10, 0.62, 0.7, 9, id="below it"),
        pytest.param(10, 0.7 * 1.2, 0.7, 12, id="noise of the arithmetic buys nothing"),
        pytest.param(10, 0.0, 0.7, 0, id="nothing to do"),
        pytest.param(8, -1.2, 1.0, -9, id="a negative metric advises nothing"),
        pytest.param(8, math.inf, 1.0, 8_000_000, id="no bounds to its advice"),
    ],
)
def test_a_metric_advises_the_number_that_brings_it_to_its_target(
    current: int, metric: float, target: float, expected: int
) -> None:
    assert advised(current, metric / target, TENTH) == expected


@pytest.mark.parametrize(
    ("ratio", "share", "expected"),
    [
        pytest.param(1.5, 0.2, 1.2, id="count as nothing on the way up"),
        pytest.param(1.2, 0.5, 1.0, id="and do not turn it around"),
        pytest.param(0.5, 0.2, 0.6, id="count as at their target on the way down"),
        pytest.param(0.5, 1.0, 1.0, id="none is there"),
        pytest.param(1.5, 0.0, 1.5, id="none is missing"),
    ],
)
def test_missing_samples_are_on_the_side_of_caution(ratio: float, share: float, expected: float) -> None:
    assert filled(ratio, share) == pytest.approx(expected)


@hypothesis_given(
    ratio=st.floats(0.0, 1e9), share=st.floats(0.0, 1.0), current=st.integers(1, 1_000), tolerance=st.floats(0.0, 0.5)
)
def test_missing_samples_only_bring_an_advice_closer(
    ratio: float, share: float, current: int, tolerance: float
) -> None:
    same = Tolerance(tolerance, tolerance)
    whole, partly = advised(current, ratio, same), advised(current, filled(ratio, share), same)

    assert min(current, whole) <= partly <= max(current, whole)


@hypothesis_given(busy=st.floats(0.0, 1.0), current=st.integers(1, 128), target=st.floats(0.3, 1.0))
def test_what_was_advised_is_not_advised_again(busy: float, current: int, target: float) -> None:
    after = max(1, advised(current, busy / target, TENTH))

    assert max(1, advised(after, busy * current / after / target, TENTH)) == after


@pytest.mark.parametrize(
    ("options", "busy", "expected"),
    [
        pytest.param({}, 0.91, 6, id="too busy"),
        pytest.param({}, 0.75, 4, id="busy enough"),
        pytest.param({}, 0.35, 4, id="too idle, but not for long enough"),
        pytest.param(AT_ONCE, 0.35, 2, id="too idle"),
        pytest.param({"hpa.tolerance": "0.05"}, 0.75, 5, id="less tolerance"),
        pytest.param({"hpa.tolerance.up": "0.4"}, 0.91, 4, id="more tolerance upward"),
        pytest.param({"hpa.tolerance.up": "0.4", **AT_ONCE}, 0.35, 2, id="but only upward"),
        pytest.param({"hpa.tolerance.down": "0.6", **AT_ONCE}, 0.35, 4, id="more tolerance downward"),
        pytest.param({"utilization.target": "0.9"}, 0.91, 4, id="another target"),
        pytest.param({"hpa.scale-up.select": "Disabled"}, 0.91, 4, id="no scale-up at all"),
    ],
)
def test_a_job_is_brought_to_its_utilization(options: Mapping[str, str], busy: float, expected: int) -> None:
    assert proposed(observation(vertex(busy=busy)), options).targets == {"source": expected}


def test_the_busiest_vertex_decides_for_all() -> None:
    obs = observation(vertex(busy=0.1), vertex("map", busy=0.91), vertex("sink", busy=0.5))

    proposal = proposed(obs)

    assert proposal.targets == {"source": 6, "map": 6, "sink": 6}
    assert proposal.direction is ProposalDirection.UP
    assert "HPA_ADVICE" in codes(proposal)


def test_every_vertex_decides_for_itself_when_told_so() -> None:
    obs = observation(vertex(busy=0.1), vertex("map", busy=0.91), vertex("sink", busy=0.7))

    proposal = proposed(obs, {"hpa.unit": "vertex", **AT_ONCE})

    assert proposal.targets == {"source": 1, "map": 6, "sink": 4}
    assert proposal.direction is ProposalDirection.MIXED


def test_a_scale_down_of_the_job_raises_no_vertex() -> None:
    obs = observation(vertex(parallelism=2, busy=0.7), vertex("map", parallelism=8, busy=0.35))

    assert proposed(obs).targets == {"source": 2, "map": 4}


def test_a_vertex_that_cannot_grow_asks_for_nothing() -> None:
    obs = observation(vertex(busy=0.5), vertex("map", busy=1.0, max_parallelism=4))

    assert proposed(obs).direction is ProposalDirection.NONE


def test_a_vertex_out_of_bounds_goes_to_them_whatever_it_does() -> None:
    obs = observation(vertex(parallelism=8, max_parallelism=6, busy=0.95))

    assert proposed(obs).targets == {"source": 6}


def test_lag_is_a_second_metric_when_told_so() -> None:
    obs = observation(vertex(busy=0.7, lag_records=10_000.0), vertex("map", busy=0.2))

    proposal = proposed(obs, {"hpa.unit": "vertex", "hpa.lag-per-subtask": "1000", **AT_ONCE})

    assert proposal.targets == {"source": 10, "map": 2}


def test_a_lag_that_is_not_known_only_forbids_the_scale_down() -> None:
    options = {"hpa.lag-per-subtask": "1000", **AT_ONCE}
    idle = observation(vertex(busy=0.3, lag_records=None))
    busy = observation(vertex(busy=0.91, lag_records=None))

    assert proposed(idle, options).targets is None
    assert proposed(busy, options).targets == {"source": 6}
    assert "LAG_UNKNOWN" in codes(proposed(busy, options))


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        pytest.param(0.91, {"source": 6, "map": 6}, id="others may ask for more"),
        pytest.param(0.3, None, id="others may not ask for less"),
        pytest.param(0.7, None, id="others are content: not enough to say so"),
    ],
)
def test_a_vertex_without_busy_time_does_not_stop_a_scale_up(busy: float, expected: object) -> None:
    proposal = proposed(observation(vertex(busy=busy), vertex("map", busy=None)))

    assert proposal.targets == expected
    assert "METRIC_MISSING" in codes(proposal)


def test_a_scale_up_lowers_no_vertex_without_busy_time() -> None:
    obs = observation(vertex(parallelism=4, busy=0.91), vertex("map", parallelism=8, busy=None))

    assert proposed(obs).targets == {"source": 8, "map": 8}


def test_a_vertex_without_busy_time_stays_when_every_vertex_decides_for_itself() -> None:
    obs = observation(vertex(busy=0.35), vertex("map", busy=None))

    assert proposed(obs, {"hpa.unit": "vertex", **AT_ONCE}).targets == {"source": 2, "map": 4}


@pytest.mark.parametrize("unit", ["job", "vertex"])
def test_an_incomplete_window_makes_it_abstain(unit: str) -> None:
    obs = observation(vertex(busy=0.91, complete=False), vertex("map", busy=0.1, complete=False))

    proposal = proposed(obs, {"hpa.unit": unit, **AT_ONCE})

    assert proposal.targets is None
    assert codes(proposal) == {"INCOMPLETE_WINDOW"}


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        pytest.param(1.0, 12, id="1.43 times the target of eight subtasks: 1.14 of ten"),
        pytest.param(0.35, 6, id="half the target of eight: 0.6 of ten"),
        pytest.param(0.875, 10, id="no more than the target of ten"),
    ],
)
def test_subtasks_that_did_not_report_are_on_the_side_of_caution(busy: float, expected: int) -> None:
    partly = vertex(parallelism=10, busy=busy, complete=False, subtask_rates=(1.0,) * 8)

    assert proposed(observation(partly)).targets == {"source": expected}


def behind(*, busy: float, slope: float) -> JobObservation:
    """Make a job whose lag is more than five minutes."""
    return observation(vertex(rate_in=1_000.0, busy=busy, lag_records=400_000.0, lag_slope=slope))


@pytest.mark.parametrize(
    ("slope", "busy", "expected", "code"),
    [
        pytest.param(-1_000.0, 1.0, 4, "CATCHING_UP", id="gone in 400 s: being busy says nothing"),
        pytest.param(-100.0, 1.0, 6, "BEHIND", id="gone in 4,000 s: too late"),
        pytest.param(100.0, 1.0, 6, "BEHIND", id="growing"),
        pytest.param(100.0, 0.1, 4, "BEHIND", id="no scale-down with a backlog"),
    ],
)
def test_a_backlog_is_looked_at_first(slope: float, busy: float, expected: int, code: str) -> None:
    proposal = proposed(behind(busy=busy, slope=slope))

    assert proposal.targets == {"source": expected}
    assert code in codes(proposal)
    assert proposal.blocks_down is (code == "CATCHING_UP")


def test_utilization_counts_again_a_window_after_the_backlog() -> None:
    draining = behind(busy=1.0, slope=-1_000.0)
    settled = observation(vertex(busy=1.0))

    proposals = run(HpaPolicy(), [given(draining), *(given(later(settled, at)) for at in (60.0, 840.0, 900.0))])

    assert [(proposal.targets or {})["source"] for proposal in proposals] == [4, 4, 4, 6]
    assert ["SETTLING" in codes(proposal) for proposal in proposals] == [False, True, True, False]


def test_passes_between_two_syncs_repeat_the_last_proposal() -> None:
    busy, idle = observation(vertex(busy=0.91)), observation(vertex(busy=0.7))

    proposals = run(HpaPolicy(), [given(busy), given(later(idle, 10.0)), given(later(idle, 15.0))])

    assert [(proposal.targets or {})["source"] for proposal in proposals] == [6, 6, 4]
    assert "BETWEEN_SYNCS" in codes(proposals[1])


def test_a_scale_down_waits_until_an_hour_agrees() -> None:
    idle = observation(vertex(busy=0.35))
    inputs = [given(later(idle, turn * 600.0)) for turn in range(8)]

    proposals = run(HpaPolicy(), inputs)

    assert [(proposal.targets or {})["source"] for proposal in proposals] == [4] * 6 + [2] * 2
    assert "STABILIZED" in codes(proposals[0])


def test_kubernetes_goes_from_3_to_40_in_four_steps() -> None:
    parallelism, state, numbers = 3, None, []
    for turn in range(4):
        lag = observation(vertex(parallelism=parallelism, lag_records=4_000.0, rate_in=1_000.0))
        options = {"hpa.behavior": "kubernetes", "hpa.lag-per-subtask": "100"}
        proposal = HpaPolicy().propose(given(later(lag, turn * 15.0), options, state=state))
        parallelism, state = (proposal.targets or {})["source"], proposal.state
        numbers.append(parallelism)

    assert numbers == [7, 14, 28, 40]


def test_what_is_remembered_of_another_graph_is_forgotten() -> None:
    state = HpaPolicy().propose(given(observation(vertex(busy=0.91)))).state
    other = observation(vertex("source 2", busy=0.7), now=NOW + 1.0)

    assert "BETWEEN_SYNCS" not in codes(HpaPolicy().propose(given(other, state=state)))


@pytest.mark.parametrize("state", [{"vertices": 1}, {"vertices": ["source"], "tracks": 3}, {"unknown": True}])
def test_a_state_that_cannot_be_read_is_forgotten(state: Mapping[str, object]) -> None:
    obs = observation(vertex(busy=0.91))

    assert HpaPolicy().propose(given(obs, state=state)) == HpaPolicy().propose(given(obs))


def test_a_job_that_does_not_run_keeps_what_is_remembered() -> None:
    obs = observation(vertex(busy=0.91))
    state = HpaPolicy().propose(given(obs)).state
    stopped = replace(later(obs, 60.0), status=JobStatus.RESTARTING)

    assert HpaPolicy().propose(given(stopped, state=state)).state == state


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hpa.unit", "slot"),
        ("hpa.behavior", "docker"),
        ("hpa.tolerance", "-0.1"),
        ("hpa.tolerance.up", "NaN"),
        ("hpa.scale-up.policies", "Percent 0 / 15 s"),
        ("hpa.scale-down.select", "Some"),
        ("hpa.lag-per-subtask", "0"),
    ],
)
def test_an_invalid_setting_names_its_key(key: str, value: str) -> None:
    with pytest.raises(ValueParseError, match=f"job.autoscaler.{key}"):
        proposed(observation(vertex()), {key: value})


def test_capacity_is_what_the_subtasks_can_do() -> None:
    slow: VertexObs = vertex(busy=0.91, rate_in=910.0)

    assert proposed(observation(slow)).capacity == pytest.approx({"source": 1_500.0})
