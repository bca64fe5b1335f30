from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from policy_setup import NOW, codes, given, observation, run, vertex

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.policy_values import (
    JobObservation,
    Outage,
    PolicyInput,
    Proposal,
    ProposalDirection,
    VertexObs,
)
from flink_autoscaler.core.policies.ds2.policy import Ds2Policy
from flink_autoscaler.core.policies.testing.model_job import ModelJob, ModelVertex

POLICY = Ds2Policy()
# Decides at its first look, for exactly what arrives.
PLAIN = {
    "ds2.warm-up-intervals": "0",
    "ds2.activation-intervals": "1",
    "ds2.scaling-factor": "0",
    "ds2.add-catch-up": "false",
}


def propose(obs: JobObservation, options: dict[str, str] | None = None, outage: float = 0.0) -> Proposal:
    return POLICY.propose(given(obs, {**PLAIN, **(options or {})}, downtime=Outage(outage, outage)))


def word_count() -> JobObservation:
    """Reads 60 000 of 100 000 records/s, as the filter holds the map back; the source costs nothing."""
    return observation(
        vertex("source", rate_in=60_000.0, busy=0.1, target_rate=100_000.0, parallelism=1),
        vertex("map", parallelism=4, rate_in=60_000.0, busy=0.75),
        vertex("filter", parallelism=6, rate_in=150_000.0, busy=0.9),
        vertex("window", parallelism=2, rate_in=15_000.0, busy=0.3),
    )


@pytest.mark.parametrize(
    ("factor", "expected"), [("0", (5, 9, 1)), ("0.1", (6, 10, 2))], ids=["just enough", "a tenth more"]
)
def test_one_look_sizes_all_vertices(factor: str, expected: tuple[int, int, int]) -> None:
    proposal = propose(word_count(), {"ds2.scaling-factor": factor})

    assert proposal.targets == {"source": 1, **dict(zip(("map", "filter", "window"), expected, strict=True))}
    assert proposal.direction is (ProposalDirection.MIXED if factor == "0" else ProposalDirection.UP)


def test_the_capacity_is_what_arrives_at_each_vertex() -> None:
    capacity = propose(word_count()).capacity

    assert capacity == pytest.approx({"source": 1e5, "map": 1e5, "filter": 2.5e5, "window": 2.5e4})


def test_an_overhead_that_grows_with_parallelism_takes_a_second_step() -> None:
    # The rates of the word count at its first parallelism; every further subtask costs all of them 1 %.
    rates = {"map": 20_000 * 1.03, "filter": 150_000 / 0.9 / 6 * 1.05, "window": 25_000 * 1.01}
    vector, steps = {"source": 1, "map": 4, "filter": 6, "window": 2}, []

    for _ in range(4):
        vertices = (
            ModelVertex("source", {}, 200_000.0, 1),
            ModelVertex("map", {"source": 1.0}, rates["map"] / (1 + 0.01 * (vector["map"] - 1)), 4),
            ModelVertex("filter", {"map": 2.5}, rates["filter"] / (1 + 0.01 * (vector["filter"] - 1)), 6),
            ModelVertex("window", {"filter": 0.1}, rates["window"] / (1 + 0.01 * (vector["window"] - 1)), 2),
        )
        obs = ModelJob(vertices, 100_000.0).observed(vector, NOW)
        vector = dict(propose(obs).targets or vector)
        steps.append((vector["map"], vector["filter"], vector["window"]))

    assert steps == [(5, 9, 1), (6, 10, 1), (6, 10, 1), (6, 10, 1)]


def falling_behind(**changes: Any) -> JobObservation:
    """A source at which 2.0 M records/s arrive; it reads 1.9 M although its true rate suggests that 19 are enough."""
    source = vertex(parallelism=19, rate_in=1.9e6, target_rate=2.0e6, true_rate=2.0e6, busy=0.95)
    return observation(replace(source, **changes))


