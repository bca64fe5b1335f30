from collections.abc import Mapping
from dataclasses import replace

import pytest
from policy_setup import codes, given, observation, run, vertex

from flink_autoscaler.core.model.policy_values import JobObservation, Proposal, ProposalDirection
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.core.policies.testing.contract import ScalingPolicyContract
from flink_autoscaler.core.policies.threshold import ThresholdPolicy
from flink_autoscaler.core.ports.plugins import ScalingPolicy

QUARTER = 900.0
SIX_HOURS = 21_600.0


def a_job(busy: float, parallelism: int = 4) -> JobObservation:
    return observation(vertex(parallelism=parallelism, busy=busy), vertex("map", parallelism=parallelism, busy=0.01))


def later(obs: JobObservation, seconds: float) -> JobObservation:
    return replace(obs, now=obs.now + seconds, window=(obs.window[0] + seconds, obs.window[1] + seconds))


def number(proposal: Proposal) -> int | None:
    return (proposal.targets or {}).get("source")


def over(obs: JobObservation, seconds: float, interval: float = 300.0) -> list[int | None]:
    """Return what is proposed in every pass over a job that stays as it is."""
    turns = round(seconds / interval) + 1
    inputs = [given(later(obs, turn * interval)) for turn in range(turns)]
    return [number(proposal) for proposal in run(ThresholdPolicy(), inputs)]


class TestThresholdPolicy(ScalingPolicyContract):
    needs = ("busy",)
    patience = 3
    interval = 450.0

    def make_policy(self) -> ScalingPolicy:
        return ThresholdPolicy()

    def config(self) -> Mapping[str, str]:
        return {"job.autoscaler.threshold.down.duration": "10 min"}


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        pytest.param(0.75, [4, 4, 4, 8], id="busy for a quarter of an hour: twice as much"),
        pytest.param(0.74, [4, 4, 4, 4], id="not busy enough"),
        pytest.param(0.05, [4, 4, 4, 4], id="idle, but not for long enough"),
    ],
)
def test_a_busy_job_is_doubled(busy: float, expected: list[int]) -> None:
    assert over(a_job(busy), QUARTER) == expected


@pytest.mark.parametrize(("parallelism", "half"), [(4, 2), (5, 3), (1, 1)])
def test_an_idle_job_is_halved_after_six_hours(parallelism: int, half: int) -> None:
    numbers = over(a_job(0.09, parallelism), SIX_HOURS)

    assert numbers == [parallelism] * 72 + [half]


def test_all_of_the_time_has_to_be_busy() -> None:
    busy, idle = a_job(0.8), a_job(0.5)
    inputs = [busy, later(busy, 600.0), later(idle, 660.0), later(busy, 960.0), later(busy, 1_800.0)]

    numbers = [number(proposal) for proposal in run(ThresholdPolicy(), map(given, inputs))]

    assert numbers == [4, 4, 4, 4, 4]


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(later(a_job(0.8, 8), QUARTER), id="another size"),
        pytest.param(later(a_job(0.8), QUARTER + 1.0), id="nobody looked for longer than a window"),
        pytest.param(replace(later(a_job(0.8), QUARTER), last_restart_at=a_job(0.8).now + 600.0), id="a restart"),
        pytest.param(later(a_job(0.8), -1.0), id="the clock went back"),
    ],
)
def test_time_begins_anew(last: JobObservation) -> None:
    proposals = run(ThresholdPolicy(), [given(a_job(0.8)), given(last)])

    assert proposals[-1].direction is ProposalDirection.NONE


def test_a_job_that_works_off_its_backlog_is_not_called_busy() -> None:
    draining = observation(vertex(busy=1.0, rate_in=1_000.0, lag_records=400_000.0, lag_slope=-1_000.0))

    proposals = run(ThresholdPolicy(), [given(draining), given(later(draining, QUARTER))])

    assert proposals[-1].direction is ProposalDirection.NONE
    assert proposals[-1].blocks_down
    assert "CATCHING_UP" in codes(proposals[-1])


def test_a_bottleneck_that_cannot_grow_stops_the_others() -> None:
    obs = observation(vertex(busy=1.0, max_parallelism=4), vertex("map", busy=0.2))

    proposals = run(ThresholdPolicy(), [given(obs), given(later(obs, QUARTER))])

    assert proposals[-1].targets == {"source": 4, "map": 4}
    assert "SCALING_LIMITED" in codes(proposals[-1])


def test_a_state_that_cannot_be_read_is_forgotten() -> None:
    proposal = ThresholdPolicy().propose(given(a_job(0.8), state={"use": "tired", "since": 0.0}))

    assert proposal == ThresholdPolicy().propose(given(a_job(0.8)))


def test_an_invalid_setting_names_its_key() -> None:
    with pytest.raises(ValueParseError, match=r"job.autoscaler.threshold.up.utilization"):
        ThresholdPolicy().propose(given(a_job(0.8), {"threshold.up.utilization": "75"}))
