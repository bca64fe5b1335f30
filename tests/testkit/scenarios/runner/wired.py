"""A daemon's own parts in this process, as its settings wire them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from flink_autoscaler.core.autoscaler import ALWAYS, JobAutoScaler
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler, AutoScalerStateStore, ScalingRealizer
from flink_autoscaler.core.ports.passes import LastRecord, PassRequest
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass, PassDependencies
from flink_autoscaler.standalone.daemon.job_state_cleaner import JobStateCleaner
from flink_autoscaler.standalone.daemon.wiring import Wiring, default_orders
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.stores.heap import HeapTombstones
from testkit.fakes.flink import FakeFlink

INLINE: Final[Mapping[str, str]] = {
    "autoscaler.engine.kind": "inline",
    "job.autoscaler.enabled": "true",
    "job.autoscaler.stabilization.interval": "0 s",
}
IN_MEMORY: Final[Mapping[str, str]] = {
    "autoscaler.standalone.state-store.type": "heap",
    "autoscaler.standalone.event-handler.type": "logging",
}


def loader_of(values: Mapping[str, str]) -> SettingsLoader:
    """Return what loads the settings that options on the command line make, without a file or variables."""
    overrides = [f"{key}={value}" for key, value in values.items()]
    return SettingsLoader(overrides=overrides, environment={})


def settings_of(values: Mapping[str, str]) -> Settings:
    """Return the settings that options on the command line make, without a file or variables."""
    return loader_of(values).load()[0]


def settings_on(url: str, values: Mapping[str, str]) -> Settings:
    """Return the settings of a daemon with one cluster ``main``, whose enabled jobs are evaluated inline."""
    place = {"autoscaler.clusters.0.name": "main", "autoscaler.clusters.0.url": url}
    return settings_of({**INLINE, **place, **values})


def in_database(url: str) -> dict[str, str]:
    """Return the options with which states are in a database, such as ``jdbc:sqlite:...``."""
    return {"autoscaler.standalone.state-store.type": "JDBC", "autoscaler.standalone.jdbc.url": url}


@contextmanager
def started(settings: Settings) -> Iterator[tuple[Wiring, ClusterPass]]:
    """Start the parts that settings wire; give them and the passes over the first cluster."""
    with Wiring(settings) as wiring:
        passes = wiring.cluster_pass(settings.effective_clusters()[0])
        wiring.storage.start()
        wiring.notifier.start()
        yield wiring, passes


@contextmanager
def passes_of(flink: FakeFlink, **options: str) -> Iterator[ClusterPass]:
    """Give the passes over a cluster ``main``, evaluated inline, with everything kept in memory."""
    with started(settings_on(flink.url, {**IN_MEMORY, **options})) as (_, passes):
        yield passes


class _WithOrders(JobAutoScaler):
    """Gives every request what the test ordered."""

    ordered: Callable[[], Orders]

    def request(
        self,
        context: JobAutoScalerContext,
        now_ms: int,
        *,
        term: int | None = ALWAYS,
        orders: Orders = NO_ORDERS,
        recorded: LastRecord | None = None,
    ) -> PassRequest:
        """Return what an engine needs to look at a job, with the orders of the test."""
        ordered = self.ordered()
        both = replace(ordered, dry_run=ordered.dry_run or orders.dry_run)
        return super().request(context, now_ms, term=term, orders=both, recorded=recorded)


def passes_over(
    url: str,
    options: Mapping[str, str],
    parts: ExitStack,
    *,
    store: AutoScalerStateStore,
    told: AutoScalerEventHandler,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    orders: Callable[[], Orders] = lambda: NO_ORDERS,
    realizer: Callable[[ScalingRealizer], ScalingRealizer] = lambda realizer: realizer,
    selects: Callable[[JobAutoScalerContext], bool] = lambda _: True,
) -> ClusterPass:
    """Return the passes over a cluster ``main``, with a store, events and a clock of the test.

    Args:
        url: Of the cluster.
        options: All other settings.
        parts: Where what is opened is to be closed.
        store: Where the states of jobs are.
        told: What events and reports go to.
        now_ms: The clock, epoch milliseconds; that of the machine unless given.
        orders: Gives what people ordered for every job.
        realizer: Gives what is called instead of the realizer of the daemon, such as a wrapper that fails.
        selects: Tells which jobs to look at.
    """
    settings = settings_on(url, options)
    cluster = settings.effective_clusters()[0]
    wiring = parts.enter_context(Wiring(settings))
    autoscaler = _WithOrders(store=store, realizer=realizer(wiring.realizer), event_handler=told)
    autoscaler.ordered = orders
    retention = settings.state_retention
    vanished = JobStateCleaner(
        cluster.name,
        autoscaler=autoscaler,
        tombstones=HeapTombstones(),
        grace=retention.grace_period,
        retention=retention.max_age,
    )
    passes = ClusterPass(
        cluster.name,
        fetcher=wiring.fetcher(cluster),
        engine=wiring.engine_of(cluster),
        autoscaler=autoscaler,
        parallelism=2,
        deadline=settings.engine.pass_deadline,
        selects=selects,
        dependencies=PassDependencies(state_cleaner=vanished, now_ms=now_ms, default_orders=default_orders(settings)),
    )
    parts.callback(passes.close)
    return passes