@pytest.mark.parametrize(
    ("options", "changes", "expected"),
    [
        pytest.param({}, {}, 20, id="19 x 2.0 / 1.9"),
        pytest.param({"ds2.target-rate-ratio": "1.06"}, {}, 19, id="within the ratio"),
        pytest.param({}, {"parallelism": 30, "true_rate": 30e6 / 9.5}, 30, id="never down"),
        pytest.param({}, {"max_parallelism": 19, "true_rate": 1.9e6}, 19, id="what cannot grow explains it"),
    ],
)
def test_what_busy_time_does_not_show_is_added(options: dict[str, str], changes: dict[str, Any], expected: int) -> None:
    proposal = propose(falling_behind(**changes), options)

    assert proposal.targets == {"source": expected}


def test_the_ratio_is_a_reason() -> None:
    assert "TARGET_RATE_RATIO" in codes(propose(falling_behind()))


@pytest.mark.parametrize(
    ("to_drain", "expected"),
    [
        pytest.param(None, {"source": 7, "map": 7}, id="partitions are not told apart"),
        pytest.param(1.8e6, {"source": 7, "map": 7}, id="even"),
        pytest.param(5.4e6, {"source": 9, "map": 7}, id="the slowest needs three times as much"),
    ],
)
def test_a_source_is_sized_for_its_slowest_partition_and_the_rest_for_what_comes_along(
    to_drain: float | None, expected: dict[str, int]
) -> None:
    # 6,000 records/s arrive, and 1.8 million wait that are to be gone in half an hour.
    source = vertex("source", parallelism=6, rate_in=6_000.0, busy=1.0, lag_records=1.8e6, lag_to_drain=to_drain)
    obs = observation(source, vertex("map", parallelism=6, rate_in=6_000.0, busy=1.0))

    proposal = propose(obs, {"ds2.add-catch-up": "true", "catch-up.duration": "30 min"})

    assert proposal.targets == expected


def test_nothing_is_lowered_while_one_partition_is_behind() -> None:
    # A minute of input is a backlog: 2,000 records are 20 s of it, 9,000 for the slowest partition 90 s.
    even = vertex(parallelism=4, rate_in=100.0, busy=0.1, lag_records=2_000.0, max_parallelism=8)
    uneven = replace(even, lag_to_drain=9_000.0)
    options = {"backlog-processing.lag-threshold": "1 min"}

    assert propose(observation(even), options).targets == {"source": 1}
    assert propose(observation(uneven), options).targets == {"source": 4}
    assert propose(observation(uneven), options).blocks_down


# Four subtasks; the mean of their true rates is 17 500 records/s.
SKEWED = vertex(parallelism=4, rate_in=70_000.0, busy=1.0, subtask_rates=(20e3, 20e3, 20e3, 10e3))


@pytest.mark.parametrize(
    ("options", "expected"), [({}, 4), ({"ds2.skew-aware": "true"}, 5)], ids=["by the mean", "by the fastest"]
)
def test_skew_counts_where_that_is_wanted(options: dict[str, str], expected: int) -> None:
    assert propose(observation(SKEWED), options).targets == {"source": expected}


def test_skew_may_be_known_from_aggregates_alone() -> None:
    aggregated = replace(SKEWED, subtask_rates=(), skew=20.0 / 17.5)

    assert propose(observation(aggregated), {"ds2.skew-aware": "true"}).targets == {"source": 5}


def test_a_hot_key_accounts_for_half_as_many_subtasks_again() -> None:
    hot = replace(SKEWED, subtask_rates=(67e3, 1e3, 1e3, 1e3))

    proposal = propose(observation(hot), {"ds2.skew-aware": "true"})

    assert proposal.targets == {"source": 6}
    assert "SKEW_SUSPECTED" in codes(proposal)


