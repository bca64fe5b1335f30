from __future__ import annotations

import http.client
import json
import socket
import statistics
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.http import MAX_CONNECTIONS, ConnectionTimeouts, HttpServer, create_app
from testkit.clusters.flink.waiting import wait_until

UNFINISHED = b"GET /healthz HTTP/1.1\r\nHost: daemon\r\nX-Slow: "


class Pages:
    """The pages, served on a free port, with what they show."""

    def __init__(self, timeouts: ConnectionTimeouts | None = None) -> None:
        self.now = 0.0
        self.is_alive = True
        self.gauges = Gauges()
        self.health = Health({"one": 30.0, "two": 30.0}, clock=lambda: self.now)
        app = create_app(gauges=self.gauges, health=self.health, is_alive=lambda: self.is_alive)
        self.server = HttpServer(app, host="127.0.0.1", port=0, timeouts=timeouts or ConnectionTimeouts())
        self.port = int(self.server.url.rsplit(":", 1)[1])
        self.server.start()

    def get(self, path: str) -> tuple[int, str]:
        # Without the proxy of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self.server.url + path, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def connect(self, sent: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(sent)
        return connection

    def readiness(self) -> tuple[int, dict[str, Any]]:
        status, body = self.get("/readyz")
        return status, json.loads(body)


@pytest.fixture
def pages() -> Iterator[Pages]:
    pages = Pages()
    yield pages
    pages.server.close()


def test_healthz_follows_the_loop(pages: Pages) -> None:
    alive, _ = pages.get("/healthz")
    pages.is_alive = False
    dead, _ = pages.get("/healthz")

    assert (alive, dead) == (200, 503)


def test_ready_from_the_success_of_every_cluster_until_one_is_stale(pages: Pages) -> None:
    pages.health.record_success("one")
    before = pages.readiness()
    pages.health.record_success("two")
    pages.now = 12.0
    ready = pages.readiness()
    pages.now = 30.0
    pages.health.record_success("one")
    stale = pages.readiness()

    assert [status for status, _ in (before, ready, stale)] == [503, 200, 503]
    assert before[1]["clusters"]["two"] == {
        "ready": False,
        "last_success_age_seconds": None,
        "stale_after_seconds": 30.0,
        "error": None,
    }
    assert (ready[1]["ready"], ready[1]["clusters"]["two"]["last_success_age_seconds"]) == (True, 12.0)
    assert [stale[1]["clusters"][name]["ready"] for name in ("one", "two")] == [True, False]


def test_readiness_shows_the_error_until_it_is_over_without_secrets(pages: Pages) -> None:
    pages.health.record_failure("one", "GET http://flink:hunter2@jobmanager failed")
    _, failed = pages.readiness()
    pages.health.record_success("one")
    _, recovered = pages.readiness()

    assert failed["clusters"]["one"]["error"].endswith("@jobmanager failed")
    assert "hunter2" not in json.dumps(failed)
    assert recovered["clusters"]["one"]["error"] is None


class Slow(Collector):
    """Series that are there only once somebody has allowed it."""

    def __init__(self) -> None:
        self.allowed = threading.Event()

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        assert self.allowed.wait(300)
        yield GaugeMetricFamily("flink_autoscaler_slow", "Came late.", value=1.0)


def test_probes_are_answered_while_series_are_written(pages: Pages) -> None:
    slow = Slow()
    pages.gauges.registry.register(slow)
    with ThreadPoolExecutor(1) as beside:
        metrics = beside.submit(pages.get, "/metrics")
        probe = pages.get("/healthz")
        is_waiting = not metrics.done()
        slow.allowed.set()
        status, body = metrics.result(10)

    assert (probe[0], is_waiting, status) == (200, True, 200)
    assert "flink_autoscaler_slow 1.0" in body


def test_metrics_are_in_the_text_format(pages: Pages) -> None:
    pages.gauges.record_pass("one", 0.1, succeeded=True, engine="inline")

    status, body = pages.get("/metrics")

    assert status == 200
    assert 'flink_autoscaler_passes_total{cluster="one",engine="inline",result="succeeded"} 1.0' in body


