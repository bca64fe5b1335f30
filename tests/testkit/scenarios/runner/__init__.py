"""What scenarios run: a daemon, or its parts.

* ``process``: a daemon as a process, configured by a file or on a database, that is killed, stopped and reloaded.
* ``wired``: its parts in this process as settings wire them, or passes with a store, orders and a clock of the test.
* ``with Watching() as watching:`` builds passes with the inline engine, a heap store and a realizer that only logs.
* ``with LogLines() as lines:`` collects what is logged.
* ``fixtures``: these for pytest.

What goes wrong, who lies, what has to hold and what is printed in the end belongs to each kind of scenario: ``faults``,
``rescue``, ``upgrading``, ``soak``, ``hour``, ``damage``, ``hostile_flink``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Self, TextIO

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.ports.deployment import JobListFetcher
from flink_autoscaler.pipeline.engine.inline import InlineEngine
from flink_autoscaler.realizers import LogOnlyRealizer
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.fetchers.flink import FlinkClusterFetcher
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.pass_reporter import PassReporter
from flink_autoscaler.standalone.service.loop import ClusterSchedule
from flink_autoscaler.standalone.settings.logs import configure_logging
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster
from flink_autoscaler.stores import HeapStateStore, LoggingEventHandler
from testkit.builders.commands import restored_logging
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink

ENABLED = {"job.autoscaler.enabled": "true"}


class LogLines:
    """Collects log lines while open."""

    def __init__(self, level: str = "info", stream: TextIO | None = None) -> None:
        """Collect from a level on; lines that go to a stream of the test are not kept."""
        self._lines = io.StringIO()
        self._stream = stream or self._lines
        self._level = level

    def __enter__(self) -> Self:
        self._restore = ExitStack()
        self._restore.enter_context(restored_logging())
        configure_logging(log_format="json", level=self._level, stream=self._stream)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore.close()

    def all(self) -> list[dict[str, Any]]:
        """Return every line so far."""
        return [json.loads(line) for line in self._lines.getvalue().splitlines()]

    def of(self, event: str, **facts: object) -> list[dict[str, Any]]:
        """Return the lines of one event with these facts."""
        wanted = {"event": event, **facts}.items()
        return [line for line in self.all() if wanted <= {key: str(value) for key, value in line.items()}.items()]


class Watching:
    """Builds the parts that manage fake clusters, and closes them."""

    def __init__(self, **stale_after: float) -> None:
        self.gauges = Gauges()
        self.health = Health(stale_after or {"main": 60.0, "other": 60.0})
        self.store = HeapStateStore()
        self._loop = EventLoopThread()
        self._clients = ClientCache(self._loop)
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()
        self._clients.close()
        self._loop.close()

    def watch(
        self,
        flink: FakeFlink,
        name: str = "main",
        *,
        interval: float = 0.1,
        timeout: float = 5.0,
        job_defaults: Mapping[str, str] = ENABLED,
        fetcher: JobListFetcher | None = None,
    ) -> ClusterSchedule:
        """Make what a daemon needs to manage a cluster; its own fetcher unless one is given."""
        cluster = Cluster(
            name,
            flink.endpoint(timeout=timeout),
            interval,
            EngineKind.INLINE,
            job_defaults,
            ClusterSettings(name=name),
        )
        autoscaler = JobAutoScaler(store=self.store, realizer=LogOnlyRealizer(), event_handler=LoggingEventHandler())
        passes = ClusterPass(
            name,
            fetcher=fetcher or FlinkClusterFetcher(cluster, loop=self._loop, clients=self._clients),
            engine=InlineEngine(job_deadline=timeout, loop=self._loop, clients=self._clients),
            autoscaler=autoscaler,
            parallelism=4,
            deadline=timeout,
        )
        self._closing.callback(passes.close)
        return ClusterSchedule(passes, PassReporter(gauges=self.gauges, health=self.health), interval)

    def sample(self, metric: str, **labels: str) -> float | None:
        """Return the value of one series."""
        return self.gauges.registry.get_sample_value(f"flink_autoscaler_{metric}", labels)

    def passes(self, cluster: str, result: str = "succeeded") -> float:
        """Return how many passes of a cluster were counted, whatever engine evaluated them."""
        wanted = {"cluster": cluster, "result": result}
        families = self.gauges.registry.collect()
        samples = [sample for family in families for sample in family.samples]
        counted = [sample for sample in samples if sample.name == "flink_autoscaler_passes_total"]
        return sum(sample.value for sample in counted if wanted.items() <= sample.labels.items())


def run_passes(watch: ClusterSchedule, count: int = 1) -> list[PassReport]:
    """Run and announce passes."""
    reports = []
    for _ in range(count):
        reports.append(watch.passes.run())
        watch.reporter.report(reports[-1])
    return reports


def soon(description: str, probe: Callable[[], object]) -> None:
    """Wait until something holds."""
    wait_until(description, probe, timeout=300, interval=0.01)


__all__ = ["ENABLED", "LogLines", "Watching", "run_passes", "soon"]
