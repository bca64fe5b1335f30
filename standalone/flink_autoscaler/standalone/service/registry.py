"""The clusters that are managed: they come, change and go with the configuration while the daemon runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

import structlog

from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.observability import status_series
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.pass_reporter import EngineChanges, PassReporter
from flink_autoscaler.standalone.service.loop import ClusterSchedule, Daemon
from flink_autoscaler.standalone.settings.schema.options import PREFIX
from flink_autoscaler.standalone.settings.schema.settings import Cluster, HttpSettings, Settings
from flink_autoscaler.standalone.settings.schema.types import OptionSection
from flink_autoscaler.standalone.settings.sources.configuration import Configuration
from flink_autoscaler.standalone.views.fleet import Fleet

log = structlog.get_logger(__name__)

_STANDALONE: Final = ("control_loop_interval", "host", "port")
"""Options of the Java process that can change at run time: those about clusters."""

_ACCESS: Final = (
    "allowed_hosts",
    "viewer_token_file",
    "viewer_token_env_variable",
    "operator_token_file",
    "operator_token_env_variable",
    "user_header",
    "trusted_proxies",
    "operators",
)
"""Options of the HTTP endpoint that can change at run time: who may do what."""


class ClusterRegistry:
    """The clusters by name, and the settings in force. Belongs to the main thread; other threads may read.

    Args:
        settings: The clusters to begin with, and what holds for all.
        wiring: Makes and closes the passes of a cluster.
        gauges: Told what the clusters come to.
        read_configuration: Reads where the settings come from, for the page; after every change.

    Attributes:
        settings: Those in force.
        configuration: Where they come from.
        daemon: Keeps the schedules of the clusters.
        health: When each cluster was last looked at.
        fleet: What the last passes came to.
        follow_access: Puts in force who may do what, or raises :class:`ConfigError` and changes nothing.

    Raises:
        ConfigError: The passes of a cluster cannot be made.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        wiring: Wiring,
        gauges: Gauges,
        read_configuration: Callable[[], Configuration | None] = lambda: None,
    ) -> None:
        self.settings = settings
        self.configuration = read_configuration()
        self.follow_access: Callable[[HttpSettings], None] = lambda _: None
        self._wiring, self._gauges = wiring, gauges
        self._read_configuration = read_configuration
        self._engines = EngineChanges()
        storage = wiring.storage
        self.health = Health(
            _stale_after(settings),
            store=storage.store_status,
            leadership=storage.leadership.status,
            spark=wiring.spark_status,
        )
        self.fleet = Fleet(lambda: time.time_ns() // 1_000_000)
        self._clusters = {cluster.name: cluster for cluster in settings.effective_clusters()}
        watches = [self._make_schedule(cluster) for cluster in self._clusters.values()]
        self.daemon = Daemon(watches, gauges=gauges, on_left=self._release_schedule, on_report=self.fleet.record_pass)
        self._fill_gauges()

    def reload(self, load: Callable[[], Settings]) -> bool:
        """Go on with other settings, or with none of them; tell whether they were not refused. Never raises.

        Args:
            load: Reads them; may raise.
        """
        with ExitStack() as undo:
            try:
                wanted = load()
                settings = applicable_settings(self.settings, wanted)
                require_lease(settings)
                configuration = self._read_configuration()
                clusters = {cluster.name: cluster for cluster in settings.effective_clusters()}
                added = [name for name in clusters if name not in self._clusters]
                changed = [name for name in clusters if clusters[name] != self._clusters.get(name, clusters[name])]
                # All are made before one is touched.
                watches = []
                for name in (*added, *changed):
                    watches.append(watch := self._make_schedule(clusters[name]))
                    undo.callback(self._release_schedule, watch)
                # The last that can fail, since it is in force at once.
                self.follow_access(settings.http)
            except AutoscalerError as error:
                log.error("reload_refused", problems=str(error).splitlines(), effect="the daemon goes on as before")
                return False
            except Exception as error:
                # Whatever a plug-in or a file system comes up with: the daemon goes on with what it has.
                log.exception("reload_refused", problems=[f"{type(error).__name__}: {error}"])
                return False
            undo.pop_all()
        removed = [name for name in self._clusters if name not in clusters]
        self.settings, self.configuration, self._clusters = settings, configuration, clusters
        # Health and the like first: it must know a cluster before its first pass.
        self.health.set_clusters(_stale_after(settings))
        self._wiring.notifier.update_settings(settings.notifications)
        self._wiring.start_engines()
        for name in removed:
            self.daemon.remove(name)
            self.fleet.forget(name)
        for watch in watches:
            self.daemon.add_or_replace(watch)
        if waiting := restart_keys(settings, wanted):
            log.warning("restart_needed", keys=waiting, effect="these are as before until the daemon is restarted")
        log.info("reloaded", added=added, changed=changed, removed=removed)
        return True

    def _make_schedule(self, cluster: Cluster) -> ClusterSchedule:
        announcer = PassReporter(
            gauges=self._gauges,
            health=self.health,
            engines=self._engines,
            is_store_in_doubt=self._wiring.storage.is_degraded,
            tell_event=self._wiring.cluster_events(cluster.name, cluster.name),
        )
        return ClusterSchedule(self._wiring.cluster_pass(cluster), announcer, cluster.interval)

    def _release_schedule(self, watch: ClusterSchedule) -> None:
        self._wiring.release(watch.passes)

    def _fill_gauges(self) -> None:
        gauges, wiring, storage = self._gauges, self._wiring, self._wiring.storage
        gauges.register_gauge("store_up", lambda: storage.store_status().up)
        gauges.register_gauge("leader", storage.leadership.is_leader)
        gauges.register_gauge("values_quarantined", wiring.quarantined_count)
        gauges.register_gauge("spark_up", self._spark_up)
        gauges.register_gauge("loop_up", self.daemon.is_alive)
        gauges.register_status(status_series.HISTORY_SERIES, wiring.history_status)
        gauges.register_status(status_series.NOTIFICATION_SERIES, wiring.notifier.status)
        gauges.register_status(status_series.CLUSTER_SERIES, lambda: self.health.readiness().clusters)
        if self.settings.ha.enabled:
            gauges.set_ha_group(self.settings.ha.name)

    def _spark_up(self) -> float:
        """Return whether passes run on Spark, not a number where none is meant for it or none has been yet."""
        status = self._wiring.spark_status()
        return NAN if status is None or status.up is None else status.up


def applicable_settings(running: Settings, wanted: Settings) -> Settings:
    """Return what a daemon can run with: clusters, loop, notifications and rights as wanted, the rest as it is."""
    standalone = {name: getattr(wanted.standalone, name) for name in _STANDALONE}
    changes = {
        "clusters": wanted.clusters,
        "job_defaults": wanted.job_defaults,
        "loop": wanted.loop,
        "notifications": wanted.notifications,
        "http": running.http.model_copy(update={name: getattr(wanted.http, name) for name in _ACCESS}),
        "standalone": running.standalone.model_copy(update=standalone),
        "engine": running.engine.model_copy(update={"kind": wanted.engine.kind}),
    }
    return running.model_copy(update=changes)


def restart_keys(running: Settings, wanted: Settings) -> list[str]:
    """Return the keys of options that are not as wanted; lists and maps of options count as one."""
    return list(_differences(running, wanted, PREFIX))


def _differences(running: OptionSection, wanted: OptionSection, prefix: str) -> Iterator[str]:
    for name, field in type(running).model_fields.items():
        key = f"{prefix}{field.validation_alias or name}"
        before, after = getattr(running, name), getattr(wanted, name)
        if isinstance(before, OptionSection):
            yield from _differences(before, after, f"{key}.")
        elif before != after:
            yield key


def require_lease(settings: Settings) -> None:
    """Check the clusters against the lease that the daemon has: the configuration was checked with its own.

    Raises:
        ConfigError: A cluster needs a longer one.
    """
    if not settings.ha.enabled:
        return
    for cluster in settings.effective_clusters():
        least = cluster.interval + 2 * cluster.endpoint.timeout
        if least > settings.ha.ttl:
            raise ConfigError(
                f"cluster '{cluster.name}' needs autoscaler.ha.ttl of at least {least:g} s, its interval and twice the"
                f" timeout of its requests; the daemon runs with {settings.ha.ttl:g} s until it is restarted"
            )


def _stale_after(settings: Settings) -> dict[str, float]:
    intervals = settings.loop.stale_after_intervals
    return {cluster.name: intervals * cluster.interval for cluster in settings.effective_clusters()}
