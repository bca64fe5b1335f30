"""Checks of how a service is reached: authentication, certificates, headers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from flink_autoscaler.clients.auth.authentication import authenticator_for
from flink_autoscaler.clients.auth.tls import client_context
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint, Kerberos
from flink_autoscaler.standalone.fetchers.access import AUTHORIZATION, Access
from flink_autoscaler.standalone.settings.checks.names import ClusterSection
from flink_autoscaler.standalone.settings.schema.access_settings import AccessSettings, AuthKind
from flink_autoscaler.standalone.settings.sources import secret
from flink_autoscaler.standalone.settings.sources.masking import is_sensitive

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_OUR_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "cookie", "host", "transfer-encoding"}
)
_GROUPS: Final = ("headers", "headers-env", "headers-file")
_KINDS_OF: Final[Mapping[str, tuple[AuthKind, ...]]] = {
    "auth.username": (AuthKind.BASIC, AuthKind.SIMPLE),
    "auth.password-file": (AuthKind.BASIC,),
    "auth.password-env-variable": (AuthKind.BASIC,),
    "auth.token-file": (AuthKind.BEARER,),
    "auth.token-env-variable": (AuthKind.BEARER,),
    "auth.principal": (AuthKind.KERBEROS,),
    "auth.keytab": (AuthKind.KERBEROS,),
    "auth.service-host": (AuthKind.KERBEROS,),
}
"""The kinds of authentication that use an option."""

_NEEDED_BY: Final[Mapping[AuthKind, tuple[tuple[str, ...], ...]]] = {
    AuthKind.BASIC: (("auth.username",), ("auth.password-file", "auth.password-env-variable")),
    AuthKind.BEARER: (("auth.token-file", "auth.token-env-variable"),),
    AuthKind.SIMPLE: (("auth.username",),),
}
"""Of each group one has to be set."""

_POINTERS: Final = ("file", "env-variable")
_SECRETS: Final = ("auth.password", "auth.token", "tls.key-password", "delegation-token")
_SENT_AS_THEY_ARE: Final = ("auth.token", "delegation-token", "headers")
_TLS_KEY: Final = ("tls.key-file", "tls.key-password-file", "tls.key-password-env-variable")


def access_problems(settings: AccessSettings, place: ClusterSection, urls: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with how a service is reached. Reads the files that are named.

    Args:
        settings: The section.
        place: Where it was configured.
        urls: Of the service; empty where they are found out later.
    """
    yield from _auth_problems(settings.auth.kind, place)
    yield from _header_problems(settings, place)
    yield from _tls_problems(place, urls)
    for name in _SECRETS:
        if place.sets(f"{name}-file") and place.sets(f"{name}-env-variable"):
            yield f"{place.of(f'{name}-file')} and {place.of(f'{name}-env-variable')}: expected one of the two"
    unreadable = [*_secret_problems(place), *_keytab_problems(settings, place)]
    yield from unreadable or _certificate_problems(settings, place)


def access_warnings(settings: AccessSettings, place: ClusterSection, urls: Sequence[str]) -> Iterator[str]:
    """Yield what looks dangerous about how a service is reached: secrets that everybody on the way can read."""
    exposed = [url for url in urls if url.startswith("http:") and not _is_loopback(urlsplit(url).hostname or "")]
    sent = _sent_secret(settings, place)
    if exposed and sent is not None:
        yield f"{place.of(sent)}: sent to {exposed[0]} without encryption, so that others can read it; use https"


def _auth_problems(kind: AuthKind, place: ClusterSection) -> Iterator[str]:
    chosen = f"{place.prefix}auth.kind {kind}"
    for name, kinds in _KINDS_OF.items():
        if place.sets(name) and kind not in kinds:
            yield f"{place.of(name)}: {chosen} does not use it, only {' and '.join(kinds)}"
    for names in _NEEDED_BY.get(kind, ()):
        if not any(map(place.sets, names)):
            others = "".join(f", nor is {place.prefix}{name}" for name in names[1:])
            yield f"{place.of(names[0])}{others}: {chosen} needs it"
    if kind is AuthKind.KERBEROS:
        try:
            authenticator_for(Endpoint("", kerberos=Kerberos()))
        except ConfigError as error:
            yield f"{place.prefix}{error}"


