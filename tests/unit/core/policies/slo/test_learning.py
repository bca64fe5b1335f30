"""What the policy ``slo`` learns pass by pass, and what it remembers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.model.load_profile import LoadProfile
from flink_autoscaler.core.policies.slo import packing
from flink_autoscaler.core.policies.slo.learning import Learned, expected, learn
from flink_autoscaler.core.policies.slo.levels import deviation_of, levels
from flink_autoscaler.core.policies.slo.model import HORIZON, Seen, SeenVertex
from flink_autoscaler.core.policies.slo.state import Graph, SloState

EDGES = (("source", "map"), ("map", "sink"))
RATE = 1000.0
"""What a subtask of ``map`` can do; of the others ten times as much."""


def a_pass(at: float, total: float, busy: float, *, execution: float = 0.0, parallelism: int = 10) -> Seen:
    """A job whose ``map`` is busy so far, and the others a tenth of it."""
    vertices = {
        "source": SeenVertex(parallelism, total, total, busy / 10.0, pending=0.0, is_source=True),
        "map": SeenVertex(parallelism, total, total, busy, groups=128),
        "sink": SeenVertex(parallelism, total, 0.0, busy / 10.0),
    }
    return Seen(at, execution, vertices, EDGES)


class Job:
    """A job of 10 subtasks at which so many subtasks' worth of records arrives."""

    def __init__(self, interval: float = 60.0) -> None:
        self.interval, self.at, self.total = interval, 1e9, 0.0
        first = a_pass(self.at, 0.0, 0.5)
        self.known = learn(SloState(Graph.of(first)), first)

    def run(self, load: float, passes: int = 1) -> Learned:
        for _ in range(passes):
            self.at += self.interval
            self.total += load * RATE * self.interval
            self.known = learn(self.known.state, a_pass(self.at, self.total, min(load / 10.0, 1.0)))
        return self.known

    def restore(self) -> None:
        stored = json.loads(json.dumps(self.known.state.as_json()))
        self.known = replace(self.known, state=SloState.read(stored, self.known.state.graph))


# 128 key groups on 10 subtasks: the busiest has 13, as if there were 128/13 of them.
UNITS = 10.0 / (128 / 13)


def test_second_sample_tells_the_demand() -> None:
    known = Job().run(5.0)

    assert known.is_new
    assert known.demand == pytest.approx(5.0 / UNITS)
    assert set(known.strengths) == {"source", "map", "sink"}


def test_present_size_keeps_pace_with_as_much_as_it_can_do() -> None:
    known = Job().run(5.0)

    found = levels(known.seen.vertices, known.strengths, (1.0, 30.0))

    assert found is not None
    assert found.present is not None
    assert found.present.capacity == pytest.approx(128 / 13)
    assert deviation_of(known.strengths)(found.present) == pytest.approx(0.05)


@pytest.mark.parametrize("interval", [10.0, 20.0, 45.0, 60.0, 75.0, 120.0, 300.0])
def test_history_is_by_minutes_whatever_the_interval_of_passes(interval: float) -> None:
    job = Job(interval)

    known = job.run(5.0, math.ceil(6000.0 / interval))

    assert known.state.history.count == pytest.approx(20, abs=1)
    assert known.demand == pytest.approx(5.0 / UNITS, rel=0.01)


def test_bucket_brings_forecasts_and_others_do_not() -> None:
    job = Job()

    assert job.run(5.0, 4).forecasts is None
    known = job.run(5.0)
    assert known.is_bucket
    assert known.forecasts is not None
    assert sum(known.forecasts.weights.values()) == pytest.approx(1.0)
    assert known.forecasts.mixed == pytest.approx((5.0 / UNITS,) * HORIZON)
    assert expected(job.run(5.0)).forecasts is not None


def test_profile_is_one_more_expert_in_slots_of_work() -> None:
    job = Job()
    job.run(5.0, 60)
    profile = LoadProfile((1.0,) * 672, (1.0,) * 672, weeks=4, level=2500.0, growth=1.0, asof=job.at)
    seen = a_pass(job.at + 60.0, job.total + 300_000.0, 0.5)

    known = expected(learn(job.known.state, replace(seen, profiles={"source": profile, "other": profile})))

    assert known.forecasts is not None
    path = known.forecasts.paths["profile"]
    assert path[0] == pytest.approx(5.0 / UNITS, rel=0.01)
    assert path[95] == pytest.approx(2.5 / UNITS * 2.0 ** math.exp(-477.5 / 360.0), rel=0.01)
    assert "profile" in known.forecasts.weights
    assert "profile" not in expected(learn(job.known.state, seen)).forecasts.paths  # type: ignore[union-attr]


