from collections.abc import Mapping
from dataclasses import replace

import pytest
from policy_setup import codes, given, observation, run, vertex

from flink_autoscaler.core.model.policy_values import JobObservation, Proposal, ProposalDirection
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.core.policies.backlog_time import BacklogTimePolicy
from flink_autoscaler.core.policies.testing.contract import ScalingPolicyContract
from flink_autoscaler.core.ports.plugins import ScalingPolicy


def a_job(seconds: float | None, growth: float, busy: float, *, rate: float | None = 80_000.0) -> JobObservation:
    """Make a job of parallelism 10 whose backlog takes so many seconds and grows by so many records/s."""
    lag = None if seconds is None else seconds * (rate or 1.0)
    source = vertex(parallelism=10, rate_in=rate, busy=busy, lag_records=lag, lag_slope=growth)
    return observation(source, vertex("map", parallelism=10, rate_in=rate, busy=0.1))


def later(obs: JobObservation, seconds: float) -> JobObservation:
    return replace(obs, now=obs.now + seconds, window=(obs.window[0] + seconds, obs.window[1] + seconds))


def proposed(obs: JobObservation, options: Mapping[str, str] | None = None) -> Proposal:
    return BacklogTimePolicy().propose(given(obs, options))


def number(proposal: Proposal) -> int | None:
    return (proposal.targets or {}).get("source")


class TestBacklogTimePolicy(ScalingPolicyContract):
    needs = ("rate_in", "busy")
    patience = 2

    def make_policy(self) -> ScalingPolicy:
        return BacklogTimePolicy()


WORST = a_job(300.0, 20_000.0, 1.0)


@pytest.mark.parametrize(
    ("obs", "options", "expected"),
    [
        pytest.param(WORST, {}, 30, id="12.5 to keep up and 50 for the backlog, but at most three times as much"),
        pytest.param(WORST, {"backlog-time.max-ratio": "100"}, 63, id="without that limit: ceil(62.5)"),
        pytest.param(WORST, {"backlog-time.max-ratio": "100", "backlog-time.drain": "5 min"}, 23, id="more time"),
        pytest.param(a_job(121.0, 0.0, 0.5), {}, 30, id="more than two minutes: 10 + 20.2"),
        pytest.param(a_job(120.0, 0.0, 0.8), {}, 10, id="two minutes are not more than two minutes"),
        pytest.param(a_job(30.0, 8_000.0, 0.95), {}, 16, id="busy: 11 to keep up and 5 for the backlog"),
        pytest.param(a_job(0.0, 0.0, 0.95), {}, 10, id="busy, but keeping up without a backlog"),
        pytest.param(a_job(0.0, 0.0, 0.49), {}, 7, id="idle: ceil(10 * 0.49 / 0.7)"),
        pytest.param(a_job(9.0, -100.0, 0.49), {}, 7, id="with a small backlog that shrinks"),
        pytest.param(a_job(9.0, 100.0, 0.49), {}, 10, id="with a small backlog that grows"),
        pytest.param(a_job(10.0, 0.0, 0.49), {}, 10, id="with a backlog of ten seconds"),
        pytest.param(a_job(0.0, 0.0, 0.1), {}, 5, id="very idle: at most half at once"),
        pytest.param(a_job(0.0, 0.0, 0.1), {"backlog-time.down.max-factor": "1"}, 2, id="or all that is too much"),
        pytest.param(a_job(0.0, 0.0, 0.7), {}, 10, id="just right"),
        pytest.param(a_job(0.0, 0.0, 0.0, rate=0.0), {}, 5, id="nothing arrives"),
        pytest.param(a_job(None, 0.0, 0.49), {}, 7, id="a lag that is not known counts as none"),
    ],
)
def test_a_job_is_sized_by_the_time_of_its_backlog(
    obs: JobObservation, options: Mapping[str, str], expected: int
) -> None:
    assert number(proposed(obs, options)) == expected


def test_the_busiest_vertex_counts() -> None:
    obs = observation(vertex(parallelism=10, busy=0.1), vertex("map", parallelism=10, busy=0.68))

    assert number(proposed(obs)) == 10


def test_a_backlog_that_is_worked_off_in_time_changes_nothing() -> None:
    proposal = proposed(a_job(300.0, -20_000.0, 1.0))

    assert number(proposal) == 10
    assert proposal.blocks_down
    assert "CATCHING_UP" in codes(proposal)


def test_utilization_counts_again_a_window_after_the_backlog() -> None:
    idle = a_job(0.0, 0.0, 0.49)
    inputs = [given(a_job(300.0, -20_000.0, 1.0)), *(given(later(idle, at)) for at in (60.0, 899.0, 900.0))]

    assert [number(proposal) for proposal in run(BacklogTimePolicy(), inputs)] == [10, 10, 10, 7]


def test_a_bottleneck_that_cannot_grow_stops_the_others() -> None:
    full = vertex("map", parallelism=10, busy=1.0, max_parallelism=10)
    obs = observation(vertex(parallelism=10, rate_in=100.0, busy=0.5, lag_records=3e4, lag_slope=50.0), full)

    proposal = proposed(obs)

    assert proposal.direction is ProposalDirection.NONE
    assert "SCALING_LIMITED" in codes(proposal)


def test_a_backlog_of_which_nothing_is_read_makes_it_abstain() -> None:
    proposal = proposed(a_job(300.0, 0.0, 0.0, rate=0.0))

    assert proposal.targets is None
    assert codes(proposal) == {"NO_THROUGHPUT"}


def test_an_invalid_setting_names_its_key() -> None:
    with pytest.raises(ValueParseError, match=r"job.autoscaler.backlog-time.drain"):
        proposed(WORST, {"backlog-time.drain": "0 s"})
