"""Requests to a JobManager that misbehaves in every way."""

from __future__ import annotations

import asyncio
import base64
import gzip
import math
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from http.cookies import SimpleCookie

import pytest

from flink_autoscaler.clients.auth.authentication import requested_schemes
from flink_autoscaler.clients.http.connections import LONGEST_COOKIE, MAX_COOKIES
from flink_autoscaler.clients.http.transport import ATTEMPTS, HttpTransport
from flink_autoscaler.core.errors import (
    ConfigError,
    ConnectError,
    FlinkRestError,
    JobGoneError,
    NotLeaderError,
    RefusedError,
    ResponseError,
)
from flink_autoscaler.core.model.job import Endpoint
from testkit.builders.transport import exchange
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import Canned, FakeFlink, Fault, flink_error
from testkit.fakes.flink.server import FakeRequest, Server

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


SIGNED = '"u=ann&p=ann&t=simple&e=1700000000000&s=c2lnbmVk="'


@dataclass
class FakeHadoop:
    """A service with Hadoop's simple authentication: a name in the query or a cookie; ``requests`` is what arrived."""

    requests: list[FakeRequest] = field(default_factory=list)
    cookies: tuple[str, ...] = (f"hadoop.auth={SIGNED}; Path=/; HttpOnly",)

    def __post_init__(self) -> None:
        self._server = Server(self._respond)
        self._server.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    def close(self) -> None:
        self._server.close()

    def sent_cookies(self) -> list[str]:
        return [request.headers.get("cookie", "") for request in self.requests]

    def _respond(self, request: FakeRequest) -> tuple[Canned, Canned]:
        self.requests.append(request)
        if "hadoop.auth" in request.headers.get("cookie", ""):
            answer = Canned(b"{}")
        elif "user.name" in request.query:
            # One header is all that the fake server can send.
            answer = Canned(b"{}", headers={"Set-Cookie": self.cookies[(len(self.requests) - 1) % len(self.cookies)]})
        else:
            answer = Canned(b"", 401, "text/html", headers={"WWW-Authenticate": "PseudoAuth"})
        return answer, answer


@pytest.fixture
def hadoop() -> Iterator[FakeHadoop]:
    fake = FakeHadoop()
    yield fake
    fake.close()


async def get_as(transport: HttpTransport) -> object:
    return await transport.get_json("/config")


def gets(count: int) -> Callable[[HttpTransport], Awaitable[object]]:
    async def repeat(transport: HttpTransport) -> None:
        for _ in range(count):
            await get_as(transport)

    return repeat


def test_user_name_is_in_every_query(hadoop: FakeHadoop) -> None:
    async def several(transport: HttpTransport) -> None:
        await get_as(transport)
        await transport.get_json("/ws", params={"states": "RUNNING", "name": "a b"})
        await transport.put_json("/x", {})

    exchange(Endpoint(hadoop.url, user_name="ann&co=ü"), several)

    name = "user.name=ann%26co%3D%C3%BC"
    assert [request.target for request in hadoop.requests] == [
        f"/config?{name}",
        f"/ws?states=RUNNING&name=a%20b&{name}",
        f"/x?{name}",
    ]


def test_cookie_is_used_from_the_second_request_on(hadoop: FakeHadoop) -> None:
    exchange(Endpoint(hadoop.url, user_name="ann"), gets(3))

    assert hadoop.sent_cookies() == ["", f"hadoop.auth={SIGNED}", f"hadoop.auth={SIGNED}"]


@pytest.mark.parametrize(
    "cookie",
    [
        pytest.param("a=1; Path=/elsewhere", id="other path"),
        pytest.param("a=1; Domain=example.org", id="other host"),
        pytest.param("a=1; Path=/; Secure", id="for TLS only"),
        pytest.param("a=1; Path=/; Max-Age=0", id="taken back"),
        pytest.param(f"a={'1' * LONGEST_COOKIE}; Path=/", id="too long"),
        pytest.param("=;;=\x01", id="garbage"),
    ],
)
def test_cookies_that_are_not_for_this_are_not_sent(hadoop: FakeHadoop, cookie: str) -> None:
    hadoop.cookies = (cookie,)

    exchange(Endpoint(hadoop.url, user_name="ann"), gets(2))

    assert hadoop.sent_cookies() == ["", ""]


