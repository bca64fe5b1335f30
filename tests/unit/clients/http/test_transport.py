"""Requests to a JobManager that misbehaves in every way."""

import asyncio
import base64
import gzip
import math
import zlib
from collections.abc import Callable

import pytest

from flink_autoscaler.clients.http.transport import ATTEMPTS, HttpTransport
from flink_autoscaler.core.errors import (
    ConfigError,
    ConnectError,
    FlinkRestError,
    JobGoneError,
    RefusedError,
    ResponseError,
)
from flink_autoscaler.core.model.job import Endpoint
from testkit.builders.transport import exchange
from testkit.fakes.flink import Canned, FakeFlink, Fault, flink_error

JOB = "/jobs/" + "a" * 32
MIB = 1 << 20


def get(endpoint: Endpoint, path: str = "/config") -> object:
    return exchange(endpoint, lambda transport: transport.get_json(path))


def put(endpoint: Endpoint, path: str = "/config") -> object:
    return exchange(endpoint, lambda transport: transport.put_json(path, {"a": 1}))


def test_a_line_of_the_head_beyond_8_kb_cannot_be_read(flink: FakeFlink) -> None:
    flink.fault("/config", Canned(headers={"X-Long": "x" * 7_000}))
    get(flink.endpoint())
    flink.fault("/config", Canned(headers={"X-Long": "x" * 9_000}))

    with pytest.raises(FlinkRestError):
        get(flink.endpoint())


def test_connections_are_kept_between_gets(flink: FakeFlink) -> None:
    async def twenty(transport: HttpTransport) -> None:
        for _ in range(20):
            await transport.get_json("/config")

    exchange(flink.endpoint(), twenty)

    assert (len(flink.requests), flink.connections) == (20, 1)


def test_no_more_requests_than_connections_are_under_way(flink: FakeFlink) -> None:
    flink.delay = 0.01

    exchange(
        flink.endpoint(max_connections=3),
        lambda transport: asyncio.gather(*(transport.get_json("/config") for _ in range(20))),
    )

    assert flink.most_at_once == 3


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        pytest.param(Fault.HTML, "expected JSON but got text/html.*Please log in.*proxy", id="page of a proxy"),
        pytest.param(Fault.TRUNCATED_JSON, "not valid JSON", id="truncated JSON"),
        pytest.param(Fault.EMPTY, "answer is empty", id="empty body"),
        pytest.param(Fault.HUGE, "longer than 1048576 bytes", id="too long and announced"),
        pytest.param(Fault.HUGE_CHUNKED, "longer than 1048576 bytes", id="too long in chunks"),
        pytest.param(Fault.GZIP_BOMB, "longer than 1048576 bytes", id="too long once decompressed"),
        pytest.param(Canned(b'{"name": "\xff\xfe"}'), "not valid JSON", id="not UTF-8"),
        pytest.param(Canned(b"[" * 200_000), "nested too deeply", id="nested too deeply"),
        # How deep its parser goes is a matter of the version of Python.
        pytest.param(Canned((b"[" * 9 + b'"]",' * 9) * 900), "too deeply|not valid JSON", id="nested behind texts"),
        pytest.param(Canned(b"[" + b"0," * 1_000_000 + b"0]"), "longer than 1048576", id="too many values"),
        pytest.param(
            Canned(gzip.compress(b"[" + b"0," * 520_000), headers={"Content-Encoding": "gzip"}),
            "not valid JSON",
            id="cut off although compressed",
        ),
        pytest.param(
            Canned(gzip.compress(gzip.compress(b"x" * 9_000_000)), headers={"Content-Encoding": "gzip, gzip"}),
            "encoded 2 times",
            id="compressed twice",
        ),
        pytest.param(
            Canned(b"junk", headers={"Content-Encoding": "br"}), "content encoding 'br'", id="encoding nobody asked for"
        ),
        pytest.param(Canned(b"<![foo[", content_type="text/html"), "page for people", id="page no parser reads"),
        pytest.param(Canned(b"<title>x</title>q<![", content_type="text/html"), "titled 'x': 'q'", id="half a page"),
        pytest.param(Canned(b"{}", content_type=None), "without content type", id="no content type"),
        pytest.param(Canned(b"junk", headers={"Content-Encoding": "gzip"}), "cannot be read", id="not gzip"),
        pytest.param(Fault.NOT_HTTP, "cannot be read", id="another protocol"),
        pytest.param(
            Canned(b"", 302, headers={"Location": "http://login.example/?token=secret"}),
            r"redirected to http://login\.example/;",
            id="redirect",
        ),
    ],
)
def test_unusable_answers_are_response_errors(flink: FakeFlink, behaviour: Fault | Canned, message: str) -> None:
    flink.fault("/config", behaviour)

    with pytest.raises(ResponseError, match=message) as raised:
        get(flink.endpoint(max_response_bytes=MIB))

    assert str(raised.value).startswith(f"GET {flink.url}/config: ")
    assert "secret" not in str(raised.value)
    assert len(flink.requests) == 1


