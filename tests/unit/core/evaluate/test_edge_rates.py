"""What comes along the edges into a vertex adds up to what the vertex received."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.evaluate.evaluation import EvaluationSettings, Sender, edge_rates, evaluate, output_ratios
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy
from flink_autoscaler.core.observe.window import MetricWindow
from testkit.builders.core import a_sample, a_topology, a_vertex, options_with

M = ScalingMetric
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("received", "senders", "expected"),
    [
        pytest.param(7.0, {}, {}, id="a source: no edges"),
        pytest.param(7.0, {"a": Sender(NAN, 3)}, {"a": 7.0}, id="one input: all of it, whatever was sent"),
        pytest.param(300.0, {"a": Sender(100.0, 1), "b": Sender(200.0, 1)}, {"a": 100.0, "b": 200.0}, id="consistent"),
        pytest.param(3.0, {"a": Sender(100.0, 1), "b": Sender(200.0, 1)}, {"a": 1.0, "b": 2.0}, id="sent too much"),
        pytest.param(600.0, {"a": Sender(100.0, 1), "b": Sender(200.0, 1)}, {"a": 200.0, "b": 400.0}, id="too little"),
        pytest.param(510.0, {"a": Sender(1000.0, 2), "b": Sender(500.0, 1)}, {"a": 10.0, "b": 500.0}, id="the rest"),
        pytest.param(3.0, {"a": Sender(1000.0, 2), "b": Sender(500.0, 1)}, {"a": 0.0, "b": 3.0}, id="no rest"),
        pytest.param(3.0, {"a": Sender(400.0, 4), "b": Sender(400.0, 2)}, {"a": 1.0, "b": 2.0}, id="per edge"),
        pytest.param(5.0, {"a": Sender(0.0, 2), "b": Sender(1.0, 1)}, {"a": 0.0, "b": 5.0}, id="one sends nothing"),
        pytest.param(6.0, {"a": Sender(0.0, 2), "b": Sender(0.0, 1)}, {"a": 3.0, "b": 3.0}, id="none says it sent"),
        pytest.param(0.0, {"a": Sender(NAN, 1), "b": Sender(9.0, 1)}, {"a": 0.0, "b": 0.0}, id="nothing received"),
        pytest.param(5.0, {"a": Sender(NAN, 1), "b": Sender(9.0, 1)}, {"a": NAN, "b": NAN}, id="a sender is unknown"),
        pytest.param(5.0, {"a": Sender(-1.0, 1), "b": Sender(9.0, 1)}, {"a": NAN, "b": NAN}, id="a sender went back"),
        pytest.param(NAN, {"a": Sender(1.0, 1), "b": Sender(9.0, 1)}, {"a": NAN, "b": NAN}, id="unknown"),
        pytest.param(-5.0, {"a": Sender(1.0, 1)}, {"a": NAN}, id="went back"),
        pytest.param(INF, {"a": Sender(1.0, 1)}, {"a": NAN}, id="infinite"),
        pytest.param(4.0, {"a": Sender(1e308, 1), "b": Sender(1e308, 1)}, {"a": 2.0, "b": 2.0}, id="no overflow"),
    ],
)
def test_what_was_received_is_divided_between_the_senders(
    received: float, senders: Mapping[str, Sender], expected: Mapping[str, float]
) -> None:
    assert edge_rates(received, senders) == pytest.approx(expected, nan_ok=True)


COUNTS = st.integers(0, 2**53)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[JobTopology, list[MetricSample]]:
    """Make a graph without circles, and two samples of counters that have nothing to do with each other."""
    vertices = []
    for number in range(1, draw(st.integers(2, 7)) + 1):
        inputs = draw(st.sets(st.integers(1, number - 1), max_size=4)) if number > 1 else set()
        vertices.append(a_vertex(number, inputs=dict.fromkeys(sorted(inputs), ShipStrategy.HASH)))
    grown = {v.vertex_id: (draw(COUNTS), draw(COUNTS)) for v in vertices}
    samples = [
        a_sample(
            at * 1000,
            {
                v: {M.NUM_RECORDS_IN: float(at * read), M.NUM_RECORDS_OUT: float(at * sent), M.LAG: 0.0, M.LOAD: 0.5}
                for v, (read, sent) in grown.items()
            },
        )
        for at in (0, 1)
    ]
    return a_topology(*vertices), samples


@given(jobs())
def test_edges_into_a_vertex_carry_what_it_received_whatever_counters_say(
    job: tuple[JobTopology, list[MetricSample]],
) -> None:
    topology, samples = job
    window = MetricWindow(samples)

    for vertex in topology.vertices.values():
        received = window.rate(M.NUM_RECORDS_IN, vertex.vertex_id)
        ratios = output_ratios(topology, window, vertex, is_strict=True, is_balanced=True)
        rates = {v: ratio * window.rate(M.NUM_RECORDS_IN, v) for v, ratio in ratios.items()}
        assert all(rate >= 0.0 for rate in rates.values())
        if vertex.inputs and all(window.rate(M.NUM_RECORDS_IN, v) > 0 for v in rates):
            assert sum(rates.values()) == pytest.approx(received)


@given(jobs())
def test_a_vertex_under_a_steady_load_has_to_sustain_what_it_receives(
    job: tuple[JobTopology, list[MetricSample]],
) -> None:
    topology, samples = job
    window = MetricWindow(samples)

    metrics = evaluate(topology, samples, EvaluationSettings.of(options_with(), 300)).vertices

    for v in topology.vertices:
        received = window.rate(M.NUM_RECORDS_IN, v)
        # Rounded to a thousandth vertex by vertex, which ratios may multiply: too small rates tell nothing.
        if all(window.rate(M.NUM_RECORDS_IN, each) >= 1.0 for each in topology.vertices):
            assert metrics[v][M.TARGET_DATA_RATE].average == pytest.approx(received, rel=0.01, abs=0.01)
