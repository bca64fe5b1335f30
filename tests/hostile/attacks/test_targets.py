"""A service that answers without end, or with a redirect, costs the daemon nothing and gets nobody else asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from flink_autoscaler.standalone.notifications.apprise_process import MAX_MEMORY
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, chain
from testkit.fakes.receiver import Receiver
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.suite(name="hostile")

ENDLESS = 4 << 30
MEMORY_OF_A_DAEMON = 100 << 20
"""By which a daemon may grow meanwhile, for whatever reason."""


class Endless:
    """A server that answers every request with 4 GB.

    Attributes:
        sent: Bytes of all answers.
    """

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.sent = self.requests = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Take no more clients."""
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.recv(65_536)
            self.requests += 1
            client.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {ENDLESS}\r\n\r\n".encode())
            part = b"x" * (1 << 20)
            while True:
                client.sendall(part)
                self.sent += len(part)


@pytest.fixture
def endless() -> Iterator[Endless]:
    server = Endless()
    yield server
    server.close()


def run_with_target(tmp_path: Path, flink: FakeFlink, url: str) -> DaemonProcess:
    """Return a daemon that has something to tell to a target of Apprise."""
    daemon = DaemonProcess(tmp_path)
    daemon.environment["no_proxy"] = "127.0.0.1"
    job = flink.add_job("orders", chain(sources=1, vertices=2), start_ms=1, running_at_ms=1, obeys=True)
    job.configuration = {"job.autoscaler.utilization.target": "nonsense"}
    target = "autoscaler.notifications.targets.0."
    options = {f"{target}{key}": text for key, text in {"name": "chat", "type": "apprise", "url": url}.items()}
    daemon.configure({"main": flink.url}, **options)
    daemon.start()
    return daemon


def memory_of(daemon: DaemonProcess) -> int:
    """Return the most bytes that a daemon has had in memory."""
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


@pytest.mark.guard
def test_an_answer_without_end_takes_no_memory_of_the_daemon(tmp_path: Path, endless: Endless) -> None:
    with FakeFlink() as flink, run_with_target(tmp_path, flink, f"json://127.0.0.1:{endless.port}/chat") as daemon:
        before = memory_of(daemon)
        wait_until("a request", lambda: endless.requests, 300)
        daemon.wait_for("its end", lambda: daemon.lines("notification_not_sent"))
        after = memory_of(daemon)

    assert after - before < MEMORY_OF_A_DAEMON
    assert endless.sent < 2 * MAX_MEMORY


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_other_host_is_asked(tmp_path: Path, status: int) -> None:
    with Receiver() as other, Receiver() as first, FakeFlink() as flink:
        first.answers, first.more = [status] * 100, {"Location": other.url}
        with run_with_target(tmp_path, flink, f"json://127.0.0.1:{first.port}/chat") as daemon:
            first.wait_for(1, 120)
            daemon.wait_for("its end", lambda: str(status) in daemon.text())

    assert other.received == []
