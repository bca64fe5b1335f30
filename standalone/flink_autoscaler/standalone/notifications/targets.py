"""Targets of notifications: a webhook, or a service that Apprise knows."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.clients.http.webhook import WebhookResponse, post_once
from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.errors import AutoscalerError, NotLeaderError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.notifications import apprise_process
from flink_autoscaler.standalone.notifications.apprise_process import Message
from flink_autoscaler.standalone.notifications.messages import (
    SIGNATURE,
    CloudEvent,
    cloud_event,
    encode_body,
    message_lines,
    message_title,
    sign,
)
from flink_autoscaler.standalone.settings.credentials import Credentials, target_url
from flink_autoscaler.standalone.settings.schema.clusters import TargetSettings
from flink_autoscaler.standalone.settings.secrets import MASK, mask_secrets, mask_target_url, read_secret
from flink_autoscaler.standalone.worker_process import WorkerProcess, WorkerProcessError

_MAX_RESPONSE_BYTES: Final = 4096
"""Bytes of an answer."""

_MAX_SHOWN_TEXT: Final = 120
_GRACE: Final = 2.0
_START_SECONDS: Final = 60.0
"""In which the process that sends has its libraries; not counted as time of the target."""

_OK: Final = range(200, 300)
_FINAL: Final = frozenset({400, 410, 413, 415, 422})
"""Answers that the same message would have again, whatever the receiver does meanwhile."""


class DeliveryError(AutoscalerError):
    """A message was not taken; the text holds no secret.

    Attributes:
        is_final: Whether sending it again is of no use.
        retry_after: Seconds that the receiver wants no request; None when it does not say.
    """

    def __init__(self, message: str, *, is_final: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.is_final = is_final
        self.retry_after = retry_after


class NotificationTarget(Protocol):
    """Somebody who is told. Called by one thread at a time."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds that sending takes at most."""
        ...

    def send(self, events: Sequence[CloudEvent], may_send: Callable[[], bool]) -> None:
        """Send events as one message.

        Args:
            events: At least one, oldest first.
            may_send: Asked as late as possible before something is sent.

        Raises:
            DeliveryError: It was not taken, or nobody knows.
            NotLeaderError: It may not be sent any more, and was not.
        """
        ...


def make_target(settings: TargetSettings, loop: EventLoopThread) -> NotificationTarget:
    """Return a target as it is configured; ``loop`` runs its requests and belongs to the caller."""
    return AppriseTarget(settings) if settings.type == "apprise" else WebhookTarget(settings, loop)


class WebhookTarget:
    """Gets CloudEvents by POST (a ``NotificationTarget``); files and variables are read for every message.

    Args:
        settings: Where, and how it is reached.
        loop: Runs the requests; owned by the caller.
    """

    def __init__(self, settings: TargetSettings, loop: EventLoopThread) -> None:
        self._settings = settings
        self._keys = f"target '{settings.name}': "
        self._loop = loop
        self.name, self.timeout = settings.name, settings.timeout

    def send(self, events: Sequence[CloudEvent], may_send: Callable[[], bool]) -> None:
        """Send one event in structured mode, several as a batch; signed where there is a key."""
        settings, url, key = self._settings, "", ""
        answer = WebhookResponse(0, "", None)
        with ErrorBoundary() as boundary:
            url = target_url(settings, self._keys)
            key = read_secret(self._keys, "key", variable=settings.key_env_variable, file=settings.key_file) or ""
            body, content_type = encode_body(events)
            signed = {SIGNATURE: sign(body, key)} if key else {}
            answer = self._post(url, body, {"content-type": content_type, **signed}, may_send)
        _raise_redacted(boundary.error, url, key)
        _check_response(answer, url, key)

    def _post(self, url: str, body: bytes, headers: Mapping[str, str], may_send: Callable[[], bool]) -> WebhookResponse:
        plain = Endpoint(url, timeout=self.timeout, max_response_bytes=_MAX_RESPONSE_BYTES)
        endpoint = Credentials(self._settings, self._keys).with_credentials(plain)
        return self._loop.run(post_once(endpoint, body, headers, may_send=may_send), self.timeout + _GRACE)


def _raise_redacted(error: AutoscalerError | None, url: str, *secrets: str) -> None:
    """Raise what went wrong, if anything did, without its cause: that may hold the URL."""
    if isinstance(error, NotLeaderError):
        raise error
    if error is not None:
        raise DeliveryError(redact_url(str(error), url, *secrets)) from None


def _check_response(answer: WebhookResponse, url: str, *secrets: str) -> None:
    if answer.status in _OK:
        return
    said = f": {redact_url(answer.text[:_MAX_SHOWN_TEXT], url, *secrets)!r}" if answer.text else ""
    raise DeliveryError(f"HTTP {answer.status}{said}", is_final=answer.status in _FINAL, retry_after=answer.retry_after)


