"""Page and API as a daemon serves them that was started with a configuration."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, chain
from testkit.scenarios.runner.process import DaemonProcess
from testkit.servers.tls import Authority

HALF_OPEN = 200
BEGUN_HANDSHAKE = bytes.fromhex("16030100c8010000c40303")
"""The first bytes of what a client of TLS says first."""


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as flink:
        flink.add_job("orders", chain(sources=1, vertices=2), start_ms=1, running_at_ms=1, obeys=True)
        yield flink


def client_of(daemon: DaemonProcess, *, verify: ssl.SSLContext | bool = True) -> httpx.Client:
    (line,) = daemon.lines("http_listening")
    return httpx.Client(base_url=line["url"], timeout=60, trust_env=False, verify=verify)


def test_a_daemon_shows_its_jobs_and_takes_no_order_unless_configured(daemon: DaemonProcess, flink: FakeFlink) -> None:
    daemon.configure({"main": flink.url})
    daemon.start()
    with client_of(daemon) as client:
        wait_until("the job", lambda: "main/orders" in client.get("/").text, 300)
        about = client.get("/api/v1/about").json()
        values = {each["key"]: each for each in client.get("/api/v1/configuration").json()["values"]}
        ordered = client.post("/api/v1/commands", json={"job_key": "main/orders", "order": "resume"})

    assert (about["is_leader"], about["role"], about["jobs"]) == (True, "viewer", 1)
    assert values["autoscaler.clusters.0.url"]["value"] == flink.url
    assert "autoscaler.yaml" in values["autoscaler.clusters.0.url"]["origin"]
    assert ordered.status_code == 403


def test_an_order_with_the_token_of_a_file_reaches_the_cluster(
    daemon: DaemonProcess, flink: FakeFlink, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("operators-token\n")
    daemon.configure({"main": flink.url}, **{"autoscaler__http__operator-token-file": str(tmp_path / "token")})
    daemon.start()
    (job,) = flink.jobs.values()
    work = job.vertices[1]
    pin = {
        "job_key": "main/orders",
        "order": "pin",
        "reason": "x",
        "vertices": {job.vertices[1].name: 3},
        "force": True,
    }
    with client_of(daemon) as client:
        unknown = client.get("/")
        client.headers["Authorization"] = "Bearer operators-token"
        wait_until("the job", lambda: "main/orders" in client.get("/").text, 300)
        given = client.post("/api/v1/commands", json=pin)

        wait_until("the pin", lambda: job.requirements[work.vertex_id][1] == 3, 300)

    assert (unknown.status_code, given.status_code) == (401, 200)
    assert "operators-token" not in daemon.text()


def test_https_is_spoken_and_handshakes_that_nobody_goes_on_with_hold_nobody_up(
    daemon: DaemonProcess, flink: FakeFlink, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("127.0.0.1")
    tls = {
        "autoscaler__http__tls-cert-file": server.certificate_file,
        "autoscaler__http__tls-key-file": server.key_file,
    }
    daemon.configure({"main": flink.url}, **tls)
    daemon.start()
    (line,) = daemon.lines("http_listening")
    place = httpx.URL(line["url"])
    with (
        ExitStack() as opened,
        client_of(daemon, verify=ssl.create_default_context(cafile=authority.ca_file)) as client,
    ):
        for number in range(HALF_OPEN):
            half = opened.enter_context(socket.create_connection((place.host, place.port or 443), timeout=60))
            half.sendall(BEGUN_HANDSHAKE[: number % len(BEGUN_HANDSHAKE)])
        asked = len(flink.paths("GET"))
        answers = {client.get("/healthz").status_code for _ in range(20)}
        wait_until("a pass", lambda: len(flink.paths("GET")) > asked, 300)

    assert answers == {200}


@pytest.mark.parametrize(
    ("key", "value"),
    [("tls-cert-file", "/nowhere.pem"), ("operator-token-file", "/nowhere"), ("viewer-token-env-variable", "NOT_SET")],
)
def test_what_is_configured_and_not_there_ends_the_start(
    daemon: DaemonProcess, flink: FakeFlink, key: str, value: str
) -> None:
    daemon.configure({"main": flink.url}, **{f"autoscaler__http__{key}": value})
    daemon.start(wait=False)

    assert daemon.exit_code() == 2
    assert f"autoscaler.http.{key}" in daemon.text()


def test_without_the_endpoint_there_is_none(daemon: DaemonProcess, flink: FakeFlink) -> None:
    daemon.configure({"main": flink.url}, autoscaler__http__enabled="false")
    daemon.start()

    assert daemon.lines("http_listening") == []
