"""Where the JobManager of an application is, out of what its ApplicationMaster has registered.

An ApplicationMaster can register anything, so that nothing goes into a URL unchecked.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from flink_autoscaler.clients.yarn.applications import Application

_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_HIGHEST_PORT: Final = 65535


def direct_url(application: Application, scheme: str) -> str | None:
    """Return the URL of the REST server on the node where it runs; None while no usable address is shown."""
    match = _ADDRESS.fullmatch(application.am_rpc_address)
    if match is None or not 0 < int(match["port"]) <= _HIGHEST_PORT:
        return None
    return f"{scheme}://{match['host']}:{int(match['port'])}"


def proxy_url(application: Application) -> str | None:
    """Return the URL of the application in YARN's web proxy; None where the tracking URL is not one.

    The ResourceManager makes that URL, on its own host or on that of a separate proxy, for every application that it
    manages. The tracking URL of an unmanaged one is the owner's own choice, and credentials are sent there: it is
    never taken.
    """
    parts = _split(application.tracking_url)
    if parts is None or application.is_unmanaged:
        return None
    path = parts.path.rstrip("/")
    if not path.endswith(f"/proxy/{application.application_id}"):
        return None
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host in lower case, and port of a URL."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port


def _split(url: str) -> SplitResult | None:
    """Take a URL of the web apart; None where it is none, or contains what a base URL does not."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    is_bare = "@" not in parts.netloc and not parts.query and not parts.fragment
    return parts if is_usable and is_bare and url.isascii() and url.isprintable() and " " not in url else None
