"""Whatever clients do to the endpoint without a token, the probes of everybody else are answered."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from flink_autoscaler.standalone.observability.http import MAX_CONNECTIONS
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink
from testkit.fakes.flink.load import repeated
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.suite(name="hostile")
PROBES = ("/healthz", "/readyz", "/metrics")
WITHOUT_BODY = b"POST /api/v1/what-if HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
FILES = 1024


class Attacked:
    """A daemon that is running, and who connects to it."""

    def __init__(self, daemon: DaemonProcess, opened: ExitStack) -> None:
        (line,) = daemon.lines("http_listening")
        self.url = line["url"]
        self.place = httpx.URL(self.url)
        self.daemon = daemon
        self._opened = opened

    def connect(self, count: int, sent: bytes = b"") -> list[socket.socket]:
        """Open connections, and send the same on each."""
        clients = []
        for _ in range(count):
            client = socket.create_connection((self.place.host, self.place.port or 80), timeout=20)
            clients.append(self._opened.enter_context(client))
            client.sendall(sent)
        return clients

    def probe(self, path: str) -> int:
        """Return the status of a probe on a connection of its own; 0 where the connection ends without an answer."""
        try:
            return httpx.get(f"{self.url}{path}", timeout=20, trust_env=False).status_code
        except httpx.TransportError:
            return 0

    def probes(self, times: int = 5) -> set[int]:
        """Return the statuses of all probes, several times."""
        return {self.probe(path) for path in PROBES * times}

    def asked(self, *lines: str, body: bytes = b"") -> bytes:
        """Send a request to the letter and return the answer's first line, empty where there is none."""
        (client,) = self.connect(1)
        client.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        return client.makefile("rb").readline()

    def files(self) -> int:
        """Return how many descriptors the daemon has open."""
        return len(list(Path(f"/proc/{self.daemon.pid}/fd").iterdir()))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with FakeFlink() as flink, DaemonProcess(tmp_path_factory.mktemp("attacked")) as daemon:
        daemon.configure({"main": flink.url})
        daemon.start()
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        yield daemon


@pytest.fixture
def attacked(daemon: DaemonProcess) -> Iterator[Attacked]:
    with ExitStack() as opened:
        attack = Attacked(daemon, opened)
        wait_until("a pass", lambda: attack.probe("/readyz") == 200, 300)
        yield attack


@pytest.mark.guard
def test_requests_without_their_bodies_are_answered_after_those_that_are_whole(attacked: Attacked) -> None:
    attacked.connect(MAX_CONNECTIONS + 6, WITHOUT_BODY)

    assert attacked.probes() == {200}


def test_a_request_whose_body_does_not_come_is_ended_as_a_whole(attacked: Attacked) -> None:
    (client,) = attacked.connect(1, WITHOUT_BODY)

    wait_until("its end", lambda: is_ended(client), 300)


def is_ended(client: socket.socket) -> bool:
    """Send one more byte of the body, too few to end it in time, and tell whether the connection is over."""
    client.setblocking(False)
    try:
        client.send(b" ")
        return client.recv(1000) is not None
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET /he"], ids=["idle", "begun"])
def test_a_burst_of_connections_takes_no_more_descriptors_than_there_are_places(
    attacked: Attacked, sent: bytes
) -> None:
    before = attacked.files()
    seen = [before]
    with repeated(lambda: seen.append(attacked.files()), 0.001):
        attacked.connect(1000, sent)
        seen.append(attacked.files())

    assert max(seen) - before <= MAX_CONNECTIONS + 8
    assert attacked.probes() == {200}


def test_a_daemon_without_descriptors_answers_probes_and_says_so_once(attacked: Attacked) -> None:
    # So few files are left that the places of the endpoint cannot all be taken.
    low = attacked.files() + MAX_CONNECTIONS // 2
    resource.prlimit(attacked.daemon.pid, resource.RLIMIT_NOFILE, (low, FILES))

    try:
        for _ in range(5):
            attacked.connect(100)
        statuses = attacked.probes()
    finally:
        resource.prlimit(attacked.daemon.pid, resource.RLIMIT_NOFILE, (FILES, FILES))

    assert statuses == {200}
    assert len(attacked.daemon.lines("http_accept_failed")) <= 1
    assert attacked.daemon.text().count("socket.accept") == 0


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("GET / HTTP/1.1", "Host: ["), id="an address that does not end"),
        pytest.param(("GET / HTTP/1.1", "Host: ]"), id="an address that does not begin"),
        pytest.param(("GET / HTTP/1.1", "Host: [::g]"), id="no address at all"),
        pytest.param(("GET / HTTP/1.1", "Host: a:99999999"), id="no port"),
    ],
)
def test_a_host_that_is_none_is_not_known(attacked: Attacked, lines: tuple[str, ...]) -> None:
    assert b" 421 " in attacked.asked(*lines)
    assert "Traceback" not in attacked.daemon.text()


def test_an_origin_that_is_none_is_foreign(attacked: Attacked) -> None:
    body = b'{"job_key": "main/x", "days": 1}'
    head = ("POST /api/v1/backtest HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}")

    assert b" 403 " in attacked.asked(*head, "Origin: http://[", body=body)
    assert "Traceback" not in attacked.daemon.text()


@pytest.mark.parametrize("text", [r'"\ud800"', r'{"\udfff": 1}'])
def test_half_a_character_is_no_json(attacked: Attacked, text: str) -> None:
    body = f'{{"job_key": "main/x", "options": {{"utilization.target": {text}}}}}'.encode()

    answer = attacked.asked(
        "POST /api/v1/what-if HTTP/1.1", "Host: localhost", "Connection: close", length_of(body), body=body
    )

    assert b" 400 " in answer
    assert "Traceback" not in attacked.daemon.text()


@pytest.mark.parametrize("path", ["/api/v1/what-if", "/api/v1/commands", "/api/v1/jobs", "/nowhere"])
@pytest.mark.parametrize("size", [100_000, 1_000_000, 8_000_000])
def test_a_long_body_is_answered_rather_than_reset(attacked: Attacked, path: str, size: int) -> None:
    body = b" " * size

    for _ in range(5):
        assert b" 413 " in attacked.asked(
            f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", length_of(body), body=body
        )


def length_of(body: bytes) -> str:
    return f"Content-Length: {len(body)}"


def test_a_long_body_in_chunks_is_answered_rather_than_reset(attacked: Attacked) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = ("POST /api/v1/what-if HTTP/1.1", "Host: localhost", "Connection: close", "Transfer-Encoding: chunked")

    assert b" 413 " in attacked.asked(*head, body=chunk * 16 + b"0\r\n\r\n")