def _tls_problems(place: ClusterSection, urls: Sequence[str]) -> Iterator[str]:
    names = [name for name in ("tls.ca-file", "tls.certificate-file", *_TLS_KEY, "tls.verify-host") if place.sets(name)]
    if names and urls and not any(url.startswith("https:") for url in urls):
        yield f"{place.of(names[0])}: of no use for {urls[0]}; use https, or remove it"
    for name in names:
        if name in _TLS_KEY and not place.sets("tls.certificate-file"):
            yield f"{place.of(name)}: of no use without {place.prefix}tls.certificate-file"


def _header_problems(settings: AccessSettings, place: ClusterSection) -> Iterator[str]:
    names = [name for group in _GROUPS for name in place.below(group)]
    counts = Counter(_header(name) for name in names)
    chosen = f"{place.prefix}auth.kind {settings.auth.kind}"
    for name in names:
        header = _header(name)
        if not _HEADER_NAME.fullmatch(header):
            yield f"{place.of(name)}: not the name of a header; expected letters, digits and hyphens"
        elif header in _OUR_HEADERS:
            yield f"{place.of(name)}: the daemon sets this header itself"
        elif counts[header] > 1:
            yield f"{place.of(name)}: this header is set more than once, in {', '.join(_GROUPS)}"
        elif header == AUTHORIZATION.lower() and settings.auth.kind is not AuthKind.NONE:
            yield f"{place.of(name)}: {chosen} sets this header; remove one of the two"
    for header, text in settings.headers.items():
        if not _is_sendable(text):
            yield f"{place.of(f'headers.{header}')}: expected printable ASCII"


def _header(name: str) -> str:
    return name.partition(".")[2].lower()


def _secret_problems(place: ClusterSection) -> Iterator[str]:
    """Read every secret, as a pass would do."""
    files = [*(f"{name}-file" for name in _SECRETS), *place.below("headers-file")]
    variables = [*(f"{name}-env-variable" for name in _SECRETS), *place.below("headers-env")]
    for name in filter(place.sets, files):
        yield from _problem(place, name, is_file=True)
    for name in filter(place.sets, variables):
        yield from _problem(place, name, is_file=False)


def _problem(place: ClusterSection, name: str, *, is_file: bool) -> Iterator[str]:
    pointer = place.values[place.prefix + name].text.strip()
    try:
        text = (secret.from_file if is_file else secret.from_variable)(place.of(name), pointer)
    except ConfigError as error:
        yield str(error)
        return
    if name.startswith(_SENT_AS_THEY_ARE) and not _is_sendable(text):
        yield f"{place.of(name)}: what it holds cannot be sent; expected printable ASCII"


def _keytab_problems(settings: AccessSettings, place: ClusterSection) -> Iterator[str]:
    if settings.auth.keytab is None:
        return
    try:
        with Path(settings.auth.keytab).open("rb") as stream:
            is_empty = not stream.read(1)
    except OSError as error:
        yield f"{place.of('auth.keytab')}: {error.strerror or 'cannot be read'}"
        return
    if is_empty:
        yield f"{place.of('auth.keytab')}: the file is empty"


def _certificate_problems(settings: AccessSettings, place: ClusterSection) -> Iterator[str]:
    if not any(map(place.sets, ("tls.ca-file", "tls.certificate-file"))):
        return
    try:
        client_context(Access(settings, place.prefix).tls())
    except ConfigError as error:
        yield f"{place.prefix}{error}"


def _sent_secret(settings: AccessSettings, place: ClusterSection) -> str | None:
    """Return an option whose secret is part of requests."""
    sources = [f"{name}-{end}" for name in ("auth.password", "auth.token", "delegation-token") for end in _POINTERS]
    names = [*filter(place.sets, sources), *place.below("headers-env"), *place.below("headers-file")]
    names += [f"headers.{name}" for name in settings.headers if is_sensitive(name) or name.lower() == "authorization"]
    return next(iter(names), None)


def _is_sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
