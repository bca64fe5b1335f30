from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.policy_values import JobObservation, Outage, Proposal, ProposalDirection, VertexObs
from flink_autoscaler.core.policies.capacity import CapacityPolicy
from testkit.builders.policies import NOW, WINDOW, codes, given, observation, run, vertex

POLICY = CapacityPolicy()
NO_CATCH_UP = {"catch-up.duration": "0"}


def propose(obs: JobObservation, options: dict[str, str] | None = None, outage: float = 0.0) -> Proposal:
    return POLICY.propose(given(obs, options, downtime=Outage(outage, outage)))


def example(lag: float = 0.0, parallelism: int = 9) -> JobObservation:
    """A source that takes 12 500 records/s per subtask, at which 100 000 arrive."""
    rate = 12_500.0 * parallelism
    return observation(vertex(parallelism=parallelism, rate_in=100_000.0, busy=100_000.0 / rate, lag_records=lag))


@pytest.mark.parametrize(
    ("lag", "outage", "capacity", "parallelism"),
    [
        pytest.param(0.0, 300.0, 159_524.0, 13, id="restart of five minutes"),
        pytest.param(30_000_000.0, 300.0, 176_190.0, 15, id="a backlog, too"),
        pytest.param(0.0, 60.0, 146_190.0, 12, id="restart of one minute"),
    ],
)
def test_capacity_is_for_the_load_the_backlog_and_the_restart(
    lag: float, outage: float, capacity: float, parallelism: int
) -> None:
    # 90 % busy: at most 80 %, so that there is something to do.
    proposal = propose(example(lag), {"utilization.max": "0.8", "backlog-processing.lag-threshold": "1 h"}, outage)

    assert proposal.capacity["source"] == pytest.approx(capacity, abs=1.0)
    assert proposal.targets == {"source": parallelism}
    assert proposal.direction is ProposalDirection.UP


def test_capacity_is_for_the_slowest_partition() -> None:
    # As much as if 60 million waited, of which 30 million do: 16 667 records/s more for half an hour.
    source = replace(example(30_000_000.0).vertices["source"], lag_to_drain=60_000_000.0)

    proposal = propose(
        observation(source), {"utilization.max": "0.8", "backlog-processing.lag-threshold": "1 h"}, outage=300.0
    )

    assert proposal.capacity["source"] == pytest.approx(192_857.0, abs=1.0)
    assert proposal.targets == {"source": 16}


def test_without_catch_up_only_the_steady_load_counts() -> None:
    proposal = propose(example(1e6), NO_CATCH_UP, outage=300.0)

    assert proposal.capacity["source"] == pytest.approx(100_000.0 / 0.7)


@pytest.mark.parametrize(
    ("busy", "target"),
    [
        pytest.param(0.41, 10, id="just busy enough"),
        pytest.param(0.39, 6, id="below the band: 10 x 0.39 / 0.7"),
        pytest.param(1.0, 10, id="as busy as can be"),
        pytest.param(0.7, 10, id="on target"),
    ],
)
def test_the_band_is_left_alone(busy: float, target: int) -> None:
    proposal = propose(observation(vertex(parallelism=10, busy=busy)))

    assert proposal.targets == {"source": target}


def test_a_vertex_that_falls_behind_grows() -> None:
    # 1 000/s are read with full use of 10 subtasks, 1 400 arrive: 20 at 70 %.
    behind = vertex(parallelism=10, busy=1.0, target_rate=1_400.0, lag_slope=400.0)

    proposal = propose(observation(behind))

    assert proposal.targets == {"source": 20}
    assert codes(proposal) == {"SCALE_UP"}


def test_all_vertices_are_sized_once_one_is_out_of_the_band() -> None:
    obs = observation(vertex("source", parallelism=10, busy=0.2), vertex("map", parallelism=10, busy=0.5))

    assert propose(obs).targets == {"source": 4, "map": 8}


@pytest.mark.parametrize(
    ("options", "busy", "target"),
    [
        pytest.param({}, 0.07, 40, id="40 % at least"),
        pytest.param({"scale-down.max-factor": "0.1"}, 0.07, 90, id="90 % at least"),
        pytest.param({"scale-up.max-factor": "0.2", "utilization.max": "0.75"}, 1.0, 120, id="a fifth more at most"),
    ],
)
def test_one_step_is_limited(options: dict[str, str], busy: float, target: int) -> None:
    proposal = propose(observation(vertex(parallelism=100, busy=busy, max_parallelism=200)), options)

    assert proposal.targets == {"source": target}


def test_one_step_up_is_at_least_one_subtask() -> None:
    obs = observation(vertex(parallelism=1, busy=1.0))

    assert propose(obs, {"scale-up.max-factor": "0.2", "utilization.max": "0.75"}).targets == {"source": 2}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"max_parallelism": 3}, 3, id="down to its bound"),
        pytest.param({"min_parallelism": 5}, 5, id="up to its bound"),
    ],
)
def test_a_parallelism_out_of_bounds_goes_to_the_bound(changes: dict[str, Any], expected: int) -> None:
    proposal = propose(observation(replace(vertex(parallelism=4), **changes)))

    assert proposal.targets == {"source": expected}


def backlogged(lag: float, *, parallelism: int = 10, busy: float = 0.1, now: float = NOW) -> JobObservation:
    return observation(vertex(parallelism=parallelism, busy=busy, lag_records=lag), now=now)