def test_number_of_cookies_is_bounded(hadoop: FakeHadoop) -> None:
    hadoop.cookies = tuple(f"c{number}=1; Path=/" for number in range(3 * MAX_COOKIES))

    exchange(Endpoint(hadoop.url, user_name="ann"), gets(3 * MAX_COOKIES))

    assert hadoop.sent_cookies()[-1].count("=") == MAX_COOKIES


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        pytest.param('Basic realm="flink"', "auth.kind: basic with auth.username and auth.password-file", id="basic"),
        pytest.param('Bearer realm="x", error="y"', "auth.kind: bearer with auth.token-file", id="bearer"),
        pytest.param("Negotiate", "auth.kind: kerberos", id="Kerberos"),
        pytest.param("PseudoAuth", "auth.kind: simple with auth.username", id="Hadoop's simple"),
        pytest.param("NTLM", "ntlm, which is not supported", id="unsupported"),
        pytest.param('Negotiate, Basic realm="a, Digest b"', "kerberos or a user and a password", id="two"),
        pytest.param(None, "the server wants to know who asks: set auth.kind", id="no word about it"),
    ],
)
def test_unauthorized_says_what_is_asked_for(flink: FakeFlink, challenge: str | None, said: str) -> None:
    headers = {} if challenge is None else {"WWW-Authenticate": challenge}
    flink.fault("/config", Canned(b"<html><title>Error 401</title></html>", 401, "text/html", headers=headers))

    with pytest.raises(RefusedError, match="HTTP 401: 'Error 401'; ") as raised:
        exchange(flink.endpoint(), get_as)

    assert said in str(raised.value)
    assert len(flink.requests) == 1


@pytest.mark.parametrize(
    ("status", "challenge", "said"),
    [
        pytest.param(401, "Bearer", "the server does not accept the token (auth)", id="refused"),
        pytest.param(401, "", "the server does not accept the token (auth)", id="refused without a word"),
        pytest.param(401, "Negotiate", "the server asks for Kerberos", id="something else is asked for"),
        pytest.param(403, "", "the token may not do this: grant the permission", id="forbidden"),
    ],
)
def test_refused_credentials_are_told_from_missing_ones(
    flink: FakeFlink, status: int, challenge: str, said: str
) -> None:
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    flink.fault("/config", Canned(b"", status, None, headers=headers))

    with pytest.raises(RefusedError) as raised:
        exchange(flink.endpoint(headers=(("Authorization", "Bearer sesame"),)), get_as)

    assert said in str(raised.value)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize(
    ("challenge", "schemes"),
    [
        ("", ()),
        ("Negotiate", ("negotiate",)),
        ("Negotiate YIIabc==", ("negotiate",)),
        ('Basic realm="a", charset="UTF-8"', ("basic",)),
        ('Basic realm="say \\"Digest x\\", Bearer", Negotiate', ("basic", "negotiate")),
        ("Negotiate,NTLM , negotiate", ("negotiate", "ntlm")),
        ('Basic realm="never closed, Negotiate', ("basic",)),
    ],
)
def test_schemes_are_found_in_any_challenge(challenge: str, schemes: tuple[str, ...]) -> None:
    assert requested_schemes(challenge) == schemes


APPLICATION = "application_1700000000000_0007"


COOKIE = f"checked_{APPLICATION}"


PREFIX = f"/proxy/{APPLICATION}"


WARNING = (
    '<html>\n  <h1>\nWARNING: The following page may not be safe!\n  </h1>\n  <h3>\nclick \n    <a href="/x">here'
    "</a>\n to continue to an Application Master web interface owned by \nann\n  </h3>\n</html>"
)


