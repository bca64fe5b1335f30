"""What failures may say about a target: its URL and its key are secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from flink_autoscaler.standalone.settings.secrets import MASK, masked

_SHORTEST: Final = 3
"""Characters of a part that is looked for: shorter ones would mask half of every text."""

_LONGEST_TEXT: Final = 300
_PARTS: Final = re.compile(r"[/:@?#&=;,]+")


def redacted(text: str, url: str, *secrets: str) -> str:
    """Return a text without any part of a URL behind its scheme, and without further secrets; bounded.

    The host of a web address stays. Anything else may be a token, whatever the place where the service has it.
    """
    for secret in sorted({*_secret_parts(url), *secrets}, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, MASK)
    shown = str(masked(text))
    return shown if len(shown) <= _LONGEST_TEXT else f"{shown[:_LONGEST_TEXT]}..."


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
