"""Everything that the page and the API ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flink_autoscaler.core.cycle.recording import RecordStore
from flink_autoscaler.core.model.orders import Orders
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler
from flink_autoscaler.core.ports.order_store import OrderStore
from flink_autoscaler.standalone.daemon.event_handlers import RecentEvents
from flink_autoscaler.standalone.ha.store_health import WORKING, StoreStatus
from flink_autoscaler.standalone.settings.schema.settings import Cluster, Settings
from flink_autoscaler.standalone.views.fleet import Fleet

if TYPE_CHECKING:
    from flink_autoscaler.core.ports.plugins import Plugins
    from flink_autoscaler.pipeline.spark.live import SparkStatus
    from flink_autoscaler.standalone.settings.sources.configuration import Configuration
    from flink_autoscaler.stores.sql.database.database import Database


@dataclass(frozen=True)
class AppState:
    """What a daemon knows.

    Attributes:
        fleet: Its last passes.
        settings: Those in force.
        configuration: Where they came from; None where nobody knows.
        records: Recorded passes; None where none are kept.
        order_book: Orders for the jobs.
        order_events: Told what was ordered.
        default_orders: Orders that the settings give for every job.
        events: What happened lately.
        database: Where older events are; None without one.
        is_leader: Whether this daemon leads.
        store_status: How the database is.
        spark_status: How Spark is; None where no pass is meant for it.
        plugins: Those that a what-if has.
        now_ms: The clock, epoch milliseconds.
        started_ms: When the daemon started.
    """

    fleet: Fleet
    settings: Callable[[], Settings]
    order_book: OrderStore
    order_events: AutoScalerEventHandler
    default_orders: Callable[[], Orders]
    events: RecentEvents
    records: RecordStore | None = None
    configuration: Callable[[], Configuration | None] = lambda: None
    database: Database | None = None
    is_leader: Callable[[], bool] = lambda: True
    store_status: Callable[[], StoreStatus] = lambda: WORKING
    spark_status: Callable[[], SparkStatus | None] = lambda: None
    plugins: Callable[[], Plugins] | None = None
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    started_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def clusters(self) -> Mapping[str, Cluster]:
        """Return the clusters that are managed, by name."""
        return {cluster.name: cluster for cluster in self.settings().effective_clusters()}
