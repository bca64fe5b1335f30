"""The passes of a daemon over one fake cluster, with the parts that the daemon's own wiring makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler, AutoScalerStateStore
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass, PassDependencies
from flink_autoscaler.standalone.daemon.wiring import Wiring
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.watching.wired import settings_of


def passes_over(
    flink: FakeFlink,
    options: Mapping[str, str],
    parts: ExitStack,
    *,
    store: AutoScalerStateStore,
    told: AutoScalerEventHandler,
    now_ms: Callable[[], int],
) -> ClusterPass:
    """Return the passes over a cluster ``main``.

    Args:
        flink: The cluster.
        options: All other settings.
        parts: Where what is opened is to be closed.
        store: Where the states of jobs are.
        told: What events and reports go to.
        now_ms: The clock, epoch milliseconds.
    """
    place = {"autoscaler.clusters.0.name": "main", "autoscaler.clusters.0.url": flink.url}
    settings = settings_of({**options, **place})
    cluster = settings.effective_clusters()[0]
    wiring = parts.enter_context(Wiring(settings))
    passes = ClusterPass(
        cluster.name,
        fetcher=wiring.fetcher(cluster),
        engine=wiring.engine_of(cluster),
        autoscaler=JobAutoScaler(store=store, realizer=wiring.realizer, event_handler=told),
        parallelism=2,
        deadline=10.0,
        dependencies=PassDependencies(now_ms=now_ms),
    )
    parts.callback(passes.close)
    return passes
