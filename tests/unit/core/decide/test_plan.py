import dataclasses
import math

import pytest

from flink_autoscaler.core.decide.plan import blocked_header, parallelism_hash, scaling_report
from flink_autoscaler.core.model.events import EventType, exception_event
from flink_autoscaler.core.model.metrics import ScalingMetric, avg, of
from flink_autoscaler.core.model.state import ScalingSummary
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.model.topology import ShipStrategy
from testkit.builders.core import a_plan, a_topology, a_vertex, vertex_id

INF = math.inf
INTERVAL = Duration(1)
TOPOLOGY = a_topology(a_vertex(1, parallelism=4), a_vertex(2, parallelism=3, inputs={1: ShipStrategy.HASH}))


def summary(current: int, new: int, rate: float, expected: float, target: float) -> ScalingSummary:
    metrics = {
        ScalingMetric.TRUE_PROCESSING_RATE: avg(rate),
        ScalingMetric.EXPECTED_PROCESSING_RATE: of(expected),
        ScalingMetric.TARGET_DATA_RATE: avg(target),
    }
    return ScalingSummary(current, new, metrics)


SUMMARIES = {vertex_id(1): summary(4, 8, 500.005, 1000.0, 550.0055), vertex_id(2): summary(3, 2, INF, INF, INF)}
FIRST = (
    "{ Vertex ID 00000000000000000000000000000001 | Parallelism 4 -> 8"
    " | Processing capacity 500.01 -> 1000.00 | Target data rate 550.01}"
)
SECOND = (
    "{ Vertex ID 00000000000000000000000000000002 | Parallelism 3 -> 2"
    " | Processing capacity Infinity -> Infinity | Target data rate Infinity}"
)


def test_an_executed_report_lists_every_change() -> None:
    report = scaling_report(SUMMARIES, TOPOLOGY, blocked_by=None, interval=INTERVAL)

    assert report.is_executed
    assert report.header.startswith("Scaling execution enabled")
    assert report.header.endswith(":")
    assert report.text == report.header + FIRST + SECOND
    assert report.parallelism_hash == "39318158"


def test_a_blocked_report_names_the_option() -> None:
    header = blocked_header("job.autoscaler.scaling.enabled", "false")

    report = scaling_report(SUMMARIES, TOPOLOGY, blocked_by=header, interval=INTERVAL)

    assert not report.is_executed
    assert header.startswith("Scaling execution disabled by config job.autoscaler.scaling.enabled:false,")
    assert report.text == header + FIRST + SECOND
    assert header.endswith(":")


def test_metrics_that_a_plugin_left_out_print_as_unknown() -> None:
    report = scaling_report(a_plan({1: (4, 8)}), TOPOLOGY, blocked_by=None, interval=INTERVAL)

    assert "Processing capacity NaN -> NaN | Target data rate NaN}" in report.text


def test_the_hash_depends_on_parallelism_alone() -> None:
    other_rates = {vertex: dataclasses.replace(s, metrics={}) for vertex, s in reversed(SUMMARIES.items())}

    assert parallelism_hash(other_rates) == "39318158"
    assert parallelism_hash(a_plan({1: (4, 7), 2: (3, 2)})) != "39318158"


def test_a_summary_without_a_change_is_an_error() -> None:
    with pytest.raises(ValueError, match="4 -> 4"):
        ScalingSummary(4, 4, {})


def test_the_event_of_an_error_is_a_warning_of_bounded_length() -> None:
    short, long = exception_event("AutoscalerError", "boom"), exception_event("AutoscalerError", "x" * 5000)

    assert (short.type, short.message, short.key, short.interval) == (EventType.WARNING, "boom", None, None)
    assert long.message == "x" * 2045 + "..."
