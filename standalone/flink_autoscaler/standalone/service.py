"""The daemon as a service: start-up, signals, shutdown."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import SimpleQueue
from types import FrameType

import structlog

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.announcer import Announcer
from flink_autoscaler.standalone.daemon import Daemon, Watch
from flink_autoscaler.standalone.gauges import Gauges
from flink_autoscaler.standalone.health import Health
from flink_autoscaler.standalone.sd_notify import ServiceNotifier, Watchdog, watchdog_interval
from flink_autoscaler.standalone.settings import Cluster, Settings
from flink_autoscaler.standalone.wiring import Wiring

log = structlog.get_logger(__name__)

End = int | ConfigError
"""Why the daemon ends: the number of a signal, or what only a person can change."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(settings: Settings) -> int:
    """Look after all clusters until a signal comes; return the exit code.

    Raises:
        AutoscalerError: A part could not be started.
        ConfigError: A database that was away at the start is there now and cannot be used as it is configured.
    """
    notifier = ServiceNotifier(os.environ.get("NOTIFY_SOCKET"))
    with _stop_signals() as ends, ExitStack() as parts:
        gauges = Gauges()
        wiring = parts.enter_context(
            Wiring(settings, on_fallback=lambda _: gauges.record_fallback(), on_hopeless=ends.put)
        )
        daemon = _daemon(settings, wiring, gauges, parts)
        wiring.start()
        wiring.start_engines()
        daemon.start()
        _start_watchdog(notifier, daemon, parts)
        summary = _summary(settings, settings.effective_clusters())
        notifier.ready(summary)
        sys.stdout.write(summary + "\n")
        sys.stdout.flush()

        end = ends.get()
        _announce_end(end, settings.loop.shutdown_grace)
        notifier.stopping("finishing the passes that run")
        is_idle = daemon.stop(settings.loop.shutdown_grace)
        wiring.storage.stop_leading(is_idle=is_idle)
        if not is_idle:
            log.warning("pass_abandoned", grace=settings.loop.shutdown_grace)
    log.info("stopped")
    if not is_idle:
        # The interpreter would wait for the threads of a pass that hangs.
        _exit_now(2 if isinstance(end, ConfigError) else 0)
    if isinstance(end, ConfigError):
        raise end
    return 0


def _announce_end(end: End, grace: float) -> None:
    if isinstance(end, ConfigError):
        log.error("database_unusable", error=str(end))
    else:
        log.info("stopping", signal=signal.Signals(end).name, grace=grace)


def _daemon(settings: Settings, wiring: Wiring, gauges: Gauges, parts: ExitStack) -> Daemon:
    clusters = settings.effective_clusters()
    intervals = settings.loop.stale_after_intervals
    storage = wiring.storage
    health = Health(
        {cluster.name: intervals * cluster.interval for cluster in clusters},
        store=storage.store_status,
        leadership=storage.leadership_status,
    )
    gauges.follow_store(lambda: storage.store_status().up)
    gauges.follow_leadership(storage.leadership.may_act)
    gauges.follow_set_aside(wiring.set_aside_count)
    announcer = partial(Announcer, gauges=gauges, health=health, is_store_in_doubt=storage.is_in_doubt)
    watches = [Watch(wiring.cluster_pass(cluster), announcer(), cluster.interval) for cluster in clusters]
    daemon = Daemon(watches, gauges=gauges)
    if settings.http.enabled:
        # Imported here: who switches the pages off does not pay for the server.
        from flink_autoscaler.standalone.http import HttpServer, create_app  # noqa: PLC0415

        app = create_app(gauges=gauges, health=health, is_alive=daemon.is_alive)
        server = HttpServer(app, host=settings.http.host, port=settings.http.port)
        parts.callback(server.close)
        server.start()
        log.info("http_listening", url=server.url)
    return daemon


def _start_watchdog(notifier: ServiceNotifier, daemon: Daemon, parts: ExitStack) -> None:
    interval = watchdog_interval(os.environ)
    if interval is not None:
        watchdog = Watchdog(notifier, interval, daemon.is_alive)
        watchdog.start()
        parts.callback(watchdog.stop)


def _summary(settings: Settings, clusters: Sequence[Cluster]) -> str:
    names = ", ".join(f"{cluster.name} ({cluster.endpoint.url}, {cluster.engine.value})" for cluster in clusters)
    mode = ", dry run" if settings.dry_run else ""
    return f"watching {len(clusters)} cluster{'s' if len(clusters) != 1 else ''}{mode}: {names}"


@contextmanager
def _stop_signals() -> Iterator[SimpleQueue[End]]:
    """Collect the first signal; a second one ends the process at once, whatever it is doing."""
    # Unlike threading.Event, this queue may be used by a signal handler that interrupts its reader.
    ends: SimpleQueue[End] = SimpleQueue()

    def on_signal(number: int, _: FrameType | None) -> None:
        if is_stopping:
            _exit_now(128 + number)
        is_stopping.append(True)
        ends.put(number)

    is_stopping: list[bool] = []
    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield ends
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_now(code: int) -> None:
    logging.shutdown()
    os._exit(code)
