from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.http import HttpServer, create_app


class Pages:
    """The pages, served on a free port, with what they show."""

    def __init__(self) -> None:
        self.now = 0.0
        self.is_alive = True
        self.gauges = Gauges()
        self.health = Health({"one": 30.0, "two": 30.0}, clock=lambda: self.now)
        app = create_app(gauges=self.gauges, health=self.health, is_alive=lambda: self.is_alive)
        self.server = HttpServer(app, host="127.0.0.1", port=0)
        self.server.start()

    def get(self, path: str) -> tuple[int, str]:
        # Without the proxy of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self.server.url + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

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


def test_not_ready_before_every_cluster_was_looked_at(pages: Pages) -> None:
    pages.health.succeeded("one")

    status, body = pages.readiness()

    assert status == 503
    assert body["clusters"]["one"]["ready"]
    assert body["clusters"]["two"] == {
        "ready": False,
        "last_success_age_seconds": None,
        "stale_after_seconds": 30.0,
        "error": None,
    }


def test_ready_after_a_success_of_every_cluster(pages: Pages) -> None:
    pages.health.succeeded("one")
    pages.health.succeeded("two")
    pages.now = 12.0

    status, body = pages.readiness()

    assert status == 200
    assert body["ready"]
    assert body["clusters"]["two"]["last_success_age_seconds"] == 12.0


def test_not_ready_once_a_success_is_stale(pages: Pages) -> None:
    pages.health.succeeded("one")
    pages.health.succeeded("two")
    pages.now = 30.0
    pages.health.succeeded("one")

    status, body = pages.readiness()

    assert status == 503
    assert (body["clusters"]["one"]["ready"], body["clusters"]["two"]["ready"]) == (True, False)


def test_readiness_shows_the_error_until_it_is_over_without_secrets(pages: Pages) -> None:
    pages.health.failed("one", "GET http://flink:hunter2@jobmanager failed")
    _, failed = pages.readiness()
    pages.health.succeeded("one")
    _, recovered = pages.readiness()

    assert failed["clusters"]["one"]["error"].endswith("@jobmanager failed")
    assert "hunter2" not in json.dumps(failed)
    assert recovered["clusters"]["one"]["error"] is None


def test_metrics_are_in_the_text_format(pages: Pages) -> None:
    pages.gauges.record_pass("one", 0.1, succeeded=True, engine="inline")

    status, body = pages.get("/metrics")

    assert status == 200
    assert 'flink_autoscaler_passes_total{cluster="one",engine="inline",result="succeeded"} 1.0' in body


def test_other_pages_do_not_exist(pages: Pages) -> None:
    assert pages.get("/")[0] == 404


def test_used_port_is_a_configuration_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        app = create_app(gauges=Gauges(), health=Health({}), is_alive=lambda: True)

        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            HttpServer(app, host="127.0.0.1", port=port)


def test_closed_server_frees_its_port(pages: Pages) -> None:
    port = int(pages.server.url.rsplit(":", 1)[1])

    pages.server.close()

    with socket.create_server(("127.0.0.1", port)):
        pass