@pytest.mark.parametrize(
    ("options", "lag", "outage", "expected"),
    [
        pytest.param({"ds2.add-catch-up": "false"}, 180_000.0, 300.0, 10, id="off"),
        pytest.param({"ds2.add-catch-up": "true"}, 0.0, 300.0, 12, id="an outage: a sixth more"),
        pytest.param({"ds2.add-catch-up": "true"}, 180_000.0, 0.0, 11, id="100 records/s for the backlog"),
        pytest.param({"ds2.add-catch-up": "true", "catch-up.duration": "0"}, 180_000.0, 300.0, 10, id="no plan"),
    ],
)
def test_catching_up_is_planned_for(options: dict[str, str], lag: float, outage: float, expected: int) -> None:
    full = observation(vertex(parallelism=10, rate_in=1_000.0, busy=1.0, lag_records=lag))

    assert propose(full, options, outage).targets == {"source": expected}


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [
        pytest.param(9, 10, id="one up is enough"),
        pytest.param(11, 11, id="one down is not"),
        pytest.param(12, 10, id="two down are"),
    ],
)
def test_minor_changes_are_ignored(parallelism: int, expected: int) -> None:
    obs = observation(vertex(parallelism=parallelism, rate_in=1_000.0, true_rate=100.0 * parallelism, busy=0.9))

    proposal = propose(obs)

    assert proposal.targets == {"source": expected}
    assert ("MINOR_CHANGE" in codes(proposal)) is (parallelism == expected)


def test_all_vertices_follow_one_that_changes_by_enough() -> None:
    obs = observation(vertex("source", parallelism=11, busy=10 / 11), vertex("map", parallelism=9, busy=1.1))

    assert propose(obs).targets == {"source": 10, "map": 10}


def test_a_bottleneck_that_cannot_grow_limits_the_others() -> None:
    obs = observation(
        vertex("source", parallelism=10, busy=1.0, target_rate=4_000.0),
        vertex("map", parallelism=4, busy=1.0, max_parallelism=8),
    )

    proposal = propose(obs)

    assert proposal.targets == {"source": 20, "map": 8}
    assert "SCALING_LIMITED" in codes(proposal)


def test_a_job_with_a_backlog_is_not_lowered() -> None:
    proposal = propose(observation(vertex(parallelism=10, busy=0.2, lag_records=1e6)))

    assert proposal.targets == {"source": 10}
    assert proposal.blocks_down


def test_a_source_without_arrivals_goes_down_to_its_least() -> None:
    assert propose(observation(vertex(parallelism=10, rate_in=0.0, busy=0.0))).targets == {"source": 1}


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (vertex(target_rate=None), "METRIC_MISSING"),
        (vertex(true_rate=None), "METRIC_MISSING"),
        (vertex(complete=False), "INCOMPLETE_WINDOW"),
    ],
    ids=["no arrival rate", "no true rate", "incomplete"],
)
def test_what_is_missing_makes_it_abstain(source: VertexObs, code: str) -> None:
    proposal = propose(observation(source))

    assert proposal.targets is None
    assert code in codes(proposal)


# From here on: two evaluations are ignored, three are combined.
WAITING = {"ds2.scaling-factor": "0", "ds2.add-catch-up": "false"}


def passes(
    rates: Iterable[float], *, interval: float = 60.0, start: float = NOW, options: dict[str, str] | None = None
) -> list[PolicyInput]:
    """One pass after the other over a source with 10 subtasks of 100 records/s at which so much arrives."""
    sources = (vertex(parallelism=10, rate_in=rate, true_rate=1_000.0) for rate in rates)
    return [
        given(observation(source, now=start + at * interval), {**WAITING, **(options or {})})
        for at, source in enumerate(sources)
    ]


def targets_of(proposals: Iterable[Proposal]) -> list[int | None]:
    """The target of the only vertex after each pass; None where it abstained."""
    return [None if proposal.targets is None else proposal.targets["source"] for proposal in proposals]


def test_it_warms_up_and_then_looks_several_times() -> None:
    proposals = run(POLICY, passes([1_500.0] * 6))

    assert targets_of(proposals) == [None, None, None, None, 15, 15]
    assert [codes(proposal) for proposal in proposals[:4]] == [{"WARM_UP"}] * 2 + [{"ACTIVATION"}] * 2


@pytest.mark.parametrize(("combine", "expected"), [("max", [15, 14]), ("median", [12, 14])])
def test_evaluations_are_combined(combine: str, expected: list[int]) -> None:
    options = {"ds2.activation-combine": combine}

    proposals = run(POLICY, passes([0.0, 0.0, 1_500.0, 1_200.0, 1_100.0, 1_400.0, 1_400.0], options=options))

    assert [targets_of(proposals)[at] for at in (4, 6)] == expected