def test_every_answer_is_dated_when_it_is_given(pages: Pages) -> None:
    def date() -> datetime:
        with closing(http.client.HTTPConnection("127.0.0.1", pages.port, timeout=60)) as connection:
            connection.request("GET", "/healthz")
            return parsedate_to_datetime(connection.getresponse().headers["date"])

    first = date()

    wait_until("a later date", lambda: date() > first, interval=0.05)
    assert abs(date() - datetime.now(UTC)) < timedelta(minutes=1)


def test_used_port_is_a_configuration_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        app = create_app(gauges=Gauges(), health=Health({}), is_alive=lambda: True)

        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            HttpServer(app, host="127.0.0.1", port=port)


def test_closed_server_frees_its_port_and_ends_its_thread(pages: Pages) -> None:
    pages.server.close()

    assert not any(thread.name == "http" for thread in threading.enumerate())
    with socket.create_server(("127.0.0.1", pages.port)) as again:
        assert again.getsockname()[1] == pages.port


@pytest.mark.parametrize("sent", [UNFINISHED, b""], ids=["half a request", "nothing at all"])
def test_probe_gets_its_answer_whatever_other_clients_leave_unfinished(pages: Pages, sent: bytes) -> None:
    with ExitStack() as open_connections:
        for _ in range(2 * MAX_CONNECTIONS):
            open_connections.enter_context(pages.connect(sent))
        answers = [pages.get("/healthz")[0] for _ in range(5)]

    assert answers == [200] * 5


def test_oldest_unfinished_connections_make_way_and_a_kept_one_that_was_answered_lately_does_not(pages: Pages) -> None:
    with ExitStack() as parts:
        oldest = parts.enter_context(pages.connect(UNFINISHED))
        for _ in range(MAX_CONNECTIONS - 1):
            parts.enter_context(pages.connect(UNFINISHED))
        prober = http.client.HTTPConnection("127.0.0.1", pages.port, timeout=60)
        parts.callback(prober.close)
        first = asked(prober)
        parts.enter_context(pages.connect(UNFINISHED))
        second = asked(prober)
        wait_until("the end of the oldest", lambda: is_dropped(oldest), 300, interval=0.02)

    assert (first, second) == (200, 200)


def asked(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_request_that_is_not_finished_in_time_is_dropped() -> None:
    pages = Pages(ConnectionTimeouts(request=0.2))
    try:
        with pages.connect() as dripping:
            started = time.monotonic()
            wait_until("the end", lambda: is_dropped(dripping), 300, interval=0.02)
            seconds = time.monotonic() - started
    finally:
        pages.server.close()

    assert seconds >= 0.2


def is_dropped(connection: socket.socket) -> bool:
    """Send one more byte of a request; tell whether nobody takes it any more."""
    connection.setblocking(False)
    try:
        connection.send(b"G")
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_answer_that_nobody_takes_is_dropped() -> None:
    pages = Pages(ConnectionTimeouts(answer=0.2))
    for number in range(20_000):
        pages.gauges.record_overrun(f"a cluster with a long name, number {number}")
    try:
        # More than the buffers of both ends take.
        with pages.connect(b"GET /metrics HTTP/1.1\r\nHost: daemon\r\n\r\n" * 4) as deaf:
            wait_until("the end", lambda: is_dropped(deaf), 300, interval=0.05)
            status, _ = pages.get("/healthz")
    finally:
        pages.server.close()

    assert status == 200


def test_answers_on_a_kept_connection_do_not_wait_for_each_other(pages: Pages) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", pages.port, timeout=60)
    kept, fresh = [], []
    for _ in range(20):
        started = time.monotonic()
        assert asked(connection) == 200
        kept.append(time.monotonic() - started)
        started = time.monotonic()
        with closing(http.client.HTTPConnection("127.0.0.1", pages.port, timeout=60)) as another:
            assert asked(another) == 200
        fresh.append(time.monotonic() - started)
    connection.close()

    # With Nagle's algorithm the body waits for the client's delayed acknowledgement of the head: 40 ms. That
    # of the first answer of a connection never does, which costs more otherwise.
    assert statistics.median(kept) < statistics.median(fresh) + 0.03
