"""The daemon as a service: start-up, signals, shutdown."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import structlog

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.pipeline.inline.garbage import spare_collector
from flink_autoscaler.standalone.daemon.loop import Daemon, Watch
from flink_autoscaler.standalone.daemon.profile_schedule import ProfileSchedule
from flink_autoscaler.standalone.daemon.reload import Reload
from flink_autoscaler.standalone.daemon.signals import DaemonRequest, End, Inbox, exit_now, received_signals
from flink_autoscaler.standalone.daemon.wiring import Wiring, standing_orders
from flink_autoscaler.standalone.observability.announcer import Announcer, EngineNews
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health, HealthMetrics
from flink_autoscaler.standalone.observability.notice_series import NoticeMetrics
from flink_autoscaler.standalone.observability.profile_builds import BuildMetrics
from flink_autoscaler.standalone.observability.sd_notify import ServiceNotifier, Watchdog, watchdog_interval
from flink_autoscaler.standalone.settings.schema.http import HttpSettings
from flink_autoscaler.standalone.settings.schema.settings import Cluster, Settings
from flink_autoscaler.standalone.settings.sources.configuration import Configuration
from flink_autoscaler.standalone.web.fleet import Fleet
from flink_autoscaler.standalone.web.site import Site

log = structlog.get_logger(__name__)


def serve(
    settings: Settings,
    load: Callable[[], Settings] | None = None,
    *,
    configuration: Callable[[], Configuration | None] = lambda: None,
    greet: Callable[[str], None] = lambda _: None,
) -> int:
    """Look after all clusters until a signal comes; return the exit code.

    Args:
        settings: What to look after, and how.
        load: Reads the settings again, at every SIGHUP; raises :class:`ConfigError`. None leaves that signal as it is.
        configuration: Reads where the settings come from, for the page; after every change.
        greet: Takes one line that says what is looked after, once it is.

    Raises:
        AutoscalerError: A part could not be started.
        ConfigError: A database that was away at the start is there now and cannot be used as it is configured.
    """
    notifier = ServiceNotifier(os.environ.get("NOTIFY_SOCKET"))
    with received_signals(reloads=load is not None) as inbox, ExitStack() as parts:
        gauges = _gauges(settings.http)
        wiring = parts.enter_context(Wiring(settings, on_fallback=lambda _: gauges.record_fallback()))
        clusters = _Clusters(settings, wiring, gauges)
        in_force = _InForce(settings, configuration)
        daemon = clusters.daemon
        if settings.http.enabled:
            _serve_pages(settings, clusters, parts, in_force)
        wiring.storage.start(inbox.put)
        wiring.notifier.start()
        wiring.start_engines()
        spare_collector()
        daemon.start()
        _start_profile_schedule(settings, wiring, gauges, parts)
        _start_watchdog(notifier, daemon, parts)
        notifier.ready(summary := _summary(settings))
        with suppress(OSError):  # a greeting that nobody can read is no reason not to start
            greet(f"{summary}\n")

        reload = Reload(settings, load=load or (lambda: settings), clusters=clusters)
        end = _reload_until_the_end(inbox, reload, notifier, in_force)
        grace = reload.settings.loop.shutdown_grace
        if isinstance(end, ConfigError):
            log.error("database_unusable", error=str(end))
        else:
            log.info("stopping", signal=signal.Signals(end).name, grace=grace)
        notifier.stopping("finishing the passes that run")
        is_idle = daemon.stop(grace)
        # While this daemon still leads: what waits in memory is written by the leader only.
        wiring.notifier.close()
        wiring.storage.leadership.stop(is_idle=is_idle)
        if not is_idle:
            log.warning("pass_abandoned", grace=grace)
    log.info("stopped")
    if not is_idle:
        # The interpreter would wait for the threads of a pass that hangs.
        exit_now(2 if isinstance(end, ConfigError) else 0)
    if isinstance(end, ConfigError):
        raise end
    return 0


def _gauges(http: HttpSettings) -> Gauges:
    return Gauges(most_jobs=http.metrics_max_jobs, most_vertices=http.metrics_max_vertices)


class _InForce:
    """The settings in force and where they come from."""

    def __init__(self, settings: Settings, read: Callable[[], Configuration | None]) -> None:
        self._read = read
        self.follow(settings)

    def follow(self, settings: Settings) -> None:
        """Take other settings."""
        self.settings = settings
        self.configuration = self._read()


def _reload_until_the_end(inbox: Inbox, reload: Reload, notifier: ServiceNotifier, in_force: _InForce) -> End:
    while (wish := inbox.get()) is DaemonRequest.RELOAD:
        notifier.reloading()
        is_applied = reload()
        if is_applied:
            in_force.follow(reload.settings)
        refused = "" if is_applied else "; the configuration was refused at the last reload, see the log"
        notifier.ready(_summary(reload.settings) + refused)
    return wish


class _Clusters:
    """Makes what looks after clusters, with health and gauges behind it, and the daemon that keeps their schedules."""

    def __init__(self, settings: Settings, wiring: Wiring, gauges: Gauges) -> None:
        self.wiring, self.gauges = wiring, gauges
        storage = wiring.storage
        self._engines = EngineNews()
        self.health = Health(
            _stale_after(settings),
            store=storage.store_status,
            leadership=storage.leadership.status,
            spark=wiring.spark_status,
        )
        gauges.follow("store_up", lambda: storage.store_status().up)
        gauges.follow("leader", storage.leadership.may_act)
        gauges.follow("values_set_aside", wiring.set_aside_count)
        gauges.follow("spark_up", lambda: _is_up(wiring))
        gauges.follow_history(wiring.history_status)
        gauges.registry.register(NoticeMetrics(wiring.notifier.status))
        gauges.registry.register(HealthMetrics(self.health))
        if settings.ha.enabled:
            gauges.join_group(settings.ha.name)
        first = [self.make(cluster) for cluster in settings.effective_clusters()]
        self.fleet = Fleet(lambda: time.time_ns() // 1_000_000)
        self.daemon = Daemon(first, gauges=gauges, on_left=self.release, on_report=self.fleet.take)
        gauges.follow("loop_up", self.daemon.is_alive)
        self.put = self.daemon.put
        self.prepare_access: Callable[[HttpSettings], Callable[[], None]] = lambda _: lambda: None

    def remove(self, cluster: str) -> None:
        """Look after a cluster no more."""
        self.daemon.remove(cluster)
        self.fleet.forget(cluster)

    def make(self, cluster: Cluster) -> Watch:
        """Make the passes of a cluster and who tells about them."""
        is_in_doubt = self.wiring.storage.is_in_doubt
        announcer = Announcer(
            gauges=self.gauges,
            health=self.health,
            engines=self._engines,
            is_store_in_doubt=is_in_doubt,
            tell_event=self.wiring.cluster_events(cluster.name, cluster.name),
        )
        return Watch(self.wiring.cluster_pass(cluster), announcer, cluster.interval)

    def release(self, watch: Watch) -> None:
        """Close the passes of a cluster."""
        self.wiring.release(watch.passes)

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Read who may do what by other settings, and return what puts it in force. May raise :class:`ConfigError`."""
        return self.prepare_access(settings.http)

    def follow(self, settings: Settings) -> None:
        """Get ready for the clusters of other settings, and tell whom they name."""
        self.health.follow(_stale_after(settings))
        self.wiring.notifier.follow(settings.notifications)
        self.wiring.start_engines()


