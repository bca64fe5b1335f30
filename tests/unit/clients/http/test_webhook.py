"""One POST: what is sent, what is bounded, and what is never told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from flink_autoscaler.clients.http.webhook import WebhookResponse, post_once
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, ConnectError, NotLeaderError
from flink_autoscaler.core.model.job import Endpoint
from testkit.fakes.receiver import Receiver


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Receiver() as receiver:
        yield receiver


def send(endpoint: Endpoint, may_send: Callable[[], bool] = lambda: True) -> WebhookResponse:
    return asyncio.run(post_once(endpoint, b"body", {"content-type": "text/plain"}, may_send=may_send))


def test_what_is_sent_arrives_as_it_is(receiver: Receiver) -> None:
    endpoint = Endpoint(f"{receiver.url}/a/b/?token=x&y=%20", headers=(("x-team", "streaming"),))

    answer = send(endpoint)

    (received,) = receiver.received
    assert (answer.status, received.path, received.body) == (204, "/a/b/?token=x&y=%20", b"body")
    assert received.headers["x-team"] == "streaming"
    assert received.headers["content-type"] == "text/plain"


def test_user_and_password_of_a_url_are_credentials(receiver: Receiver) -> None:
    send(Endpoint(receiver.url.replace("//", "//me:secret%21@")))

    assert receiver.received[0].headers["authorization"] == "Basic bWU6c2VjcmV0IQ=="


def test_an_answer_is_read_up_to_a_bound(receiver: Receiver) -> None:
    receiver.answers, receiver.text = [500], b"x" * 3_000_000

    answer = send(Endpoint(receiver.url, max_response_bytes=1000))

    assert (answer.status, len(answer.text)) == (500, 1000)


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.answers, receiver.more = [302], {"Location": f"{receiver.url}/elsewhere"}

    assert send(Endpoint(receiver.url)).status == 302
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("text", "expected"), [("120", 120.0), ("soon", None), ("Fri, 31 Dec 1999 23:59:59 GMT", None)]
)
def test_the_receiver_may_want_to_be_left_alone(receiver: Receiver, text: str, expected: float | None) -> None:
    receiver.answers, receiver.more = [429], {"Retry-After": text}

    assert send(Endpoint(receiver.url)).retry_after == expected


def test_one_that_does_not_answer_ends_in_time(receiver: Receiver) -> None:
    receiver.may_answer.clear()

    with pytest.raises(ConnectError, match=r"no complete answer within 0\.3 s"):
        send(Endpoint(receiver.url, timeout=0.3))


def test_nothing_is_sent_by_who_may_not_any_more(receiver: Receiver) -> None:
    with pytest.raises(NotLeaderError):
        send(Endpoint(receiver.url), may_send=lambda: False)

    assert receiver.received == []


def _closed_port() -> int:
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        pytest.param("http://127.0.0.1:{port}/hooks/s3cr3t?token=s3cr3t", ConnectError, id="nobody there"),
        pytest.param("http://me:s3cr3t@127.0.0.1:{port}/", ConnectError, id="a password"),
        pytest.param("http://no-such-host.invalid/s3cr3t", ConnectError, id="unknown host"),
        pytest.param("s3cr3t", ConfigError, id="no URL"),
        pytest.param("http://[s3cr3t", ConfigError, id="half an address"),
        pytest.param("ftp://s3cr3t/s3cr3t", ConfigError, id="another scheme"),
    ],
)
def test_no_error_tells_what_is_secret(receiver: Receiver, url: str, kind: type[AutoscalerError]) -> None:
    with pytest.raises(kind) as caught:
        send(Endpoint(url.format(port=_closed_port())))

    assert "s3cr3t" not in str(caught.value)


def test_a_header_that_cannot_be_sent_is_not_told(receiver: Receiver) -> None:
    endpoint = replace(Endpoint(receiver.url), headers=(("x-key", "s3cr3t\nx"),))

    with pytest.raises(ConfigError) as caught:
        send(endpoint)

    assert "s3cr3t" not in str(caught.value)


def test_a_proxy_of_the_environment_is_asked(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", receiver.url)
    monkeypatch.setenv("no_proxy", "")

    send(Endpoint("http://hooks.example.invalid/x"))

    assert receiver.received[0].path == "http://hooks.example.invalid/x"
