"""The jobs of all applications of a YARN cluster, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from flink_autoscaler.clients.yarn import Application
from flink_autoscaler.core.errors import ConfigError, ConnectError, FlinkRestError, NotReadyError, ResponseError
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.fetchers.yarn import YarnFetcher
from flink_autoscaler.standalone.fetchers.yarn_applications import YarnEndpoints, taskmanager_cpu
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster, JobKeyMode
from testkit.fakes.flink import Canned, Fault, chain
from testkit.fakes.yarn.fetching import Clock, YarnSite, keys


@pytest.fixture
def site() -> Iterator[YarnSite]:
    with YarnSite() as site:
        yield site


def _spellings(count: int) -> list[str]:
    """Return different names of one host."""
    letters = "localhost"
    return ["".join(c.upper() if number >> i & 1 else c for i, c in enumerate(letters)) for number in range(count)]


def test_jobs_of_all_applications_make_one_list(site: YarnSite) -> None:
    session, single = site.jobmanager(), site.jobmanager()
    orders, payments, clicks = session.add_job("orders"), session.add_job("payments"), single.add_job("clicks")
    site.yarn.add("session", session)
    site.yarn.add("application", single)

    job_list = site.fetch()

    assert {context.job_key: context.job_id for context in job_list.jobs} == {
        "main/orders": orders.job_id,
        "main/payments": payments.job_id,
        "main/clicks": clicks.job_id,
    }
    assert (job_list.unreadable, job_list.problems, job_list.left_out) == ({}, {}, frozenset())


def test_a_context_knows_where_its_job_comes_from(site: YarnSite) -> None:
    site.flink.add_job("orders", configuration={"job.autoscaler.enabled": "true"})
    application = site.yarn.add("session", site.flink, queue="orders", user="alice")

    (context,) = site.fetch().jobs

    assert context.labels == {"yarn_application_id": application.id, "yarn_queue": "orders", "yarn_user": "alice"}
    assert (context.cluster, context.job_name, context.status) == ("main", "orders", JobStatus.RUNNING)
    assert context.endpoint.url == site.flink.url
    assert context.options.enabled


def test_a_warm_pass_asks_for_lists_only(site: YarnSite) -> None:
    job = site.flink.add_job("orders")
    job.running_at_ms -= 3_600_000
    site.yarn.add("session", site.flink)
    fetcher = site.fetcher()
    fetcher.fetch()
    site.flink.requests.clear()
    site.yarn.managers[0].requests.clear()

    fetcher.fetch()

    assert site.flink.paths() == ["/jobs/overview"]
    assert sorted(site.yarn.managers[0].paths()) == [
        f"/ws/v1/cluster/{each}" for each in ("apps", "metrics", "scheduler")
    ]


@pytest.mark.parametrize("empty", [None, {}, ""], ids=["null", "object", "text"])
def test_a_cluster_without_applications_has_no_jobs(site: YarnSite, empty: object) -> None:
    site.yarn.empty = empty

    assert site.fetch() == JobList(())


def test_a_list_of_one_may_be_an_object(site: YarnSite) -> None:
    site.flink.add_job("orders")
    site.yarn.add("session", site.flink)
    site.yarn.single_as_object = True

    assert keys(site.fetch()) == ["main/orders"]


def test_only_what_is_configured_is_looked_at(site: YarnSite) -> None:
    wanted, other = site.jobmanager(), site.jobmanager()
    wanted.add_job("orders")
    site.yarn.add("prod-orders", wanted, queue="orders", tags="team-a,x")
    for values in ({"queue": "batch"}, {"user": "bob"}, {"tags": "y"}, {"application_type": "SPARK"}):
        site.yarn.add("prod-x", other, **{"queue": "orders", "tags": "team-a", **values})
    site.yarn.add("test-x", other, queue="orders", tags="team-a")
    site.yarn.add("prod-x", other, queue="orders", tags="team-a", state="FINISHED")

    fetcher = site.fetcher(queues=("root.a.orders",), users=("alice",), tags=("Team-A",), names=("prod-*",))
    job_list = fetcher.fetch()

    assert keys(job_list) == ["main/orders"]
    assert other.requests == []


def test_jobs_are_chosen_by_name_too(site: YarnSite) -> None:
    site.flink.add_job("prod-orders")
    site.flink.add_job("test-orders")
    site.yarn.add("session", site.flink)

    job_list = site.fetch(cluster={"include": ("prod-*",)})

    assert keys(job_list) == ["main/prod-orders"]
    assert job_list.left_out == {"main/test-orders"}


def test_equal_job_ids_in_different_applications_are_different_jobs(site: YarnSite) -> None:
    first, second = site.jobmanager(), site.jobmanager()
    for flink in (first, second):
        flink.add_job("orders", job_id="0" * 32)
    ids = [site.yarn.add("a", first).id, site.yarn.add("b", second).id]

    by_name = site.fetch()
    by_id = site.fetch(job_key=JobKeyMode.JOB_ID)

    assert keys(by_name) == ["main/orders", f"main/orders#{'0' * 32}@{ids[1]}"]
    assert keys(by_id) == [f"{'0' * 32}@{each}" for each in ids]


def test_a_job_that_is_submitted_again_as_another_application_keeps_its_key(site: YarnSite) -> None:
    before, after = site.jobmanager(), site.jobmanager()
    before.add_job("orders")
    job = after.add_job("orders")
    first = site.yarn.add("application", before)
    fetcher = site.fetcher()
    keys_before = keys(fetcher.fetch())

    first.state = "FINISHED"
    site.yarn.add("application", after)
    job_list = fetcher.fetch()

    assert keys(job_list) == keys_before == ["main/orders"]
    assert (job_list.jobs[0].job_id, job_list.problems) == (job.job_id, {})


def test_a_name_is_not_free_while_an_application_that_has_it_cannot_be_read(site: YarnSite) -> None:
    first, second = site.jobmanager(), site.jobmanager()
    ids = [flink.add_job("orders", start_ms=ms).job_id for ms, flink in enumerate((first, second), start=1)]
    site.yarn.add("a", first)
    site.yarn.add("b", second)
    fetcher = site.fetcher()
    fetcher.fetch()

    first.pause()
    job_list = fetcher.fetch()

    assert keys(job_list) == [f"main/orders#{ids[1]}"]


def test_taskmanager_cpu_is_that_of_a_container(site: YarnSite) -> None:
    site.flink.add_job("orders")
    site.flink.configuration |= {"yarn.containers.vcores": "3", "taskmanager.numberOfTaskSlots": "2"}
    site.yarn.add("session", site.flink)

    (context,) = site.fetch().jobs

    assert context.taskmanager_cpu == 3.0
    assert context.capacity is None or not context.capacity.is_fixed


class TestTroubles:
    """Applications that cannot be read concern no other, and nothing counts as gone because of them."""

    @pytest.mark.parametrize(
        "fault", [Fault.HANG, Fault.HTML, Fault.RESET, Fault.TRUNCATED_JSON, Fault.HUGE, Canned(b"{}", 500)]
    )
    def test_one_that_does_not_answer_is_a_problem_under_its_id(self, site: YarnSite, fault: Fault | Canned) -> None:
        good, bad = site.jobmanager(), site.jobmanager()
        good.add_job("orders")
        bad.add_job("payments")
        bad.fault("/", fault)
        site.yarn.add("good", good)
        application = site.yarn.add("bad", bad)

        job_list = site.fetch(timeout=2.0, access="direct")

        assert keys(job_list) == ["main/orders"]
        assert list(job_list.problems) == [application.id]
        assert isinstance(job_list.problems[application.id], FlinkRestError)

    def test_one_that_has_not_registered_yet_is_not_ready(self, site: YarnSite) -> None:
        application = site.yarn.add("starting", None)

        job_list = site.fetch()

        assert isinstance(job_list.problems[application.id], NotReadyError)

    def test_many_that_hang_are_looked_at_together_and_seldom(self, site: YarnSite) -> None:
        good, bad = site.jobmanager(), site.jobmanager()
        good.add_job("orders")
        bad.fault("/", Fault.HANG)
        for host in _spellings(30):
            site.yarn.add("bad", bad, extra={"amRPCAddress": f"{host}:{urlsplit(bad.url).port}"})
        site.yarn.add("good", good)
        fetcher = site.fetcher(timeout=4.0, access="direct")

        asked = []
        for _ in range(3):
            before = len(bad.requests)
            job_list = fetcher.fetch()
            asked.append(len(bad.requests) - before)
            assert keys(job_list) == ["main/orders"]
            assert len(job_list.problems) == 30

        assert asked[0] >= 30
        assert bad.most_at_once >= 30
        assert asked[2] == 0

    def test_a_job_whose_configuration_cannot_be_read_is_unreadable(self, site: YarnSite) -> None:
        bad = site.flink.add_job("bad")
        site.flink.add_job("good")
        site.flink.fault(bad.job_id, Fault.HTML)
        site.yarn.add("session", site.flink)

        job_list = site.fetch()

        assert keys(job_list) == ["main/good"]
        assert list(job_list.unreadable) == ["main/bad"]

    def test_no_list_of_applications_is_an_error(self, site: YarnSite) -> None:
        site.yarn.managers[0].pause()

        with pytest.raises(ConnectError):
            site.fetch(timeout=1.0)

    def test_a_secret_that_is_missing_is_an_error_of_the_configuration(self, site: YarnSite) -> None:
        fetcher = site.fetcher(auth={"kind": "bearer", "token-file": "/nowhere/token"})

        with pytest.raises(ConfigError, match=r"yarn\.auth\.token-file"):
            fetcher.fetch()

    def test_two_applications_at_one_address_are_not_both_believed(self, site: YarnSite) -> None:
        site.flink.add_job("orders")
        older, newer = site.yarn.add("older", site.flink), site.yarn.add("newer", site.flink)

        job_list = site.fetch()

        assert job_list.jobs[0].labels["yarn_application_id"] == newer.id
        assert isinstance(job_list.problems[older.id], ResponseError)

    def test_the_jobmanager_of_another_application_is_not_believed(self, site: YarnSite) -> None:
        site.flink.add_job("orders")
        other = site.yarn.add("other", None)
        application = site.yarn.add("application", site.flink)
        site.flink.configuration["high-availability.cluster-id"] = other.id

        job_list = site.fetch()

        assert keys(job_list) == []
        assert f"JobManager of {other.id}" in str(job_list.problems[application.id])

    def test_an_id_of_the_past_that_was_chosen_for_recovery_is_fine(self, site: YarnSite) -> None:
        site.flink.add_job("orders")
        site.flink.configuration["high-availability.cluster-id"] = "application_1_1"
        site.yarn.add("application", site.flink)

        assert keys(site.fetch()) == ["main/orders"]


class TestAbsence:
    """What is not listed has not ended."""

    @pytest.fixture
    def known(self, site: YarnSite) -> tuple[YarnFetcher, Clock]:
        """Give a fetcher that has seen the application of the cluster."""
        site.flink.add_job("orders")
        site.application.queue = "orders"
        clock = Clock()
        fetcher = site.fetcher(queues=("orders",), clock=clock)
        assert keys(fetcher.fetch()) == ["main/orders"]
        return fetcher, clock

    @pytest.mark.parametrize("state", ["ACCEPTED", "SUBMITTED", "NEW", "NEW_SAVING"])
    def test_between_two_attempts_it_is_a_problem_that_is_not_ready(
        self, site: YarnSite, known: tuple[YarnFetcher, Clock], state: str
    ) -> None:
        site.yarn.applications[0].state = state

        job_list = known[0].fetch()

        assert keys(job_list) == []
        assert isinstance(job_list.problems[site.yarn.applications[0].id], NotReadyError)

    @pytest.mark.parametrize("state", ["FINISHED", "FAILED", "KILLED"])
    def test_one_that_has_ended_is_gone_at_once(
        self, site: YarnSite, known: tuple[YarnFetcher, Clock], state: str
    ) -> None:
        site.yarn.applications[0].state = state

        assert known[0].fetch() == JobList(())

    def test_one_that_is_not_known_is_gone_after_a_while(
        self, site: YarnSite, known: tuple[YarnFetcher, Clock]
    ) -> None:
        fetcher, clock = known
        application = site.yarn.applications.pop()

        clock.now = 1.0
        at_first = fetcher.fetch()
        clock.now = 299.0
        later = fetcher.fetch()
        clock.now = 302.0
        at_last = fetcher.fetch()

        assert list(at_first.problems) == list(later.problems) == [application.id]
        assert at_last == JobList(())

    def test_one_that_returns_is_looked_after_again(self, site: YarnSite, known: tuple[YarnFetcher, Clock]) -> None:
        fetcher, _ = known
        site.yarn.managers[0].listed = []
        assert fetcher.fetch().problems

        site.yarn.managers[0].listed = None
        job_list = fetcher.fetch()

        assert keys(job_list) == ["main/orders"]
        assert job_list.problems == {}

    def test_one_that_moved_to_another_queue_is_left_out(
        self, site: YarnSite, known: tuple[YarnFetcher, Clock]
    ) -> None:
        site.yarn.applications[0].queue = "batch"

        first, second = known[0].fetch(), known[0].fetch()

        assert first == second == JobList((), left_out=frozenset({"main/orders"}))

    def test_question_that_fails_is_a_problem(self, site: YarnSite, known: tuple[YarnFetcher, Clock]) -> None:
        application = site.yarn.applications[0]
        application.state = "ACCEPTED"
        site.yarn.managers[0].fault(f"/apps/{application.id}", Fault.HTML)

        job_list = known[0].fetch()

        assert isinstance(job_list.problems[application.id], ResponseError)

    def test_an_empty_list_of_many_costs_few_questions(self, site: YarnSite) -> None:
        for number in range(100):
            site.yarn.add("application", site.flink, extra={"amRPCAddress": f"127.0.0.1:{number + 1}"})
        fetcher = site.fetcher(timeout=5.0, access="direct", headroom=False)
        fetcher.fetch()
        for application in site.yarn.applications:
            application.state = "ACCEPTED"

        job_list = fetcher.fetch()

        assert len(job_list.problems) == 100
        assert sum("/apps/" in path for path in site.yarn.managers[0].paths()) == 64

    def test_all_that_have_ended_are_forgotten_bit_by_bit(self, site: YarnSite) -> None:
        for number in range(100):
            site.yarn.add("application", site.flink, extra={"amRPCAddress": f"127.0.0.1:{number + 1}"})
        fetcher = site.fetcher(timeout=5.0, access="direct", headroom=False)
        fetcher.fetch()
        for application in site.yarn.applications:
            application.state = "KILLED"

        first, second = fetcher.fetch(), fetcher.fetch()

        assert len(first.problems) == 36
        assert second == JobList(())


class TestFailOver:
    """Two ResourceManagers."""

    @pytest.fixture
    def site(self) -> Iterator[YarnSite]:
        with YarnSite(2) as site:
            yield site

    def test_jobs_stay_listed_and_the_change_is_told(self, site: YarnSite) -> None:
        site.flink.add_job("orders")
        site.yarn.add("application", site.flink)
        fetcher = site.fetcher()
        before = keys(fetcher.fetch())

        site.yarn.fail_over()
        with capture_logs() as lines:
            after = keys(fetcher.fetch())

        assert before == after == ["main/orders"]
        (line,) = [line for line in lines if line["event"] == "resource_manager_changed"]
        assert (line["cluster"], line["before"], line["now"]) == ("main", *site.yarn.urls)

    def test_fail_over_in_the_middle_of_the_list(self, site: YarnSite) -> None:
        site.flink.add_job("orders")
        site.yarn.add("application", site.flink)
        fetcher = site.fetcher()
        fetcher.fetch()

        site.yarn.fail_over()
        site.yarn.managers[0].fault("/apps", Fault.HALF_CLOSE)
        job_list = fetcher.fetch()

        assert keys(job_list) == ["main/orders"]
        assert job_list.problems == {}

    def test_an_older_list_cleans_nothing_up(self, site: YarnSite) -> None:
        old, new = site.jobmanager(), site.jobmanager()
        old.add_job("orders")
        new.add_job("payments")
        first, second = site.yarn.add("old", old), site.yarn.add("new", new)
        fetcher = site.fetcher()
        fetcher.fetch()

        site.yarn.fail_over()
        site.yarn.managers[1].listed = [first]
        job_list = fetcher.fetch()

        assert keys(job_list) == ["main/orders"]
        assert list(job_list.problems) == [second.id]

    def test_recovering_applications_are_not_gone(self, site: YarnSite) -> None:
        site.flink.add_job("orders")
        application = site.yarn.add("application", site.flink)
        fetcher = site.fetcher()
        fetcher.fetch()

        site.yarn.fail_over()
        application.state = "ACCEPTED"
        meanwhile = fetcher.fetch()
        application.state = "RUNNING"
        afterwards = fetcher.fetch()

        assert isinstance(meanwhile.problems[application.id], NotReadyError)
        assert (keys(afterwards), afterwards.problems) == (["main/orders"], {})


class TestHeadroom:
    """What queue and nodes can still give."""

    def test_every_job_knows_the_headroom_of_its_queue(self, site: YarnSite) -> None:
        site.flink.add_job("orders")
        site.yarn.add("application", site.flink, queue="orders")

        (context,) = site.fetch().jobs

        assert context.headroom is not None
        assert context.headroom.source.startswith("YARN queue root.streaming.orders")

    def test_it_can_be_switched_off(self, site: YarnSite) -> None:
        site.flink.add_job("orders")
        site.yarn.add("application", site.flink, queue="orders")

        (context,) = site.fetch(headroom=False).jobs

        assert context.headroom is None
        assert site.yarn.managers[0].paths() == ["/ws/v1/cluster/apps"]

    def test_without_it_jobs_are_listed_and_that_is_told_once(self, site: YarnSite) -> None:
        site.flink.add_job("orders")
        site.yarn.add("application", site.flink, queue="orders")
        site.yarn.managers[0].fault("/scheduler", Canned(b"[]"))
        fetcher = site.fetcher()

        with capture_logs() as lines:
            failed = [fetcher.fetch() for _ in range(3)]
            site.yarn.managers[0].clear_faults()
            fetcher.fetch()

        assert all(each.jobs[0].headroom is None and not each.problems for each in failed)
        assert [line["event"] for line in lines] == ["yarn_headroom_unknown", "yarn_headroom_known"]

    def test_a_queue_that_is_not_listed_has_none(self, site: YarnSite) -> None:
        site.flink.add_job("orders")
        site.yarn.add("application", site.flink, queue="nowhere")

        (context,) = site.fetch().jobs

        assert context.headroom is None


def test_many_applications_are_read_through_the_proxy(site: YarnSite) -> None:
    site.flink.add_job("orders", chain(vertices=1))
    for _ in range(40):
        site.yarn.add("application", site.flink, is_visible=False)

    job_list = site.fetch(timeout=10.0, access="proxy", headroom=False)

    assert len(job_list.jobs) == 40


ID = "application_1_1"


TOKEN = ("Hadoop-YARN-RM-Delegation-Token", "secret")


SECURED: dict[str, Any] = {
    "url": ("https://rm1:8090", "https://rm2:8090"),
    "headers": {"X-Key": "secret"},
    "delegation-token-env-variable": "RM_TOKEN",
    "access": "proxy",
}


def endpoints(entry: dict[str, Any] | None = None, **yarn: Any) -> YarnEndpoints:
    settings = ClusterSettings.model_validate(
        {"name": "main", "type": "yarn", **(entry or {}), "yarn": {"url": ("http://rm:8088",), **yarn}}
    )
    made = YarnEndpoints(Cluster("main", Endpoint("", timeout=3.0), 10.0, EngineKind.INLINE, {}, settings))
    made.renew()
    made.vouched_hosts = frozenset({"proxy"})
    return made


def application(proxy: str, address: str = "node:1234") -> Application:
    return Application(ID, tracking_url=f"{proxy}/proxy/{ID}/", am_rpc_address=address)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RM_TOKEN", "secret")


def test_resource_managers_have_limits_and_credentials() -> None:
    made = endpoints(url=("http://rm1:8088", "http://rm2:8088"), auth={"kind": "simple", "username": "autoscaler"})

    assert [endpoint.url for endpoint in made.resource_managers] == ["http://rm1:8088", "http://rm2:8088"]
    assert {endpoint.user_name for endpoint in made.resource_managers} == {"autoscaler"}
    assert {endpoint.timeout for endpoint in made.resource_managers} == {3.0}


@pytest.mark.parametrize(
    ("proxy", "expected"),
    [
        pytest.param("https://rm2:8090", (("X-Key", "secret"), TOKEN), id="on a ResourceManager: everything"),
        pytest.param("https://proxy:9099", (("X-Key", "secret"),), id="elsewhere: without the delegation token"),
        pytest.param("https://rm1:9999", (("X-Key", "secret"),), id="another port: without the delegation token"),
        pytest.param("http://rm1:8090", (), id="unencrypted: nothing"),
    ],
)
def test_the_proxy_gets_what_it_may_see(proxy: str, expected: tuple[tuple[str, str], ...]) -> None:
    way = endpoints(**SECURED).routes(application(proxy)).proxy

    assert way is not None
    assert way.headers == expected


def test_an_unencrypted_proxy_of_unencrypted_resource_managers_gets_what_they_get() -> None:
    way = endpoints(headers={"X-Key": "secret"}, access="proxy").routes(application("http://proxy:9099")).proxy

    assert way is not None
    assert way.headers == (("X-Key", "secret"),)


def test_kerberos_principal_of_the_resource_manager_is_not_that_of_a_proxy_elsewhere() -> None:
    made = endpoints(auth={"kind": "kerberos", "service-host": "rm.example.com"})

    hosts = []
    for proxy in ("http://rm:8088", "http://proxy:9099"):
        way = made.routes(application(proxy)).proxy
        assert way is not None
        assert way.kerberos is not None
        hosts.append(way.kerberos.host)
    assert hosts == ["rm.example.com", None]


@pytest.mark.parametrize(
    ("access", "direct", "has_proxy"),
    [
        ("auto", ["http://node:1234", "https://node:1234"], True),
        ("direct", ["http://node:1234", "https://node:1234"], False),
        ("proxy", [], True),
    ],
)
def test_ways_are_those_that_are_wanted(access: str, direct: list[str], has_proxy: bool) -> None:
    ways = endpoints(access=access).routes(application("http://rm:8088"))

    assert [endpoint.url for endpoint in ways.direct] == direct
    assert (ways.proxy is not None) is has_proxy


def test_the_proxy_is_approved_of_where_that_is_configured() -> None:
    ways = endpoints(approve_proxy=True).routes(application("http://rm:8088"))

    assert [endpoint.approves_proxy for endpoint in ways] == [False, False, True]


def test_equal_credentials_give_equal_endpoints() -> None:
    made = endpoints(**SECURED)
    before = made.routes(application("https://rm1:8090"))

    made.renew()

    assert made.routes(application("https://rm1:8090")) == before


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        pytest.param({}, 1.0, id="nothing set: one slot"),
        pytest.param({"taskmanager.numberOfTaskSlots": "4"}, 4.0, id="slots"),
        pytest.param({"yarn.containers.vcores": "2", "taskmanager.numberOfTaskSlots": "4"}, 2.0, id="virtual cores"),
        pytest.param({"yarn.containers.vcores": "-1", "taskmanager.numberOfTaskSlots": "4"}, 4.0, id="unset by -1"),
        pytest.param({"taskmanager.cpu.cores": "1.5", "yarn.containers.vcores": "2"}, 1.5, id="cores"),
        pytest.param({"yarn.containers.vcores": "two"}, None, id="no number"),
        pytest.param({"taskmanager.numberOfTaskSlots": "x"}, None, id="slots that are no number"),
    ],
)
def test_taskmanager_cpu(configuration: dict[str, str], expected: float | None) -> None:
    assert taskmanager_cpu(configuration) == expected


@pytest.mark.parametrize("entry", [{"headers": {"X-Key": "secret"}}, {"auth": {"kind": "kerberos"}}])
def test_credentials_go_to_no_host_that_nobody_vouches_for(entry: dict[str, Any]) -> None:
    made = endpoints(entry, access="direct")

    with pytest.raises(ResponseError, match=r"no credentials are sent there; add the host to yarn\.trusted-hosts"):
        made.routes(application("http://rm:8088", "evil:1234"))


@pytest.mark.parametrize(
    ("entry", "yarn", "vouched"),
    [
        pytest.param({}, {}, (), id="no credentials"),
        pytest.param({"headers": {"X-Key": "secret"}}, {"trusted-hosts": ("no*",)}, (), id="configured"),
        pytest.param({"headers": {"X-Key": "secret"}}, {}, ("node",), id="a node of the ResourceManager"),
    ],
)
def test_hosts_that_may_have_credentials_are_reached(
    entry: dict[str, Any], yarn: dict[str, Any], vouched: tuple[str, ...]
) -> None:
    made = endpoints(entry, access="direct", **yarn)
    made.vouched_hosts = frozenset(vouched)

    assert [each.url for each in made.routes(application("http://rm:8088")).direct][:1] == ["http://node:1234"]


def test_secrets_of_resource_managers_go_to_no_other_proxy_than_theirs() -> None:
    made = endpoints(headers={"X-Key": "secret"}, access="proxy")

    with pytest.raises(ResponseError, match="no credentials are sent"):
        made.routes(application("http://evil:80"))