def test_jump_that_nobody_foresaw_is_a_surprise() -> None:
    job = Job()
    job.run(5.0, 30)

    known = expected(job.run(9.0))

    assert known.state.history.surprise == 0.0
    assert known.forecasts is not None
    assert known.forecasts.weights["ramp"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("ago", "minutes", "expected"),
    [
        pytest.param(3.0, 0.0, 10.0, id="middle of the first bucket"),
        pytest.param(3.0, 2.5, 15.0, id="between two of them"),
        pytest.param(1.0, 12.0, 30.0, id="middle of the third"),
        pytest.param(2.0, 0.0, 8.0, id="before the first middle"),
        pytest.param(0.0, 0.0, 5.0, id="half the first bucket at least"),
        pytest.param(15.0, 4.0, 42.0, id="after the last middle"),
        pytest.param(15.0, 5.0, None, id="after the last bucket"),
    ],
)
def test_what_is_foreseen_of_a_minute_is_between_the_middles_of_buckets(
    ago: float, minutes: float, expected: float | None
) -> None:
    state = SloState(Graph((), (), ()), foreseen=(10.0, 20.0, 30.0, 40.0), foreseen_ago=ago)

    assert state.foreseen_in(minutes) == expected


def test_one_bucket_is_foreseen_as_it_is() -> None:
    assert SloState(Graph((), (), ()), foreseen=(10.0,)).foreseen_in(4.0) == 10.0
    assert SloState(Graph((), (), ())).foreseen_now is None


def test_same_samples_teach_the_same() -> None:
    first, second = Job(), Job()

    assert first.run(6.0, 60).state.as_json() == second.run(6.0, 60).state.as_json()


def test_memory_survives_the_store() -> None:
    kept, stored = Job(), Job()
    for load in (4.0, 5.0, 6.0, 5.0) * 30:
        kept.run(load)
        stored.run(load)
        stored.restore()

    assert stored.known.demand == pytest.approx(kept.known.demand, rel=1e-3)
    assert stored.known.noise.s == pytest.approx(kept.known.noise.s, rel=1e-2)
    one, two = expected(stored.known).forecasts, expected(kept.known).forecasts
    assert one is not None
    assert two is not None
    assert one.mixed == pytest.approx(two.mixed, rel=0.02)


def test_restart_is_no_gap() -> None:
    job = Job()
    job.run(5.0, 10)
    restarted = a_pass(job.at + 120.0, 200_000.0, 0.9, execution=1e9 + 700.0)
    waiting = replace(restarted.vertices["source"], pending=400_000.0)

    known = learn(job.known.state, replace(restarted, vertices={**restarted.vertices, "source": waiting}))

    assert known.demand == pytest.approx(5.0 / UNITS)
    assert known.backlog == pytest.approx(400_000.0 / RATE / UNITS)
    assert len(known.state.history.minutes) == 12


def test_counter_that_went_back_adds_nothing_and_is_made_up_for() -> None:
    job = Job()
    job.run(5.0, 10)
    before = job.total
    job.total = 0.0

    assert not job.run(5.0).is_new
    known = job.run(5.0)

    assert before > job.total
    assert known.demand == pytest.approx(5.0 / UNITS)
    assert len(known.state.history.minutes) == 12


def test_clock_that_went_back_begins_a_new_minute() -> None:
    job = Job()
    job.run(5.0, 10)
    job.at -= 7200.0

    assert not job.run(5.0).is_new
    assert job.run(5.0).demand == pytest.approx(5.0 / UNITS)


def test_day_without_samples_leaves_history_and_nothing_recent() -> None:
    job = Job()
    job.run(5.0, 60)
    job.at += 86400.0

    known = job.run(5.0)

    assert known.state.history.minutes[1:] == ()
    assert known.state.history.count == pytest.approx(12 + 288, abs=1)
    assert known.state.history.since == 1.0
    assert known.state.trust.due["last"].startswith(packing.NOTHING * 35)


def test_other_graph_keeps_the_history_of_the_same_sources() -> None:
    job = Job()
    job.run(5.0, 60)
    job.at += 60.0
    seen = a_pass(job.at, 0.0, 0.5)
    other = replace(seen, edges=(("source", "map"),), vertices={key: seen.vertices[key] for key in ("source", "map")})

    known = learn(job.known.state, other)

    assert known.state.capacities == {}
    assert known.state.history.count == 12
    assert learn(job.known.state, replace(seen, vertices={"x": seen.vertices["source"]})).state.history.count == 0


