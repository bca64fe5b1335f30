"""A source, a map and a sink from the first sample to the first decision, pass by pass."""

import math

import pytest

from flink_autoscaler.core.model.decision import PassPhase, Rescale
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    MINUTE,
    JobDriver,
    a_context,
    a_reading,
    a_vertex,
    operator_answers,
    source_answers,
    vertex_id,
)

M = ScalingMetric
S, MAP, SINK = vertex_id(1), vertex_id(2), vertex_id(3)
OPTIONS = {"stabilization.interval": "1 min", "metrics.window": "2 min"}
BUSY_MS = {1: (950.0, 500.0, 300.0), 2: (970.0, 550.0, 300.0), 3: (990.0, 600.0, 300.0)}
MAP_RATE = {1: 1010.0, 2: 990.0, 3: 1000.0}
PENDING = {1: 100_000.0, 2: 106_000.0, 3: 112_000.0}


def reading_at(minute: int) -> JobReading:
    """Read the pipeline at minute 1, 2 or 3."""
    source_busy, map_busy, sink_busy = BUSY_MS[minute]
    vertices = [
        a_vertex(1, parallelism=4, partitions=24),
        a_vertex(
            2,
            parallelism=6,
            max_parallelism=120,
            inputs={1: ShipStrategy.HASH},
            io=IoMetrics(records_in=60_000 * minute),
        ),
        a_vertex(3, parallelism=2, inputs={2: ShipStrategy.REBALANCE}, io=IoMetrics(records_in=180_000 * minute)),
    ]
    answers = {
        S: source_answers(
            busy_ms=source_busy,
            rate=2000.0,
            records_in=120_000.0 * minute,
            pending=PENDING[minute],
            backpressure_ms=20.0,
        ),
        MAP: operator_answers(busy_ms=map_busy, rate=MAP_RATE[minute]),
        SINK: operator_answers(busy_ms=sink_busy, rate=3000.0),
    }
    return a_reading(vertices, answers)


def run_until(minute: int) -> PassOutcome:
    driver = JobDriver(a_context(OPTIONS))
    outcomes = [driver.run(at * MINUTE, reading_at(at)) for at in range(1, minute + 1)]
    return outcomes[-1]


@pytest.mark.parametrize(
    ("minute", "phase", "samples"),
    [(1, PassPhase.COLLECTING, 1), (2, PassPhase.WINDOW_FILLING, 2), (3, PassPhase.EXECUTED, 3)],
    ids=["first sample", "filling", "full"],
)
def test_the_window_fills_sample_by_sample(minute: int, phase: PassPhase, samples: int) -> None:
    outcome = run_until(minute)

    assert (outcome.phase, outcome.sample_count) == (phase, samples)
    assert outcome.is_window_full is (phase is PassPhase.EXECUTED)


def test_rounded_values_flow_downstream_while_the_window_fills() -> None:
    outcome = run_until(2)

    assert outcome.evaluation is not None
    vertices = outcome.evaluation.metrics.vertices
    catch_up = [vertices[v][M.CATCH_UP_DATA_RATE].current for v in (S, MAP, SINK)]
    assert catch_up == [58.889, 29.445, 88.335]
    assert M.RECOMMENDED_PARALLELISM not in vertices[S]


def test_the_last_sample_of_the_source() -> None:
    outcome = run_until(3)

    assert outcome.sample is not None
    assert outcome.sample.at_ms == 3 * MINUTE
    source = outcome.sample.vertices[S]
    assert (source[M.LAG], source[M.LOAD], source[M.OBSERVED_TPR]) == (112_000.0, 0.99, 2040.816)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        pytest.param(M.LOAD, (0.97, 0.55, 0.3), id="load"),
        pytest.param(M.TARGET_DATA_RATE, (2100.0, 1050.0, 3150.0), id="target rate"),
        pytest.param(M.TRUE_PROCESSING_RATE, (2061.856, 1818.182, 10000.0), id="true rate"),
    ],
)
def test_averages_of_the_full_window(metric: ScalingMetric, expected: tuple[float, ...]) -> None:
    outcome = run_until(3)

    assert outcome.evaluation is not None
    vertices = outcome.evaluation.metrics.vertices
    assert tuple(vertices[v][metric].average for v in (S, MAP, SINK)) == expected
    assert all(math.isnan(vertices[v][metric].current) for v in (S, MAP, SINK))


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        pytest.param(M.CATCH_UP_DATA_RATE, (62.222, 31.111, 93.333), id="catch-up rate"),
        pytest.param(M.SCALE_UP_RATE_THRESHOLD, (2162.0, 1081.0, 3243.0), id="lower edge"),
        pytest.param(M.SCALE_DOWN_RATE_THRESHOLD, (5662.0, 2831.0, 8493.0), id="upper edge"),
        pytest.param(M.PARALLELISM, (4.0, 6.0, 2.0), id="parallelism"),
        pytest.param(M.MAX_PARALLELISM, (128.0, 120.0, 128.0), id="key groups"),
        pytest.param(M.NUM_SOURCE_PARTITIONS, (24.0, 0.0, 0.0), id="partitions"),
        pytest.param(M.RECOMMENDED_PARALLELISM, (8.0, 6.0, 2.0), id="recommended parallelism"),
    ],
)
def test_values_of_the_full_window(metric: ScalingMetric, expected: tuple[float, ...]) -> None:
    outcome = run_until(3)

    assert outcome.evaluation is not None
    vertices = outcome.evaluation.metrics.vertices
    assert tuple(vertices[v][metric].current for v in (S, MAP, SINK)) == expected


def test_the_source_is_scaled_up_and_the_rest_is_pinned() -> None:
    outcome = run_until(3)

    assert isinstance(outcome.decision, Rescale)
    assert {v: (s.current, s.new) for v, s in outcome.decision.summaries.items()} == {S: (4, 8)}
    assert outcome.decision.summaries[S].metrics[M.EXPECTED_PROCESSING_RATE].current == 4123.712
    assert outcome.state.overrides == {S: 8, MAP: 6, SINK: 2}
    assert outcome.wanted == {S: 8, MAP: 6, SINK: 2}


def test_the_report_of_the_decision() -> None:
    outcome = run_until(3)

    assert outcome.report is not None
    assert outcome.report.text == outcome.report.header + (
        f"{{ Vertex ID {S} | Parallelism 4 -> 8 | Processing capacity 2061.86 -> 4123.71 | Target data rate 2100.00}}"
    )
