"""Who is told: a webhook, and a service of Apprise, each against a server of this process."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import NotLeaderError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.notifications.messages import CloudEvent, cloud_event
from flink_autoscaler.standalone.notifications.targets import DeliveryError, NotificationTarget, make_target, redact_url
from flink_autoscaler.standalone.settings.apprise import apprise_service
from flink_autoscaler.standalone.settings.schema.clusters import BearerAuth, TargetSettings
from flink_autoscaler.standalone.settings.secrets import mask_target_url, mask_value
from testkit.fakes.receiver import Receiver
from testkit.scenarios.runner import LogLines

JOB = JobAutoScalerContext("main/orders", None, JobStatus.RUNNING, {}, Endpoint(""), "orders", "main")


def an_event(reason: str = "RolledBack", kind: EventType = EventType.WARNING) -> CloudEvent:
    return cloud_event(JOB, Event(kind, reason, f"text of {reason}"), event_id=f"id-{reason}", source="g", at=0.0)


@pytest.fixture
def make() -> Iterator[Callable[[TargetSettings], NotificationTarget]]:
    loop = EventLoopThread()
    yield lambda settings: make_target(settings, loop)
    loop.close()


Make = Callable[[TargetSettings], NotificationTarget]


def yes() -> bool:
    return True


def failure(target: NotificationTarget, may_send: Callable[[], bool] = yes) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        target.send([an_event()], may_send)
    return caught.value


def test_a_webhook_gets_a_signed_cloud_event(receiver: Receiver, make: Make, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cr3tKey\n")

    make(TargetSettings(name="audit", url=f"{receiver.url}/hook?x=1", key_file=str(key))).send([an_event()], yes)

    (received,) = receiver.received
    digest = hmac.new(b"s3cr3tKey", received.body, hashlib.sha256).hexdigest()
    assert received.headers["x-flink-autoscaler-signature"] == f"sha256={digest}"
    assert received.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert received.path == "/hook?x=1"
    assert json.loads(received.body) == an_event()


def test_several_events_are_one_batch_without_a_signature_where_there_is_no_key(receiver: Receiver, make: Make) -> None:
    make(TargetSettings(name="audit", url=receiver.url)).send([an_event("A"), an_event("B")], yes)

    (received,) = receiver.received
    assert received.headers["content-type"].startswith("application/cloudevents-batch+json")
    assert [event["id"] for event in received.events] == ["id-A", "id-B"]
    assert "x-flink-autoscaler-signature" not in received.headers


def test_url_key_and_credentials_are_read_for_every_message(
    receiver: Receiver, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, token = tmp_path / "url", tmp_path / "token"
    auth = BearerAuth(token_file=str(token))
    target = make(TargetSettings(name="audit", url_file=str(url), key_env_variable="HOOK_KEY", auth=auth))
    for number in (1, 2):
        url.write_text(f"{receiver.url}/{number}")
        token.write_text(f"token-{number}")
        monkeypatch.setenv("HOOK_KEY", f"key-{number}")
        target.send([an_event()], yes)

    first, second = receiver.received
    assert (first.path, second.path) == ("/1", "/2")
    assert second.headers["authorization"] == "Bearer token-2"
    assert first.headers["x-flink-autoscaler-signature"] != second.headers["x-flink-autoscaler-signature"]


@pytest.mark.parametrize(
    ("status", "is_final"),
    [(302, False), (400, True), (401, False), (404, False), (410, True), (429, False), (500, False), (503, False)],
)
def test_what_is_refused_for_good_is_not_tried_again(
    receiver: Receiver, make: Make, status: int, is_final: bool
) -> None:
    receiver.answers, receiver.text = [status], b"no: s3cr3tKey of /s3cr3tPath"

    error = failure(make(TargetSettings(name="audit", url=f"{receiver.url}/s3cr3tPath")))

    assert error.is_final is is_final
    assert str(error).startswith(f"HTTP {status}: 'no: ")
    assert "s3cr3tPath" not in str(error)


def test_a_webhook_that_is_gone_hangs_or_talks_nonsense_is_a_failure(receiver: Receiver, make: Make) -> None:
    receiver.may_answer.clear()
    hanging = failure(make(TargetSettings(name="audit", url=f"{receiver.url}/s3cr3t", timeout=0.2)))
    gone = failure(make(TargetSettings(name="audit", url="http://127.0.0.1:1/s3cr3t")))
    missing = failure(make(TargetSettings(name="audit", url_file="/no/such/file")))

    assert "no complete answer within 0.2 s" in str(hanging)
    assert "connection refused" in str(gone)
    assert "/no/such/file" in str(missing)
    assert "s3cr3t" not in f"{hanging}{gone}"


@pytest.mark.parametrize("kind", ["webhook", "apprise"])
def test_nothing_is_sent_by_who_may_not(receiver: Receiver, make: Make, kind: Literal["webhook", "apprise"]) -> None:
    url = receiver.url if kind == "webhook" else receiver.url.replace("http:", "json:")

    with pytest.raises(NotLeaderError):
        make(TargetSettings(name="x", type=kind, url=url)).send([an_event()], lambda: False)

    assert receiver.received == []


def test_a_service_of_apprise_gets_a_title_and_lines(receiver: Receiver, make: Make) -> None:
    url = f"json://127.0.0.1:{receiver.port}/chat"
    target = make(TargetSettings(name="chat", type="apprise", url=url, timeout=60))

    target.send([an_event("RolledBack"), an_event("Scaling", EventType.NORMAL)], yes)

    (received,) = receiver.received
    told = json.loads(received.body)
    assert told["title"] == "flink-autoscaler: 2 events, 1 of them warning"
    assert told["type"] == "warning"
    assert told["message"].splitlines() == [
        "1970-01-01 00:00:00 UTC WARNING main/orders RolledBack: text of RolledBack",
        "1970-01-01 00:00:00 UTC main/orders Scaling: text of Scaling",
    ]


def test_what_apprise_says_is_told_without_secrets_and_logged_by_nobody_else(receiver: Receiver, make: Make) -> None:
    receiver.answers = [500]
    url = f"json://me:s3cr3tPass@127.0.0.1:{receiver.port}/s3cr3tPath?+X-Key=s3cr3tHeader"

    with LogLines("debug") as lines:
        refused = failure(make(TargetSettings(name="chat", type="apprise", url=url, timeout=60)))
        gone = failure(
            make(TargetSettings(name="chat", type="apprise", url="json://127.0.0.1:1/s3cr3tPath", timeout=60))
        )

    assert "500" in str(refused)
    assert "s3cr3t" not in f"{refused}{gone}{lines.all()}"
    assert lines.all() == []


def test_a_service_that_hangs_is_ended_in_time(receiver: Receiver, make: Make) -> None:
    receiver.may_answer.clear()
    url = f"json://127.0.0.1:{receiver.port}/?rto=30"
    target = make(TargetSettings(name="chat", type="apprise", url=url, timeout=0.3))

    first, second = failure(target), failure(target)

    assert "not sent within 0.3 s" in str(first)
    assert "not sent within 0.3 s" in str(second)
    assert len(receiver.received) <= 2


def test_a_url_of_no_service_is_told_without_the_url(make: Make) -> None:
    error = failure(make(TargetSettings(name="chat", type="apprise", url="s3cr3t://s3cr3t")))

    assert "not a URL of a service that Apprise knows" in str(error)
    assert "//s3cr3t" not in str(error)


def test_known_services_are_known() -> None:
    assert apprise_service("mailtos://user:pass@mail.example.com") is not None
    assert apprise_service("nonsense://x") is None


URLS = [
    pytest.param("slack://s3cr3tA/s3cr3tB/s3cr3tC/#s3cr3tD", id="tokens as host and path"),
    pytest.param("tgram://123456789:s3cr3tBot/s3cr3tChat/", id="a token with a colon"),
    pytest.param("mailtos://s3cr3tUser:s3cr3t%21pass@mail.example.com?to=s3cr3t@example.com", id="a password"),
    pytest.param("https://hooks.example.com/services/s3cr3tT/s3cr3tB?key=s3cr3tK#s3cr3tF", id="a webhook"),
    pytest.param("https://s3cr3tUser:s3cr3tPass@hooks.example.com/s3cr3t", id="a webhook with a password"),
    pytest.param("http://[s3cr3t", id="half an address"),
    pytest.param("s3cr3t", id="no URL at all"),
]


@pytest.mark.parametrize("url", URLS)
def test_no_part_of_a_url_is_told(url: str) -> None:
    parts = [part for part in url.replace("%21", "!").split("/") if part]

    for text in (url, f"failed: {url}!", *(f"no such {part} here" for part in parts)):
        assert "s3cr3t" not in redact_url(text, url)


@pytest.mark.parametrize("url", URLS)
def test_where_a_target_is_can_be_shown(url: str) -> None:
    assert "s3cr3t" not in mask_target_url(url)
    assert "s3cr3t" not in mask_value("autoscaler.notifications.targets.0.url", url)
    assert "s3cr3t" not in mask_value("notifications.targets.0.url", url)


def test_the_host_of_a_web_address_stays() -> None:
    url = "https://hooks.example.com:8443/s3cr3t"

    assert mask_target_url(url) == "https://hooks.example.com:8443/******"
    assert "hooks.example.com:8443" in redact_url("POST https://hooks.example.com:8443: refused", url)


def test_keys_are_not_told_and_texts_are_bounded() -> None:
    text = redact_url("the key s3cr3tKey" + "x" * 5000, "https://hooks.example.com", "s3cr3tKey")

    assert "s3cr3t" not in text
    assert len(text) < 400


def test_where_a_secret_is_may_be_told() -> None:
    assert mask_value("autoscaler.notifications.targets.0.url-file", "/run/secrets/chat") == "/run/secrets/chat"
    assert mask_value("autoscaler.notifications.targets.3.key-env-variable", "HOOK_KEY") == "HOOK_KEY"
    assert mask_value("autoscaler.notifications.targets.3.auth.token-file", "/run/secrets/t") == "/run/secrets/t"
    assert mask_value("autoscaler.notifications.targets.3.headers.X-Key", "s3cr3t") == "******"
