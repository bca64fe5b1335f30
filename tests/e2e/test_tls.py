"""A real Flink whose REST API speaks TLS and demands client certificates."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from flink_autoscaler.clients.flink.decode import ParallelismBounds
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.job import Endpoint, Tls
from testkit.clusters.flink import FlinkCluster, job
from testkit.servers.tls import Authority, Identity, encrypted
from testkit.servers.tls.flink import rest_options

pytestmark = pytest.mark.e2e

HOST = "127.0.0.1"
PASSWORD = "open sesame"

T = TypeVar("T")


@dataclass(frozen=True)
class Secured:
    """A cluster with one job, and what is needed to talk to it."""

    cluster: FlinkCluster
    job_id: str
    tls: Tls
    stranger: Authority

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.cluster.rest_url, tls=self.tls)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("1.20", id="Flink 1.20", marks=pytest.mark.suite(name="long")),
        pytest.param("2.3", id="Flink 2.3"),
    ],
)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority(directory)
    daemon = authority.issue("daemon")
    options = rest_options(authority, authority.issue(HOST), directory)
    context = _context(authority, daemon)
    with FlinkCluster(request.param, config=options, slots=4, rest_tls=context) as cluster:
        job_id = job.submit(cluster, job.ScalingJob(name="secured"))
        tls = Tls(authority.ca_file, daemon.certificate_file, encrypted(daemon.key_file, PASSWORD), PASSWORD)
        yield Secured(cluster, job_id, tls, Authority(directory, "stranger"))


def _context(authority: Authority, identity: Identity) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.ca_file)
    context.load_cert_chain(identity.certificate_file, identity.key_file)
    return context


def ask(endpoint: Endpoint, question: Callable[[FlinkRestClient], Awaitable[T]]) -> T:
    async def run() -> T:
        client = FlinkRestClient(endpoint)
        try:
            return await question(client)
        finally:
            await client.aclose()

    return asyncio.run(run())


async def rescale(client: FlinkRestClient, job_id: str, parallelism: int) -> None:
    bounds = await client.resource_requirements(job_id)
    await client.set_resource_requirements(job_id, dict.fromkeys(bounds, ParallelismBounds(1, parallelism)))


def test_job_is_rescaled_with_a_client_certificate(secured: Secured) -> None:
    job_id = secured.job_id

    ask(secured.endpoint, lambda client: rescale(client, job_id, 2))

    secured.cluster.wait_until(
        "parallelism 2 everywhere", lambda: set(secured.cluster.rest.parallelism(job_id).values()) == {2}
    )
    details = ask(secured.endpoint, lambda client: client.job_details(job_id))
    assert {vertex.parallelism for vertex in details.vertices} == {2}


def failures(endpoint: Endpoint, job_id: str) -> Iterator[str]:
    """What is said when reading fails, and when writing does."""
    for question in (FlinkRestClient.jobs_overview, lambda client: client.set_resource_requirements(job_id, {})):
        with pytest.raises(ConnectError) as raised:
            ask(endpoint, question)
        yield str(raised.value)


def test_missing_client_certificate_is_named(secured: Secured) -> None:
    endpoint = replace(secured.endpoint, tls=Tls(ca_file=secured.tls.ca_file))

    for message in failures(endpoint, secured.job_id):
        assert "demands a client certificate: set tls.certificate-file" in message


def test_client_certificate_of_an_unknown_authority_is_named(secured: Secured) -> None:
    other = secured.stranger.issue("daemon")
    endpoint = replace(secured.endpoint, tls=Tls(secured.tls.ca_file, other.certificate_file, other.key_file))

    for message in failures(endpoint, secured.job_id):
        assert "not accept the certificate in tls.certificate-file" in message


def test_unknown_authority_is_named(secured: Secured) -> None:
    endpoint = replace(secured.endpoint, tls=replace(secured.tls, ca_file=secured.stranger.ca_file))

    for message in failures(endpoint, secured.job_id):
        assert "the issuer of its certificate is not known" in message


def test_plain_url_leads_to_a_hint(secured: Secured) -> None:
    endpoint = Endpoint(secured.cluster.rest_url.replace("https:", "http:"))

    with pytest.raises(Exception, match="https://"):
        ask(endpoint, FlinkRestClient.jobs_overview)


def command(secured: Secured, tmp_path: Path, *arguments: str, **tls: str) -> subprocess.CompletedProcess[str]:
    """Run the daemon's command with the cluster in its configuration."""
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n")
    cluster = {
        "name": "secured",
        "url": secured.cluster.rest_url,
        "timeout": "20 s",
        "tls.ca-file": secured.tls.ca_file,
        "tls.certificate-file": secured.tls.certificate_file,
        "tls.key-file": secured.tls.key_file,
        "tls.key-password-file": str(password),
        **{f"tls.{key.replace('_', '-')}": value for key, value in tls.items()},
    }
    values = [f"--set=autoscaler.clusters.0.{key}={value}" for key, value in cluster.items()]
    program = [sys.executable, "-m", "flink_autoscaler.standalone", *arguments, *values]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)


def test_jobs_lists_the_jobs(secured: Secured, tmp_path: Path) -> None:
    result = command(secured, tmp_path, "jobs", "--json")

    assert result.returncode == 0, result.stderr
    assert secured.job_id in json.dumps(json.loads(result.stdout))


@pytest.mark.suite(name="long")
def test_once_evaluates_the_job(secured: Secured, tmp_path: Path) -> None:
    options = ["--set=job.autoscaler.enabled=true", "--set=autoscaler.engine.kind=inline"]

    result = command(secured, tmp_path, "once", "--json", *options)

    assert result.returncode == 0, result.stderr
    assert secured.job_id in json.dumps(json.loads(result.stdout))


@pytest.mark.suite(name="long")
def test_jobs_names_the_wrong_authority(secured: Secured, tmp_path: Path) -> None:
    result = command(secured, tmp_path, "jobs", ca_file=secured.stranger.ca_file)

    assert result.returncode != 0
    assert "the issuer of its certificate is not known" in result.stderr


@pytest.mark.suite(name="long")
def test_jobs_names_the_wrong_password(secured: Secured, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("guessed\n")

    result = command(secured, tmp_path, "jobs", key_password_file=str(other))

    assert result.returncode != 0
    assert f"{secured.tls.key_file} cannot be decrypted" in " ".join(result.stderr.split())
    assert "guessed" not in result.stderr
