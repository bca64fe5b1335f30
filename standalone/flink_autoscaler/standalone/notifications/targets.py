"""Who is told: a webhook, or a service that Apprise knows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, Protocol

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.clients.http.posting import Posted, post
from flink_autoscaler.core.border import Border, attempted
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, NotLeaderError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.standalone.fetchers.access import Access
from flink_autoscaler.standalone.notifications.messages import (
    SIGNATURE,
    CloudEvent,
    body_of,
    lines_of,
    signature_of,
    title_of,
)
from flink_autoscaler.standalone.notifications.redaction import redacted
from flink_autoscaler.standalone.settings.schema.notifications import TargetSettings, TargetType
from flink_autoscaler.standalone.settings.secrets import from_either

EXTRA: Final = "pip install 'flink-autoscaler[notifications]'"

_MOST_READ: Final = 4096
"""Bytes of an answer."""

_SHOWN: Final = 120
_GRACE: Final = 2.0
_OK: Final = range(200, 300)
_FINAL: Final = frozenset({400, 410, 413, 415, 422})
"""Answers that the same message would have again, whatever the receiver does meanwhile."""


class NotSentError(AutoscalerError):
    """A message was not taken; the text holds no secret.

    Attributes:
        is_final: Whether sending it again is of no use.
        retry_after: Seconds that the receiver wants to be left alone; None when it does not say.
    """

    def __init__(self, message: str, *, is_final: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.is_final = is_final
        self.retry_after = retry_after


class Target(Protocol):
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
            NotSentError: It was not taken, or nobody knows.
            NotLeaderError: It may not be sent any more, and was not.
        """
        ...


def make_target(settings: TargetSettings, loop: EventLoopThread) -> Target:
    """Return a target as it is configured; ``loop`` runs its requests and belongs to the caller."""
    return AppriseTarget(settings) if settings.type is TargetType.APPRISE else WebhookTarget(settings, loop)


def url_of(settings: TargetSettings, keys: str) -> str:
    """Return where a target is, read anew; ``keys`` stands before the names of options in messages.

    Raises:
        ConfigError: It is not where the settings say, or they do not say.
    """
    pointed = from_either(keys, "url", variable=settings.url_env_variable, file=settings.url_file)
    if (url := pointed or settings.url) is None:
        raise ConfigError(f"{keys}url is not set, nor is {keys}url-file or {keys}url-env-variable")
    return url


