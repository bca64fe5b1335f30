"""HTTP as pip would do it: the same proxy, certificates and hosts that need none."""

from __future__ import annotations

import base64
import ssl
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from downloads.pip_settings import PipSettings


class Answer(Protocol):
    """An open answer to a GET."""

    status: int
    headers: Message

    def read(self, amount: int = ..., /) -> bytes:
        """Return what comes next; empty at the end."""
        ...

    def geturl(self) -> str:
        """Return where the answer came from, after redirections."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


def get(url: str, settings: PipSettings, headers: Mapping[str, str]) -> Answer:
    """Send a GET; a name and password in the URL become a header.

    Raises:
        OSError: Nobody answered, or with an error; ``urllib.error.HTTPError`` carries its status.
    """
    parts = urlsplit(url)
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=_trust(parts.hostname, settings))]
    if settings.proxy:
        handlers.append(urllib.request.ProxyHandler({"http": settings.proxy, "https": settings.proxy}))
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    request = urllib.request.Request(bare, headers={**headers, **_credentials(parts.username, parts.password)})
    answer: Answer = urllib.request.build_opener(*handlers).open(request, timeout=settings.timeout)
    return answer


def _credentials(name: str | None, password: str | None) -> dict[str, str]:
    if name is None:
        return {}
    pair = f"{unquote(name)}:{unquote(password or '')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _trust(host: str | None, settings: PipSettings) -> ssl.SSLContext:
    given = settings.certificates
    if given is None:
        context = ssl.create_default_context()
    elif given.is_dir():
        context = ssl.create_default_context(capath=str(given))
    else:
        context = ssl.create_default_context(cafile=str(given))
    if host in {name.partition(":")[0] for name in settings.words("trusted-host")}:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
