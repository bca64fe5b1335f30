"""Builds the parts that the settings ask for and connects them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import (
    AutoScalerEventHandler,
    EvaluationEngine,
    JobListFetcher,
    ScalingRealizer,
)
from flink_autoscaler.pipeline.engine.base import CONFIGURED
from flink_autoscaler.pipeline.engine.inline import InlineEngine
from flink_autoscaler.pipeline.spark.environment import require_packages
from flink_autoscaler.realizers import LogOnlyRealizer
from flink_autoscaler.realizers.task_managers.slots import SlotSupply
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass, PassDependencies
from flink_autoscaler.standalone.daemon.event_handlers import RecentEvents, ServiceEvents
from flink_autoscaler.standalone.daemon.forecasts import JobForecasts
from flink_autoscaler.standalone.daemon.job_state_cleaner import JobStateCleaner
from flink_autoscaler.standalone.daemon.providers import NONE as NO_PROVIDER
from flink_autoscaler.standalone.daemon.providers import TaskManagerSupplyRegistry
from flink_autoscaler.standalone.daemon.storage import Storage
from flink_autoscaler.standalone.external_metrics.provider import ExternalMetricsProvider, build_sources
from flink_autoscaler.standalone.extras import missing_library
from flink_autoscaler.standalone.fetchers.listing import build_fetcher
from flink_autoscaler.standalone.ha.leadership import LeaderOnlyRealizer
from flink_autoscaler.standalone.notifications.notifier import Notifier
from flink_autoscaler.standalone.settings.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.settings.schema.clusters import EngineKind
from flink_autoscaler.standalone.settings.schema.settings import HEAP, Cluster, Settings
from flink_autoscaler.standalone.settings.spark import live_spark_settings

if TYPE_CHECKING:
    from flink_autoscaler.pipeline.spark.live import SparkEngine, SparkStatus
    from flink_autoscaler.standalone.history.sink import HistorySink, HistoryStatus

log = structlog.get_logger(__name__)

INLINE_REASON: Final = "a single pass does not wait for Spark to start"

_NOTIFICATIONS: Final = " notifications"
_RECENT: Final = " recent events"
"""These stand where event handlers have the name of a plug-in; none has a blank in it."""


class Wiring(AbstractContextManager["Wiring"]):
    """The connected parts; a context manager that closes them in reverse order.

    Args:
        settings: What to build.
        engine: Evaluate here, whatever the settings say; None follows them.
        inline_reason: Why this process evaluates where it was chosen to.
        on_fallback: Told why a pass meant for Spark ran in this process; may be called from several threads.

    Raises:
        AutoscalerError: A part cannot be built; those before it are closed again.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        engine: EngineKind | None = None,
        inline_reason: str = CONFIGURED,
        on_fallback: Callable[[str], None] | None = None,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._inline_reason = inline_reason
        self._on_fallback = on_fallback
        self._engines: dict[EngineKind, EvaluationEngine] = {}
        self._inline: InlineEngine | None = None
        self._spark: SparkEngine | None = None
        self._started: set[EngineKind] = set()
        self._passes: set[ClusterPass] = set()
        self._history: HistorySink | None = None
        self._is_history_broken = False
        self._open = ExitStack()
        with ExitStack() as undo:
            undo.callback(self.close)
            self.storage = Storage(settings, on_close=self.on_close)
            self.loop = EventLoopThread()
            self.on_close(self.loop.close)
            self.clients = ClientCache(self.loop, may_write=self.storage.may_write)
            self.on_close(self.clients.close)
            self.supplies = TaskManagerSupplyRegistry(self.loop, may_write=self.storage.may_write)
            self.on_close(self.supplies.close)
            self._lags = ExternalMetricsProvider(build_sources(settings, self.loop))
            self.on_close(self._lags.close)
            self.realizer = self._build_realizer()
            self.notifier = self._build_notifier()
            self._autoscaler = self._build_autoscaler()
            undo.pop_all()

    def __exit__(self, *_: object) -> None:
        """Close everything."""
        self.close()

    def cluster_pass(
        self,
        cluster: Cluster,
        *,
        selects: Callable[[JobAutoScalerContext], bool] = lambda _: True,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> ClusterPass:
        """Make the passes of a cluster; they are closed by :meth:`release`, or else with the rest.

        Args:
            cluster: The cluster.
            selects: Tells which of its jobs to look at.
            now_ms: The clock, epoch milliseconds.

        Raises:
            ConfigError: A part of them cannot be built; nothing of them is left open.
        """
        self.supplies.configure(cluster.name, cluster.settings.provider)
        engine = self.engine_of(cluster)
        passes = ClusterPass(
            cluster.name,
            fetcher=self.fetcher(cluster),
            engine=engine,
            autoscaler=self._autoscaler,
            parallelism=self._settings.standalone.control_loop_parallelism,
            deadline=self._settings.engine.pass_deadline,
            selects=selects,
            dependencies=PassDependencies(
                self.storage.leadership,
                self._make_state_cleaner(cluster),
                now_ms,
                default_orders=default_orders(self._settings),
                order_book=self.storage.order_book,
                recorder=self.storage.recorder,
                history=self._history_sink(),
                slot_source=self._slot_source(cluster),
                forecasts=JobForecasts(self.storage.forecasts, is_ready=self._is_store_up),
                external_metrics=self._lags,
            ),
        )
        self._passes.add(passes)
        return passes

    def release(self, passes: ClusterPass) -> None:
        """Close the passes of a cluster that are not run any more; from any thread."""
        self._passes.discard(passes)
        _close_quietly(passes.close)

    def history_status(self) -> HistoryStatus | None:
        """Return how the keeping of the history goes; None while none is kept."""
        return None if self._history is None else self._history.status()

    def fetcher(self, cluster: Cluster) -> JobListFetcher:
        """Make the fetcher of a cluster; the caller closes it. May raise :class:`ConfigError`."""
        return build_fetcher(cluster, {**self._plugin_arguments(), "job_key": self._settings.job_key})

    def close(self) -> None:
        """Close everything, the last part first. A part that fails to close does not keep the others open."""
        for passes in self._passes.copy():
            self.release(passes)
        if self._history is not None:
            _close_quietly(self._history.close)  # before the engine whose session it may need
        self._open.close()

    def _build_realizer(self) -> ScalingRealizer:
        if self._settings.dry_run:
            # Never a plug-in: that nothing is changed must not depend on somebody else's code.
            return LogOnlyRealizer()
        realizer: ScalingRealizer = self._plugin(PluginGroup.REALIZERS, self._settings.realizer)
        return LeaderOnlyRealizer(realizer, self.storage.leadership) if self.storage.is_shared else realizer

    def _build_notifier(self) -> Notifier:
        storage, settings = self.storage, self._settings
        may_act = storage.leadership.is_leader
        notifier = Notifier(settings.notifications, storage.outbox, source=settings.ha.name, may_act=may_act)
        self.on_close(notifier.close)
        return notifier

    def _build_autoscaler(self) -> JobAutoScaler:
        settings = self._settings.standalone
        plain_store = self._plugin(PluginGroup.STORES, settings.state_store or HEAP)
        orders = self.storage.commands_quarantined
        self.quarantined_count: Callable[[], int] = lambda: int(getattr(plain_store, "quarantined_count", 0)) + orders()
        store = self.storage.fail_fast_store(plain_store)
        names = self._settings.event_handler_names
        handlers: dict[str, AutoScalerEventHandler] = {
            name: self._plugin(PluginGroup.EVENT_HANDLERS, name) for name in names
        }
        handlers[_NOTIFICATIONS] = self.notifier
        handlers[_RECENT] = self.recent_events = RecentEvents()
        self.order_events = self.storage.command_event_handlers(handlers)
        handler = self.storage.leader_event_handlers(handlers)
        self.events = ServiceEvents(handler, self._settings.ha.name)
        self.cluster_events = partial(ServiceEvents, handler)
        return JobAutoScaler(store=store, realizer=self.realizer, event_handler=handler)

    def _slot_source(self, cluster: Cluster) -> SlotSupply | None:
        """Return who adds TaskManagers to a cluster; nobody does in a dry run."""
        if cluster.settings.provider.type == NO_PROVIDER or self._settings.dry_run:
            return None
        may_act = self.storage.leadership.is_leader
        return SlotSupply(self.clients, self.loop, self.supplies, may_act=may_act)

    def _make_state_cleaner(self, cluster: Cluster) -> JobStateCleaner:
        retention = self._settings.state_retention
        return JobStateCleaner(
            cluster.name,
            autoscaler=self._autoscaler,
            tombstones=self.storage.tombstones,
            grace=retention.grace_period,
            retention=retention.max_age,
            forget_orders=self._forget_jobs,
            is_ready=self._is_store_up,
        )

    def _forget_jobs(self, job_keys: Collection[JobKey]) -> None:
        """Delete what is kept about jobs beside their state."""
        self.storage.order_book.forget(job_keys)
        self.storage.forecasts.forget(job_keys)

    def _is_store_up(self) -> bool:
        return self.storage.store_status().up

    def _plugin(self, group: PluginGroup, name: str) -> Any:
        part = make_plugin(group, name, self._plugin_arguments())
        self.on_close(part.close)
        return part

    def _plugin_arguments(self) -> dict[str, object]:
        own = {"settings": self._settings, "loop": self.loop, "clients": self.clients, "supplies": self.supplies}
        return {**own, **self.storage.plugin_arguments()}

    def engine_of(self, cluster: Cluster) -> EvaluationEngine:
        """Return the engine of a cluster; clusters of one kind share it."""
        kind = self._engine or cluster.engine
        if kind not in self._engines:
            self._engines[kind] = self._build_engine(kind)
        return self._engines[kind]

    def start_engines(self) -> None:
        """Let the engines that are new get ready in the background, so that the first passes need not wait for them."""
        for kind in self._engines.keys() - self._started:
            self._started.add(kind)
            self._engines[kind].start()

    def spark_status(self) -> SparkStatus | None:
        """Return how Spark is; None where no pass is meant for it."""
        return None if self._spark is None else self._spark.status

    def _build_engine(self, kind: EngineKind) -> EvaluationEngine:
        if kind is EngineKind.INLINE:
            return self._inline_engine()
        if kind is EngineKind.SPARK:
            return self._spark_engine()
        try:
            spark = self._spark_engine()
        except ConfigError as error:
            log.warning("spark_not_chosen", reason=str(error), effect="the engine auto evaluates in the daemon process")
            return self._inline_engine()
        # Imported here: the inline engine must not pay for pyspark and pyarrow.
        from flink_autoscaler.pipeline.spark.live import AutoEngine  # noqa: PLC0415

        return AutoEngine(spark, self._inline_engine(), min_jobs=self._settings.engine.spark_min_jobs)

    def _inline_engine(self) -> InlineEngine:
        engine = self._settings.engine
        if self._inline is None:
            self._inline = InlineEngine(
                job_deadline=engine.job_deadline,
                pass_deadline=engine.pass_deadline,
                loop=self.loop,
                clients=self.clients,
                reason=self._inline_reason,
            )
        return self._inline

    def _spark_engine(self) -> SparkEngine:
        """Return the one engine whose session all have: there can be but one in a process."""
        require_packages()
        from flink_autoscaler.pipeline.spark.live import SparkEngine  # noqa: PLC0415

        engine = self._settings.engine
        if self._spark is None:
            self._spark = SparkEngine(
                live_spark_settings(self._settings),
                self._inline_engine(),
                job_deadline=engine.job_deadline,
                pass_deadline=engine.pass_deadline,
                on_fallback=self._on_fallback,
            )
            self.on_close(self._spark.close)
        return self._spark

    def _history_sink(self) -> HistorySink | None:
        """Return what keeps the history; made with the first passes, since other commands keep none."""
        if self._history is None and self._settings.history.enabled and not self._is_history_broken:
            try:
                # Imported here: who keeps no history does not pay for pyarrow.
                from flink_autoscaler.standalone.history.sink import HistorySink  # noqa: PLC0415
            except ImportError as error:
                why = missing_library(error) or str(error)
                log.warning("history_disabled", error=why, effect="the daemon goes on without a history")
                self._is_history_broken = True
                return None
            self._history = HistorySink(
                self._settings.history,
                sessions=self._history_session,
                may_maintain=self.storage.leadership.is_leader,
                tell=self.events,
            )
        return self._history

    def _history_session(self) -> AbstractContextManager[Any]:
        """Lend the session of the Spark engine, or one that ends afterwards where there is no such engine."""
        from flink_autoscaler.pipeline.tables.files import own_session  # noqa: PLC0415

        return own_session(live_spark_settings(self._settings)) if self._spark is None else self._spark.lend()

    def on_close(self, close: Callable[[], object]) -> None:
        """Have something closed with the rest, before everything that is open already."""
        self._open.callback(_close_quietly, close)


def default_orders(settings: Settings) -> Orders:
    """Return the orders that the settings give for every job."""
    if not settings.dry_run:
        return NO_ORDERS
    return Orders(dry_run=AuditStamp("the configuration", "autoscaler.dry-run is true", 0))


def _close_quietly(close: Callable[[], object]) -> None:
    with ErrorBoundary() as boundary:
        close()
    if boundary.error is not None:
        log.warning("close_failed", part=getattr(close, "__qualname__", repr(close)), error=str(boundary.error))
