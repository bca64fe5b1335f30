"""Kerberos: first tickets, tickets for services, what is shown to those, and errors in words of an operator.

Calls come from any thread, at the same time. They block while they talk to a KDC, 27 s where none answers; gssapi and
krb5 let other threads run meanwhile.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import gssapi
import krb5
from gssapi.exceptions import ExpiredCredentialsError
from gssapi.raw.misc import GSSError
from krb5 import Krb5Error

from flink_autoscaler.core.errors import AutoscalerError, ConfigError, ConnectError
from flink_autoscaler.core.model.job import Kerberos

RENEW_AFTER: Final = 0.8
"""Share of a ticket's life after which another one is fetched: the rest bridges a KDC that cannot be reached."""

RENEW_AGAIN_AFTER: Final = 60.0
"""Seconds from an attempt to renew that failed to the next, while the present ticket is still good."""

_KERBEROS: Final = gssapi.MechType.kerberos
_SPNEGO: Final = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")

_CLOCKS: Final = (
    "the clocks of this machine and of the other side differ by more than Kerberos allows; synchronise them"
)
_EXPIRED: Final = "{who}'s ticket in the ticket cache has expired: run kinit, or set auth.keytab"
_NO_CACHE: Final = (
    "there is no ticket cache with a ticket of {who} ({text}): run kinit, set KRB5CCNAME, or set auth.keytab"
)
_KEY: Final = (
    "the KDC does not accept the key of {who} in {keytab}: export the keytab anew, the key or password was changed"
)
_NO_KDC: Final = "no KDC can be reached ({text}): are the ones in krb5.conf right, and do they run?"
_NO_REALM: Final = (
    "krb5.conf does not tell where the KDC is ({text}); KRB5_CONFIG names another file than /etc/krb5.conf"
)
_NO_KEY: Final = (
    "the keytab {keytab} has no key of {who} ({text}): auth.principal has to be written as klist -k shows it"
)
_NOT_A_KEYTAB: Final = "{keytab} is not a keytab ({text})"
_SERVICE: Final = (
    "the KDC does not know the server's principal {service} ({text}): auth.service-host has to be the host exactly as "
    "in that principal; the host of the URL is taken when it is not set"
)

_CONFIGURATION: Final[Mapping[int, str]] = {
    errno.ENOENT: "auth.keytab: there is no file {keytab}",
    errno.EACCES: "auth.keytab: {keytab} may not be read by the user of this process",
    errno.EISDIR: "auth.keytab: {keytab} is a folder",
    -1765328171: _NOT_A_KEYTAB,  # KRB5_KEYTAB_BADVNO
    -1765328203: _NO_KEY,  # KRB5_KT_NOTFOUND
    -1765328378: "the KDC does not know the principal {who} ({text}): see auth.principal",  # C_PRINCIPAL_UNKNOWN
    -1765328360: _KEY,  # KRB5KDC_ERR_PREAUTH_FAILED
    -1765328353: _KEY,  # KRB5KRB_AP_ERR_BAD_INTEGRITY
    -1765328377: _SERVICE,  # S_PRINCIPAL_UNKNOWN
    -1765328250: "a principal is malformed ({text}): see auth.principal and auth.service-host",  # KRB5_PARSE_MALFORMED
    -1765328230: _NO_REALM,  # KRB5_REALM_UNKNOWN
    -1765328160: _NO_REALM,  # KRB5_CONFIG_NODEFREALM
}
"""Codes of libkrb5 (``krb5.h``, errors 0 to 60 of RFC 4120 section 7.5.9 from -1765328384 on) that a person ends."""

_CIRCUMSTANCES: Final[Mapping[int, str]] = {
    -1765328228: _NO_KDC,  # KRB5_KDC_UNREACH
    -1765328164: _NO_KDC,  # KRB5_REALM_CANT_RESOLVE
    -1765328347: _CLOCKS,  # KRB5KRB_AP_ERR_SKEW
    -1765328236: _CLOCKS,  # KRB5_KDCREP_SKEW
    -1765328189: _NO_CACHE,  # KRB5_FCC_NOFILE
    -1765328243: _NO_CACHE,  # KRB5_CC_NOTFOUND
    -1765328352: _EXPIRED,  # KRB5KRB_AP_ERR_TKT_EXPIRED
}
"""Codes that may pass by themselves, or by a ``kinit``."""