@pytest.mark.parametrize(
    ("page", "status"),
    [
        (b"<![foo[", 200),
        (b"<![", 302),
        (b"<!", 401),
        (b"</", 403),
        (b"<!DOCTYPE [<!ELEMENT", 404),
        (b"&#x110000;<a <b", 405),
        (b"<![foo[", 500),
        (b"<![", 503),
    ],
    ids=repr,
)
def test_a_page_that_cannot_be_parsed_is_an_answer_of_its_endpoint(flink: FakeFlink, page: bytes, status: int) -> None:
    flink.fault("/config", Canned(page, status, content_type="text/html"))

    with pytest.raises(FlinkRestError, match=f"^GET {flink.url}/config: "):
        get(flink.endpoint(timeout=1.0, approves_proxy=True))


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "identity, gzip"])
def test_an_answer_that_a_proxy_compressed_once_is_read(flink: FakeFlink, encoding: str) -> None:
    compress = zlib.compress if encoding == "deflate" else gzip.compress
    flink.fault("/config", Canned(compress(b'{"a": 1}'), headers={"Content-Encoding": encoding}))

    assert get(flink.endpoint()) == {"a": 1}
    assert flink.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "cookie",
    [
        "a=b; expires=Wed, 09 Jun 99999 10:00:00 GMT",
        "a=b; expires=-712",
        "a=b; max-age=1e999",
        "a=b; max-age=" + "9" * 400,
        "a=b; Max-Age=-84637000000",
        "a=b; expires=" + "9" * 5000,
        "sprache=größe",
    ],
    ids=lambda cookie: cookie[:30],
)
def test_a_cookie_with_a_time_that_is_none_is_no_news(
    flink: FakeFlink, cookie: str, recwarn: pytest.WarningsRecorder
) -> None:
    flink.fault("/config", Canned(b"{}", headers={"Set-Cookie": cookie}))

    async def twice(transport: HttpTransport) -> object:
        return await transport.get_json("/config"), await transport.get_json("/config")

    assert exchange(flink.endpoint(), twice) == ({}, {})
    assert [str(warning.message) for warning in recwarn] == []


def test_a_number_with_thousands_of_digits_is_left_to_whoever_reads_it(flink: FakeFlink) -> None:
    flink.fault("/config", Canned(b'{"a": ' + b"1" * 10_000 + b', "b": 2}'))

    assert get(flink.endpoint()) == {"a": math.inf, "b": 2}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        pytest.param(Fault.RESET, "the connection was reset by the server", id="reset"),
        pytest.param(Fault.HANG_UP, "closed without an answer", id="closed without an answer"),
        pytest.param(Fault.HALF_CLOSE, "closed in the middle of the answer", id="closed in the middle"),
    ],
)
@pytest.mark.parametrize("send", [get, put], ids=["GET", "PUT"])
def test_lost_connections_are_connect_errors(
    flink: FakeFlink, fault: Fault, message: str, send: Callable[[Endpoint], object]
) -> None:
    flink.fault("/config", fault)

    with pytest.raises(ConnectError, match=f"/config: .*{message}$"):
        send(flink.endpoint())


