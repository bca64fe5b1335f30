from __future__ import annotations

import json
import math
from typing import Any

import pytest

from flink_autoscaler.core.model.policy_values import JobObservation, ProposalDirection
from flink_autoscaler.core.policies.base.proposals import direction_of
from flink_autoscaler.core.policies.base.quantities import (
    KEPT,
    RateMemory,
    VertexDemand,
    clamp_parallelism,
    has_backlog,
    present_arrivals,
    vertex_demands,
)
from flink_autoscaler.core.policies.varga import backlog_of
from testkit.builders.policies import NOW, observation, vertex


def learned(obs: JobObservation, before: RateMemory | None = None) -> RateMemory:
    """What is known after an observation without a backlog, written and read in between."""
    state: dict[str, Any] = {} if before is None else json.loads(json.dumps(before.as_json()))
    return RateMemory.read(state, obs).with_observation(obs, has_backlog=False)


def needs(obs: JobObservation, memory: RateMemory | None = None) -> dict[str, VertexDemand]:
    return vertex_demands(obs, memory or learned(obs), present_arrivals(obs))


@pytest.mark.parametrize(
    ("needed", "expected"),
    [(3.2, 4), (0.0, 2), (99.0, 8), (math.inf, 8)],
    ids=["within", "below", "above", "infinite"],
)
def test_subtasks_are_within_the_bounds(needed: float, expected: int) -> None:
    assert clamp_parallelism(needed, vertex(min_parallelism=2, max_parallelism=8)) == expected


@pytest.mark.parametrize(
    ("lag", "rate_in", "expected"),
    [
        pytest.param(300_000.0, 1_000.0, False, id="just five minutes"),
        pytest.param(300_001.0, 1_000.0, True, id="more"),
        pytest.param(2.0, 0.0, True, id="nothing is read"),
        pytest.param(1.0, 0.0, False, id="the rest that is never read"),
        pytest.param(None, 1_000.0, False, id="unknown"),
    ],
)
def test_has_backlog_counts_seconds_of_input(lag: float | None, rate_in: float, expected: bool) -> None:
    obs = observation(vertex(rate_in=rate_in, lag_records=lag))

    assert has_backlog(obs, 300.0) is expected


def test_rates_sent_tell_the_ratio_where_edges_do_not() -> None:
    obs = observation(vertex("source", rate_in=100.0, rate_out={"map": 250.0}), vertex("map"), edges={})

    assert needs(obs)["map"].needed == pytest.approx(250.0)


def test_the_last_ratio_counts_while_nothing_is_read() -> None:
    before = observation(vertex("source", rate_in=100.0), vertex("map", rate_in=200.0))
    source = vertex("source", rate_in=0.0, target_rate=50.0)
    idle = observation(source, vertex("map", rate_in=0.0), edges={("source", "map"): 0.0})

    assert needs(idle, learned(idle, learned(before)))["map"].needed == 100.0


def test_nothing_arrives_behind_a_source_without_arrivals() -> None:
    obs = observation(vertex("source", rate_in=0.0), vertex("map", rate_in=0.0), edges={("source", "map"): 1.0})

    assert needs(obs)["map"].needed == 0.0


def test_a_vertex_without_known_inputs_needs_what_is_observed() -> None:
    obs = observation(vertex("source"), vertex("map", target_rate=70.0), edges={})

    assert needs(obs)["map"].needed == 70.0


@pytest.mark.parametrize(
    ("busy", "after", "expected"),
    [
        pytest.param(0.5, 60.0, 500.0, id="busy enough: measured"),
        pytest.param(0.019, 60.0, 400.0, id="nearly idle: the last good one"),
        pytest.param(0.019, KEPT, 400.0, id="for a day"),
        pytest.param(0.019, KEPT + 1, None, id="not longer"),
        pytest.param(0.019, -1.0, None, id="not from the future"),
    ],
)
def test_the_last_good_rate_is_kept(busy: float, after: float, expected: float | None) -> None:
    before = learned(observation(vertex(parallelism=2, rate_in=400.0, busy=0.5)))
    now = observation(vertex(parallelism=4, true_rate=2_000.0, busy=busy), now=NOW + after)

    assert learned(now, before).rate_of("source") == expected


def test_another_graph_begins_anew() -> None:
    before = learned(observation(vertex("source"), vertex("map")))
    other = observation(vertex("source", true_rate=None))

    assert learned(other, before) == learned(other)


@pytest.mark.parametrize("state", [{}, {"vertices": 5}, {"vertices": ["source"], "rates": []}], ids=str)
def test_a_state_that_cannot_be_read_is_none(state: dict[str, Any]) -> None:
    obs = observation(vertex())

    assert RateMemory.read(state, obs) == RateMemory(frozenset({"source"}))


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ({}, ProposalDirection.NONE),
        ({"source": 4, "map": 4}, ProposalDirection.NONE),
        ({"source": 4, "map": 5}, ProposalDirection.UP),
        ({"source": 3}, ProposalDirection.DOWN),
        ({"source": 3, "map": 5}, ProposalDirection.MIXED),
    ],
    ids=["nothing", "as it is", "up", "down", "both"],
)
def test_direction_is_that_of_the_changes(targets: dict[str, int], expected: ProposalDirection) -> None:
    assert direction_of(observation(vertex("source"), vertex("map")), targets) is expected


def test_a_source_with_uneven_partitions_has_more_to_catch_up_with() -> None:
    obs = observation(vertex("source", lag_records=6_000.0, lag_to_drain=9_000.0), vertex("map"))

    assert backlog_of(obs).lag == 9_000.0