def test_zero_load_is_the_least_demand() -> None:
    job = Job()
    job.run(5.0, 10)

    known = job.run(0.0, 30)

    assert known.demand == 0.001
    assert known.noise.s > 0.0


@pytest.mark.parametrize(
    ("profiled", "buckets"), [pytest.param(False, 2016 + 7, id="alone"), pytest.param(True, 1900, id="with a profile")]
)
def test_state_of_ten_vertices_and_a_week_fits(*, profiled: bool, buckets: int) -> None:
    profile = LoadProfile((1.0,) * 672, (1.0,) * 672, weeks=4, level=1e6, growth=1.0, asof=1.7e9)
    vertices = {f"{place:032x}": SeenVertex(200, 0.0, 0.0, 0.7, groups=128) for place in range(10)}
    ids = tuple(vertices)
    edges = tuple(pairwise(ids))
    state: SloState | None = None
    for turn in range(8 * 288 + 50):
        total = 1e12 + 123_456_789.0 * turn * (2.0 + math.sin(turn / 45.8))
        seen = {
            key: replace(each, records_in=total, records_out=total, is_source=key == ids[0], pending=1234567.0)
            for key, each in vertices.items()
        }
        sample = Seen(1.7e9 + 300.0 * turn, 1.7e9, seen, edges, {ids[0]: profile} if profiled else {})
        state = learn(state or SloState(Graph.of(sample)), sample).state

    assert state is not None
    assert state.history.count > buckets
    assert ("profile" in state.trust.scores) is profiled
    assert len(json.dumps(state.as_json(), separators=(",", ":"))) < 8_000


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(max_size=3), each, max_size=3),
    max_leaves=8,
)


def a_stored_state() -> dict[str, Any]:
    job = Job()
    job.run(5.0, 47)
    return job.known.state.as_json()


STORED = a_stored_state()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(JSON, st.sampled_from(sorted(STORED)), st.integers(0, 12))
def test_damaged_state_is_forgotten(damage: Any, part: str, place: int) -> None:
    graph = Job().known.state.graph
    stored = json.loads(json.dumps(STORED))
    inner = stored[part]
    if isinstance(inner, list) and inner:
        inner[place % len(inner)] = damage
    elif isinstance(inner, dict) and inner:
        inner[sorted(inner)[place % len(inner)]] = damage
    else:
        stored[part] = damage

    state = SloState.read(stored, graph)
    known = expected(learn(learn(state, a_pass(2e9, 1.0, 0.5)).state, a_pass(2e9 + 60.0, 3e5, 0.5)))

    assert known.forecasts is not None
    assert all(map(math.isfinite, known.forecasts.mixed))
    assert SloState.read(damage, graph) == SloState(graph)


UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
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
)
STEP = st.sampled_from([0.0, 10.0, 60.0, 61.0, 300.0, 3600.0, 86400.0, 1e7, -60.0, -1e6, math.nan, math.inf])
PASSES = st.lists(st.tuples(STEP, st.integers(0, 1), VERTEX, VERTEX, st.booleans()), min_size=2, max_size=25)


def is_sane(known: Learned) -> None:
    noise, forecasts = known.noise, known.forecasts
    assert known.demand is None or 0.0 < known.demand < math.inf
    assert 0.0 <= known.backlog < math.inf
    assert all(map(math.isfinite, (noise.s, noise.v, noise.s_p)))
    if forecasts is not None:
        assert sum(forecasts.weights.values()) == pytest.approx(1.0)
        assert all(0.0 < each < math.inf for path in forecasts.paths.values() for each in path)
        found = levels(known.seen.vertices, known.strengths, (0.5 * min(forecasts.mixed), 2.0 * max(forecasts.mixed)))
        assert found is None or all(map(math.isfinite, found.capacities))


@settings(max_examples=60, phases=UNSHRUNK, suppress_health_check=[HealthCheck.too_slow])
@given(PASSES, st.booleans())
def test_no_passes_make_it_raise_or_lose_its_senses(
    passes: list[tuple[float, int, SeenVertex, SeenVertex, bool]], is_stored: bool
) -> None:
    job, at = Job(), 1e9
    state = job.run(5.0, 8).state
    for step, execution, source, other, is_good in passes:
        at = at + step if math.isfinite(step) else at
        vertices = {"source": replace(source, is_source=True), "map": other, "sink": other}
        seen = Seen(at if math.isfinite(step) else step, float(execution), vertices, EDGES)
        known = expected(learn(state, a_pass(at, 1000.0 * (at - 9.9e8), 0.5) if is_good else seen))
        is_sane(known)
        state = known.state
        if is_stored:
            state = SloState.read(json.loads(json.dumps(state.as_json())), state.graph)
