from __future__ import annotations

import pytest

from flink_autoscaler.core.errors import ConfigError, ConnectError, RefusedError, ResponseError
from flink_autoscaler.standalone.readiness.report import with_advice
from flink_autoscaler.standalone.readiness.url_clusters import clusters_from_urls


@pytest.mark.parametrize(
    ("urls", "names"),
    [
        pytest.param(["http://flink-prod.example:8081/"], ["flink-prod"], id="first label of the host"),
        pytest.param(["http://10.0.0.7:8081"], ["10.0.0.7"], id="address"),
        pytest.param(["http://[::1]:8081"], ["1"], id="IPv6 address"),
        pytest.param(["http://a:1", "http://a:2", "http://a/x"], ["a", "a-2", "a-3"], id="one host, several ports"),
        pytest.param(["http://my_jm:1"], ["my_jm"], id="underscore"),
    ],
)
def test_clusters_are_named_by_their_hosts(urls: list[str], names: list[str]) -> None:
    assert [cluster.name for cluster in clusters_from_urls(urls, {})] == names


@pytest.mark.parametrize(
    ("urls", "said"),
    [
        pytest.param(["jobmanager:8081"], "did you mean http://jobmanager:8081?", id="without scheme"),
        pytest.param(["ftp://x"], "expected http:// or https:// with a host", id="another scheme"),
        pytest.param(["http://a;http://b"], "several clusters take --jobmanager-url several times", id="two in one"),
        pytest.param(["http://a", "http://a/"], "is there more than once", id="twice"),
        pytest.param([""], "expected", id="empty"),
    ],
)
def test_unusable_url_is_a_mistake_that_names_the_option(urls: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=r"^--jobmanager-url") as raised:
        clusters_from_urls(urls, {})

    assert said in str(raised.value)


def test_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(ConfigError, match="without user name and password") as raised:
        clusters_from_urls(["http://ann:hunter2@flink:8081"], {})

    assert "hunter2" not in str(raised.value)


def test_options_of_tls_go_to_https_where_there_is_one() -> None:
    access = {"tls.ca-file": "/ca.pem", "auth.kind": "bearer"}

    plain, secure = clusters_from_urls(["http://a", "https://b"], access)

    assert (dict(plain.options), dict(secure.options)) == ({"auth.kind": "bearer"}, access)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(ConnectError("GET x: connection refused"), "does the JobManager run", id="refused"),
        pytest.param(ConnectError("GET x: the host name is not known (no)"), "correct the host", id="unknown host"),
        pytest.param(ConnectError("GET x: no complete answer within 10 s"), "firewall", id="silence"),
        pytest.param(ConnectError("GET x: the connection was reset by the server"), "begin with https://", id="TLS"),
        pytest.param(RefusedError("GET x: HTTP 404", 404), "path of the URL", id="not found"),
        pytest.param(ResponseError("GET x: the answer is empty"), "REST port", id="not a Flink"),
    ],
)
def test_error_is_one_line_with_what_to_do(error: ConnectError | RefusedError | ResponseError, said: str) -> None:
    text = with_advice(error, "http://flink:8081")

    assert text.startswith(str(error))
    assert said in text
    assert "\n" not in text
