"""Proof of who this side is, for servers that ask for it with ``WWW-Authenticate: Negotiate`` (SPNEGO, RFC 4559)."""

from __future__ import annotations

import base64
import binascii
import re
import time
from asyncio import Future, wait
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from flink_autoscaler.clients.auth.challenges import NEGOTIATE, asked_for
from flink_autoscaler.clients.http.detached import in_thread
from flink_autoscaler.core.errors import ConfigError, ConnectError
from flink_autoscaler.core.model.job import Endpoint, Kerberos

if TYPE_CHECKING:
    from flink_autoscaler.clients.auth.kerberos_tickets import Conversation, Tickets

EXTRA: Final = "pip install 'flink-autoscaler[kerberos]'"

SHARE_OF_TIMEOUT: Final = 0.5
"""Of a request's time that is waited for a KDC. libkrb5 itself gives up after 27 s; before that the request would end
with an error that does not name the KDC."""

_TOKEN: Final = re.compile(r"(?:^|,)\s*negotiate\s+([A-Za-z0-9+/]+=*)\s*(?:,|$)", re.IGNORECASE)


class Proof(Protocol):
    """What one request shows to the server; good for that request alone.

    Attributes:
        headers: To be sent with the request. Secret.
    """

    headers: Mapping[str, str]

    def check(self, challenge: str) -> None:
        """Look at what the server shows in turn. Quick, without network.

        Args:
            challenge: ``WWW-Authenticate`` of the answer, empty when there is none. Few servers leave out their own
                proof; that is accepted.

        Raises:
            ConnectError: The server is not who it should be, or tells why it does not believe us.
        """
        ...


class Authenticator(Protocol):
    """Answers servers that ask who is there. Belongs to one event loop; calls may overlap."""

    async def answer(self, url: str, challenge: str) -> Proof:
        """Make a proof for one request.

        Args:
            url: That was asked for, without credentials.
            challenge: ``WWW-Authenticate`` of the answer.

        Raises:
            ConnectError: No ticket can be had now, or the server offers no kind of proof that is known here.
            ConfigError: No ticket can be had as this is configured.
        """
        ...


def authenticator_for(endpoint: Endpoint) -> Authenticator | None:
    """Return what answers for an endpoint, None when nothing is configured.

    Raises:
        ConfigError: The libraries are not installed.
    """
    if endpoint.kerberos is None:
        return None
    if find_spec("gssapi") is None or find_spec("krb5") is None:
        raise ConfigError(f"auth.kind: kerberos needs libraries that are not installed: {EXTRA}")
    return KerberosAuthenticator(endpoint.kerberos, patience=endpoint.timeout * SHARE_OF_TIMEOUT)


class KerberosAuthenticator:
    """Shows Kerberos tickets. Everything that may talk to a KDC happens in a thread.

    Requests that need a ticket at the same time wait for one conversation with the KDC.
    """

    def __init__(self, kerberos: Kerberos, *, patience: float) -> None:
        """Make one that has no ticket yet.

        Args:
            kerberos: Who to be, and to whom.
            patience: Seconds to wait for a KDC.
        """
        self._kerberos = kerberos
        self._patience = patience
        self._tickets: Tickets | None = None
        self._underway: _Preparation | None = None

    async def answer(self, url: str, challenge: str) -> Proof:
        """Make a proof for one request; see :class:`Authenticator`."""
        service = f"{self._kerberos.service}/{self._kerberos.host or urlsplit(url).hostname}"
        if NEGOTIATE not in asked_for(challenge):
            raise ConnectError(f"{url}: the server does not ask for Kerberos, as auth.kind says")
        await self._prepare(service)
        conversation = await in_thread(lambda: self._found().conversation(service))
        return KerberosProof(service, conversation)

    async def _prepare(self, service: str) -> None:
        """See to it that the ticket for the service is there, together with everybody else who needs it."""
        if self._underway is None or self._underway.future.done():
            self._underway = _Preparation(in_thread(lambda: self._found().prepare(service)))
        preparation = self._underway
        left = preparation.started + self._patience - time.monotonic()
        done, _ = await wait({preparation.future}, timeout=max(0.0, left))
        if not done:
            raise ConnectError(
                f"no ticket for {service} within {self._patience:g} s: a KDC does not answer; "
                "are the ones in krb5.conf right, and not behind a firewall?"
            )
        preparation.future.result()

    def _found(self) -> Tickets:
        """Return where tickets come from. Called in threads: importing the libraries takes 0.1 s."""
        if self._tickets is None:
            try:
                # Imported here: it needs the extra.
                from flink_autoscaler.clients.auth.kerberos_tickets import Tickets  # noqa: PLC0415
            except ImportError as exc:  # libkrb5 itself is missing
                raise ConfigError(f"auth.kind: kerberos: the libraries cannot be loaded ({exc}): {EXTRA}") from exc

            self._tickets = Tickets(self._kerberos)
        return self._tickets


@dataclass(frozen=True, slots=True)
class _Preparation:
    future: Future[None]
    started: float = field(default_factory=time.monotonic)


class KerberosProof:
    """One token, and the conversation that it began."""

    def __init__(self, service: str, conversation: Conversation) -> None:
        token = base64.b64encode(conversation.token).decode("ascii")
        self.headers: Mapping[str, str] = {"authorization": f"Negotiate {token}"}
        self._service = service
        self._conversation = conversation

    def __repr__(self) -> str:
        return f"KerberosProof({self._service})"

    def check(self, challenge: str) -> None:
        """Look at what the server shows in turn; see :class:`Proof`."""
        shown = _TOKEN.search(challenge)
        if shown is None:
            return
        try:
            token = base64.b64decode(shown[1], validate=True)
        except binascii.Error as exc:
            raise ConnectError(f"Kerberos for {self._service}: the server's token cannot be read ({exc})") from exc
        self._conversation.check(token)