@pytest.mark.parametrize(("method", "send"), [("GET", get), ("PUT", put)])
def test_refused_connection_is_named(flink: FakeFlink, method: str, send: Callable[[Endpoint], object]) -> None:
    flink.pause()

    with pytest.raises(ConnectError) as raised:
        send(flink.endpoint())

    assert str(raised.value) == f"{method} {flink.url}/config: connection refused"


def test_unknown_host_is_named() -> None:
    with pytest.raises(ConnectError, match="the host name is not known"):
        get(Endpoint("http://jobmanager.invalid:8081"))


def test_plain_http_port_behind_https_url_is_named(flink: FakeFlink) -> None:
    with pytest.raises(ConnectError, match="TLS failed"):
        get(flink.endpoint(url=flink.url.replace("http:", "https:")))


def test_deadline_of_a_call_replaces_that_of_the_endpoint(flink: FakeFlink) -> None:
    flink.fault("/config", Fault.HANG)

    with pytest.raises(ConnectError, match=r"within 0\.2 s"):
        exchange(flink.endpoint(timeout=60.0), lambda transport: transport.get_json("/config", timeout=0.2))


def test_deadline_covers_waiting_for_a_free_connection(flink: FakeFlink) -> None:
    flink.fault("/config", Fault.HANG)

    async def two(transport: HttpTransport) -> list[object]:
        requests = (transport.get_json("/config"), transport.get_json("/jobs/overview", timeout=0.1))
        return list(await asyncio.gather(*requests, return_exceptions=True))

    answers = exchange(flink.endpoint(timeout=0.3, max_connections=1), two)

    assert isinstance(answers, list)
    assert [type(answer) for answer in answers] == [ConnectError, ConnectError]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_get_is_repeated_while_the_cluster_is_not_ready(flink: FakeFlink, status: int) -> None:
    flink.fault("/config", flink_error(status, "ongoing leader election"), times=ATTEMPTS - 1)

    get(flink.endpoint())

    assert len(flink.requests) == ATTEMPTS


def test_get_gives_up_after_the_last_attempt(flink: FakeFlink) -> None:
    flink.fault("/config", flink_error(503, "ongoing leader election"))

    with pytest.raises(RefusedError, match="HTTP 503: ongoing leader election"):
        get(flink.endpoint())

    assert len(flink.requests) == ATTEMPTS


@pytest.mark.parametrize("status", [400, 404, 405, 500])
def test_other_refusals_are_not_repeated(flink: FakeFlink, status: int) -> None:
    flink.fault("/config", flink_error(status, "no"))

    with pytest.raises(RefusedError):
        get(flink.endpoint())

    assert len(flink.requests) == 1


def test_get_survives_a_lost_connection(flink: FakeFlink) -> None:
    flink.fault("/config", Fault.RESET, times=1)

    assert get(flink.endpoint()) == {"flink-version": "2.3.0", "refresh-interval": 3000}


@pytest.mark.parametrize(
    "behaviour",
    [Fault.RESET, Fault.HANG_UP, Fault.HALF_CLOSE, flink_error(503, "ongoing leader election")],
    ids=["reset", "closed without an answer", "closed in the middle", "not ready"],
)
def test_put_is_never_repeated(flink: FakeFlink, behaviour: Fault | Canned) -> None:
    flink.fault("/config", behaviour, method="PUT")

    async def get_then_put(transport: HttpTransport) -> object:
        await transport.get_json("/config")
        return await transport.put_json("/config", {"a": 1})

    with pytest.raises((ConnectError, RefusedError)):
        exchange(flink.endpoint(), get_then_put)

    assert flink.paths("PUT") == ["/config"]


