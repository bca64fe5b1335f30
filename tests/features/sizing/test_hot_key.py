"""A hot key: its records go to one subtask however many there are, so that more of them bring nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.simulator import BacktestResult, JobModel, Simulation, VertexModel, run
from flink_autoscaler.pipeline.simulator.metrics import ReportSettings
from flink_autoscaler.pipeline.simulator.workloads import from_rates

SOURCE, KEYED = "a" * 32, "b" * 32
FIRST = {SOURCE: 4, KEYED: 4}
OPTIONS = {"metrics.window": "5 min", "stabilization.interval": "1 min"}
POLICIES = ["capacity", "slo", "varga"]


def keyed(hot_key: float = 1.0) -> VertexModel:
    return VertexModel(KEYED, "keyed", 1000.0, hot_key=hot_key)


def two_hours(
    options: Mapping[str, str], *, hot_key: float = 1.0, rate: float = 1500.0, reports: ReportSettings | None = None
) -> tuple[BacktestResult, list[PassOutcome]]:
    """Let 1,500 records/s arrive at a job that begins with 4 subtasks, of which one can do 1,000/s."""
    job = JobModel.chain([VertexModel(SOURCE, "source", 4000.0), keyed(hot_key)])
    configuration = {f"job.autoscaler.{key}": value for key, value in {**OPTIONS, **options}.items()}
    outcomes = list[PassOutcome]()
    backtest = Simulation(
        job, from_rates("hot", [rate] * 120), configuration, initial=FIRST, reports=reports or ReportSettings()
    )
    return run(backtest, lambda outcome, _, __: outcomes.append(outcome)), outcomes


def sizes(result: BacktestResult) -> list[int]:
    """Return the parallelism that the keyed vertex had, one after the other."""
    return [FIRST[KEYED], *(rescale.after[KEYED] for rescale in result.rescales if KEYED in rescale.after)]


def skew_of(outcome: PassOutcome) -> list[Reason]:
    return [reason for reason in outcome.decision.reasons if reason.code == "DATA_SKEW"]


def test_one_key_keeps_one_subtask_busy_whatever_their_number() -> None:
    assert [keyed().capacity(subtasks) for subtasks in (1, 4, 128)] == pytest.approx([1000.0] * 3)
    assert [keyed(0.5).capacity(subtasks) for subtasks in (1, 4)] == pytest.approx([1000.0, 1600.0])
    with pytest.raises(ValueError, match="impossible vertex"):
        keyed(1.1)


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("policy", POLICIES)
def test_one_scale_up_that_brings_nothing_is_the_last_one(policy: str, noise: float) -> None:
    result, outcomes = two_hours({"policy": policy}, reports=ReportSettings(noise=noise))

    before, after = sizes(result)  # and no more
    (reason,) = skew_of(outcomes[-1])
    assert (before, reason.vertex_id) == (4, KEYED)
    assert f"the change from 4 to {after} subtasks did not help" in reason.text
    assert "DataSkew" in {event.reason for outcome in outcomes for event in outcome.events}


def test_the_reason_has_the_figures() -> None:
    result, outcomes = two_hours({"policy": "capacity"})

    (reason,) = skew_of(outcomes[-1])
    figures = {"busiest": 1.0, "mean": 1 / 11, "before": 4.0, "possible_gain": 0.0}
    assert dict(reason.figures) == pytest.approx(figures, abs=0.01)
    assert sizes(result) == [4, 11]


@pytest.mark.parametrize("policy", ["capacity", "slo"])
def test_a_rescale_that_brought_nothing_is_not_confirmed(policy: str) -> None:
    _, outcomes = two_hours({"policy": policy})

    ends = {"RescaleConfirmed", "RescaleIneffective"}
    (told,) = [event for outcome in outcomes for event in outcome.events if event.reason in ends]
    assert told.reason == "RescaleIneffective"
    assert "records of lag do not decrease" in told.message


def test_a_rescale_that_brought_something_is_confirmed() -> None:
    _, outcomes = two_hours({"policy": "capacity"}, hot_key=0.0, rate=7000.0)

    told = {event.reason for outcome in outcomes for event in outcome.events}
    assert "RescaleConfirmed" in told
    assert "RescaleIneffective" not in told


@pytest.mark.xfail(strict=True, reason="the policy goes on believing for minutes that more subtasks do more")
def test_slo_sees_no_head_room_in_a_job_that_falls_behind() -> None:
    _, outcomes = two_hours({"policy": "slo"})

    said = [dict(reason.figures) for each in outcomes for reason in each.decision.reasons if reason.code == "SLO_SIZE"]
    assert [size for size in said if size["lag"] > 30.0 and size["headroom"] > 0.0] == []


def test_the_reference_scales_up_as_before() -> None:
    result, outcomes = two_hours({"policy": "capacity", "compat": "reference"})

    assert sizes(result)[-1] == 128
    assert skew_of(outcomes[-1]) == []


def test_what_feeds_the_hot_vertex_is_not_made_larger_for_what_it_cannot_take() -> None:
    result, _ = two_hours({"policy": "varga"})

    assert result.rescales[-1].after == result.rescales[0].after


def test_a_job_without_a_hot_key_is_scaled_as_ever() -> None:
    result, outcomes = two_hours({"policy": "capacity"}, hot_key=0.0, rate=7000.0)

    assert sizes(result)[-1] >= 7
    assert not any(skew_of(outcome) for outcome in outcomes)
