from collections.abc import Mapping
from dataclasses import replace

import pytest
from policy_setup import codes, given, observation, run, vertex

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.policy_values import JobObservation, Proposal, ProposalDirection
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.core.policies.base.whole_job import backlog_of, slope_of, with_sample
from flink_autoscaler.core.policies.testing.contract import ScalingPolicyContract
from flink_autoscaler.core.policies.varga import VargaPolicy, drain_rate, lag_rate
from flink_autoscaler.core.ports.plugins import ScalingPolicy

PUBLISHED = {"varga.hardened": "false", "hpa.behavior": "kubernetes"}
AT_ONCE = {"hpa.scale-down.window": "0 s"}
"""Without it a scale-down waits for an hour."""


def a_job(lag: float | None, slope: float, idle: float, *, rate: float | None = 30_000.0) -> JobObservation:
    """Make a job of parallelism 8 whose two vertices are equally idle, and otherwise busy."""
    source = vertex(parallelism=8, rate_in=rate, busy=1.0 - idle, lag_records=lag, lag_slope=slope)
    return observation(source, vertex("map", parallelism=8, rate_in=rate, busy=1.0 - idle))


def later(obs: JobObservation, seconds: float) -> JobObservation:
    return replace(obs, now=obs.now + seconds, window=(obs.window[0] + seconds, obs.window[1] + seconds))


def stopped(obs: JobObservation) -> JobObservation:
    return replace(obs, status=JobStatus.RESTARTING, all_tasks_running=False)


def proposed(obs: JobObservation, options: Mapping[str, str]) -> Proposal:
    return VargaPolicy().propose(given(obs, options))


def number(proposal: Proposal) -> int | None:
    """Return the parallelism that all vertices get; None for an abstention."""
    numbers = set((proposal.targets or {}).values())
    assert len(numbers) <= 1
    return next(iter(numbers), None)


class TestVargaPolicy(ScalingPolicyContract):
    needs = ("rate_in",)
    patience = 3
    most_rescales = 16  # a saturated job cannot tell by how much it is too small

    def make_policy(self) -> ScalingPolicy:
        return VargaPolicy()

    def config(self) -> Mapping[str, str]:
        return {"job.autoscaler.hpa.scale-down.window": "0 s"}


A = a_job(200_000.0, 6_000.0, 0.38)
B = a_job(20_000.0, 6_000.0, 0.38)
C = a_job(20_000.0, 0.0, 0.65)
D = a_job(200_000.0, -9_000.0, 0.02)
E = a_job(200_000.0, 0.0, 0.3)


@pytest.mark.parametrize(
    ("obs", "expected"),
    [
        pytest.param(A, 10, id="A: the lag grows"),
        pytest.param(B, 8, id="B: it grows, but is small"),
        pytest.param(C, 8, id="C: idle, for the first time"),
        pytest.param(D, 12, id="D: draining, the ratchet"),
        pytest.param(E, 8, id="E: a standing backlog is never worked off"),
    ],
)
def test_the_published_policy_does_what_it_does(obs: JobObservation, expected: int) -> None:
    assert number(proposed(obs, PUBLISHED)) == expected


@pytest.mark.parametrize(
    ("obs", "rate"),
    [
        pytest.param(A, 1.2, id="A"),
        pytest.param(B, -1.2, id="B"),
        pytest.param(C, -1.0, id="C"),
        pytest.param(D, 0.7, id="D"),
        pytest.param(E, 1.0, id="E"),
        pytest.param(a_job(50_000.0, 0.0, 0.3), -1.0, id="at the threshold counts as below"),
        pytest.param(a_job(200_000.0, 6_000.0, 0.0, rate=0.0), 6_001.0, id="a restart looks like a flood"),
    ],
)
def test_the_lag_rate_is_arriving_by_read_records(obs: JobObservation, rate: float) -> None:
    assert lag_rate(backlog_of(obs), 50_000.0) == pytest.approx(rate)


def test_the_published_policy_shrinks_once_five_minutes_agree() -> None:
    proposals = run(VargaPolicy(), [given(later(C, turn * 60.0), PUBLISHED) for turn in range(6)])

    assert [number(proposal) for proposal in proposals] == [8, 8, 8, 8, 8, 4]