def _is_up(wiring: Wiring) -> float:
    """Return whether passes run on Spark, not a number where none is meant for it or none has been yet."""
    status = wiring.spark_status()
    return NAN if status is None or status.up is None else status.up


def _stale_after(settings: Settings) -> dict[str, float]:
    intervals = settings.loop.stale_after_intervals
    return {cluster.name: intervals * cluster.interval for cluster in settings.effective_clusters()}


def _serve_pages(settings: Settings, clusters: _Clusters, parts: ExitStack, in_force: _InForce) -> None:
    # Imported here: who switches the pages off does not pay for the server.
    from flink_autoscaler.standalone.observability.http import HttpServer, create_app  # noqa: PLC0415
    from flink_autoscaler.standalone.web.serving import AccessInForce, pages_of, tls_files  # noqa: PLC0415

    access = AccessInForce(settings.http)
    clusters.prepare_access = access.prepare
    site = _site(clusters, in_force)
    routes, middleware = pages_of(site, access)
    app = create_app(
        gauges=clusters.gauges,
        health=clusters.health,
        is_alive=clusters.daemon.is_alive,
        routes=routes,
        middleware=middleware,
    )
    http = settings.http
    server = HttpServer(app, host=http.host, port=http.port, tls=tls_files(http))
    parts.callback(server.close)
    server.start()
    log.info("http_listening", url=server.url)


def _site(clusters: _Clusters, in_force: _InForce) -> Site:
    from flink_autoscaler.clients.flink.pass_plugins import installed_plugins  # noqa: PLC0415

    storage = clusters.wiring.storage
    return Site(
        fleet=clusters.fleet,
        settings=lambda: in_force.settings,
        order_book=storage.order_book,
        order_events=clusters.wiring.order_events,
        standing=lambda: standing_orders(in_force.settings),
        events=clusters.wiring.recent_events,
        records=storage.records,
        configuration=lambda: in_force.configuration,
        database=storage.events_database,
        may_act=storage.leadership.may_act,
        store_status=storage.store_status,
        spark_status=clusters.wiring.spark_status,
        plugins=installed_plugins,
    )


def _start_profile_schedule(settings: Settings, wiring: Wiring, gauges: Gauges, parts: ExitStack) -> None:
    may_act = wiring.storage.leadership.may_act
    schedule = ProfileSchedule(settings, wiring.storage.forecasts, may_act=may_act, tell=wiring.events)
    gauges.registry.register(BuildMetrics(schedule.status))
    parts.callback(schedule.stop)
    schedule.start()


def _start_watchdog(notifier: ServiceNotifier, daemon: Daemon, parts: ExitStack) -> None:
    interval = watchdog_interval(os.environ)
    if interval is not None:
        watchdog = Watchdog(notifier, interval, daemon.is_alive)
        watchdog.start()
        parts.callback(watchdog.stop)


def _summary(settings: Settings) -> str:
    clusters = settings.effective_clusters()
    names = ", ".join(f"{cluster.name} ({cluster.shown_url}, {cluster.engine.value})" for cluster in clusters)
    mode = ", dry run" if settings.dry_run else ""
    return f"watching {len(clusters)} cluster{'s' if len(clusters) != 1 else ''}{mode}: {names}"
