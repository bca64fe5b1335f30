from __future__ import annotations

from collections.abc import Iterator

import pytest

from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.ports.deployment import RealizeResult
from flink_autoscaler.realizers.auto import AutoRealizer
from testkit.builders.realizers import Clients
from testkit.builders.task_managers import JOB_ID, SINK, SOURCE, FakeProvider, ReactiveCluster
from testkit.fakes.flink import FakeFlink, flink_error

ADAPTIVE = {"jobmanager.scheduler": "adaptive"}
# As recorded from Flink 2.3.
REACTIVE_MODE = (
    "<Exception on server side:\njava.lang.UnsupportedOperationException: "
    "Cannot change the parallelism of a job running in reactive mode.\n\tat x\nEnd of exception on server side>"
)


@pytest.fixture
def cluster() -> Iterator[ReactiveCluster]:
    with FakeFlink() as flink:
        yield ReactiveCluster(flink, FakeProvider(1))


@pytest.fixture
def auto(cluster: ReactiveCluster, clients: Clients) -> AutoRealizer:
    return AutoRealizer(clients, clients.loop, cluster.supplies)


def test_taskmanagers_are_counted_in_reactive_mode(auto: AutoRealizer, cluster: ReactiveCluster) -> None:
    realization = auto.realize_overrides(cluster.context(), {SINK: 8})

    assert realization.result is RealizeResult.REQUESTED
    assert cluster.provider.calls == [(2, ("tm-1",))]
    assert cluster.flink.paths("PUT") == []


def test_requirements_are_put_otherwise(auto: AutoRealizer, cluster: ReactiveCluster) -> None:
    realization = auto.realize_overrides(cluster.context(ADAPTIVE), {SOURCE: 4, SINK: 8})

    assert realization.result is RealizeResult.REQUESTED
    assert cluster.provider.calls == []
    assert cluster.flink.paths("PUT") == [f"/jobs/{JOB_ID}/resource-requirements"]


def test_reactive_mode_is_found_out_by_asking(auto: AutoRealizer, cluster: ReactiveCluster) -> None:
    cluster.flink.fault("/resource-requirements", flink_error(500, "Internal server error.", REACTIVE_MODE))

    first = auto.realize_overrides(cluster.context(ADAPTIVE), {SINK: 8})
    auto.realize_overrides(cluster.context(ADAPTIVE), {SINK: 8})

    asked = [path for path in cluster.flink.paths() if path.endswith("/resource-requirements")]
    assert first.result is RealizeResult.REQUESTED
    assert [count for count, _ in cluster.provider.calls] == [2]
    assert len(asked) == 1


def test_a_new_execution_is_asked_again(auto: AutoRealizer, cluster: ReactiveCluster) -> None:
    next_id = "5" * 32
    cluster.flink.add_job("orders", cluster.job.vertices, job_id=next_id)
    cluster.flink.fault("/resource-requirements", flink_error(500, "Internal server error.", REACTIVE_MODE), times=1)
    auto.realize_overrides(cluster.context(ADAPTIVE), {SINK: 8})

    realization = auto.realize_overrides(cluster.context(ADAPTIVE, job_id=next_id), {SINK: 8})

    assert realization.result is RealizeResult.REQUESTED
    assert cluster.flink.paths("PUT") == [f"/jobs/{next_id}/resource-requirements"]


@pytest.mark.parametrize("configuration", [None, ADAPTIVE], ids=["reactive", "adaptive"])
def test_configuration_is_refused_on_either_way(
    auto: AutoRealizer, cluster: ReactiveCluster, configuration: dict[str, str] | None
) -> None:
    changes = ConfigChanges({"taskmanager.memory.process.size": "1 gb"}, ())

    realization = auto.realize_config(cluster.context(configuration), changes)

    assert realization.result is RealizeResult.REFUSED
    assert [event.reason for event in realization.events] == ["ConfigNotApplied"]
