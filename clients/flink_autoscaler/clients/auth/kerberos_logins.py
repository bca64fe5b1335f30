"""First tickets: by a keytab, or from the ticket cache of somebody who logged in.

``credentials`` may be called from any thread, at the same time. It raises the errors of gssapi and krb5 as they are. It
blocks while it talks to a KDC, 27 s where none answers; both libraries let other threads run meanwhile.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import Final, Protocol

import gssapi
import krb5

from flink_autoscaler.core.model.job import Kerberos

RENEW_AFTER: Final = 0.8
"""Share of a ticket's life after which another one is fetched: the rest bridges a KDC that cannot be reached."""

RENEW_AGAIN_AFTER: Final = 60.0
"""Seconds from an attempt to renew that failed to the next, while the present ticket is still good."""

KERBEROS: Final = gssapi.MechType.kerberos
SPNEGO: Final = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")


class Login(Protocol):
    """An identity."""

    def credentials(self) -> gssapi.Credentials:
        """Return credentials that are good now. Tickets for services are kept with them."""
        ...


def login_of(kerberos: Kerberos) -> Login:
    """Return the login of an identity.

    First tickets by keytab are kept in the memory of the process, so that 200 endpoints need one. A child process
    begins anew.
    """
    if kerberos.keytab is None:
        return CacheLogin(kerberos.principal)
    identity = (os.getpid(), kerberos.keytab, kerberos.principal)
    with _lock:
        return _by_keytab.setdefault(identity, KeytabLogin(kerberos.keytab, kerberos.principal))


@dataclass(frozen=True, slots=True)
class _Ticket:
    """A first ticket; instants are UTC epoch seconds. The credentials are good as long as the cache is there."""

    credentials: gssapi.Credentials
    cache: krb5.CCache
    renew_at: float
    ends_at: float


class KeytabLogin:
    """Logs in with a keytab: one first ticket, renewed in time, in memory."""

    def __init__(self, keytab: str, principal: str | None) -> None:
        """Make one that has no ticket yet.

        Args:
            keytab: File, read for each login.
            principal: None takes the first one of the keytab.
        """
        self._keytab = keytab
        self._principal = principal
        self._lock = threading.Lock()
        self._ticket: _Ticket | None = None
        self._former: _Ticket | None = None
        self._retry_at = 0.0
        self._failure: tuple[float, Exception] | None = None

    def credentials(self) -> gssapi.Credentials:
        """Return credentials that are good now; see :class:`Login`."""
        arrived = time.monotonic()
        with self._lock:
            if self._failure is not None and self._failure[0] > arrived:
                raise self._failure[1]  # it came while this call waited for the lock: asking again tells nothing new
            ticket, now = self._ticket, time.time()
            if ticket is None or now >= ticket.ends_at:
                ticket = self._fetch()
            elif now >= max(ticket.renew_at, self._retry_at):
                ticket = self._renewed(ticket)
            return ticket.credentials

    def _renewed(self, ticket: _Ticket) -> _Ticket:
        try:
            return self._fetch()
        except krb5.Krb5Error:  # said when it counts: the present ticket still is good
            self._retry_at = time.time() + RENEW_AGAIN_AFTER
            return ticket

    def _fetch(self) -> _Ticket:
        try:
            ticket = _first_ticket(self._keytab, self._principal)
        except krb5.Krb5Error as error:
            self._failure = (time.monotonic(), error)
            raise
        # Others may be using the present one at this moment, but surely not the one before.
        if self._former is not None:
            krb5.cc_destroy(krb5.init_context(), self._former.cache)
        self._former, self._ticket = self._ticket, ticket
        return ticket


class CacheLogin:
    """Takes the tickets of somebody who logged in, by ``kinit`` or otherwise; looks for them anew with each call."""

    def __init__(self, principal: str | None) -> None:
        self._principal = principal

    def credentials(self) -> gssapi.Credentials:
        """Return credentials that are good now; see :class:`Login`."""
        context = krb5.init_context()
        if self._principal is None:
            cache = krb5.cc_default(context)
            krb5.cc_get_principal(context, cache)  # raises where there is none
        else:
            cache = krb5.cc_cache_match(context, krb5.parse_name_flags(context, self._principal.encode()))
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
    return gssapi.Credentials(usage="initiate", store={b"ccache": name}, mechs=[KERBEROS, SPNEGO])


_lock: Final = threading.Lock()
_by_keytab: Final[dict[tuple[int, str, str | None], KeytabLogin]] = {}