class WebhookTarget:
    """Gets CloudEvents by POST (a ``Target``); files and variables are read for every message.

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
        answer = Posted(0, "", None)
        with Border() as border:
            url = url_of(settings, self._keys)
            key = from_either(self._keys, "key", variable=settings.key_env_variable, file=settings.key_file) or ""
            body, content_type = body_of(events)
            signed = {SIGNATURE: signature_of(body, key)} if key else {}
            answer = self._post(url, body, {"content-type": content_type, **signed}, may_send)
        _raise_redacted(border.error, url, key)
        _check(answer, url, key)

    def _post(self, url: str, body: bytes, headers: Mapping[str, str], may_send: Callable[[], bool]) -> Posted:
        plain = Endpoint(url, timeout=self.timeout, max_response_bytes=_MOST_READ)
        endpoint = Access(self._settings, self._keys).secured(plain)
        return self._loop.run(post(endpoint, body, headers, may_send=may_send), self.timeout + _GRACE)


def _raise_redacted(error: AutoscalerError | None, url: str, *secrets: str) -> None:
    """Raise what went wrong, if anything did, without its cause: that may hold the URL."""
    if isinstance(error, NotLeaderError):
        raise error
    if error is not None:
        raise NotSentError(redacted(str(error), url, *secrets)) from None


def _check(answer: Posted, url: str, *secrets: str) -> None:
    if answer.status in _OK:
        return
    said = f": {redacted(answer.text[:_SHOWN], url, *secrets)!r}" if answer.text else ""
    raise NotSentError(f"HTTP {answer.status}{said}", is_final=answer.status in _FINAL, retry_after=answer.retry_after)


class AppriseTarget:
    """Gets a title and lines of text through Apprise (a ``Target``).

    Args:
        settings: Where it is.
    """

    def __init__(self, settings: TargetSettings) -> None:
        self._settings = settings
        self._keys = f"target '{settings.name}': "
        self._last: threading.Thread | None = None
        self.name, self.timeout = settings.name, settings.timeout

    def send(self, events: Sequence[CloudEvent], may_send: Callable[[], bool]) -> None:
        """Send a title and a line per event."""
        url, said = "", None
        with Border() as border:
            url = url_of(self._settings, self._keys)
            service = service_of(url)
            if service is None:
                raise ConfigError(f"{self._keys}url: not a URL of a service that Apprise knows")
            if not may_send():
                raise NotLeaderError(f"{self._keys}not sent, because another daemon may send it by now")
            said = self._in_time(lambda: _notify(service, events))
        _raise_redacted(border.error, url)
        if said is not None:
            raise NotSentError(redacted(said, url))

    def _in_time(self, work: Callable[[], str | None]) -> str | None:
        """Do something in a thread that is left alone once its time is over: services have timeouts of their own."""
        if self._last is not None and self._last.is_alive():
            raise NotSentError("the attempt before has not come to an end yet")
        came: list[str | AutoscalerError | None] = []
        # Whatever a service of Apprise raises comes back as an error of ours.
        self._last = threading.Thread(
            target=lambda: came.append(attempted(work)), name="flink-autoscaler-detached", daemon=True
        )
        self._last.start()
        self._last.join(self.timeout)
        if not came:
            raise NotSentError(f"not sent within {self.timeout:g} s")
        if isinstance(came[0], AutoscalerError):
            raise came[0]
        return came[0]


@cache
def apprise() -> Any:
    """Return the library, silent: what it logs may hold URLs, and is told without them.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import apprise as library  # noqa: PLC0415 - who has no such target need not have it
    except ModuleNotFoundError as error:
        raise ConfigError(f"targets of type apprise need a library that is not installed: {EXTRA}") from error
    logger = logging.getLogger("apprise")
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    logger.addHandler(_SAID)
    return library


def service_of(url: str) -> Any:
    """Return what sends to a URL; None where Apprise knows no such service. May raise :class:`ConfigError`."""
    library = apprise()
    asset = library.AppriseAsset(
        app_id="flink-autoscaler", app_desc="Keeps Apache Flink jobs at the right parallelism", async_mode=False
    )
    with _SAID.listening():
        return library.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)


def _notify(service: Any, events: Sequence[CloudEvent]) -> str | None:
    """Send; return why it was not, as far as that was said, and None when it was."""
    library = apprise()
    is_warning = any(event["data"]["severity"] == "warning" for event in events)
    kind = library.NotifyType.WARNING if is_warning else library.NotifyType.INFO
    sender = library.Apprise(asset=service.asset)
    sender.add(service)
    with _SAID.listening() as said:
        is_sent = sender.notify(
            body=lines_of(events), title=title_of(events), notify_type=kind, body_format=library.NotifyFormat.TEXT
        )
    return None if is_sent else "; ".join(said) or "the service did not take it, and Apprise does not say why"


class _Said(logging.Handler):
    """Collects what Apprise logs, for the call in which it does.

    By a context variable: where a service has a deadline, Apprise calls it in another thread, with the same context.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._own: ContextVar[list[str] | None] = ContextVar("said", default=None)

    @contextmanager
    def listening(self) -> Iterator[list[str]]:
        """Give the list to which the lines of this call are added meanwhile."""
        said: list[str] = []
        binding = self._own.set(said)
        try:
            yield said
        finally:
            self._own.reset(binding)

    def emit(self, record: logging.LogRecord) -> None:
        said = self._own.get()
        if said is not None:
            said.append(record.getMessage())


_SAID: Final = _Said()
