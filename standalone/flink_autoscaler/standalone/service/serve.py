"""The daemon as a service: start-up, signals, shutdown."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress

import structlog

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.engine.garbage import spare_collector
from flink_autoscaler.standalone.daemon.profile_schedule import ProfileSchedule
from flink_autoscaler.standalone.daemon.wiring import Wiring, default_orders
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.sd_notify import ServiceNotifier, Watchdog, watchdog_interval
from flink_autoscaler.standalone.observability.status_series import PROFILE_BUILD_SERIES
from flink_autoscaler.standalone.service.loop import Daemon
from flink_autoscaler.standalone.service.registry import ClusterRegistry
from flink_autoscaler.standalone.service.signals import DaemonRequest, End, SignalQueue, exit_now, handle_signals
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.sources.configuration import Configuration
from flink_autoscaler.standalone.web.app_state import AppState

log = structlog.get_logger(__name__)


def serve(
    settings: Settings,
    load: Callable[[], Settings] | None = None,
    *,
    configuration: Callable[[], Configuration | None] = lambda: None,
    greet: Callable[[str], None] = lambda _: None,
) -> int:
    """Manage all clusters until a signal comes; return the exit code.

    Args:
        settings: What to manage, and how.
        load: Reads the settings again, at every SIGHUP; raises :class:`ConfigError`. None leaves that signal as it is.
        configuration: Reads where the settings come from, for the page; after every change.
        greet: Takes one line that says what is managed, once it is.

    Raises:
        AutoscalerError: A part could not be started.
        ConfigError: A database that was away at the start is there now and cannot be used as it is configured.
    """
    notifier = ServiceNotifier(os.environ.get("NOTIFY_SOCKET"))
    with handle_signals(reloads=load is not None) as inbox, ExitStack() as parts:
        http = settings.http
        gauges = Gauges(max_jobs=http.metrics_max_jobs, max_vertices=http.metrics_max_vertices)
        wiring = parts.enter_context(Wiring(settings, on_fallback=lambda _: gauges.record_fallback()))
        registry = ClusterRegistry(settings, wiring=wiring, gauges=gauges, read_configuration=configuration)
        daemon = registry.daemon
        if http.enabled:
            _serve_pages(registry, wiring, gauges, parts)
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

        end = _run_until_end(inbox, registry, load or (lambda: settings), notifier)
        grace = registry.settings.loop.shutdown_grace
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


def _run_until_end(
    inbox: SignalQueue, registry: ClusterRegistry, load: Callable[[], Settings], notifier: ServiceNotifier
) -> End:
    while (wish := inbox.get()) is DaemonRequest.RELOAD:
        notifier.reloading()
        refused = "" if registry.reload(load) else "; the configuration was refused at the last reload, see the log"
        notifier.ready(_summary(registry.settings) + refused)
    return wish


def _serve_pages(registry: ClusterRegistry, wiring: Wiring, gauges: Gauges, parts: ExitStack) -> None:
    # Imported here: who switches the pages off does not pay for the server.
    from flink_autoscaler.clients.flink.pass_plugins import installed_plugins  # noqa: PLC0415
    from flink_autoscaler.standalone.observability.http import HttpServer, create_app  # noqa: PLC0415
    from flink_autoscaler.standalone.web.serving import CurrentAccessRules, build_pages, tls_files  # noqa: PLC0415

    http, storage = registry.settings.http, wiring.storage
    access = CurrentAccessRules(http)
    registry.follow_access = access.update
    site = AppState(
        fleet=registry.fleet,
        settings=lambda: registry.settings,
        order_book=storage.order_book,
        order_events=wiring.order_events,
        default_orders=lambda: default_orders(registry.settings),
        events=wiring.recent_events,
        records=storage.records,
        configuration=lambda: registry.configuration,
        database=storage.events_database,
        is_leader=storage.leadership.is_leader,
        store_status=storage.store_status,
        spark_status=wiring.spark_status,
        plugins=installed_plugins,
    )
    routes, middleware = build_pages(site, access)
    app = create_app(
        gauges=gauges, health=registry.health, is_alive=registry.daemon.is_alive, routes=routes, middleware=middleware
    )
    server = HttpServer(app, host=http.host, port=http.port, tls=tls_files(http))
    parts.callback(server.close)
    server.start()
    log.info("http_listening", url=server.url)


def _start_profile_schedule(settings: Settings, wiring: Wiring, gauges: Gauges, parts: ExitStack) -> None:
    may_act = wiring.storage.leadership.is_leader
    schedule = ProfileSchedule(settings, wiring.storage.forecasts, may_act=may_act, tell=wiring.events)
    gauges.register_status(PROFILE_BUILD_SERIES, schedule.status)
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
    names = ", ".join(f"{cluster.name} ({cluster.display_url}, {cluster.engine.value})" for cluster in clusters)
    mode = ", dry run" if settings.dry_run else ""
    return f"watching {len(clusters)} cluster{'s' if len(clusters) != 1 else ''}{mode}: {names}"
