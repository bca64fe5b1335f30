"""What arrives at a job is counted, whatever happens to the job."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.arrivals import (
    MIN_DEMAND,
    IntervalRates,
    ObservedVertex,
    SloSample,
    begin_interval,
    extend_interval,
    in_slots,
    interval_rates,
    propagate_rates,
    update_gains,
    update_mix,
)
from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.demand import DemandState, mix_ahead


def a_source(consumed: float | None, pending: float | None = 0.0, *, busy: float | None = 0.5) -> ObservedVertex:
    return ObservedVertex(4, consumed, consumed, busy, pending=pending, is_source=True)


def a_pass(at: float, source: ObservedVertex, execution: float = 0.0) -> SloSample:
    return SloSample(at, execution, {"source": source})


def shown(*passes: SloSample, before: float = 0.0) -> IntervalRates:
    interval = begin_interval(passes[0])
    for each in passes[1:]:
        assert interval is not None
        interval = extend_interval(interval, each)
    assert interval is not None
    found = interval_rates(interval, passes[-1], {"source": before})
    assert found is not None
    return found


def test_what_is_consumed_and_what_begins_to_wait_has_arrived() -> None:
    found = shown(a_pass(0.0, a_source(1000.0, 200.0)), a_pass(60.0, a_source(7000.0, 800.0)))

    assert found.rates == {"source": 110.0}
    assert not found.is_blind


def test_arrivals_during_a_restart_are_counted_like_any_others() -> None:
    found = shown(
        a_pass(0.0, a_source(1_000_000.0, 2000.0)), a_pass(120.0, a_source(450_000.0, 5_552_000.0), execution=70.0)
    )

    assert found.rates == {"source": 50_000.0}
    assert found.flows == {}


def test_what_an_execution_consumed_before_it_ended_is_carried_over() -> None:
    found = shown(
        a_pass(0.0, a_source(1000.0)),
        a_pass(20.0, a_source(3000.0)),
        a_pass(60.0, a_source(500.0, 3500.0), execution=40.0),
    )

    assert found.rates == {"source": 100.0}


def test_nothing_arrives_less_than_nothing() -> None:
    assert shown(a_pass(0.0, a_source(0.0, 900.0)), a_pass(60.0, a_source(10.0, 0.0))).rates == {"source": 0.0}


def test_sample_without_counters_is_covered_by_the_next_one() -> None:
    found = shown(a_pass(0.0, a_source(0.0)), a_pass(60.0, a_source(None)), a_pass(120.0, a_source(1200.0)))

    assert found.rates == {"source": 10.0}


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(a_pass(60.0, a_source(999.0)), id="counter went back"),
        pytest.param(a_pass(-1.0, a_source(2000.0)), id="clock went back"),
        pytest.param(SloSample(60.0, 0.0, {"other": a_source(2000.0)}), id="another source"),
    ],
)
def test_samples_that_do_not_follow_each_other_begin_anew(later: SloSample) -> None:
    first = begin_interval(a_pass(0.0, a_source(1000.0)))

    assert first is not None
    assert extend_interval(first, later) is None


def test_saturated_job_without_lag_metric_is_assumed_to_get_more_than_it_consumes() -> None:
    passes = (a_pass(0.0, a_source(0.0, None)), a_pass(60.0, a_source(6000.0, None, busy=0.99)))

    assert shown(*passes, before=100.0).rates["source"] == pytest.approx(110.0)
    assert shown(*passes, before=1000.0).rates["source"] == pytest.approx(400.0)
    assert shown(*passes, before=1000.0).is_blind


def test_job_without_lag_metric_that_keeps_pace_gets_what_it_consumes() -> None:
    passes = (a_pass(0.0, a_source(0.0, None)), a_pass(60.0, a_source(6000.0, None, busy=0.9)))

    assert shown(*passes, before=1000.0).rates == {"source": 100.0}


EDGES = (("source", "map"), ("source", "side"), ("map", "join"), ("side", "join"))


def test_gains_follow_what_edges_bring() -> None:
    seen = SloSample(0.0, 0.0, {key: ObservedVertex(1) for key in ("source", "map", "side", "join")}, EDGES)
    flows = {"source": (100.0, 150.0), "map": (50.0, 25.0), "side": (100.0, 300.0), "join": (325.0, 0.0)}

    found = update_gains(
        {("source", "map"): 1.0, ("gone", "map"): 1.0}, seen, IntervalRates(60.0, {}, flows, is_blind=False)
    )

    assert found == pytest.approx(
        {("source", "map"): 0.95, ("source", "side"): 1.0, ("map", "join"): 0.5, ("side", "join"): 3.0}
    )


def test_what_arrives_reaches_every_vertex_by_all_ways() -> None:
    gain = {("source", "map"): 0.5, ("source", "side"): 1.0, ("map", "join"): 0.5, ("side", "join"): 3.0}

    found = propagate_rates({"source": 100.0}, EDGES, gain)

    assert found == {"source": 100.0, "map": 50.0, "side": 100.0, "join": 325.0}


def test_circle_in_the_graph_does_no_harm() -> None:
    assert propagate_rates({"a": 5.0}, (("a", "b"), ("b", "c"), ("c", "b")), {})["a"] == 5.0


def test_demand_adds_the_most_needy_vertices_of_the_groups_of_slots() -> None:
    vertices = {
        "a": ObservedVertex(1),
        "b": ObservedVertex(1),
        "c": ObservedVertex(1, slot_group="other"),
        "new": ObservedVertex(1),
    }

    found = in_slots({"a": 100.0, "b": 300.0, "c": 50.0, "new": 9e9}, {"a": 10.0, "b": 100.0, "c": 25.0}, vertices)

    assert found == 12.0
    assert in_slots({"a": 0.0}, {"a": 10.0}, vertices) == MIN_DEMAND
    assert in_slots({"a": 100.0}, {}, vertices) is None


def test_mix_follows_slowly_and_not_while_nothing_arrives() -> None:
    assert update_mix({"a": 10.0}, {"a": 40.0}, 2.0, 0.1) == {"a": 11.0}
    assert update_mix({"a": 10.0}, {"a": 0.0}, MIN_DEMAND, 0.1) == {"a": 10.0}


ANY = st.none() | st.floats()


@st.composite
def sources(draw: st.DrawFn) -> ObservedVertex:
    return replace(a_source(draw(ANY), draw(ANY), busy=draw(ANY)), records_out=draw(ANY))


@given(st.lists(st.tuples(st.floats(-1e12, 1e12), st.integers(0, 2), sources()), min_size=2, max_size=8))
def test_no_counters_give_a_rate_that_cannot_be_reckoned_with(passes: list[tuple[float, int, ObservedVertex]]) -> None:
    interval, rates = None, {"source": 1.0}
    for at, execution, source in passes:
        seen = a_pass(at, source, float(execution))
        interval = (extend_interval(interval, seen) if interval else None) or begin_interval(seen)
        found = interval_rates(interval, seen, rates) if interval and interval.at == seen.at else None
        if found is not None:
            rates = dict(found.rates)
            assert all(0.0 <= each < math.inf for each in rates.values())
            assert all(0.0 <= each < math.inf for each in update_gains({}, seen, found).values())


def test_share_that_rises_is_expected_to_go_on_and_one_that_falls_is_not() -> None:
    sources = {key: ObservedVertex(4, is_source=True, pending=0.0) for key in "ab"}
    state = DemandState(rates={"a": 60.0, "b": 40.0}, units=dict.fromkeys("ab", 10.0), mix={"a": 10.0, "b": 5.0})

    ahead = mix_ahead(SloSample(0.0, 0.0, sources), state)

    assert ahead == pytest.approx({"a": 10.0, "b": 5.0 + CONSTANTS.mix_ahead * (40.0 / 6.0 - 5.0)})
