"""On which way the JobManager of an application is reached."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
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
from testkit.fakes.yarn import FakeApplication, FakeYarn
from testkit.fakes.yarn.fetching import Clock, FetcherOf, fetchers_of, keys
from testkit.servers.tls import Authority, TlsFront, server_context

MakeFlink = Callable[[], FakeFlink]


@pytest.fixture
def yarn() -> Iterator[FakeYarn]:
    with FakeYarn() as fake:
        yield fake


@pytest.fixture
def make_flink() -> Iterator[MakeFlink]:
    with ExitStack() as open_ones:

        def make() -> FakeFlink:
            flink = open_ones.enter_context(FakeFlink())
            flink.add_job("orders")
            return flink

        yield make


@pytest.fixture
def flink(make_flink: MakeFlink) -> FakeFlink:
    return make_flink()


@pytest.fixture
def application(yarn: FakeYarn, flink: FakeFlink) -> FakeApplication:
    return yarn.add("application", flink)


@pytest.fixture
def make_fetcher(yarn: FakeYarn) -> Iterator[FetcherOf]:
    with fetchers_of(yarn) as (fetcher_of, _):
        yield fetcher_of


def url_of(job_list: JobList) -> str:
    (context,) = job_list.jobs
    return context.endpoint.url


def proxied(yarn: FakeYarn) -> list[FakeRequest]:
    return [request for manager in yarn.managers for request in manager.requests if "/proxy/" in request.path]


def closed_port() -> int:
    with FakeFlink() as closed:
        return urlsplit(closed.url).port or 0


def proxy_url(yarn: FakeYarn, application: FakeApplication) -> str:
    return f"{yarn.urls[0]}/proxy/{application.id}"


@pytest.mark.parametrize("access", ["auto", "direct"])
def test_direct_where_that_works(
    yarn: FakeYarn, flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf, access: str
) -> None:
    assert url_of(make_fetcher(access=access).fetch()) == flink.url
    assert proxied(yarn) == []


def test_through_the_proxy_where_that_is_configured(
    yarn: FakeYarn, flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf
) -> None:
    (context,) = make_fetcher(access="proxy").fetch().jobs

    assert context.endpoint.url == proxy_url(yarn, application)
    assert context.endpoint.put_url == flink.url
    assert len(flink.requests) == len(proxied(yarn))


def test_through_a_proxy_elsewhere(flink: FakeFlink, make_fetcher: FetcherOf, yarn: FakeYarn) -> None:
    with FakeYarn() as elsewhere:
        application = yarn.add("application", flink)
        elsewhere.applications = yarn.applications
        yarn.proxy_base = elsewhere.urls[0]

        assert url_of(make_fetcher(access="proxy").fetch()) == f"{elsewhere.urls[0]}/proxy/{application.id}"


@pytest.mark.parametrize("address", ["", "N/A:-1", "127.0.0.1:{closed}"], ids=["hidden", "no address", "refused"])
def test_auto_takes_the_proxy_where_direct_access_does_not_work(
    yarn: FakeYarn, application: FakeApplication, make_fetcher: FetcherOf, address: str
) -> None:
    application.extra = {"amRPCAddress": address.format(closed=closed_port())}

    assert url_of(make_fetcher(access="auto").fetch()) == proxy_url(yarn, application)


def test_auto_gives_direct_access_a_short_share_of_the_timeout(
    yarn: FakeYarn, make_flink: MakeFlink, application: FakeApplication, make_fetcher: FetcherOf
) -> None:
    silent = make_flink()
    silent.fault("/", Fault.HANG)
    application.extra = {"amRPCAddress": urlsplit(silent.url).netloc}

    begun = time.monotonic()
    job_list = make_fetcher(access="auto", timeout=8.0).fetch()

    assert url_of(job_list) == proxy_url(yarn, application)
    assert 2.0 <= time.monotonic() - begun < 8.0


def test_auto_keeps_to_what_worked(
    yarn: FakeYarn, make_flink: MakeFlink, application: FakeApplication, make_fetcher: FetcherOf
) -> None:
    other = make_flink()
    other.fault("/", Fault.HTML)
    application.extra = {"amRPCAddress": urlsplit(other.url).netloc}
    fetcher = make_fetcher(access="auto")
    fetcher.fetch()
    other.clear_faults()
    asked = len(other.requests)

    assert url_of(fetcher.fetch()) == proxy_url(yarn, application)
    assert len(other.requests) == asked


def test_auto_looks_anew_when_what_worked_fails(
    yarn: FakeYarn, make_flink: MakeFlink, application: FakeApplication, make_fetcher: FetcherOf
) -> None:
    direct = make_flink()
    application.extra = {"amRPCAddress": urlsplit(direct.url).netloc}
    fetcher = make_fetcher(access="auto")
    assert url_of(fetcher.fetch()) == direct.url

    direct.pause()
    failed, afterwards = fetcher.fetch(), fetcher.fetch()

    assert list(failed.problems) == [application.id]
    assert url_of(afterwards) == proxy_url(yarn, application)


@pytest.mark.parametrize("access", ["auto", "direct", "proxy"])
def test_the_next_attempt_is_followed_in_the_next_pass(
    yarn: FakeYarn, make_flink: MakeFlink, application: FakeApplication, make_fetcher: FetcherOf, access: str
) -> None:
    fetcher = make_fetcher(access=access)
    before = fetcher.fetch().jobs[0]
    old, application.jobmanager = application.jobmanager, make_flink()
    assert old is not None
    old.pause()
    application.attempt = 2

    after = fetcher.fetch()

    assert (keys(after), after.problems) == ([before.job_key], {})
    assert after.jobs[0].job_id in application.jobmanager.jobs


def test_an_attempt_at_the_same_address_is_examined_anew(
    flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf
) -> None:
    fetcher = make_fetcher()
    fetcher.fetch()
    flink.configuration["yarn.containers.vcores"] = "5"

    application.attempt = 2

    assert fetcher.fetch().jobs[0].taskmanager_cpu == 5.0


def test_facts_are_read_again_after_a_while(
    flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf
) -> None:
    clock = Clock()
    fetcher = make_fetcher(clock=clock)
    fetcher.fetch()
    flink.configuration["yarn.containers.vcores"] = "5"

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
def test_no_usable_address_is_explained(
    application: FakeApplication, make_fetcher: FetcherOf, access: str, extra: dict[str, object], words: str
) -> None:
    application.extra = extra

    problem = make_fetcher(access=access).fetch().problems[application.id]

    assert isinstance(problem, FlinkRestError)
    assert words in str(problem)


@pytest.mark.parametrize("access", ["auto", "direct", "proxy"])
def test_no_address_at_all_is_not_ready(application: FakeApplication, make_fetcher: FetcherOf, access: str) -> None:
    application.jobmanager = None

    assert isinstance(make_fetcher(access=access).fetch().problems[application.id], NotReadyError)


def test_all_ways_that_failed_are_named(
    yarn: FakeYarn, flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf
) -> None:
    flink.pause()

    problem = str(make_fetcher().fetch().problems[application.id])

    assert f"{flink.url}/jobs/overview: connection refused" in problem
    assert f"{proxy_url(yarn, application)}/jobs/overview: HTTP 500" in problem


def test_what_fails_is_tried_again_after_more_and_more_passes(
    flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf
) -> None:
    flink.fault("/", Fault.HTML)
    fetcher = make_fetcher(access="direct")
    tried = []

    for number in range(1, 50):
        before = len(flink.requests)
        assert application.id in fetcher.fetch().problems
        if len(flink.requests) > before:
            tried.append(number)

    assert tried == [1, 2, 4, 8, 16, 32, 48]


def test_another_attempt_is_tried_at_once(
    flink: FakeFlink, make_flink: MakeFlink, application: FakeApplication, make_fetcher: FetcherOf
) -> None:
    flink.pause()
    fetcher = make_fetcher(access="direct")
    for _ in range(5):
        fetcher.fetch()

    application.jobmanager = make_flink()

    assert keys(fetcher.fetch()) == ["main/orders"]


def test_one_that_is_back_is_read_as_before(
    flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf
) -> None:
    fetcher = make_fetcher(access="direct")
    fetcher.fetch()
    flink.pause()
    assert fetcher.fetch().problems

    flink.resume()

    assert (keys(fetcher.fetch()), fetcher.fetch().problems) == (["main/orders"], {})


@pytest.mark.parametrize("forwards_put", [True, False], ids=["current proxy", "proxy without PUT"])
def test_a_rescale_arrives_whatever_the_proxy_passes_on(
    yarn: FakeYarn, flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf, forwards_put: bool
) -> None:
    yarn.forwards_put = forwards_put
    (job,) = flink.jobs.values()
    (context,) = make_fetcher(access="proxy").fetch().jobs
    wanted = {vertex.vertex_id: ParallelismBounds(1, 3) for vertex in job.vertices}

    loop = EventLoopThread()
    client = FlinkRestClient(context.endpoint)
    loop.run(client.set_resource_requirements(job.job_id, wanted))
    loop.run(client.aclose())
    loop.close()

    assert set(job.requirements.values()) == {(1, 3)}
    assert flink.paths("PUT") == [f"/jobs/{job.job_id}/resource-requirements"]


class TestTls:
    """A JobManager registers its address without a scheme."""

    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        return Authority(tmp_path)

    @pytest.fixture
    def encrypted(self, flink: FakeFlink, authority: Authority) -> Iterator[TlsFront]:
        with TlsFront(urlsplit(flink.url).port or 0, server_context(authority.issue("127.0.0.1"))) as front:
            yield front

    def test_https_where_tls_is_configured(
        self, yarn: FakeYarn, flink: FakeFlink, encrypted: TlsFront, authority: Authority, make_fetcher: FetcherOf
    ) -> None:
        yarn.add("application", flink, extra={"amRPCAddress": f"127.0.0.1:{encrypted.port}"})

        fetcher = make_fetcher(access="direct", cluster={"tls": {"ca-file": authority.ca_file}})

        assert url_of(fetcher.fetch()) == encrypted.url

    def test_never_unencrypted_where_tls_is_configured(
        self, flink: FakeFlink, application: FakeApplication, authority: Authority, make_fetcher: FetcherOf
    ) -> None:
        fetcher = make_fetcher(access="direct", cluster={"tls": {"ca-file": authority.ca_file}})

        assert application.id in fetcher.fetch().problems
        assert flink.requests == []

    def test_what_https_needs_is_said_where_nothing_is_configured(
        self, yarn: FakeYarn, flink: FakeFlink, encrypted: TlsFront, make_fetcher: FetcherOf
    ) -> None:
        application = yarn.add("application", flink, extra={"amRPCAddress": f"127.0.0.1:{encrypted.port}"})

        problem = str(make_fetcher(access="direct").fetch().problems[application.id])

        assert f"{encrypted.url}/jobs/overview" in problem
        assert "tls.ca-file" in problem


class TestCredentials:
    """Whoever starts an application does not get to see the credentials for ResourceManagers."""

    RM: ClassVar = {"auth": {"kind": "basic", "username": "u", "password-env-variable": "RM_PASSWORD"}}

    @pytest.fixture(autouse=True)
    def secrets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RM_PASSWORD", "rm-secret")
        monkeypatch.setenv("RM_TOKEN", "rm-token")

    def test_each_side_gets_its_own(
        self, yarn: FakeYarn, flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf
    ) -> None:
        fetcher = make_fetcher(
            cluster={"headers": {"X-Side": "jobmanager"}},
            headers={"X-Side": "yarn"},
            delegation_token_env_variable="RM_TOKEN",
        )

        fetcher.fetch()

        assert {request.headers["x-side"] for request in flink.requests} == {"jobmanager"}
        assert {request.headers["x-side"] for request in yarn.managers[0].requests} == {"yarn"}
        assert all("hadoop-yarn-rm-delegation-token" in request.headers for request in yarn.managers[0].requests)
        assert not any("hadoop-yarn-rm-delegation-token" in request.headers for request in flink.requests)

    def test_a_delegation_token_is_for_configured_resource_managers_alone(
        self, yarn: FakeYarn, flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf
    ) -> None:
        with FakeYarn() as elsewhere:
            elsewhere.applications = yarn.applications
            yarn.proxy_base = elsewhere.urls[0]

            make_fetcher(access="proxy", delegation_token_env_variable="RM_TOKEN", **self.RM).fetch()

            seen = [request.headers for request in elsewhere.managers[0].requests]
        assert seen
        assert all("authorization" in headers for headers in seen)
        assert not any("hadoop-yarn-rm-delegation-token" in headers for headers in seen)

    def test_tracking_urls_that_yarn_has_not_made_get_nothing(
        self, yarn: FakeYarn, flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf
    ) -> None:
        with FakeYarn() as evil:
            application.extra = {
                "unmanagedApplication": True,
                "amRPCAddress": None,
                "trackingUrl": f"{evil.urls[0]}/proxy/{application.id}/",
            }

            job_list = make_fetcher(**self.RM).fetch()

            assert application.id in job_list.problems
            assert evil.managers[0].requests == []

    def test_a_token_that_was_replaced_counts_in_the_next_pass(
        self, yarn: FakeYarn, flink: FakeFlink, application: FakeApplication, make_fetcher: FetcherOf, tmp_path: Path
    ) -> None:
        file = tmp_path / "token"
        file.write_text("first\n", encoding="utf-8")
        yarn.managers[0].required_header = ("Authorization", "Bearer first")
        fetcher = make_fetcher(access="proxy", auth={"kind": "bearer", "token-file": str(file)})
        assert keys(fetcher.fetch()) == ["main/orders"]

        yarn.managers[0].required_header = ("Authorization", "Bearer second")
        with pytest.raises(FlinkRestError, match="401"):
            fetcher.fetch()
        file.write_text("second\n", encoding="utf-8")

        assert keys(fetcher.fetch()) == ["main/orders"]