def test_put_sends_json_and_accepts_an_empty_answer(flink: FakeFlink) -> None:
    flink.fault("/config", Fault.EMPTY)

    assert put(flink.endpoint()) is None
    assert flink.requests[0].body == {"a": 1}


@pytest.mark.parametrize(
    ("path", "answer", "kind", "message"),
    [
        pytest.param(JOB, flink_error(404, "Job a not found\n\tat x"), JobGoneError, "Job a not found", id="no job"),
        pytest.param(
            f"{JOB}/resource-requirements",
            flink_error(500, "Internal server error.", "<Exception on server side:\nx.FlinkJobNotFoundException: no"),
            JobGoneError,
            "Internal server error. x.FlinkJobNotFoundException: no",
            id="no job, told as a server error",
        ),
        pytest.param(
            f"{JOB}/resource-requirements",
            flink_error(500, "Internal server error.", "<Exception on server side:\nx.UnsupportedOperationException"),
            RefusedError,
            "Internal server error. x.UnsupportedOperationException",
            id="other server error",
        ),
        pytest.param("/nowhere", flink_error(404, "Not found"), RefusedError, "Not found", id="no such path"),
        pytest.param(JOB, Canned(b"<h1>404</h1>", 404, "text/html"), RefusedError, "HTTP 404: '404'", id="proxy's 404"),
        pytest.param("/x", Canned(b"", 400, None), RefusedError, "no explanation", id="no body"),
        pytest.param("/x", Canned(b"[1", 400), RefusedError, "'[1'", id="error body is not JSON"),
        pytest.param("/x", Canned(b'{"errors": 7}', 400), RefusedError, "errors", id="error body has wrong types"),
    ],
)
def test_refusals_are_classified(
    flink: FakeFlink, path: str, answer: Canned, kind: type[RefusedError], message: str
) -> None:
    flink.fault(path, answer)

    with pytest.raises(RefusedError) as raised:
        get(flink.endpoint(), path)

    assert type(raised.value) is kind
    assert raised.value.status == answer.status
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_headers_of_the_endpoint_are_sent(flink: FakeFlink) -> None:
    get(flink.endpoint(headers=(("X-Token", "sesame"),)))

    assert flink.requests[0].headers["x-token"] == "sesame"


def test_credentials_of_the_url_are_sent_but_never_shown(flink: FakeFlink) -> None:
    flink.fault("/config", flink_error(400, "no"))
    url = flink.url.replace("http://", "http://ann:s%40same@")

    with pytest.raises(RefusedError) as raised:
        get(flink.endpoint(url=url))

    assert base64.b64decode(flink.requests[0].headers["authorization"].split()[1]) == b"ann:s@same"
    assert "same" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8081",
        "ftp://host",
        "http://",
        "http://ann:sesame@",
        "http://host:port",
        "http://host:99999",
        "http://[::1",
        "http://ann:sesame/1@host",
        "http://ann:1/sesame@host",
    ],
)
def test_urls_that_are_none_are_refused_without_showing_credentials(url: str) -> None:
    with pytest.raises(ConfigError, match="not a URL of a JobManager") as raised:
        HttpTransport(Endpoint(url))

    assert "sesame" not in str(raised.value)


def test_header_values_that_cannot_be_sent_are_refused_without_showing_them() -> None:
    with pytest.raises(ConfigError, match="header X-Token") as raised:
        HttpTransport(Endpoint("http://host", headers=(("X-Token", "sesame\n"),)))

    assert "sesame" not in str(raised.value)


def test_query_that_no_url_can_hold_is_a_response_error(flink: FakeFlink) -> None:
    with pytest.raises(ResponseError, match="cannot be sent"):
        exchange(flink.endpoint(), lambda transport: transport.get_json("/config", params={"get": "x" * 100_000}))