def test_passes_between_evaluations_repeat_what_was_decided() -> None:
    # Every sixth pass is an evaluation: 0 and 6 are ignored, 12, 18 and 24 count.
    proposals = run(POLICY, passes([1_500.0] * 30, interval=10.0))

    assert targets_of(proposals) == [None] * 24 + [15] * 6


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"last_rescale_at": NOW + 300.0}, id="rescaled by us"),
        pytest.param({"last_restart_at": NOW + 300.0}, id="restarted"),
        pytest.param({"vertices": {"source": vertex(parallelism=9, busy=0.9)}}, id="rescaled by somebody else"),
    ],
)
def test_another_execution_warms_up_again(change: dict[str, Any]) -> None:
    before = passes([1_500.0] * 5)
    after = [replace(each, obs=replace(each.obs, **change)) for each in passes([1_500.0] * 5, start=NOW + 300.0)]

    proposals = run(POLICY, [*before, *after])

    assert [proposal.targets is None for proposal in proposals] == [True] * 4 + [False] + [True] * 4 + [False]


def test_warm_up_counts_from_when_all_tasks_run() -> None:
    down, up = passes([1_500.0] * 3), passes([1_500.0] * 5, start=NOW + 180.0)
    down = [replace(each, obs=replace(each.obs, all_tasks_running=False)) for each in down]

    assert targets_of(run(POLICY, [*down, *up])) == [None] * 7 + [15]


def test_evaluations_have_to_follow_each_other() -> None:
    inputs = passes([1_500.0] * 8)
    lacking = replace(inputs[3].obs, vertices={"source": vertex(parallelism=10, complete=False)})
    inputs[3] = replace(inputs[3], obs=lacking)

    assert targets_of(run(POLICY, inputs)) == [None] * 6 + [15] * 2


def test_evaluations_from_before_a_long_silence_do_not_count() -> None:
    inputs = [*passes([3_000.0] * 5), *passes([1_500.0] * 3, start=NOW + 3_600.0)]

    assert targets_of(run(POLICY, inputs)) == [None] * 4 + [30] + [None] * 2 + [15]


def full(parallelism: int, rate: float) -> PolicyInput:
    """A source that reads all it can, at which 4 000 records/s arrive."""
    source = vertex(parallelism=parallelism, rate_in=rate, busy=1.0, target_rate=4_000.0, max_parallelism=1_000)
    return given(observation(source), {**PLAIN, "ds2.policy-interval": "0"})


def test_scale_ups_that_bring_nothing_come_to_an_end() -> None:
    proposals = run(POLICY, [full(parallelism, 1_000.0) for parallelism in (10, 40, 160, 640)])

    assert targets_of(proposals) == [40, 160, 640, 640]
    assert "FRUITLESS" in codes(proposals[-1])


def test_scale_ups_that_bring_something_go_on() -> None:
    proposals = run(POLICY, [full(10, 1_000.0), full(40, 1_000.0), full(160, 1_600.0), full(400, 1_600.0)])

    assert targets_of(proposals) == [40, 160, 400, 1_000]


def test_a_job_that_has_enough_may_grow_again() -> None:
    stuck = [full(parallelism, 1_000.0) for parallelism in (10, 40, 160, 640)]
    proposals = run(POLICY, [*stuck, full(640, 4_000.0), full(640, 3_000.0)])

    assert targets_of(proposals)[-3:] == [640, 640, 854]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ds2.policy-interval", "often"),
        ("ds2.warm-up-intervals", "-1"),
        ("ds2.activation-intervals", "0"),
        ("ds2.activation-combine", "mean"),
        ("ds2.target-rate-ratio", "0.9"),
        ("ds2.scaling-factor", "-0.1"),
    ],
)
def test_an_invalid_setting_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"'{value}' for key 'job.autoscaler.{key}'"):
        propose(word_count(), {key: value})


@pytest.mark.parametrize(
    "state",
    [{"memory": []}, {"memory": {"vertices": ["source"]}}, {"memory": {"vertices": ["other"]}}, {"base": "capacity"}],
    ids=str,
)
def test_a_state_that_is_not_its_own_is_none(state: dict[str, Any]) -> None:
    first, odd = (POLICY.propose(given(falling_behind(), WAITING, state=each)) for each in ({}, state))

    assert odd == first