def test_a_job_with_a_backlog_is_not_lowered() -> None:
    proposal = propose(backlogged(400_000.0))

    assert proposal.targets == {"source": 10}
    assert proposal.blocks_down
    assert "PROCESSING_BACKLOG" in codes(proposal)


def test_a_job_with_a_backlog_grows_only_where_full_use_does_not_suffice() -> None:
    options = {"utilization.max": "0.75", **NO_CATCH_UP}

    assert propose(backlogged(0.0, busy=0.9), options).targets == {"source": 13}
    assert propose(backlogged(400_000.0, busy=0.9), options).targets == {"source": 10}


@pytest.mark.parametrize(
    ("after", "target"),
    [
        pytest.param(WINDOW - 60.0, 10, id="samples of it are in the window"),
        pytest.param(WINDOW, 4, id="a whole window later"),
    ],
)
def test_nothing_is_lowered_until_the_window_is_clear_of_a_backlog(after: float, target: int) -> None:
    observations = (backlogged(400_000.0), backlogged(0.0, now=NOW + after))

    proposal = run(POLICY, map(given, observations))[-1]

    assert proposal.targets == {"source": target}
    assert not proposal.blocks_down


def test_a_source_without_arrivals_goes_down_to_its_least() -> None:
    idle = vertex(parallelism=4, rate_in=0.0, busy=0.0, min_parallelism=2)

    assert propose(observation(idle)).targets == {"source": 2}


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param(vertex(target_rate=None), "METRIC_MISSING", id="no arrival rate"),
        pytest.param(vertex(true_rate=None), "METRIC_MISSING", id="no true rate"),
        pytest.param(vertex(busy=0.01), "METRIC_MISSING", id="too idle to know"),
        pytest.param(vertex(complete=False), "INCOMPLETE_WINDOW", id="incomplete"),
    ],
)
def test_what_is_missing_makes_it_abstain(source: VertexObs, code: str) -> None:
    proposal = propose(observation(source))

    assert proposal.targets is None
    assert codes(proposal) == {code}


@pytest.mark.parametrize(
    "obs",
    [observation(vertex(), status=JobStatus.RESTARTING), observation(vertex(), all_tasks_running=False)],
    ids=["restarting", "not all tasks"],
)
def test_a_job_that_does_not_run_makes_it_abstain(obs: JobObservation) -> None:
    assert codes(propose(obs)) == {"NOT_RUNNING"}


def test_a_vertex_of_unknown_rate_is_left_out() -> None:
    obs = observation(vertex("source", parallelism=10, busy=0.2), vertex("map", true_rate=None))

    proposal = propose(obs)

    assert proposal.targets == {"source": 4}
    assert [reason.vertex_id for reason in proposal.reasons if reason.code == "METRIC_MISSING"] == ["map"]
    assert proposal.confidence == 0.5


def test_a_nearly_idle_vertex_is_sized_by_its_last_good_rate() -> None:
    busy = observation(vertex(parallelism=10, busy=0.7))
    idle = observation(vertex(parallelism=10, busy=0.01, rate_in=10.0), now=NOW + 3_600.0)

    assert run(POLICY, map(given, (busy, idle)))[-1].targets == {"source": 4}


def test_an_unknown_lag_counts_as_none() -> None:
    proposal = propose(observation(vertex(parallelism=10, busy=0.2, lag_records=None)))

    assert proposal.targets == {"source": 4}
    assert "LAG_UNKNOWN" in codes(proposal)


def test_a_bottleneck_that_cannot_grow_limits_the_others() -> None:
    # The map can do 1 000/s at most, half of what arrives.
    obs = observation(
        vertex("source", parallelism=10, busy=1.0, target_rate=2_000.0),
        vertex("map", parallelism=4, busy=1.0, max_parallelism=4),
    )

    proposal = propose(obs)

    assert proposal.targets == {"source": 15, "map": 4}
    assert [reason.vertex_id for reason in proposal.reasons if reason.code == "SCALING_LIMITED"] == ["map"]


def test_a_limited_vertex_alone_does_not_undo_the_band_of_the_others() -> None:
    obs = observation(
        vertex("source", parallelism=10, busy=0.6),
        vertex("map", parallelism=4, busy=1.0, max_parallelism=4),
        edges={("source", "map"): 1.3},
    )

    assert propose(obs).direction is ProposalDirection.NONE


def full(parallelism: int, rate: float) -> JobObservation:
    """A source that reads all it can, at which 1 400 records/s arrive."""
    return observation(vertex(parallelism=parallelism, rate_in=rate, busy=1.0, target_rate=1_400.0))


@pytest.mark.parametrize(
    ("is_detected", "rate", "expected"),
    [
        pytest.param("false", 1_000.0, 40, id="not looked at"),
        pytest.param("true", 1_000.0, 20, id="brought nothing: no more"),
        pytest.param("true", 1_090.0, 20, id="brought next to nothing: no more"),
        pytest.param("true", 1_200.0, 34, id="brought a fifth of what was expected: go on"),
    ],
)
def test_a_scale_up_that_brought_nothing_is_the_last(is_detected: str, rate: float, expected: int) -> None:
    options = {"scaling.effectiveness.detection.enabled": is_detected}

    first, second = run(POLICY, [given(full(10, 1_000.0), options), given(full(20, rate), options)])

    assert first.targets == {"source": 20}
    assert second.targets == {"source": expected}


@pytest.mark.parametrize("options", [{"utilization.target": "much"}, {"catch-up.duration": "soon"}], ids=str)
def test_an_invalid_setting_is_named(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=f"job.autoscaler.{next(iter(options))}"):
        propose(example(), options)
