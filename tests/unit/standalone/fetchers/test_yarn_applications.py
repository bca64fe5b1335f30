"""On which way the JobManager of an application is reached."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from flink_autoscaler.clients.flink.decode import ParallelismBounds
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import FlinkRestError, NotReadyError
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.fetchers.job_contexts import REFRESH_AFTER
from testkit.fakes.flink import FakeFlink, FakeRequest, Fault
from testkit.fakes.yarn import FakeYarn
from testkit.fakes.yarn.fetching import Clock, YarnSite, keys
from testkit.servers.tls import Authority, TlsFront, server_context


@pytest.fixture
def site() -> Iterator[YarnSite]:
    """Give a cluster with an application, whose JobManager has one job."""
    with YarnSite(jobs=["orders"]) as site:
        assert site.application.jobmanager is site.flink
        yield site


def url_of(job_list: JobList) -> str:
    (context,) = job_list.jobs
    return context.endpoint.url


def proxied(site: YarnSite) -> list[FakeRequest]:
    return [request for manager in site.yarn.managers for request in manager.requests if "/proxy/" in request.path]


def closed_port() -> int:
    with FakeFlink() as closed:
        return urlsplit(closed.url).port or 0


def proxy_url(site: YarnSite) -> str:
    return f"{site.yarn.urls[0]}/proxy/{site.application.id}"


@pytest.mark.parametrize("access", ["auto", "direct"])
def test_direct_where_that_works(site: YarnSite, access: str) -> None:
    assert url_of(site.fetch(access=access)) == site.flink.url
    assert proxied(site) == []


def test_through_the_proxy_where_that_is_configured(site: YarnSite) -> None:
    (context,) = site.fetch(access="proxy").jobs

    assert context.endpoint.url == proxy_url(site)
    assert context.endpoint.put_url == site.flink.url
    assert len(site.flink.requests) == len(proxied(site))


def test_through_a_proxy_elsewhere(site: YarnSite) -> None:
    with FakeYarn() as elsewhere:
        elsewhere.applications = site.yarn.applications
        site.yarn.proxy_base = elsewhere.urls[0]

        assert url_of(site.fetch(access="proxy")) == f"{elsewhere.urls[0]}/proxy/{site.application.id}"


@pytest.mark.parametrize("address", ["", "N/A:-1", "127.0.0.1:{closed}"], ids=["hidden", "no address", "refused"])
def test_auto_takes_the_proxy_where_direct_access_does_not_work(site: YarnSite, address: str) -> None:
    site.application.extra = {"amRPCAddress": address.format(closed=closed_port())}

    assert url_of(site.fetch(access="auto")) == proxy_url(site)


def test_auto_gives_direct_access_a_short_share_of_the_timeout(site: YarnSite) -> None:
    silent = site.jobmanager()
    silent.fault("/", Fault.HANG)
    site.application.extra = {"amRPCAddress": urlsplit(silent.url).netloc}

    begun = time.monotonic()
    job_list = site.fetch(access="auto", timeout=20.0)

    assert url_of(job_list) == proxy_url(site)
    assert time.monotonic() - begun >= 5.0  # and the rest of the time was left for the proxy, which has answered


def test_auto_keeps_to_what_worked(site: YarnSite) -> None:
    other = site.jobmanager()
    other.fault("/", Fault.HTML)
    site.application.extra = {"amRPCAddress": urlsplit(other.url).netloc}
    fetcher = site.fetcher(access="auto")
    fetcher.fetch()
    other.clear_faults()
    asked = len(other.requests)

    assert url_of(fetcher.fetch()) == proxy_url(site)
    assert len(other.requests) == asked


def test_auto_looks_anew_when_what_worked_fails(site: YarnSite) -> None:
    direct = site.jobmanager()
    site.application.extra = {"amRPCAddress": urlsplit(direct.url).netloc}
    fetcher = site.fetcher(access="auto")
    assert url_of(fetcher.fetch()) == direct.url

    direct.pause()
    failed, afterwards = fetcher.fetch(), fetcher.fetch()

    assert list(failed.problems) == [site.application.id]
    assert url_of(afterwards) == proxy_url(site)


@pytest.mark.parametrize("access", ["auto", "direct", "proxy"])
def test_the_next_attempt_is_followed_in_the_next_pass(site: YarnSite, access: str) -> None:
    fetcher = site.fetcher(access=access)
    before = fetcher.fetch().jobs[0]
    old, site.application.jobmanager = site.application.jobmanager, site.jobmanager()
    assert old is not None
    old.pause()
    site.application.attempt = 2

    after = fetcher.fetch()

    assert (keys(after), after.problems) == ([before.job_key], {})
    assert after.jobs[0].job_id in site.application.jobmanager.jobs


def test_an_attempt_at_the_same_address_is_examined_anew(site: YarnSite) -> None:
    fetcher = site.fetcher()
    fetcher.fetch()
    site.flink.configuration["yarn.containers.vcores"] = "5"

    site.application.attempt = 2

    assert fetcher.fetch().jobs[0].taskmanager_cpu == 5.0


def test_facts_are_read_again_after_a_while(site: YarnSite) -> None:
    clock = Clock()
    fetcher = site.fetcher(clock=clock)
    fetcher.fetch()
    site.flink.configuration["yarn.containers.vcores"] = "5"

    clock.now = REFRESH_AFTER - 1
    before = fetcher.fetch().jobs[0].taskmanager_cpu
    clock.now = REFRESH_AFTER

    assert (before, fetcher.fetch().jobs[0].taskmanager_cpu) == (1.0, 5.0)


@pytest.mark.parametrize(
    ("access", "extra", "words"),
    [
        pytest.param("direct", {"amRPCAddress": None}, "may not view", id="hidden"),
        pytest.param("direct", {"amRPCAddress": "N/A"}, "'N/A'", id="not an address"),
        pytest.param("proxy", {"trackingUrl": "http://elsewhere/x"}, "elsewhere", id="tracking URL of something else"),
        pytest.param("proxy", {"unmanagedApplication": True}, "outside YARN", id="unmanaged"),
    ],
)
def test_no_usable_address_is_explained(site: YarnSite, access: str, extra: dict[str, object], words: str) -> None:
    site.application.extra = extra

    problem = site.fetch(access=access).problems[site.application.id]

    assert isinstance(problem, FlinkRestError)
    assert words in str(problem)


@pytest.mark.parametrize("access", ["auto", "direct", "proxy"])
def test_no_address_at_all_is_not_ready(site: YarnSite, access: str) -> None:
    site.application.jobmanager = None

    assert isinstance(site.fetch(access=access).problems[site.application.id], NotReadyError)


def test_all_ways_that_failed_are_named(site: YarnSite) -> None:
    site.flink.pause()

    problem = str(site.fetch().problems[site.application.id])

    assert f"{site.flink.url}/jobs/overview: connection refused" in problem
    assert f"{proxy_url(site)}/jobs/overview: HTTP 500" in problem


def test_what_fails_is_tried_again_after_more_and_more_passes(site: YarnSite) -> None:
    site.flink.fault("/", Fault.HTML)
    fetcher = site.fetcher(access="direct")
    tried = []

    for number in range(1, 50):
        before = len(site.flink.requests)
        assert site.application.id in fetcher.fetch().problems
        if len(site.flink.requests) > before:
            tried.append(number)

    assert tried == [1, 2, 4, 8, 16, 32, 48]


def test_another_attempt_is_tried_at_once(site: YarnSite) -> None:
    site.flink.pause()
    fetcher = site.fetcher(access="direct")
    for _ in range(5):
        fetcher.fetch()

    site.application.jobmanager = site.jobmanager()

    assert keys(fetcher.fetch()) == ["main/orders"]


def test_one_that_is_back_is_read_as_before(site: YarnSite) -> None:
    fetcher = site.fetcher(access="direct")
    fetcher.fetch()
    site.flink.pause()
    assert fetcher.fetch().problems

    site.flink.resume()

    assert (keys(fetcher.fetch()), fetcher.fetch().problems) == (["main/orders"], {})


@pytest.mark.parametrize("forwards_put", [True, False], ids=["current proxy", "proxy without PUT"])
def test_a_rescale_arrives_whatever_the_proxy_passes_on(site: YarnSite, forwards_put: bool) -> None:
    site.yarn.forwards_put = forwards_put
    (job,) = site.flink.jobs.values()
    (context,) = site.fetch(access="proxy").jobs
    wanted = {vertex.vertex_id: ParallelismBounds(1, 3) for vertex in job.vertices}

    loop = EventLoopThread()
    client = FlinkRestClient(context.endpoint)
    loop.run(client.set_resource_requirements(job.job_id, wanted))
    loop.run(client.aclose())
    loop.close()

    assert set(job.requirements.values()) == {(1, 3)}
    assert site.flink.paths("PUT") == [f"/jobs/{job.job_id}/resource-requirements"]


class TestTls:
    """A JobManager registers its address without a scheme."""

    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        return Authority(tmp_path)

    @pytest.fixture
    def encrypted(self, site: YarnSite, authority: Authority) -> Iterator[TlsFront]:
        with TlsFront(urlsplit(site.flink.url).port or 0, server_context(authority.issue("127.0.0.1"))) as front:
            yield front

    def test_https_where_tls_is_configured(self, site: YarnSite, encrypted: TlsFront, authority: Authority) -> None:
        site.application.extra = {"amRPCAddress": f"127.0.0.1:{encrypted.port}"}

        fetcher = site.fetcher(access="direct", cluster={"tls": {"ca-file": authority.ca_file}})

        assert url_of(fetcher.fetch()) == encrypted.url

    def test_never_unencrypted_where_tls_is_configured(self, site: YarnSite, authority: Authority) -> None:
        fetcher = site.fetcher(access="direct", cluster={"tls": {"ca-file": authority.ca_file}})

        assert site.application.id in fetcher.fetch().problems
        assert site.flink.requests == []

    def test_what_https_needs_is_said_where_nothing_is_configured(self, site: YarnSite, encrypted: TlsFront) -> None:
        site.application.extra = {"amRPCAddress": f"127.0.0.1:{encrypted.port}"}

        problem = str(site.fetch(access="direct").problems[site.application.id])

        assert f"{encrypted.url}/jobs/overview" in problem
        assert "tls.ca-file" in problem


class TestCredentials:
    """Whoever starts an application does not get to see the credentials for ResourceManagers."""

    RM: ClassVar = {"auth": {"kind": "basic", "username": "u", "password-env-variable": "RM_PASSWORD"}}

    @pytest.fixture(autouse=True)
    def secrets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RM_PASSWORD", "rm-secret")
        monkeypatch.setenv("RM_TOKEN", "rm-token")

    def test_each_side_gets_its_own(self, site: YarnSite) -> None:
        fetcher = site.fetcher(
            cluster={"headers": {"X-Side": "jobmanager"}},
            headers={"X-Side": "yarn"},
            delegation_token_env_variable="RM_TOKEN",
        )

        fetcher.fetch()

        assert {request.headers["x-side"] for request in site.flink.requests} == {"jobmanager"}
        assert {request.headers["x-side"] for request in site.yarn.managers[0].requests} == {"yarn"}
        assert all("hadoop-yarn-rm-delegation-token" in request.headers for request in site.yarn.managers[0].requests)
        assert not any("hadoop-yarn-rm-delegation-token" in request.headers for request in site.flink.requests)

    def test_a_delegation_token_is_for_configured_resource_managers_alone(self, site: YarnSite) -> None:
        with FakeYarn() as elsewhere:
            elsewhere.applications = site.yarn.applications
            site.yarn.proxy_base = elsewhere.urls[0]

            site.fetch(access="proxy", delegation_token_env_variable="RM_TOKEN", **self.RM)

            seen = [request.headers for request in elsewhere.managers[0].requests]
        assert seen
        assert all("authorization" in headers for headers in seen)
        assert not any("hadoop-yarn-rm-delegation-token" in headers for headers in seen)

    def test_tracking_urls_that_yarn_has_not_made_get_nothing(self, site: YarnSite) -> None:
        with FakeYarn() as evil:
            site.application.extra = {
                "unmanagedApplication": True,
                "amRPCAddress": None,
                "trackingUrl": f"{evil.urls[0]}/proxy/{site.application.id}/",
            }

            job_list = site.fetch(**self.RM)

            assert site.application.id in job_list.problems
            assert evil.managers[0].requests == []

    def test_a_token_that_was_replaced_counts_in_the_next_pass(self, site: YarnSite, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("first\n", encoding="utf-8")
        site.yarn.managers[0].required_header = ("Authorization", "Bearer first")
        fetcher = site.fetcher(access="proxy", auth={"kind": "bearer", "token-file": str(file)})
        assert keys(fetcher.fetch()) == ["main/orders"]

        site.yarn.managers[0].required_header = ("Authorization", "Bearer second")
        with pytest.raises(FlinkRestError, match="401"):
            fetcher.fetch()
        file.write_text("second\n", encoding="utf-8")

        assert keys(fetcher.fetch()) == ["main/orders"]