def test_the_published_policy_grows_while_the_metrics_of_a_restart_read_zero() -> None:
    down = stopped(observation(vertex(parallelism=8, rate_in=0.0, busy=0.0, idle=0.0, lag_records=0.0)))

    proposals = run(VargaPolicy(), [given(later(down, turn * 15.0), PUBLISHED) for turn in range(2)])

    assert [number(proposal) for proposal in proposals] == [12, 12]


def test_the_published_policy_is_flooded_by_a_lag_that_grows_during_a_restart() -> None:
    down = stopped(observation(vertex(parallelism=8, rate_in=0.0, idle=0.0, lag_records=2e6, lag_slope=30_000.0)))

    assert number(proposed(down, {**PUBLISHED, "hpa.behavior": "flink"})) == 128
    assert number(proposed(down, PUBLISHED)) == 16


@pytest.mark.parametrize(
    ("obs", "expected", "code"),
    [
        pytest.param(A, 10, "BEHIND", id="A: the lag grows"),
        pytest.param(B, 8, "NO_CHANGE", id="B: it grows, but is small"),
        pytest.param(C, 4, "SCALE_DOWN", id="C: idle"),
        pytest.param(D, 8, "CATCHING_UP", id="D: draining in time"),
        pytest.param(E, 8, "BEHIND", id="E: a standing backlog within the tolerance"),
        pytest.param(a_job(20e6, 0.0, 0.3), 11, "BEHIND", id="a large standing backlog is worked off"),
        pytest.param(a_job(20e6, -9_000.0, 0.3), 8, "BEHIND", id="draining not quite in time, within the tolerance"),
        pytest.param(a_job(20e6, -9_000.0, 0.02), 12, "BEHIND", id="draining not in time, and busy"),
        pytest.param(a_job(None, 0.0, 0.02), 12, "LAG_UNKNOWN", id="without a lag only utilization counts"),
        pytest.param(a_job(2e6, 90_000.0, 0.3), 24, "BEHIND", id="at most three times as much at once"),
    ],
)
def test_the_hardened_policy_has_neither_ratchet_nor_standing_backlog(
    obs: JobObservation, expected: int, code: str
) -> None:
    proposal = proposed(obs, AT_ONCE)

    assert number(proposal) == expected
    assert code in codes(proposal)
    assert proposal.blocks_down is (code == "CATCHING_UP")


def test_a_drain_needs_enough_to_be_done_in_time() -> None:
    backlog = backlog_of(a_job(54e6, 6_000.0, 0.3))

    assert drain_rate(backlog, 1_800.0) == pytest.approx(1.0 + 0.2 + 1.0)
    assert drain_rate(backlog, 0.0) == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("option", "obs", "expected"),
    [
        pytest.param("varga.mask-rescale", stopped(A), 10, id="a restart is no reason to wait"),
        pytest.param("varga.catch-up-hold", D, 12, id="the ratchet is back"),
        pytest.param("varga.drain-term", a_job(20e6, 0.0, 0.3), 8, id="the standing backlog is back"),
    ],
)
def test_every_hardening_can_be_switched_off_alone(option: str, obs: JobObservation, expected: int) -> None:
    assert number(proposed(obs, {**AT_ONCE, option: "false"})) == expected
    assert number(proposed(obs, AT_ONCE)) != expected


@pytest.mark.parametrize(
    ("option", "obs", "expected"),
    [
        pytest.param("varga.mask-rescale", stopped(A), None, id="it waits during a restart"),
        pytest.param("varga.catch-up-hold", D, 8, id="it waits for the drain"),
        pytest.param("varga.drain-term", a_job(20e6, 0.0, 0.3), 11, id="it works off the standing backlog"),
    ],
)
def test_every_hardening_can_be_switched_on_alone(option: str, obs: JobObservation, expected: int | None) -> None:
    assert number(proposed(obs, {**PUBLISHED, option: "true"})) == expected


def test_the_mean_hides_a_bottleneck_and_the_maximum_does_not() -> None:
    obs = observation(vertex(busy=0.1), vertex("map", busy=0.98), vertex("sink", busy=0.1))

    assert number(proposed(obs, AT_ONCE)) == 6
    assert number(proposed(obs, {"varga.utilization-agg": "mean", **AT_ONCE})) == 3


