"""Who the transport says it is, the cookies it keeps, and what it says when that is not enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import pytest

from flink_autoscaler.clients.auth.authentication import requested_schemes
from flink_autoscaler.clients.http.connections import LONGEST_COOKIE, MAX_COOKIES
from flink_autoscaler.clients.http.transport import HttpTransport
from flink_autoscaler.core.errors import RefusedError
from flink_autoscaler.core.model.job import Endpoint
from testkit.builders.transport import exchange
from testkit.fakes.flink import Canned, FakeFlink
from testkit.fakes.flink.server import FakeRequest, Server

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


async def get(transport: HttpTransport) -> object:
    return await transport.get_json("/config")


def gets(count: int) -> Callable[[HttpTransport], Awaitable[object]]:
    async def repeat(transport: HttpTransport) -> None:
        for _ in range(count):
            await get(transport)

    return repeat


def test_user_name_is_in_every_query(hadoop: FakeHadoop) -> None:
    async def several(transport: HttpTransport) -> None:
        await get(transport)
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
        exchange(flink.endpoint(), get)

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
        exchange(flink.endpoint(headers=(("Authorization", "Bearer sesame"),)), get)

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
