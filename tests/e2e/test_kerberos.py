"""Flink behind a server that asks for Kerberos: Apache httpd with mod_auth_gssapi, and a real KDC."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from flink_autoscaler.clients.http.transport import HttpTransport
from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.job import Endpoint, Kerberos
from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.faults import BusyCluster
from testkit.scenarios.runner.process import DaemonProcess
from testkit.servers.kerberos import GuardedServer, Identity, Realm

pytestmark = pytest.mark.suite(name="services")
pytest_plugins = ["testkit.servers.kerberos.fixtures"]


T = TypeVar("T")
Guarded = tuple[GuardedServer, FakeFlink]

SERVICE = "HTTP/localhost"

SPARK_SECONDS = 600.0
"""A busy machine takes its time to start Spark."""


def endpoint(server: GuardedServer, who: Identity) -> Endpoint:
    kerberos = Kerberos(principal=who.principal, keytab=str(who.keytab))
    return Endpoint(server.url, timeout=20.0, kerberos=kerberos)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def rounds(server: GuardedServer) -> int:
    """Return how many requests showed a ticket."""
    return sum(line.endswith(" ticket") for line in server.requests())


def access(server: GuardedServer, who: Identity) -> dict[str, str]:
    return {
        "autoscaler.clusters.0.name": "guarded",
        "autoscaler.clusters.0.url": server.url,
        "autoscaler.clusters.0.auth.kind": "kerberos",
        "autoscaler.clusters.0.auth.principal": who.principal,
        "autoscaler.clusters.0.auth.keytab": str(who.keytab),
    }


def call(*arguments: str, options: dict[str, str]) -> subprocess.CompletedProcess[str]:
    overrides = [part for key, value in options.items() for part in ("--set", f"{key}={value}")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "flink_autoscaler.standalone", *arguments, *overrides]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_hundred_requests_need_one_ticket(guarded_flink: Guarded, identity: Identity, realm: Realm) -> None:
    server, _ = guarded_flink

    async def ask() -> None:
        transport = HttpTransport(endpoint(server, identity))
        for _ in range(100):
            await transport.get_json("/config")
        await transport.aclose()

    run(ask())

    wait_until("a line for each request", lambda: len(server.requests()) >= 101, 300)
    assert len(server.requests()) == 101  # the first one was answered with the question
    assert rounds(server) == 1
    assert realm.requests("AS_REQ", identity.principal) == 1
    assert realm.requests("TGS_REQ", identity.principal) == 1


def test_parallel_first_requests_are_all_answered(guarded_flink: Guarded, identity: Identity, realm: Realm) -> None:
    server, _ = guarded_flink

    async def ask() -> list[object]:
        transport = HttpTransport(endpoint(server, identity))
        answers = await asyncio.gather(*(transport.get_json("/config") for _ in range(16)))
        await transport.aclose()
        return answers

    assert len(run(ask())) == 16
    assert realm.requests("AS_REQ", identity.principal) == 1
    assert realm.requests("TGS_REQ", identity.principal) == 1


def test_put_as_the_first_request_arrives_once(guarded_flink: Guarded, identity: Identity) -> None:
    server, flink = guarded_flink
    job = flink.add_job()
    path = f"/jobs/{job.job_id}/resource-requirements"
    wanted = {vertex.vertex_id: {"parallelism": {"lowerBound": 1, "upperBound": 2}} for vertex in job.vertices}

    async def put() -> None:
        transport = HttpTransport(endpoint(server, identity))
        await transport.put_json(path, wanted)
        await transport.aclose()

    run(put())

    assert flink.paths("PUT") == [path]
    assert job.requirements == {vertex.vertex_id: (1, 2) for vertex in job.vertices}


def test_worthless_cookie_leads_to_another_ticket(guarded_flink: Guarded, identity: Identity) -> None:
    server, _ = guarded_flink

    async def ask() -> None:
        transport = HttpTransport(endpoint(server, identity))
        await transport.get_json("/config")
        server.stop()
        server.start()
        await transport.get_json("/config")
        await transport.aclose()

    run(ask())

    # A line is written after its answer.
    wait_until("four lines in the server's log", lambda: len(server.requests()) >= 4, 300)
    assert [line.split()[2:] for line in server.requests()] == [["401", "-"], ["200", "ticket"]] * 2


def test_server_without_sessions_is_shown_a_ticket_each_time(realm: Realm, identity: Identity) -> None:
    async def ask(server: GuardedServer) -> None:
        transport = HttpTransport(endpoint(server, identity))
        await transport.get_json("/config")
        await transport.get_json("/config")
        await transport.aclose()

    with (
        FakeFlink() as flink,
        GuardedServer(flink.url, realm, realm.keytab(SERVICE), keeps_sessions=False) as server,
    ):
        run(ask(server))
        shown = rounds(server)

    assert shown == 2
    assert realm.requests("TGS_REQ", identity.principal) == 1


def test_server_with_another_key_than_the_kdc_is_an_error(realm: Realm, identity: Identity) -> None:
    async def ask(server: GuardedServer) -> None:
        transport = HttpTransport(endpoint(server, identity))
        try:
            await transport.get_json("/config")
        finally:
            await transport.aclose()

    other = realm.new_identity()
    with FakeFlink() as flink, GuardedServer(flink.url, realm, other.keytab) as server:
        with pytest.raises(ConnectError, match="HTTP/localhost: the server refuses the ticket"):
            run(ask(server))
        assert flink.requests == []


def test_jobs_command_lists_jobs_through_kerberos(guarded_flink: Guarded, identity: Identity, tmp_path: Path) -> None:
    server, flink = guarded_flink
    job = flink.add_job("orders")
    file = tmp_path / "autoscaler.yaml"
    auth = {"kind": "kerberos", "principal": identity.principal, "keytab": str(identity.keytab)}
    clusters = [{"name": "guarded", "url": server.url, "auth": auth}]
    file.write_text(json.dumps({"autoscaler": {"clusters": clusters, "engine": {"kind": "inline"}}}))

    result = call("jobs", "--config", str(file), options={})

    assert result.returncode == 0, result.stderr
    assert job.job_id in result.stdout
    assert "guarded/orders" in result.stdout
    assert rounds(server) == 1


def test_jobs_command_explains_why_there_is_no_ticket(guarded_flink: Guarded, identity: Identity) -> None:
    server, _ = guarded_flink
    options = access(server, identity) | {"autoscaler.clusters.0.auth.principal": "somebody"}

    result = call("jobs", options={**options, "autoscaler.engine.kind": "inline"})

    assert result.returncode != 0
    assert f"the keytab {identity.keytab} has no key of somebody" in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


@pytest.mark.spark
def test_pass_on_spark_reads_jobs_through_kerberos(guarded_flink: Guarded, identity: Identity) -> None:
    server, flink = guarded_flink
    flink.add_job("orders")
    options = {**access(server, identity), "job.autoscaler.enabled": "true", "autoscaler.engine.kind": "spark"}

    result = call("once", "--json", "--spark", options=options)

    assert result.returncode == 0, result.stderr
    (cluster,) = json.loads(result.stdout)["clusters"]
    assert [job["job_key"] for job in cluster["jobs"]] == ["guarded/orders"]
    assert cluster["engine"] == {"engine": "spark", "reason": "configured"}
    assert any("/vertices/" in path for path in flink.paths("GET"))


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[BusyCluster]:
    with BusyCluster(tmp_path) as cluster:
        yield cluster


def test_daemon_rescales_through_kerberos(realm: Realm, identity: Identity, busy: BusyCluster, tmp_path: Path) -> None:
    database = DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")

    with GuardedServer(busy.urls[0], realm, realm.keytab(SERVICE)) as server:
        options = {**access(server, identity), "autoscaler.standalone.jdbc.upgrade-at-start": "true"}
        options["job.autoscaler.flink.rest-client.timeout"] = "5 s"
        with DaemonProcess(tmp_path, database=database, cluster_url=server.url, options=options) as daemon:
            daemon.start()
            busy.wait_for_puts(2)
            assert daemon.stop() == 0
            text = daemon.text()
        lines = server.requests()

    assert sum(line.startswith("PUT ") and " 200 " in line for line in lines) >= 2
    assert sum(line.endswith(" ticket") for line in lines) <= 16  # the parallel first requests; a cookie for all others
    assert len(lines) > 40
    assert not re.search(r"YII[A-Za-z0-9+/]{20}", text)  # how a token begins
    assert "hadoop.auth" not in text


@pytest.mark.guard
@pytest.mark.spark
def test_daemon_on_spark_rescales_through_kerberos(
    realm: Realm, identity: Identity, busy: BusyCluster, tmp_path: Path
) -> None:
    database = DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")

    with GuardedServer(busy.urls[0], realm, realm.keytab(SERVICE)) as server:
        options = {**access(server, identity), "autoscaler.standalone.jdbc.upgrade-at-start": "true"}
        options |= {"job.autoscaler.flink.rest-client.timeout": "5 s", "autoscaler.engine.kind": "spark"}
        with DaemonProcess(tmp_path, database=database, cluster_url=server.url, options=options) as daemon:
            daemon.start()
            daemon.wait_for("passes on Spark", lambda: evaluated(daemon, "spark") >= 5, timeout=SPARK_SECONDS)
            inline = evaluated(daemon, "inline")
            busy.wait_for_puts(2)
            on_spark, still_inline = evaluated(daemon, "spark"), evaluated(daemon, "inline")
            assert daemon.stop() == 0
        lines = server.requests()

    assert on_spark >= 7
    assert still_inline == inline
    assert sum(line.startswith("PUT ") and " 200 " in line for line in lines) >= 2


def evaluated(daemon: DaemonProcess, engine: str) -> float:
    """Return how many passes an engine has evaluated."""
    _, metrics = daemon.get("/metrics")
    pattern = rf'^flink_autoscaler_passes_total{{cluster="guarded",engine="{engine}",result="succeeded"}} (\S+)'
    found = re.search(pattern, metrics, re.MULTILINE)
    return 0.0 if found is None else float(found[1])
