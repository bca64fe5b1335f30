"""Endpoints of ResourceManagers and JobManagers, with credentials."""

from __future__ import annotations

from typing import Any

import pytest

from flink_autoscaler.clients.yarn import Application
from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.standalone.fetchers.yarn_applications import YarnEndpoints, taskmanager_cpu
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster

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
