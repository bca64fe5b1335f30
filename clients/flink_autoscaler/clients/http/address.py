"""Base URLs, apart from the credentials that may stand in them."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint


class Address(NamedTuple):
    """Where requests go.

    Attributes:
        url: Base URL without credentials and without a slash at the end; can stand in messages.
        headers: Sent with every request; may be secret.
    """

    url: str
    headers: httpx.Headers


def address_of(endpoint: Endpoint) -> Address:
    """Return where requests go.

    Raises:
        ConfigError: The URL is none, or a header cannot be sent; the message shows no credentials.
    """
    return _address(endpoint.url, endpoint.headers)


def put_address_of(endpoint: Endpoint) -> Address | None:
    """Return where a PUT goes that the base URL does not carry; None when there is no such place.

    Headers may be credentials for the service at the base URL, such as a ResourceManager. They are not shown to
    anybody else: a JobManager of YARN belongs to the user who started it.

    Raises:
        ConfigError: As for :func:`address_of`.
    """
    if endpoint.put_url is None:
        return None
    is_same = _origin(endpoint.put_url) == _origin(endpoint.url)
    return _address(endpoint.put_url, endpoint.headers if is_same else ())


def _address(url: str, headers: Iterable[tuple[str, str]]) -> Address:
    try:
        parts = urlsplit(url.rstrip("/"))
        host = httpx.URL(scheme=parts.scheme, host=parts.hostname or "", port=parts.port).host
    except (ValueError, httpx.InvalidURL):
        raise _no_url(url) from None  # the cause may contain credentials
    if parts.scheme not in ("http", "https") or not host or "@" in parts.path:
        raise _no_url(url)
    all_headers = {"accept": "application/json", "accept-encoding": "identity", **_checked(headers)}
    _, at, host_and_port = parts.netloc.rpartition("@")
    if at:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        all_headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    return Address(urlunsplit((parts.scheme, host_and_port, parts.path, "", "")), httpx.Headers(all_headers))


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2]


def _checked(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Refuse values that the libraries would refuse with the value, which may be secret, in their message."""
    for name, value in headers:
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(f"the value of the header {name} has characters that are not printable ASCII")
    return {name.lower(): value for name, value in headers}


def _no_url(url: str) -> ConfigError:
    return ConfigError(f"{url.rpartition('@')[2]!r} is not a URL of a JobManager such as http://host:8081")
