from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flink_autoscaler.standalone.observability.sd_notify import ServiceNotifier, Watchdog, watchdog_interval


@pytest.fixture(params=["path", "abstract"])
def service_manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@flink-autoscaler-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind("\0" + name[1:] if name.startswith("@") else name)
        server.settimeout(300)
        yield name, server


@pytest.mark.parametrize(
    ("tell", "expected"),
    [
        pytest.param(
            lambda to: to.ready("watching 2 clusters"),
            b"READY=1\nSTATUS=watching 2 clusters",
            id="readiness and status",
        ),
        pytest.param(
            lambda to: to.ready("two\nSTOPPING=1 lines"), b"READY=1\nSTATUS=two STOPPING=1 lines", id="one line"
        ),
        pytest.param(lambda to: to.stopping("finishing"), b"STOPPING=1\nSTATUS=finishing", id="the end"),
    ],
)
def test_what_is_told_is_sent(
    service_manager: tuple[str, socket.socket], tell: Callable[[ServiceNotifier], None], expected: bytes
) -> None:
    address, server = service_manager

    tell(ServiceNotifier(address))

    assert server.recv(4096) == expected


@pytest.mark.parametrize(
    "address",
    [
        pytest.param(None, id="no service manager"),
        pytest.param("", id="empty"),
        pytest.param("/nonexistent/notify", id="nobody listens"),
        pytest.param("vsock:2:1234", id="another kind of socket"),
    ],
)
def test_notifier_is_silent_without_a_listener(address: str | None) -> None:
    ServiceNotifier(address).ready("fine")


def test_watchdog_pings_again_and_again(service_manager: tuple[str, socket.socket]) -> None:
    address, server = service_manager
    watchdog = Watchdog(ServiceNotifier(address), 0.01, lambda: True)

    watchdog.start()
    pings = [server.recv(4096) for _ in range(3)]
    watchdog.stop()

    assert pings == [b"WATCHDOG=1"] * 3


def test_watchdog_is_silent_while_the_loop_is_dead(service_manager: tuple[str, socket.socket]) -> None:
    address, server = service_manager
    asked = threading.Semaphore(0)

    def is_alive() -> bool:
        asked.release()
        return False

    watchdog = Watchdog(ServiceNotifier(address), 0.01, is_alive)
    watchdog.start()
    asked_twice = asked.acquire(timeout=300) and asked.acquire(timeout=300)
    watchdog.stop()

    assert asked_twice
    server.setblocking(False)
    with pytest.raises(BlockingIOError):
        server.recv(4096)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({}, None, id="not watched"),
        pytest.param({"WATCHDOG_USEC": "30000000"}, 15.0, id="half of what is allowed"),
        pytest.param({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None, id="meant for another process"),
        pytest.param({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0, id="meant for us"),
        pytest.param({"WATCHDOG_USEC": "soon"}, None, id="not a number"),
        pytest.param({"WATCHDOG_USEC": "0"}, None, id="zero"),
    ],
)
def test_watchdog_interval(environment: dict[str, str], expected: float | None) -> None:
    assert watchdog_interval(environment) == expected


def test_reloading_says_since_when(service_manager: tuple[str, socket.socket]) -> None:
    address, server = service_manager
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000

    ServiceNotifier(address).reloading()

    first, second = server.recv(4096).decode().split("\n")
    name, _, since = second.partition("=")
    assert (first, name) == ("RELOADING=1", "MONOTONIC_USEC")
    assert before <= int(since) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