class Conversation:
    """One security context: our token, and the check of the server's.

    Attributes:
        token: For the server, once. Secret.
    """

    def __init__(self, context: gssapi.SecurityContext, service: str) -> None:
        self._context = context
        self._service = service
        self.token: bytes = context.step() or b""

    def check(self, token: bytes) -> None:
        """Take the server's token.

        Raises:
            ConnectError: It proves nothing, or tells why ours was not believed.
        """
        try:
            self._context.step(token)
            is_complete = self._context.complete  # gssapi may raise the error of the step only now
        except GSSError as exc:
            raise ConnectError(
                f"Kerberos for {self._service}: the server refuses the ticket, or is not who it should be "
                f"({_text_of(exc)}); is its keytab up to date, and are the clocks right?"
            ) from exc
        if not is_complete:
            raise ConnectError(f"Kerberos for {self._service}: the server has not proved who it is")


class Tickets:
    """Tickets of one identity."""

    def __init__(self, kerberos: Kerberos) -> None:
        self._kerberos = kerberos
        self._credentials = _credentials_of(kerberos)

    def prepare(self, service: str) -> None:
        """Fetch the ticket for a service, such as ``HTTP/host``, unless it is there.

        Raises:
            ConfigError: There is none as this is configured.
            ConnectError: There is none now.
        """
        # With the bare mechanism, because SPNEGO replaces the codes of errors by its own.
        with self._translate_errors(service):
            self._context(service, _KERBEROS).step()

    def conversation(self, service: str) -> Conversation:
        """Begin to talk to a service; errors as for :meth:`prepare`."""
        with self._translate_errors(service):
            return Conversation(self._context(service, _SPNEGO), service)

    @contextmanager
    def _translate_errors(self, service: str) -> Iterator[None]:
        try:
            yield
        except (Krb5Error, GSSError) as exc:
            raise wrap_kerberos_error(exc, service, self._kerberos) from exc

    def _context(self, service: str, mech: gssapi.OID) -> gssapi.SecurityContext:
        return gssapi.SecurityContext(
            name=_target(service),
            creds=self._credentials(),
            mech=mech,
            usage="initiate",
            flags=gssapi.RequirementFlag.mutual_authentication,
        )


def _target(service: str) -> gssapi.Name:
    """Return the principal of a service with its host as it is written.

    libkrb5's own names for services on hosts go through DNS, forth and back, before they are used. Hadoop's do not, and
    take from krb5.conf only the realm of the host (``domain_realm``); so does this.
    """
    if "@" in service:
        return gssapi.Name(service, gssapi.NameType.kerberos_principal)
    by_host = gssapi.Name(service.replace("/", "@", 1), gssapi.NameType.hostbased_service)
    realm = str(by_host.canonicalize(_KERBEROS)).rpartition("@")[2]
    return gssapi.Name(f"{service}@{realm}" if realm else service, gssapi.NameType.kerberos_principal)


def _credentials_of(kerberos: Kerberos) -> Callable[[], gssapi.Credentials]:
    """Return what gives the credentials of an identity that are good now; raises the errors of gssapi and krb5.

    First tickets by keytab are kept in the memory of the process, so that 200 endpoints need one. A child process
    begins anew.
    """
    if kerberos.keytab is None:
        return partial(_credentials_in_cache, kerberos.principal)
    identity = (os.getpid(), kerberos.keytab, kerberos.principal)
    with _lock:
        return _by_keytab.setdefault(identity, _KeytabLogin(kerberos.keytab, kerberos.principal)).credentials


@dataclass(frozen=True, slots=True)
class _Ticket:
    """A first ticket; instants are UTC epoch seconds. The credentials are good as long as the cache is there."""

    credentials: gssapi.Credentials
    cache: krb5.CCache
    renew_at: float
    ends_at: float


