"""The web proxy of YARN: its warning page, its cookies, and the PUT that old ones do not carry.

The fake behaves as ``WebAppProxyServlet`` of Hadoop 3.3 does in a secure cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from http.cookies import SimpleCookie

import pytest

from flink_autoscaler.clients.http.transport import HttpTransport
from flink_autoscaler.core.errors import NotLeaderError, RefusedError, ResponseError
from flink_autoscaler.core.model.job import Endpoint
from testkit.fakes.flink import Canned, FakeFlink
from testkit.fakes.flink.server import FakeRequest, Server

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


def exchange(
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


async def get(transport: HttpTransport) -> object:
    return await transport.get_json("/jobs/overview")


async def put(transport: HttpTransport) -> object:
    return await transport.put_json("/jobs/x", {"a": 1})


def test_warning_page_is_explained(proxy: FakeProxy) -> None:
    with pytest.raises(ResponseError) as raised:
        exchange(proxy.endpoint(), get)

    for word in ("belongs to 'ann'", "yarn.access: direct", "yarn.approve-proxy: true"):
        assert word in str(raised.value)
    assert len(proxy.requests) == 1


def test_warning_page_is_confirmed_once_per_application(proxy: FakeProxy) -> None:
    async def three_times(transport: HttpTransport) -> object:
        await get(transport)
        await transport.get_json("/jobs/overview", params={"get": "a,b"})
        return await put(transport)

    answer = exchange(proxy.endpoint(approves_proxy=True), three_times)

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

    assert exchange(proxy.endpoint(approves_proxy=True), rounds) == [{"from": "flink"}] * 5
    assert sorted(proxy.seen()) == [("GET", f"/jobs/{number}?get=a,b") for number in range(5)]


def test_put_is_not_sent_again_by_who_may_not_write_any_more(proxy: FakeProxy) -> None:
    with pytest.raises(NotLeaderError):
        exchange(proxy.endpoint(approves_proxy=True), put, lambda _: not proxy.requests)

    assert proxy.seen() == [("PUT", "/jobs/x")]


def test_warning_that_comes_again_is_an_error_that_says_so(proxy: FakeProxy) -> None:
    proxy.keeps_cookies = False

    with pytest.raises(ResponseError, match="repeats its warning"):
        exchange(proxy.endpoint(approves_proxy=True), get)

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
        await get(transport)
        return await put(transport)

    assert exchange(endpoint, get_then_put) == {}
    assert flink.paths() == ["/jobs/x"]
    assert flink.requests[0].body == {"a": 1}
    # The JobManager belongs to whoever started it: it gets neither cookies nor credentials of the ResourceManager.
    assert not flink.requests[0].query
    assert not {"cookie", "authorization", "hadoop-yarn-rm-delegation-token"} & flink.requests[0].headers.keys()


def test_put_that_goes_past_the_proxy_needs_permission_again(proxy: FakeProxy, flink: FakeFlink) -> None:
    proxy.forwards_put = False
    endpoint = proxy.endpoint(put_url=flink.url, approves_proxy=True)

    with pytest.raises(NotLeaderError, match=flink.url):
        exchange(endpoint, put, lambda _: len(proxy.requests) < 2)

    assert flink.requests == []


def test_put_past_the_proxy_is_sent_once(proxy: FakeProxy, flink: FakeFlink) -> None:
    proxy.forwards_put = False
    flink.fault("/jobs/x", Canned(b"", 405, None))

    with pytest.raises(RefusedError, match="HTTP 405"):
        exchange(proxy.endpoint(put_url=flink.url, approves_proxy=True), put)

    assert flink.paths() == ["/jobs/x"]


def test_put_without_another_way_says_what_is_missing(proxy: FakeProxy) -> None:
    proxy.forwards_put = False

    with pytest.raises(RefusedError, match=r"HTTP 405.*yarn\.access: direct"):
        exchange(proxy.endpoint(approves_proxy=True), put)


@pytest.mark.parametrize("status", [400, 403, 404, 500, 503])
def test_nothing_but_405_leads_past_the_proxy(flink: FakeFlink, status: int) -> None:
    flink.fault("/jobs/x", Canned(b"", status, None))

    with pytest.raises(RefusedError):
        exchange(flink.endpoint(put_url=f"{flink.url}/direct"), put)

    assert flink.paths() == ["/jobs/x"]


def test_get_never_goes_past_the_proxy(flink: FakeFlink) -> None:
    flink.fault("/jobs/overview", Canned(b"", 405, None))

    with pytest.raises(RefusedError):
        exchange(flink.endpoint(put_url=f"{flink.url}/direct"), get)

    assert flink.paths() == ["/jobs/overview"]


def test_deadline_covers_the_way_past_the_proxy(flink: FakeFlink) -> None:
    flink.fault("/proxied", Canned(b"", 405, None))
    flink.delay = 0.2

    with pytest.raises(Exception, match=r"no complete answer within 0\.3 s"):
        exchange(flink.endpoint(url=f"{flink.url}/proxied", put_url=flink.url, timeout=0.3), put)


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
        exchange(flink.endpoint(approves_proxy=True), get)

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
