"""The fluid model against closed forms."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_autoscaler.pipeline.simulator.model import FluidJob, JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.rescales import RescaleParams, RescalingJob

LEFT, RIGHT, JOIN, SINK = "a" * 32, "b" * 32, "c" * 32, "d" * 32


def a_vertex(vertex_id: str, rate: float = 1000.0, **further: float) -> VertexModel:
    return VertexModel(vertex_id, vertex_id[0], rate, **further)  # type: ignore[arg-type]


def a_join(*, left: float = 1000.0, right: float = 1000.0, joined: float = 1000.0) -> JobModel:
    """Two sources; of the left one half of the records reach the join."""
    vertices = (a_vertex(LEFT, left), a_vertex(RIGHT, right), a_vertex(JOIN, joined), a_vertex(SINK, 1e6))
    return JobModel(vertices, {(LEFT, JOIN): 0.5, (RIGHT, JOIN): 1.0, (JOIN, SINK): 2.0})


def ones(model: JobModel) -> dict[str, int]:
    return dict.fromkeys(model.gains, 1)


@pytest.mark.parametrize(
    ("vertex", "parallelism", "capacity"),
    [
        pytest.param(a_vertex(LEFT), 4, 4000.0, id="linear"),
        pytest.param(a_vertex(LEFT, skew=2.0), 4, 2000.0, id="the hot subtask gets twice its share"),
        pytest.param(a_vertex(LEFT, contention=0.5), 3, 1500.0, id="half of the work is serial"),
        pytest.param(a_vertex(LEFT, coherence=0.1), 5, 5000.0 / 3, id="twenty pairs at a tenth each"),
    ],
)
def test_capacity_follows_the_universal_scalability_law(vertex: VertexModel, parallelism: int, capacity: float) -> None:
    assert vertex.capacity(parallelism) == pytest.approx(capacity)


def test_gains_follow_every_path() -> None:
    model = a_join()

    assert model.sources == (LEFT, RIGHT)
    assert model.gains[SINK] == (1.0, 2.0)
    assert model.demand((100.0, 10.0)) == {LEFT: 100.0, RIGHT: 10.0, JOIN: 60.0, SINK: 120.0}


def test_slots_are_those_of_the_largest_vertex_of_every_group() -> None:
    vertices = (VertexModel(LEFT, "a", 1.0), VertexModel(RIGHT, "b", 1.0), VertexModel(JOIN, "c", 1.0, group="own"))
    model = JobModel(vertices, {})

    assert model.slots({LEFT: 3, RIGHT: 5, JOIN: 2}) == 7


@pytest.mark.parametrize(
    "edges",
    [
        pytest.param({(JOIN, LEFT): 1.0}, id="against the order"),
        pytest.param({(LEFT, LEFT): 1.0}, id="to itself"),
        pytest.param({(LEFT, "e" * 32): 1.0}, id="to a vertex that is not there"),
        pytest.param({("e" * 32, LEFT): 1.0}, id="from a vertex that is not there"),
        pytest.param({(LEFT, JOIN): -1.0}, id="negative selectivity"),
    ],
)
def test_job_with_impossible_edge_is_refused(edges: dict[tuple[str, str], float]) -> None:
    with pytest.raises(ValueError, match="impossible edge"):
        JobModel((a_vertex(LEFT), a_vertex(JOIN)), edges)


@pytest.mark.parametrize("further", [{"skew": 0.5}, {"contention": -0.1}, {"max_parallelism": 0}])
def test_impossible_vertex_is_refused(further: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="impossible vertex"):
        a_vertex(LEFT, **further)


def test_job_needs_vertices_with_own_ids() -> None:
    with pytest.raises(ValueError, match="an id of its own"):
        JobModel((a_vertex(LEFT), a_vertex(LEFT)), {})


def test_slowest_vertex_limits_a_chain() -> None:
    model = JobModel.chain([a_vertex(LEFT, 100e3), a_vertex(JOIN, 60e3), a_vertex(SINK, 90e3)])
    job = FluidJob(model, ones(model))

    job.flow(5.0, (80e3,))

    assert job.served == pytest.approx([300e3])
    assert job.backlog == pytest.approx([100e3])


def test_sources_before_a_shared_bottleneck_are_held_back_in_proportion() -> None:
    model = a_join(joined=500.0)
    job = FluidJob(model, ones(model))

    job.flow(1.0, (1000.0, 500.0))

    # Half of 1,000 and 500 are twice what the join takes.
    assert job.served == pytest.approx([500.0, 250.0])


def test_source_before_its_own_bottleneck_leaves_the_other_alone() -> None:
    model = a_join(left=100.0)
    job = FluidJob(model, ones(model))

    job.flow(1.0, (1000.0, 500.0))

    assert job.served == pytest.approx([100.0, 500.0])


def test_nothing_waits_where_capacity_suffices() -> None:
    model = a_join()
    job = FluidJob(model, ones(model))

    job.flow(10.0, (1000.0, 500.0))

    assert job.backlog == [0.0, 0.0]
    assert job.lag() == 0.0


@pytest.mark.parametrize(
    ("flows", "lag"),
    [
        pytest.param([(10.0, 2000.0)], 5.0, id="half of what came in ten seconds is served"),
        pytest.param([(10.0, 2000.0), (5.0, 0.0)], 7.5, id="the rest came in the last half of them"),
        pytest.param([(10.0, 2000.0), (10.0, 0.0)], 0.0, id="all of it is served"),
        pytest.param([(4.0, 0.0), (10.0, 2000.0)], 5.0, id="nothing came at first"),
        pytest.param([(10.0, 2000.0), (90.0, 1000.0)], 10.0, id="a standing backlog has a standing lag"),
    ],
)
def test_lag_is_the_age_of_the_oldest_record_that_waits(flows: list[tuple[float, float]], lag: float) -> None:
    model = JobModel.chain([a_vertex(LEFT)])
    job = FluidJob(model, ones(model))

    for seconds, rate in flows:
        for _ in range(10):
            job.flow(seconds / 10, (rate,))

    assert job.lag() == pytest.approx(lag)


def test_lag_of_the_job_is_that_of_its_latest_source() -> None:
    model = a_join()
    job = FluidJob(model, ones(model))

    job.flow(10.0, (0.0, 2000.0))

    assert job.lag() == pytest.approx(5.0)


def test_replay_puts_back_what_came_since_the_checkpoint() -> None:
    model = JobModel.chain([a_vertex(LEFT)])
    job = FluidJob(model, ones(model))
    job.flow(60.0, (500.0,))

    replayed = job.replay(4.0)

    assert (replayed, job.backlog, job.served) == (2000.0, [2000.0], [28_000.0])
    assert job.lag() == pytest.approx(4.0)


def test_replay_never_goes_back_before_the_beginning() -> None:
    model = JobModel.chain([a_vertex(LEFT)])
    job = FluidJob(model, ones(model))
    job.flow(1.0, (500.0,))

    assert job.replay(10.0) == 500.0
    assert job.lag() == pytest.approx(1.0)


RATES = st.floats(0.0, 5000.0)
STEPS = st.lists(st.tuples(st.floats(0.1, 30.0), st.tuples(RATES, RATES), st.integers(0, 6)), min_size=1, max_size=40)


@given(steps=STEPS, outage=st.floats(0.5, 40.0), delay=st.floats(0.0, 20.0), replay=st.floats(0.0, 20.0))
@settings(max_examples=150)
def test_what_arrived_is_served_or_waits(
    steps: list[tuple[float, tuple[float, float], int]], outage: float, delay: float, replay: float
) -> None:
    model = a_join()
    fluid = FluidJob(model, ones(model))
    job = RescalingJob(fluid, RescaleParams(outage, delay, replay))
    expected = [0.0, 0.0]

    for seconds, arrivals, parallelism in steps:
        if parallelism:
            job.request(dict.fromkeys(model.gains, parallelism))
        before = list(fluid.served)
        job.flow(seconds, arrivals)
        expected = [e + rate * seconds for e, rate in zip(expected, arrivals, strict=True)]

        assert fluid.arrived == pytest.approx(expected)
        for arrived, served, backlog in zip(fluid.arrived, fluid.served, fluid.backlog, strict=True):
            assert abs(arrived - served - backlog) <= 1e-6 * max(1.0, arrived)
            assert backlog >= 0
            assert served >= -1e-6
        assert fluid.lag() >= 0
        assert all(s - b <= 6 * 1000.0 * seconds * (1 + 1e-6) + 1e-6 for s, b in zip(fluid.served, before, strict=True))


@given(
    st.lists(st.tuples(st.floats(0.0, 2000.0), st.integers(1, 24), st.floats(0.5, 60.0)), min_size=1, max_size=8),
)
def test_steps_at_once_come_to_what_single_steps_do(course: list[tuple[float, int, float]]) -> None:
    """To the last digit: a backtest has to come to the same however it gets through the quiet hours."""
    model = JobModel.chain([VertexModel("a", "source", 1000.0), VertexModel("b", "work", 400.0)], [0.5])
    slowly, at_once = (FluidJob(model, {"a": 1, "b": 1}) for _ in range(2))

    for rate, count, seconds in course:
        for _ in range(count):
            slowly.flow(seconds, (rate,))
        if not at_once.flow_unhindered(seconds, count, (rate,)):
            for _ in range(count):
                at_once.flow(seconds, (rate,))

        assert (at_once.now, at_once.arrived, at_once.served) == (slowly.now, slowly.arrived, slowly.served)
        assert (at_once.backlog, at_once.lag()) == (slowly.backlog, slowly.lag())


def test_nothing_happens_at_once_where_something_waits_or_the_job_is_away() -> None:
    model = JobModel.chain([VertexModel("a", "source", 1000.0)])
    away, late = (FluidJob(model, {"a": 1}) for _ in range(2))
    away.is_running = False
    late.flow(5.0, (3000.0,))

    assert not away.flow_unhindered(5.0, 12, (10.0,))
    assert not late.flow_unhindered(5.0, 12, (10.0,))
    assert not FluidJob(model, {"a": 1}).flow_unhindered(5.0, 12, (1001.0,))
    assert (away.now, late.now) == (0.0, 5.0)
