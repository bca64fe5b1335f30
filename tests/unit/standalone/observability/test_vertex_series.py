from __future__ import annotations

import math

import pytest
from prometheus_client import CollectorRegistry

from flink_autoscaler.core.model.metrics import EvaluatedMetrics, ScalingMetric, of
from flink_autoscaler.standalone.observability import vertex_series
from flink_autoscaler.standalone.observability.vertex_series import VertexMetrics
from testkit.builders.core import evaluated_vertex

V1, V2 = "a" * 32, "b" * 32


@pytest.fixture
def metrics() -> VertexMetrics:
    return VertexMetrics()


@pytest.fixture
def registry(metrics: VertexMetrics) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(metrics)
    return registry


def value(registry: CollectorRegistry, name: str, vertex_id: str = V1, vertex_name: str = "source") -> float | None:
    labels = {"cluster": "c", "job_key": "c/orders", "vertex_id": vertex_id, "vertex_name": vertex_name}
    return registry.get_sample_value(f"flink_autoscaler_vertex_{name}", labels)


def put(metrics: VertexMetrics, names: dict[str, str]) -> None:
    vertex = {**evaluated_vertex(target=100.0, rate=250.0), ScalingMetric.LAG: of(7.0)}
    metrics.put("c", "c/orders", names, EvaluatedMetrics(dict.fromkeys(names, vertex), {}))


def test_metrics_over_the_window_show_their_average_and_others_their_latest_value(
    metrics: VertexMetrics, registry: CollectorRegistry
) -> None:
    put(metrics, {V1: "source"})

    shown = [value(registry, name) for name in ("true_processing_rate", "target_data_rate", "lag")]
    assert shown == [250.0, 100.0, 7.0]


def test_vertices_that_appear_later_are_shown(metrics: VertexMetrics, registry: CollectorRegistry) -> None:
    put(metrics, {V1: "source"})

    put(metrics, {V1: "source", V2: "sink"})

    assert value(registry, "lag", V2, "sink") == 7.0


def test_nothing_is_shown_of_a_forgotten_job(metrics: VertexMetrics, registry: CollectorRegistry) -> None:
    put(metrics, {V1: "source"})

    metrics.forget("c", "c/orders")

    assert value(registry, "lag") is None


def test_what_a_vertex_does_not_have_is_not_shown(metrics: VertexMetrics, registry: CollectorRegistry) -> None:
    metrics.put("c", "c/orders", {V1: "source"}, EvaluatedMetrics({V1: {ScalingMetric.LAG: of(math.nan)}}, {}))

    assert value(registry, "target_data_rate") is None
    assert math.isnan(value(registry, "lag") or 0.0)


def test_jobs_beyond_the_limit_are_counted_instead_of_shown(
    metrics: VertexMetrics, registry: CollectorRegistry
) -> None:
    names = {f"{number:032x}": "v" for number in range(vertex_series.MAX_VERTICES)}
    put(metrics, names)

    metrics.put("c", "c/more", {V1: "source"}, EvaluatedMetrics({}, {}))

    assert registry.get_sample_value("flink_autoscaler_vertex_metrics_skipped") == 1