class _KeytabLogin:
    """Logs in with a keytab, read for each login: one first ticket, renewed in time, in memory."""

    def __init__(self, keytab: str, principal: str | None) -> None:
        self._keytab = keytab
        self._principal = principal
        self._lock = threading.Lock()
        self._ticket: _Ticket | None = None
        self._former: _Ticket | None = None
        self._retry_at = 0.0
        self._failure: tuple[float, Exception] | None = None

    def credentials(self) -> gssapi.Credentials:
        """Return credentials that are good now."""
        arrived = time.monotonic()
        with self._lock:
            if self._failure is not None and self._failure[0] > arrived:
                raise self._failure[1]  # it came while this call waited for the lock: asking again tells nothing new
            ticket, now = self._ticket, time.time()
            if ticket is None or now >= ticket.ends_at:
                ticket = self._fetch()
            elif now >= max(ticket.renew_at, self._retry_at):
                ticket = self._renew(ticket)
            return ticket.credentials

    def _renew(self, ticket: _Ticket) -> _Ticket:
        try:
            return self._fetch()
        except Krb5Error:  # said when it counts: the present ticket still is good
            self._retry_at = time.time() + RENEW_AGAIN_AFTER
            return ticket

    def _fetch(self) -> _Ticket:
        try:
            ticket = _first_ticket(self._keytab, self._principal)
        except Krb5Error as error:
            self._failure = (time.monotonic(), error)
            raise
        # Others may be using the present one at this moment, but surely not the one before.
        if self._former is not None:
            krb5.cc_destroy(krb5.init_context(), self._former.cache)
        self._former, self._ticket = self._ticket, ticket
        return ticket


def _credentials_in_cache(principal: str | None) -> gssapi.Credentials:
    """Return the tickets of somebody who logged in, by ``kinit`` or otherwise, as they are now."""
    context = krb5.init_context()
    if principal is None:
        cache = krb5.cc_default(context)
        krb5.cc_get_principal(context, cache)  # raises where there is none
    else:
        cache = krb5.cc_cache_match(context, krb5.parse_name_flags(context, principal.encode()))
    credentials = _in_cache(cache)
    _ = credentials.lifetime  # raises when the ticket has expired
    return credentials


def _first_ticket(keytab: str, principal: str | None) -> _Ticket:
    context = krb5.init_context()
    table = krb5.kt_resolve(context, os.fsencode(keytab))
    names = [str(entry.principal) for entry in table]  # as text at once: principals do not outlive their entries
    client = krb5.parse_name_flags(context, (principal or next(iter(names), "")).encode())
    options = krb5.get_init_creds_opt_alloc(context)
    ticket = krb5.get_init_creds_keytab(context, client, options, keytab=table)
    cache = krb5.cc_new_unique(context, b"MEMORY")
    krb5.cc_initialize(context, cache, ticket.client)
    krb5.cc_store_cred(context, cache, ticket)
    times = ticket.times
    begins_at = times.starttime or times.authtime
    renew_at = begins_at + RENEW_AFTER * (times.endtime - begins_at)
    return _Ticket(_in_cache(cache), cache, renew_at, times.endtime)


def _in_cache(cache: krb5.CCache) -> gssapi.Credentials:
    name = (cache.cache_type or b"FILE") + b":" + (cache.name or b"")
    return gssapi.Credentials(usage="initiate", store={b"ccache": name}, mechs=[_KERBEROS, _SPNEGO])


_lock: Final = threading.Lock()
_by_keytab: Final[dict[tuple[int, str, str | None], _KeytabLogin]] = {}


def wrap_kerberos_error(error: Krb5Error | GSSError, service: str, kerberos: Kerberos) -> AutoscalerError:
    """Make our error of a library's: a :class:`ConfigError` for what only a person can end, else a ConnectError.

    Args:
        error: As it was raised.
        service: Principal of the server, such as ``HTTP/host``.
        kerberos: Who to be, and by which file.
    """
    code, text = _code(error), _text_of(error)
    words = _CONFIGURATION.get(code)
    kind = ConnectError if words is None else ConfigError
    if isinstance(error, ExpiredCredentialsError):
        words = _EXPIRED
    words = words or _CIRCUMSTANCES.get(code, "{text}")
    facts = {"service": service, "who": kerberos.principal or "its owner", "keytab": kerberos.keytab, "text": text}
    return kind(f"Kerberos for {service}: {words.format(**facts)}")


def _code(error: Krb5Error | GSSError) -> int:
    if isinstance(error, Krb5Error):
        return int(error.err_code)
    code = int(error.min_code)
    return code - (1 << 32) if code >= 1 << 31 else code


def _text_of(error: Krb5Error | GSSError) -> str:
    """Return the library's own words, on one line. They name principals, realms and files, and no secrets."""
    if isinstance(error, Krb5Error):
        return " ".join(str(error).removesuffix(str(error.err_code)).split())
    minor = " ".join(error.get_all_statuses(error.min_code, False))
    return " ".join((minor if error.min_code else "").split()) or " ".join(str(error).split())