class AppriseTarget:
    """Gets a title and lines of text through Apprise (a ``NotificationTarget``), in a process that can be ended.

    Args:
        settings: Where it is.
    """

    def __init__(self, settings: TargetSettings) -> None:
        self._settings = settings
        self._keys = f"target '{settings.name}': "
        self.name, self.timeout = settings.name, settings.timeout

    def send(self, events: Sequence[CloudEvent], may_send: Callable[[], bool]) -> None:
        """Send a title and a line per event."""
        url, said = "", None
        with ErrorBoundary() as boundary:
            url = target_url(self._settings, self._keys)
            if not may_send():
                raise NotLeaderError(f"{self._keys}not sent, because another daemon may send it by now")
            is_warning = any(event["data"]["severity"] == "warning" for event in events)
            said = self._send_message(Message(url, message_title(events), message_lines(events), is_warning=is_warning))
        _raise_redacted(boundary.error, url)
        if said is not None:
            raise DeliveryError(redact_url(said, url))

    def _send_message(self, message: Message) -> str | None:
        """Send a message; return why it was not, None when it was. What takes too long is killed."""
        process = apprise_process.start_process(message)
        try:
            with _kill_after(_START_SECONDS, process):
                process.message()  # it has read its libraries
            with _kill_after(self.timeout, process) as is_over:
                try:
                    came: tuple[str | None] = process.message()
                except WorkerProcessError as error:
                    raise DeliveryError(f"not sent within {self.timeout:g} s" if is_over() else str(error)) from error
            return came[0]
        finally:
            process.close()


@contextmanager
def _kill_after(seconds: float, process: WorkerProcess) -> Iterator[Callable[[], bool]]:
    """End a process when the block takes longer; give what tells whether that came to pass."""
    is_over = threading.Event()

    def end() -> None:
        is_over.set()  # before the end, which wakes who waits for a message
        process.close()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield is_over.is_set
    finally:
        timer.cancel()


_MIN_SECRET_LENGTH: Final = 3
"""Characters of a part that is looked for: shorter ones would mask half of every text."""

_MAX_TEXT_LENGTH: Final = 300
_PARTS: Final = re.compile(r"[/:@?#&=;,]+")


def redact_url(text: str, url: str, *secrets: str) -> str:
    """Return a text without any part of a URL behind its scheme, and without further secrets; bounded.

    The host of a web address stays. Anything else may be a token, whatever the place where the service has it.
    """
    for secret in sorted({*_secret_parts(url), *secrets}, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET_LENGTH:
            text = text.replace(secret, MASK)
    shown = str(mask_secrets(text))
    return shown if len(shown) <= _MAX_TEXT_LENGTH else f"{shown[:_MAX_TEXT_LENGTH]}..."


def _secret_parts(url: str) -> Iterator[str]:
    _, separator, rest = url.partition("://")
    host = _web_host(url)
    for part in (
        rest if separator else url,
        *_PARTS.split(rest),
        *(value for _, value in parse_qsl(rest.partition("?")[2])),
    ):
        for form in (part, unquote(part)):
            if form not in host:
                yield form


def _web_host(url: str) -> tuple[str, ...]:
    """Return host and port of a web address, together and each; nothing for the URLs of other services."""
    try:
        parts = urlsplit(url)
        if parts.scheme.lower() not in ("http", "https") or parts.hostname is None:
            return ()
        return (parts.netloc.rpartition("@")[2], parts.hostname, str(parts.port or ""))
    except ValueError:
        return ()


_MAX_CONCURRENT: Final = 8
_TEXT: Final = "This is a test of notifications: nothing has happened."


def send_test_messages(targets: Sequence[TargetSettings], source: str) -> list[dict[str, Any]]:
    """Send a test message to each target, at the same time; return what came of it, for JSON.

    Args:
        targets: Who is told.
        source: Name of the group of daemons.
    """
    if not targets:
        return []
    loop = EventLoopThread("notifications")
    with closing(loop), ThreadPoolExecutor(min(len(targets), _MAX_CONCURRENT)) as pool:
        return list(pool.map(partial(_send_test, loop, _test_event(source)), targets))


def _test_event(source: str) -> CloudEvent:
    context = JobAutoScalerContext(source, None, JobStatus.UNKNOWN, {}, Endpoint(""))
    event = Event(EventType.NORMAL, "NotificationTest", _TEXT)
    return cloud_event(context, event, event_id=str(uuid.uuid4()), source=source, at=time.time())


def _send_test(loop: EventLoopThread, message: CloudEvent, settings: TargetSettings) -> dict[str, Any]:
    with ErrorBoundary() as boundary:
        make_target(settings, loop).send([message], lambda: True)
    error = None if boundary.error is None else str(mask_secrets(str(boundary.error)))
    named = {"name": settings.name, "type": settings.type, "place": _key_prefix(settings)}
    return {**named, "error": error, "is_sent": error is None}


def _key_prefix(settings: TargetSettings) -> str:
    try:
        return mask_target_url(target_url(settings, ""))
    except AutoscalerError:
        return "unknown"