@dataclass
class FakeProxy:
    """A proxy before an application of somebody else.

    Attributes:
        forwards_put: Whether PUT is passed on; old versions do not.
        keeps_cookies: Whether the cookies arrive there.
        requests: What arrived, in order.
    """

    forwards_put: bool = True
    keeps_cookies: bool = True
    requests: list[FakeRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._server = Server(self._respond)
        self._server.start()

    def endpoint(self, **values: object) -> Endpoint:
        return Endpoint(f"http://127.0.0.1:{self._server.port}{PREFIX}", timeout=5.0, **values)  # type: ignore[arg-type]

    def close(self) -> None:
        self._server.close()

    def seen(self) -> list[tuple[str, str]]:
        return [(request.method, request.target.removeprefix(PREFIX)) for request in self.requests]

    def _respond(self, request: FakeRequest) -> tuple[Canned, Canned]:
        self.requests.append(request)
        cookies = SimpleCookie(request.headers.get("cookie", "") if self.keeps_cookies else "")
        was_warned = COOKIE in cookies
        is_approved = request.query.get("proxyapproved") == "true" or (was_warned and cookies[COOKIE].value == "true")
        if not (was_warned and is_approved):
            return self._answer(Canned(WARNING.encode(), 200, "text/html; charset=utf-8"), value="false")
        if request.method == "PUT" and not self.forwards_put:
            return self._answer(Canned(b"", 405, None), value="true")
        return self._answer(Canned(b'{"from": "flink"}'), value="true")

    def _answer(self, canned: Canned, value: str) -> tuple[Canned, Canned]:
        cookie = f"{COOKIE}={value}; Path={PREFIX}; Max-Age=7200; HttpOnly"
        answer = Canned(canned.body, canned.status, canned.content_type, headers={"Set-Cookie": cookie})
        return answer, answer


@pytest.fixture
def proxy() -> Iterator[FakeProxy]:
    fake = FakeProxy()
    yield fake
    fake.close()


def exchange_by_proxy(
    endpoint: Endpoint,
    action: Callable[[HttpTransport], Awaitable[object]],
    may_write: Callable[[float], bool] = lambda _: True,
) -> object:
    async def run() -> object:
        transport = HttpTransport(endpoint, may_write=may_write)
        try:
            return await action(transport)
        finally:
            await transport.aclose()

    return asyncio.run(run())


async def get_by_proxy(transport: HttpTransport) -> object:
    return await transport.get_json("/jobs/overview")


async def put_by_proxy(transport: HttpTransport) -> object:
    return await transport.put_json("/jobs/x", {"a": 1})


def test_warning_page_is_explained(proxy: FakeProxy) -> None:
    with pytest.raises(ResponseError) as raised:
        exchange_by_proxy(proxy.endpoint(), get_by_proxy)

    for word in ("belongs to 'ann'", "yarn.access: direct", "yarn.approve-proxy: true"):
        assert word in str(raised.value)
    assert len(proxy.requests) == 1


def test_warning_page_is_confirmed_once_per_application(proxy: FakeProxy) -> None:
    async def three_times(transport: HttpTransport) -> object:
        await get_by_proxy(transport)
        await transport.get_json("/jobs/overview", params={"get": "a,b"})
        return await put_by_proxy(transport)

    answer = exchange_by_proxy(proxy.endpoint(approves_proxy=True), three_times)

    assert answer == {"from": "flink"}
    assert proxy.seen() == [
        ("GET", "/jobs/overview"),
        ("GET", "/jobs/overview?proxyapproved=true"),
        ("GET", "/jobs/overview?get=a,b"),
        ("PUT", "/jobs/x"),
    ]


def test_requests_of_a_round_that_met_the_warning_page_are_sent_again(proxy: FakeProxy) -> None:
    async def rounds(transport: HttpTransport) -> object:
        asked = [(f"/jobs/{number}", {"get": "a,b"}) for number in range(5)]
        await transport.get_all_json(asked)
        proxy.requests.clear()
        return await transport.get_all_json(asked)

    assert exchange_by_proxy(proxy.endpoint(approves_proxy=True), rounds) == [{"from": "flink"}] * 5
    assert sorted(proxy.seen()) == [("GET", f"/jobs/{number}?get=a,b") for number in range(5)]


def test_put_is_not_sent_again_by_who_may_not_write_any_more(proxy: FakeProxy) -> None:
    with pytest.raises(NotLeaderError):
        exchange_by_proxy(proxy.endpoint(approves_proxy=True), put_by_proxy, lambda _: not proxy.requests)

    assert proxy.seen() == [("PUT", "/jobs/x")]


def test_warning_that_comes_again_is_an_error_that_says_so(proxy: FakeProxy) -> None:
    proxy.keeps_cookies = False

    with pytest.raises(ResponseError, match="repeats its warning"):
        exchange_by_proxy(proxy.endpoint(approves_proxy=True), get_by_proxy)

    assert len(proxy.requests) == 2


def test_put_goes_past_a_proxy_that_carries_none(proxy: FakeProxy, flink: FakeFlink) -> None:
    proxy.forwards_put = False
    flink.fault("/jobs/x", Canned(b"{}"))
    endpoint = proxy.endpoint(
        put_url=flink.url,
        approves_proxy=True,
        user_name="ann",
        headers=(("Hadoop-YARN-RM-Delegation-Token", "sesame"), ("Authorization", "Bearer sesame")),
    )

    async def get_then_put(transport: HttpTransport) -> object:
        await get_by_proxy(transport)
        return await put_by_proxy(transport)

    assert exchange_by_proxy(endpoint, get_then_put) == {}
    assert flink.paths() == ["/jobs/x"]
    assert flink.requests[0].body == {"a": 1}
    # The JobManager belongs to whoever started it: it gets neither cookies nor credentials of the ResourceManager.
    assert not flink.requests[0].query
    assert not {"cookie", "authorization", "hadoop-yarn-rm-delegation-token"} & flink.requests[0].headers.keys()


def test_put_that_goes_past_the_proxy_needs_permission_again(proxy: FakeProxy, flink: FakeFlink) -> None:
    proxy.forwards_put = False
    endpoint = proxy.endpoint(put_url=flink.url, approves_proxy=True)

    with pytest.raises(NotLeaderError, match=flink.url):
        exchange_by_proxy(endpoint, put_by_proxy, lambda _: len(proxy.requests) < 2)

    assert flink.requests == []


def test_put_past_the_proxy_is_sent_once(proxy: FakeProxy, flink: FakeFlink) -> None:
    proxy.forwards_put = False
    flink.fault("/jobs/x", Canned(b"", 405, None))

    with pytest.raises(RefusedError, match="HTTP 405"):
        exchange_by_proxy(proxy.endpoint(put_url=flink.url, approves_proxy=True), put_by_proxy)

    assert flink.paths() == ["/jobs/x"]


def test_put_without_another_way_says_what_is_missing(proxy: FakeProxy) -> None:
    proxy.forwards_put = False

    with pytest.raises(RefusedError, match=r"HTTP 405.*yarn\.access: direct"):
        exchange_by_proxy(proxy.endpoint(approves_proxy=True), put_by_proxy)


@pytest.mark.parametrize("status", [400, 403, 404, 500, 503])
def test_nothing_but_405_leads_past_the_proxy(flink: FakeFlink, status: int) -> None:
    flink.fault("/jobs/x", Canned(b"", status, None))

    with pytest.raises(RefusedError):
        exchange_by_proxy(flink.endpoint(put_url=f"{flink.url}/direct"), put_by_proxy)

    assert flink.paths() == ["/jobs/x"]


def test_get_never_goes_past_the_proxy(flink: FakeFlink) -> None:
    flink.fault("/jobs/overview", Canned(b"", 405, None))

    with pytest.raises(RefusedError):
        exchange_by_proxy(flink.endpoint(put_url=f"{flink.url}/direct"), get_by_proxy)

    assert flink.paths() == ["/jobs/overview"]


def test_deadline_covers_the_way_past_the_proxy(flink: FakeFlink) -> None:
    flink.fault("/proxied", Canned(b"", 405, None))
    flink.delay = 0.2

    with pytest.raises(Exception, match=r"no complete answer within 0\.3 s"):
        exchange_by_proxy(flink.endpoint(url=f"{flink.url}/proxied", put_url=flink.url, timeout=0.3), put_by_proxy)


@pytest.mark.parametrize(
    ("page", "explanation"),
    [
        pytest.param(
            "<html><h1>HTTPS must be used</h1><h3>yarn.resourcemanager.application-https.policy is set to STRICT, "
            "which means that the tracking URL must be an HTTPS URL</h3></html>",
            "security.ssl.rest.enabled",
            id="https demanded by YARN",
        ),
        pytest.param(
            "<html><head><title>Corp SSO - Sign in</title></head><body>Welcome</body></html>",
            "login page titled 'Corp SSO - Sign in': 'Welcome'",
            id="login by title",
        ),
        pytest.param(
            "<html><form><p>Who?</p><input type=password name=p></form></html>", "login page", id="login by field"
        ),
        pytest.param(
            "<!doctype html><html><head><title>Apache Flink Web Dashboard</title></head><script>1<2</script></html>",
            "path of the URL",
            id="Flink's page for browsers",
        ),
        pytest.param(
            "<html><head><title>All Applications</title><style>p{}</style></head><body>Cluster Metrics</body></html>",
            "titled 'All Applications': 'Cluster Metrics'",
            id="another page",
        ),
        pytest.param("<" * 100_000, "page for people without title", id="no page at all"),
        pytest.param("<title>\x1b[31mred\x00", "titled '?[31mred?'", id="control characters"),
    ],
)
def test_pages_are_explained(flink: FakeFlink, page: str, explanation: str) -> None:
    flink.fault("/jobs/overview", Canned(page.encode(), 200, "text/html"))

    with pytest.raises(ResponseError) as raised:
        exchange_by_proxy(flink.endpoint(approves_proxy=True), get_by_proxy)

    assert explanation in str(raised.value)
    assert len(str(raised.value)) < 400


def test_put_body_is_ascii_without_line_breaks() -> None:
    """YARN's proxy reads it line by line and sends it on in Latin-1."""
    bodies: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        bodies.append(await reader.readexactly(int(length)))
        writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport = HttpTransport(Endpoint(f"http://127.0.0.1:{port}"))
        await transport.put_json("/x", {"Größe\n": [1, {"b": "\u2028"}]})
        await transport.aclose()
        server.close()

    asyncio.run(run())

    assert bodies == [b'{"Gr\\u00f6\\u00dfe\\n":[1,{"b":"\\u2028"}]}']


PATH = "/jobs/" + "ab" * 16 + "/resource-requirements"


def send(flink: FakeFlink, may_write: Callable[[float], bool]) -> None:
    async def put() -> None:
        transport = HttpTransport(flink.endpoint(timeout=3.0), may_write=may_write)
        try:
            await transport.put_json(PATH, {})
        finally:
            await transport.aclose()

    asyncio.run(put())


def test_put_is_not_sent_by_who_may_not_write() -> None:
    with FakeFlink() as flink:
        with pytest.raises(NotLeaderError, match="not sent"):
            send(flink, lambda _: False)

        assert flink.requests == []


def test_put_is_given_up_when_the_permission_ends_after_the_connection_was_opened() -> None:
    """As when the process is stopped between opening the connection and sending."""
    with FakeFlink() as flink:
        opened: list[int] = []

        def may_write(_: float) -> bool:
            # The server counts in a thread of its own.
            wait_until("a connection", lambda: flink.connections, interval=0.005)
            opened.append(flink.connections)
            return len(opened) < 2

        with pytest.raises(NotLeaderError):
            send(flink, may_write)

        assert opened == [1, 1]
        assert flink.requests == []


def test_put_needs_permission_for_as_long_as_it_may_take() -> None:
    with FakeFlink() as flink:
        job = flink.add_job("orders")
        asked: list[float] = []

        def may_write(seconds: float) -> bool:
            asked.append(seconds)
            return True

        async def put() -> None:
            transport = HttpTransport(flink.endpoint(timeout=3.0), may_write=may_write)
            path = f"/jobs/{job.job_id}/resource-requirements"
            bounds = {each.vertex_id: {"parallelism": {"lowerBound": 1, "upperBound": 2}} for each in job.vertices}
            await transport.put_json(path, bounds)
            await transport.aclose()

        asyncio.run(put())

        assert set(asked) == {3.0}
        assert [request.method for request in flink.requests] == ["PUT"]


def test_reading_needs_no_permission() -> None:
    async def get(flink: FakeFlink) -> object:
        transport = HttpTransport(flink.endpoint(), may_write=lambda _: False)
        try:
            return await transport.get_json("/jobs/overview")
        finally:
            await transport.aclose()

    with FakeFlink() as flink:
        assert asyncio.run(get(flink)) == {"jobs": []}
