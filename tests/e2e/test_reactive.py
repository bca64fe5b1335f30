"""A reactive application cluster that follows its load: real TaskManagers, started and stopped by the provider."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.task_managers import DONE, SupplyRules, TaskManagerSupply
from flink_autoscaler.pipeline.inline.engine import InlineEngine
from flink_autoscaler.realizers.auto import AutoRealizer
from flink_autoscaler.realizers.taskmanagers.providers import ProcessProvider, ProcessSpec, ProviderLimits
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.fetchers.flink import FlinkClusterFetcher
from flink_autoscaler.standalone.settings.loading import load_settings
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.sources.configuration import load_configuration
from flink_autoscaler.stores.heap import HeapStateStore
from flink_cluster import FlinkApplicationCluster, job

pytestmark = [pytest.mark.e2e, pytest.mark.rescue]

SLOTS: Final = 2
OWN: Final = "reactive"
OPTIONS = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "8 s",
    "job.autoscaler.stabilization.interval": "2 s",
    "job.autoscaler.scale-down.interval": "0",
    "job.autoscaler.scale-down.economics.enabled": "false",
    "job.autoscaler.rescale.reversal.window": "0",
    "job.autoscaler.restart.time": "3 s",
    "job.autoscaler.catch-up.duration": "30 s",
    "job.autoscaler.vertex.max-parallelism": "6",
    "job.autoscaler.utilization.target": "0.7",
    "job.autoscaler.metrics.busy-time.aggregator": "AVG",
    "autoscaler.standalone.control-loop.interval": "2 s",
}

# One subtask of "work" takes 1 ms per record: 2,200 records/s need four of them, which are two TaskManagers of two
# slots; 150 records/s need one.
LOAD = job.ScalingJob(name="follows-its-load", curve="0:2200,55:2200,56:150", splits=8, checkpoint_interval_ms=1000)


class Told:
    """Keeps the events (an ``AutoScalerEventHandler``)."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.texts: list[str] = []

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        self.reasons.append(event.reason)
        self.texts.append(f"{event.reason}: {event.message}")

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        self.texts.append(report.text)

    def close(self) -> None:
        """Keep everything."""


@pytest.fixture
def reactive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FlinkApplicationCluster]:
    """A reactive cluster whose only TaskManager is not the provider's."""
    cluster = FlinkApplicationCluster(
        request.param,
        jar=job.build(request.param),
        entry_class=job.ENTRY_CLASS,
        args=LOAD.arguments(),
        config={"scheduler-mode": "reactive"},
        taskmanagers=1,
        slots=SLOTS,
    )
    with cluster:
        cluster.wait_for_running(cluster.job_id)
        try:
            yield cluster
        finally:
            provider = ProcessProvider(spec_for(cluster, tmp_path))
            operation = provider.set_desired(0)
            cluster.wait_until("no TaskManagers left", lambda: provider.operation(operation) == DONE, 40)


def spec_for(cluster: FlinkApplicationCluster, directory: Path) -> ProcessSpec:
    """Return how TaskManagers are started: as the harness has started its own."""
    first = cluster.taskmanagers[0]
    command = Path(f"/proc/{first.pid}/cmdline").read_text().split("\0")[:-1]
    return ProcessSpec(
        tuple(argument.replace(first.name, "{id}") for argument in command),
        directory / "taskmanagers",
        prefix=OWN,
        limits=ProviderLimits(maximum=2),
        stop_timeout=20.0,
    )


def settings_for(cluster: FlinkApplicationCluster) -> Settings:
    values = {**OPTIONS, "autoscaler.clusters.0.name": "e2e", "autoscaler.clusters.0.url": cluster.rest_url}
    overrides = [f"{key}={value}" for key, value in values.items()]
    return load_settings(load_configuration(file=None, environment={}, overrides=overrides))


@contextmanager
def daemon(cluster: FlinkApplicationCluster, spec: ProcessSpec, told: Told) -> Iterator[ClusterPass]:
    """Start everything that a daemon is made of; stop it in the end, but no TaskManager."""
    settings = settings_for(cluster)
    (only,) = settings.effective_clusters()
    supply = TaskManagerSupply(ProcessProvider(spec), SupplyRules(settle=2.0, ready_timeout=60.0))
    with ExitStack() as stack:
        loop = EventLoopThread()
        stack.callback(loop.close)
        clients = ClientCache(loop)
        stack.callback(clients.close)
        stack.callback(supply.provider.close)
        passes = ClusterPass(
            only.name,
            fetcher=FlinkClusterFetcher(only, loop=loop, clients=clients),
            engine=InlineEngine(job_deadline=20.0, pass_deadline=60.0, loop=loop, clients=clients),
            autoscaler=JobAutoScaler(
                store=HeapStateStore(), realizer=AutoRealizer(clients, loop, lambda _: supply), event_handler=told
            ),
            parallelism=2,
            deadline=60.0,
        )
        stack.callback(passes.close)
        yield passes


def pass_until(passes: ClusterPass, told: Told, is_reached: Callable[[], bool], *, timeout: float) -> None:
    """Do a pass every two seconds until a condition holds."""
    deadline = time.monotonic() + timeout
    seen: list[str] = []
    while time.monotonic() < deadline:
        next_pass = time.monotonic() + 2.0
        report = passes.run()
        assert report.error is None, report.error
        seen += [f"{r.outcome.phase}: {r.outcome.decision}" for r in report.reports.values()]
        while time.monotonic() < next_pass:
            if is_reached():
                return
            time.sleep(0.2)
    raise AssertionError(f"not reached within {timeout} s: {told.texts}; last passes: {seen[-5:]}")


@pytest.mark.parametrize("reactive", ["1.20", "2.3"], indirect=True, ids=["Flink 1.20", "Flink 2.3"])
def test_taskmanagers_follow_the_load_up_and_down(reactive: FlinkApplicationCluster, tmp_path: Path) -> None:
    spec, told = spec_for(reactive, tmp_path), Told()

    def parallelism() -> set[int]:
        is_running = reactive.rest.all_tasks_running(reactive.job_id)
        return set(reactive.rest.parallelism(reactive.job_id).values()) if is_running else set()

    def own() -> set[str]:
        listed = {entry["id"] for entry in reactive.rest.get("/taskmanagers")["taskmanagers"]}
        return {each for each in listed if each.startswith(OWN)}

    def has_grown() -> bool:
        return "TaskManagersReady" in told.reasons and min(parallelism(), default=0) > SLOTS

    with daemon(reactive, spec, told) as passes:
        pass_until(passes, told, has_grown, timeout=100)
    started = own()
    with daemon(reactive, spec, told) as passes:
        pass_until(passes, told, lambda: parallelism() == {SLOTS} and not own(), timeout=120)

    assert started
    assert "TaskManagersRequested" in told.reasons
    assert ProcessProvider(spec).describe().running == 0
