"""What went wrong, as one sentence that says what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

AGAIN = "then run the same command again: it goes on where it stopped"


class SetupError(Exception):
    """The set-up cannot go on; the message is for the person who waits for it."""


class StoppedError(BaseException):
    """Somebody asked for the end; not an ``Exception``, so that no handler of errors keeps it.

    Attributes:
        code: The exit status of a process that a signal ended.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


_CERTIFICATE = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|self.signed certificate|invalid peer certificate|UnknownIssuer"
    r"|Could not find a suitable TLS CA|SSLCertVerificationError",
    re.IGNORECASE,
)
_ROOM = re.compile(r"No space left on device|Disk quota exceeded|os error 28|Errno 28|Errno 122", re.IGNORECASE)
_PROXY = re.compile(
    r"ProxyError|connect to proxy|Tunnel connection failed|tunnel error|proxy authentication", re.IGNORECASE
)
_NETWORK = re.compile(
    r"name resolution|Name or service not known|No address associated|dns error|Connection refused|timed out"
    r"|Network is unreachable|No route to host|NewConnectionError|ConnectTimeoutError|error sending request"
    r"|Connection reset|connection broke|Remote end closed|ReadTimeoutError|tcp connect error|getaddrinfo",
    re.IGNORECASE,
)
_RIGHTS = re.compile(r"Permission denied|Read-only file system", re.IGNORECASE)


def explain(text: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return what to do about what pip, uv or the system said; None when it is none of the usual reasons."""
    proxy = next(
        (environ[name] for name in ("HTTPS_PROXY", "https_proxy", "PIP_PROXY", "ALL_PROXY") if environ.get(name)), ""
    )
    if _ROOM.search(text):
        return (
            "the disk is full: free 4 GB, or name places with room in FLINK_AUTOSCALER_CACHE, UV_CACHE_DIR and TMPDIR, "
            + AGAIN
        )
    if _CERTIFICATE.search(text):
        return (
            "the certificate of the package index is not trusted, as behind a proxy that opens TLS: give its root "
            f"certificate with export PIP_CERT=/path/to/root.pem, {AGAIN}"
        )
    if _PROXY.search(text) or (proxy and _NETWORK.search(text)):
        named = _bare(proxy) or "in pip.conf"
        return f"the proxy {named} does not let pip through: correct HTTPS_PROXY or unset it, {AGAIN}"
    if _NETWORK.search(text):
        return (
            "no package index can be reached: check the network, set HTTPS_PROXY behind a proxy or PIP_INDEX_URL for a "
            f"mirror, {AGAIN}"
        )
    if _RIGHTS.search(text):
        return f"something here or in the cache may not be written: {_first(text, _RIGHTS)}; correct it, {AGAIN}"
    return None


def _bare(url: str) -> str:
    """Return a URL without name and password."""
    return re.sub(r"//[^/@]*@", "//", url)


def _first(text: str, pattern: re.Pattern[str]) -> str:
    return next((line.strip()[:200] for line in text.splitlines() if pattern.search(line)), "")
