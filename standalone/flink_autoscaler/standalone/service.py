"""The daemon as a service: start-up, signals, shutdown."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from types import FrameType

import structlog

from flink_autoscaler.standalone.announcer import Announcer
from flink_autoscaler.standalone.daemon import Daemon, Watch
from flink_autoscaler.standalone.gauges import Gauges
from flink_autoscaler.standalone.health import Health
from flink_autoscaler.standalone.sd_notify import ServiceNotifier, Watchdog, watchdog_interval
from flink_autoscaler.standalone.settings import Cluster, Settings
from flink_autoscaler.standalone.wiring import Wiring

log = structlog.get_logger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(settings: Settings) -> int:
    """Look after all clusters until a signal comes; return the exit code.

    Raises:
        AutoscalerError: A part could not be started.
    """
    notifier = ServiceNotifier(os.environ.get("NOTIFY_SOCKET"))
    with _stop_signals() as signals, ExitStack() as parts:
        gauges = Gauges()
        wiring = parts.enter_context(Wiring(settings, on_fallback=lambda _: gauges.record_fallback()))
        daemon = _daemon(settings, wiring, gauges, parts)
        wiring.start_engines()
        daemon.start()
        _start_watchdog(notifier, daemon, parts)
        summary = _summary(settings, settings.effective_clusters())
        notifier.ready(summary)
        sys.stdout.write(summary + "\n")
        sys.stdout.flush()

        name = signal.Signals(signals.get()).name
        log.info("stopping", signal=name, grace=settings.loop.shutdown_grace)
        notifier.stopping("finishing the passes that run")
        is_idle = daemon.stop(settings.loop.shutdown_grace)
        if not is_idle:
            log.warning("pass_abandoned", grace=settings.loop.shutdown_grace)
    log.info("stopped")
    if not is_idle:
        # The interpreter would wait for the threads of a pass that hangs.
        _exit_now(0)
    return 0


def _daemon(settings: Settings, wiring: Wiring, gauges: Gauges, parts: ExitStack) -> Daemon:
    clusters = settings.effective_clusters()
    intervals = settings.loop.stale_after_intervals
    health = Health({cluster.name: intervals * cluster.interval for cluster in clusters})
    watches = [
        Watch(wiring.cluster_pass(cluster), Announcer(gauges=gauges, health=health), cluster.interval)
        for cluster in clusters
    ]
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
def _stop_signals() -> Iterator[SimpleQueue[int]]:
    """Collect the first signal; a second one ends the process at once, whatever it is doing."""
    # Unlike threading.Event, this queue may be used by a signal handler that interrupts its reader.
    signals: SimpleQueue[int] = SimpleQueue()

    def on_signal(number: int, _: FrameType | None) -> None:
        if is_stopping:
            _exit_now(128 + number)
        is_stopping.append(True)
        signals.put(number)

    is_stopping: list[bool] = []
    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_now(code: int) -> None:
    logging.shutdown()
    os._exit(code)