def test_a_bottleneck_that_cannot_grow_stops_the_others() -> None:
    full = vertex("map", parallelism=8, busy=1.0, max_parallelism=8)
    obs = observation(vertex(parallelism=8, busy=0.5, rate_in=30_000.0, lag_records=2e6, lag_slope=9_000.0), full)

    proposal = proposed(obs, AT_ONCE)

    assert proposal.direction is ProposalDirection.NONE
    assert "SCALING_LIMITED" in codes(proposal)


def test_it_waits_until_all_tasks_have_run_for_a_minute() -> None:
    growing = [later(a_job(200_000.0 + 6_000.0 * at, 6_000.0, 0.38), at) for at in (0.0, 30.0, 59.0, 60.0)]
    inputs = [stopped(growing[0]), *growing[1:]]

    proposals = run(VargaPolicy(), [given(obs) for obs in inputs])

    assert [number(proposal) for proposal in proposals] == [None, None, None, 10]
    assert "NOT_RUNNING" in codes(proposals[0])
    assert codes(proposals[1]) == {"WARM_UP"}


def test_it_waits_after_a_restart_that_it_did_not_see() -> None:
    assert codes(proposed(replace(A, last_restart_at=A.now - 59.0), {})) == {"WARM_UP"}
    assert number(proposed(replace(A, last_restart_at=A.now - 60.0), {})) == 10


def test_it_waits_while_nothing_is_read() -> None:
    assert codes(proposed(a_job(0.0, 0.0, 1.0, rate=0.0), {})) == {"NO_THROUGHPUT"}


def test_utilization_counts_again_a_window_after_the_backlog() -> None:
    busy = a_job(0.0, 0.0, 0.02)
    inputs = [given(D), *(given(later(busy, at)) for at in (60.0, 840.0, 900.0))]

    proposals = run(VargaPolicy(), inputs)

    assert [number(proposal) for proposal in proposals] == [8, 8, 8, 12]
    assert "SETTLING" in codes(proposals[1])


def test_a_lag_that_grows_may_scale_up_without_busy_time() -> None:
    unknown = replace(A, vertices={v: replace(each, busy=None) for v, each in A.vertices.items()})
    idle = replace(C, vertices={v: replace(each, busy=None) for v, each in C.vertices.items()})

    assert number(proposed(unknown, AT_ONCE)) == 10
    assert proposed(idle, AT_ONCE).targets is None
    assert codes(proposed(idle, AT_ONCE)) == {"METRIC_MISSING"}


def test_the_change_of_the_lag_is_that_of_the_last_minute_where_passes_are_close() -> None:
    inputs = [given(later(a_job(200_000.0 + 6_000.0 * at, 0.0, 0.38), at), PUBLISHED) for at in (0.0, 15.0, 30.0, 45.0)]

    proposals = run(VargaPolicy(), inputs)

    assert [number(proposal) for proposal in proposals] == [8, 8, 10, 10]


def test_the_slope_is_the_least_squares_one() -> None:
    samples = ((0.0, 100.0), (30.0, 400.0), (60.0, 700.0))

    assert slope_of(samples, 60.0) == pytest.approx(10.0)
    assert slope_of(samples[:1], 60.0) is None
    assert slope_of((), 60.0) is None
    assert with_sample(samples, 70.0, 800.0, 60.0) == (*samples[1:], (70.0, 800.0))
    assert with_sample(samples, 30.0, 1.0, 60.0) == (samples[0], (30.0, 1.0))


@pytest.mark.parametrize("state", [{"lags": 3}, {"lags": [], "hpa": 3}, {"lags": [["x", 1]]}])
def test_a_state_that_cannot_be_read_is_forgotten(state: Mapping[str, object]) -> None:
    assert VargaPolicy().propose(given(A, state=state)) == VargaPolicy().propose(given(A))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("varga.utilization-agg", "min"),
        ("varga.utilization-target", "0"),
        ("varga.max-ratio", "0.5"),
        ("varga.deriv-window", "0 s"),
        ("varga.hardened", "perhaps"),
    ],
)
def test_an_invalid_setting_names_its_key(key: str, value: str) -> None:
    with pytest.raises(ValueParseError, match=f"job.autoscaler.{key}"):
        proposed(A, {key: value})
