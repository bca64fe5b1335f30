"""Tells systemd how the daemon is: the ``sd_notify`` protocol over a datagram socket.

Source: ``man 3 sd_notify`` and ``man 3 sd_watchdog_enabled``.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping


class ServiceNotifier:
    """Sends state changes to the service manager; does nothing where there is none.

    Args:
        address: Value of ``NOTIFY_SOCKET``: a path, or ``@name`` for an abstract socket; None or empty without systemd.
    """

    def __init__(self, address: str | None) -> None:
        self._address = _socket_address(address or "")

    def ready(self, status: str) -> None:
        """Say that start-up or a reload is done; ``systemctl status`` shows the text."""
        self._send("READY=1", _status(status))

    def reloading(self) -> None:
        """Say that the configuration is being read again; :meth:`ready` ends that."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, status: str) -> None:
        """Say that the daemon is shutting down."""
        self._send("STOPPING=1", _status(status))

    def watchdog(self) -> None:
        """Say that the daemon is alive."""
        self._send("WATCHDOG=1")

    def _send(self, *assignments: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.setblocking(False)
                channel.sendto("\n".join(assignments).encode(), self._address)
        except OSError:
            # A service manager that does not listen is no reason to stop scaling; a missed watchdog is its to notice.
            return


class Watchdog:
    """Pings the service manager at regular times for as long as the daemon is alive.

    Args:
        notifier: Where to send.
        interval: Seconds between two pings.
        is_alive: Asked before every ping; while it says no, nothing is sent.
    """

    def __init__(self, notifier: ServiceNotifier, interval: float, is_alive: Callable[[], bool]) -> None:
        self._notifier = notifier
        self._interval = interval
        self._is_alive = is_alive
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sd-watchdog", daemon=True)

    def start(self) -> None:
        """Begin; the first ping is sent at once."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for the thread."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            if self._is_alive():
                self._notifier.watchdog()
            self._stopped.wait(self._interval)


def watchdog_interval(environment: Mapping[str, str]) -> float | None:
    """Return the seconds between two pings, half of what systemd allows; None when it does not watch this process."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    microseconds = int(text) if text.isdecimal() and text.isascii() else 0
    return microseconds / 2e6 if microseconds else None


def _status(text: str) -> str:
    return "STATUS=" + " ".join(text.split())


def _socket_address(address: str) -> str:
    if address.startswith("@"):
        return "\0" + address[1:]
    # Other kinds (vsock: and relative paths) are not for a service of the same machine.
    return address if address.startswith("/") else ""
