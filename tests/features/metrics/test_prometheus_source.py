"""A daemon whose cluster has its metrics in a Prometheus: asked with its credentials, and the list of jobs alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.fakes.prometheus import FakePrometheus
from testkit.scenarios.runner.wired import passes_of


def a_daemon(flink: FakeFlink, prometheus: FakePrometheus, **options: str) -> AbstractContextManager[ClusterPass]:
    source = {"source": "prometheus", "prometheus.url": prometheus.url}
    return passes_of(flink, **{f"autoscaler.clusters.0.metrics.{key}": text for key, text in source.items()}, **options)


@pytest.fixture
def prometheus(flink: FakeFlink) -> Iterator[FakePrometheus]:
    with FakePrometheus(flink) as fake:
        yield fake


def a_job(flink: FakeFlink, name: str = "orders") -> FakeJob:
    job = flink.add_job(name, chain(vertices=3), start_ms=time.time_ns() // 1_000_000 - 3_600_000)
    for vertex in job.vertices:
        vertex.waited_ms = 1000.0
    return job


def test_credentials_and_the_selector_are_those_of_the_section(
    flink: FakeFlink, prometheus: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_job(flink)
    monkeypatch.setenv("PROMETHEUS_TOKEN", "t-123")
    section = "autoscaler.clusters.0.metrics.prometheus."
    options = {
        f"{section}auth.kind": "bearer",
        f"{section}auth.token-env-variable": "PROMETHEUS_TOKEN",
        f"{section}selector.namespace": "flink",
    }
    with a_daemon(flink, prometheus, **options) as passes:
        report = passes.run()

    assert report.is_clean
    assert {headers.get("authorization") for headers in prometheus.headers} == {"Bearer t-123"}
    assert all('namespace="flink"' in query for query in prometheus.queries if "flink_" in query)
    assert all("authorization" not in request.headers for request in flink.requests)
