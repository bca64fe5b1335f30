"""Tickets for services, and what is shown to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import gssapi
import krb5
from gssapi.raw.misc import GSSError

from flink_autoscaler.clients.auth.kerberos_failures import Case, explained, text_of
from flink_autoscaler.clients.auth.kerberos_logins import KERBEROS, SPNEGO, login_of
from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.job import Kerberos

T = TypeVar("T")


class Conversation:
    """One security context: our token, and the check of the server's.

    Attributes:
        token: For the server, once. Secret.
    """

    def __init__(self, context: gssapi.SecurityContext, case: Case) -> None:
        self._context = context
        self._case = case
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
                f"Kerberos for {self._case.service}: the server refuses the ticket, or is not who it should be "
                f"({text_of(exc)}); is its keytab up to date, and are the clocks right?"
            ) from exc
        if not is_complete:
            raise ConnectError(f"Kerberos for {self._case.service}: the server has not proved who it is")


class Tickets:
    """Tickets of one identity. Calls come from any thread, at the same time; they may block for half a minute."""

    def __init__(self, kerberos: Kerberos) -> None:
        self._kerberos = kerberos
        self._login = login_of(kerberos)

    def prepare(self, service: str) -> None:
        """Fetch the ticket for a service, such as ``HTTP/host``, unless it is there.

        Raises:
            ConfigError: There is none as this is configured.
            ConnectError: There is none now.
        """
        # With the bare mechanism, because SPNEGO replaces the codes of errors by its own.
        _translated(self._case(service), lambda: self._context(service, KERBEROS).step())

    def conversation(self, service: str) -> Conversation:
        """Begin to talk to a service; errors as for :meth:`prepare`."""
        case = self._case(service)
        return _translated(case, lambda: Conversation(self._context(service, SPNEGO), case))

    def _case(self, service: str) -> Case:
        return Case(service, self._kerberos.principal, self._kerberos.keytab)

    def _context(self, service: str, mech: gssapi.OID) -> gssapi.SecurityContext:
        return gssapi.SecurityContext(
            name=_target(service),
            creds=self._login.credentials(),
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
    realm = str(by_host.canonicalize(KERBEROS)).rpartition("@")[2]
    return gssapi.Name(f"{service}@{realm}" if realm else service, gssapi.NameType.kerberos_principal)


def _translated(case: Case, work: Callable[[], T]) -> T:
    try:
        return work()
    except (krb5.Krb5Error, GSSError) as exc:
        raise explained(exc, case) from exc
