"""What the policy ``slo`` learns of a job of several sources, and how it is stored."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo import packing
from flink_autoscaler.core.policies.slo.history import KEPT, History
from flink_autoscaler.core.policies.slo.learning import Learned, expected, learn
from flink_autoscaler.core.policies.slo.levels import levels
from flink_autoscaler.core.policies.slo.model import Seen, SeenVertex
from flink_autoscaler.core.policies.slo.sources.streams import NO_STREAMS, SHARES, Streams
from flink_autoscaler.core.policies.slo.state import Graph, SloState

EDGES = (("a", "map of a"), ("b", "map of b"))
CAPACITIES = {"a": 1000.0, "b": 1000.0, "map of a": 10.0, "map of b": 20.0}
"""Records/s of a busy subtask."""


class Job:
    """A job of two branches of 12 subtasks each, at which so many records arrive."""

    def __init__(self) -> None:
        self.at, self.totals = 1e9, {"a": 0.0, "b": 0.0}
        first = self.seen({"a": 50.0, "b": 50.0})
        self.known = learn(SloState(Graph.of(first)), first)

    def seen(self, rates: dict[str, float]) -> Seen:
        vertices = {
            key: SeenVertex(
                12,
                self.totals[key[-1]],
                self.totals[key[-1]],
                min(rates[key[-1]] / 12.0 / capacity, 1.0),
                slot_group="all",
                pending=0.0 if len(key) == 1 else None,
                is_source=len(key) == 1,
            )
            for key, capacity in CAPACITIES.items()
        }
        return Seen(self.at, 0.0, vertices, EDGES)

    def run(self, a: float, b: float, minutes: int = 1) -> Learned:
        rates = {"a": a, "b": b}
        for _ in range(minutes):
            self.at += 60.0
            self.totals = {key: total + 60.0 * rates[key] for key, total in self.totals.items()}
            self.known = learn(self.known.state, self.seen(rates))
        return self.known

    def restore(self) -> None:
        stored = json.loads(json.dumps(self.known.state.as_json()))
        self.known = replace(self.known, state=SloState.read(stored, self.known.state.graph))


def test_sources_are_told_apart_from_the_first_minute_on() -> None:
    known = Job().run(50.0, 200.0, 3)

    assert [one.sources for one in known.state.streams.each] == [("a",), ("b",)]
    assert [one.minutes for one in known.state.streams.each] == [(50.0,) * 3, (200.0,) * 3]
    assert known.demand == pytest.approx(10.0)


def test_branch_that_will_need_most_is_made_ready_for() -> None:
    job = Job()
    job.run(40.0, 200.0, 60)
    for minute in range(40):
        job.run(40.0 + 1.5 * minute, 200.0)

    known = expected(job.known)

    assert known.demand == pytest.approx(10.0, rel=0.02)
    assert known.forecasts is not None
    assert known.forecasts.paths["trend"][30] > 12.0
    assert known.strengths["map of a"].share > known.state.mix["map of a"] * 1.15
    sizes = levels(known.seen.vertices, known.strengths, (8.0, 20.0))
    assert sizes is not None
    vector = sizes.vector(12)
    assert vector["map of b"] <= vector["map of a"] == 12


def test_steady_sources_are_sized_as_they_are() -> None:
    known = expected(Job().run(50.0, 200.0, 90))

    assert known.forecasts is not None
    assert {name: round(path[95], 2) for name, path in known.forecasts.paths.items()} == pytest.approx(
        dict.fromkeys(known.forecasts.paths, 10.0), rel=0.01
    )
    mixes = known.forecasts.mixes
    assert {key: (each.soon, each.ever) for key, each in mixes.items()} == {
        key: pytest.approx((each, each), rel=0.02) for key, each in known.state.mix.items()
    }


def test_memory_of_sources_survives_the_store() -> None:
    kept, stored = Job(), Job()
    for a, b in ((40.0, 200.0), (60.0, 180.0), (90.0, 160.0), (60.0, 190.0)) * 30:
        kept.run(a, b)
        stored.run(a, b)
        stored.restore()

    assert [one.shares for one in stored.known.state.streams.each] == [
        one.shares for one in kept.known.state.streams.each
    ]
    one, two = expected(stored.known).forecasts, expected(kept.known).forecasts
    assert one is not None
    assert two is not None
    assert one.mixed == pytest.approx(two.mixed, rel=0.02)


def test_job_of_one_source_is_stored_as_ever() -> None:
    seen = Seen(1e9, 0.0, {"a": SeenVertex(1, 0.0, 0.0, 0.5, is_source=True)})
    later = replace(seen, at=1e9 + 60.0, vertices={"a": SeenVertex(1, 600.0, 0.0, 0.5, is_source=True)})

    known = learn(learn(SloState(Graph.of(seen)), seen).state, later)

    assert known.is_new
    assert known.state.streams == NO_STREAMS
    assert "streams" not in known.state.as_json()


def test_other_graph_keeps_what_the_same_sources_were_like() -> None:
    job = Job()
    job.run(40.0, 200.0, 120)
    seen = job.seen({"a": 40.0, "b": 200.0})
    other = replace(seen, at=seen.at + 60.0, edges=(*EDGES, ("a", "map of b")))

    state = learn(job.known.state, other).state

    assert [one.shares for one in state.streams.each] == [one.shares for one in job.known.state.streams.each]
    assert not state.streams.is_known
    assert state.history.count == job.known.state.history.count


def test_memory_from_before_sources_were_told_apart_is_used() -> None:
    job = Job()
    job.run(40.0, 200.0, 120)
    stored = job.known.state.as_json()
    del stored["streams"]
    job.known = replace(job.known, state=SloState.read(stored, job.known.state.graph))

    known = expected(job.run(40.0, 200.0))

    assert known.state.history.count == 24
    assert known.forecasts is not None
    assert known.forecasts.mixed == pytest.approx((10.0,) * 96, rel=0.05)


@pytest.mark.parametrize(("count", "buckets"), [(2, 1300), (6, 900)])
def test_state_of_several_sources_and_a_week_fits(count: int, buckets: int) -> None:
    ids = tuple(f"{place:032x}" for place in range(10))
    edges = tuple((key, ids[count]) for key in ids[:count]) + tuple(zip(ids[count:], ids[count + 1 :], strict=False))
    vertices = {key: SeenVertex(200, groups=128, is_source=place < count) for place, key in enumerate(ids)}
    first = Seen(1.7e9, 1.7e9, vertices, edges)
    streams = Streams.of(dict.fromkeys(ids[:count], 1.0))
    full = Streams(tuple(replace(one, shares="x" * SHARES) for one in streams.each))
    state = SloState(Graph.of(first), history=History(buckets=packing.short(10.0) * KEPT), streams=full)
    for turn in range(60):
        total = 1e12 + 123_456_789.0 * turn * (2.0 + math.sin(turn / 45.8))
        read = SeenVertex(200, total, total, 0.7, groups=128, pending=1234567.0)
        seen = {key: replace(read, is_source=each.is_source) for key, each in vertices.items()}
        state = learn(state, Seen(1.7e9 + 300.0 * turn, 1.7e9, seen, edges)).state

    assert len(state.streams.each) == min(count, 5)
    assert state.history.count >= buckets
    assert len(state.streams.each[0].shares) == pytest.approx(state.history.count / 6, abs=2)
    assert len(json.dumps(state.as_json(), separators=(",", ":"))) < 7900


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(max_size=3), each, max_size=3),
    max_leaves=8,
)


def stored_streams() -> dict[str, Any]:
    return Job().run(40.0, 200.0, 47).state.as_json()


STORED = stored_streams()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(JSON, st.integers(0, 1), st.integers(-1, 3))
def test_damaged_memory_of_sources_is_forgotten(damage: Any, stream: int, part: int) -> None:
    job, stored = Job(), json.loads(json.dumps(STORED))
    if part < 0:
        stored["streams"][stream] = damage
    else:
        stored["streams"][1][stream][part] = damage
    job.known = replace(job.known, state=SloState.read(stored, job.known.state.graph))

    known = expected(job.run(40.0, 200.0, 2))

    assert known.forecasts is not None
    assert all(map(math.isfinite, known.forecasts.mixed))


NUMBER = st.none() | st.floats() | st.floats(0.0, 1e6)
VERTEX = st.builds(
    SeenVertex,
    parallelism=st.integers(-2, 300),
    records_in=NUMBER,
    records_out=NUMBER,
    busy=NUMBER,
    least=st.integers(-2, 50),
    greatest=st.integers(-2, 300),
    groups=st.none() | st.integers(-2, 200),
    pending=NUMBER,
    slot_group=st.sampled_from(["all", "other"]),
)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
STEP = st.sampled_from([0.0, 10.0, 60.0, 300.0, 3600.0, 86400.0, -60.0, -1e6])
PASSES = st.lists(st.tuples(STEP, st.integers(0, 1), st.tuples(*[VERTEX] * 4), st.booleans()), min_size=2, max_size=25)


@settings(max_examples=40, phases=UNSHRUNK, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(PASSES)
def test_no_passes_make_it_raise_or_lose_its_senses(
    passes: list[tuple[float, int, tuple[SeenVertex, ...], bool]],
) -> None:
    job = Job()
    job.run(40.0, 200.0, 8)
    for step, execution, found, is_good in passes:
        job.at += step
        odd = {key: replace(each, is_source=len(key) == 1) for key, each in zip(CAPACITIES, found, strict=True)}
        good = job.seen({"a": 40.0, "b": 200.0})
        seen = good if is_good else replace(good, execution=float(execution), vertices=odd)
        job.known = expected(learn(job.known.state, seen))
        job.restore()

        forecasts = job.known.forecasts
        if forecasts is not None:
            assert all(0.0 < each < math.inf for path in forecasts.paths.values() for each in path)
            reach = 0.5 * min(forecasts.mixed), 2.0 * max(forecasts.mixed)
            sizes = levels(job.known.seen.vertices, job.known.strengths, reach)
            assert sizes is None or all(map(math.isfinite, sizes.capacities))
