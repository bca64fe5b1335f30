"""Authentication: the challenges of servers, and the client's proof of identity.

The proof is for servers that ask for it with ``WWW-Authenticate: Negotiate`` (SPNEGO, RFC 4559).
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from asyncio import Future, wait
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from flink_autoscaler.clients.http.event_loop import in_thread
from flink_autoscaler.core.errors import ConfigError, ConnectError
from flink_autoscaler.core.model.job import Endpoint, Kerberos

if TYPE_CHECKING:
    from flink_autoscaler.clients.auth.kerberos import Conversation, Tickets

EXTRA: Final = "pip install 'flink-autoscaler[kerberos]'"

SHARE_OF_TIMEOUT: Final = 0.5
"""Of a request's time that is waited for a KDC. libkrb5 itself gives up after 27 s; before that the request would end
with an error that does not name the KDC."""

NEGOTIATE: Final = "negotiate"
BASIC: Final = "basic"
BEARER: Final = "bearer"
PSEUDO: Final = "pseudoauth"
"""Hadoop's name for a mere ``user.name``."""

_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"?')
_SCHEME: Final = re.compile(r"(?:^|,)\s*([A-Za-z][A-Za-z0-9-]{0,31})(?=\s+[^\s=,]|\s*(?:,|$))")
_KEYS: Final = {
    BASIC: "a user and a password (set auth.kind: basic with auth.username and auth.password-file)",
    BEARER: "a token (set auth.kind: bearer with auth.token-file)",
    NEGOTIATE: "Kerberos: set auth.kind: kerberos",
    PSEUDO: "a user name: set auth.kind: simple with auth.username",
}
_SHOWN: Final = {
    BASIC: "the user and the password",
    BEARER: "the token",
    NEGOTIATE: "the Kerberos identity",
    PSEUDO: "the user name",
}
_TOKEN: Final = re.compile(r"(?:^|,)\s*negotiate\s+([A-Za-z0-9+/]+=*)\s*(?:,|$)", re.IGNORECASE)


def asked_for(challenge: str) -> tuple[str, ...]:
    """Return the authentication schemes of a ``WWW-Authenticate`` header, in lower case; empty when it has none."""
    return tuple(dict.fromkeys(name.lower() for name in _SCHEME.findall(_QUOTED.sub("", challenge))))


def shown_by(authorization: str, *, is_named: bool, is_kerberos: bool) -> set[str]:
    """Return the kinds of credentials of a request.

    Args:
        authorization: The header, empty when there is none.
        is_named: Whether the query names a user.
        is_kerberos: Whether a question for Kerberos was answered.
    """
    scheme = authorization.partition(" ")[0].lower()
    kinds = {scheme: bool(scheme), PSEUDO: is_named, NEGOTIATE: is_kerberos}
    return {kind for kind, is_there in kinds.items() if is_there}


def what_to_do(challenge: str, shown: Collection[str], *, is_known: bool) -> str:
    """Return what an operator should do about status 401 or 403.

    Args:
        challenge: ``WWW-Authenticate``, may be empty.
        shown: Kinds of credentials that the request carried.
        is_known: Whether the server accepts who that is but not what is wanted, status 403.
    """
    credentials = " and ".join(_SHOWN.get(kind, f"the credentials of kind {kind}") for kind in sorted(shown))
    if credentials and is_known:
        return f"{credentials} may not do this: grant the permission, or take others (auth)"
    schemes = asked_for(challenge)
    if credentials and (not schemes or set(schemes) & set(shown)):
        return f"the server does not accept {credentials} (auth)"
    wishes = " or ".join(_KEYS.get(scheme, f"{scheme}, which is not supported") for scheme in schemes)
    if wishes:
        return f"the server asks for {wishes}"
    return "the server wants to know who asks: set auth.kind, or headers for a gateway"


def authenticator_for(endpoint: Endpoint) -> KerberosAuthenticator | None:
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

    Requests that need a ticket at the same time wait for one conversation with the KDC. Belongs to one event loop;
    calls may overlap.

    Args:
        kerberos: Who to be, and to whom.
        patience: Seconds to wait for a KDC.
    """

    def __init__(self, kerberos: Kerberos, *, patience: float) -> None:
        self._kerberos = kerberos
        self._patience = patience
        self._tickets: Tickets | None = None
        self._underway: _Preparation | None = None

    async def answer(self, url: str, challenge: str) -> KerberosProof:
        """Make a proof for one request.

        Args:
            url: That was asked for, without credentials.
            challenge: ``WWW-Authenticate`` of the answer.

        Raises:
            ConnectError: No ticket can be had now, or the server does not ask for Kerberos.
            ConfigError: No ticket can be had as this is configured.
        """
        service = f"{self._kerberos.service}/{self._kerberos.host or urlsplit(url).hostname}"
        if NEGOTIATE not in asked_for(challenge):
            raise ConnectError(f"{url}: the server does not ask for Kerberos, as auth.kind says")
        await self._prepare(service)
        conversation = await in_thread(lambda: self._found().conversation(service))
        return KerberosProof(service, conversation)

    async def _prepare(self, service: str) -> None:
        """See to it that the ticket for the service is there, together with everybody else who needs it."""
        if self._underway is None or self._underway.future.done():
            self._underway = _Preparation(in_thread(lambda: self._found().prepare(service)), time.monotonic())
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
                from flink_autoscaler.clients.auth.kerberos import Tickets  # noqa: PLC0415
            except ImportError as exc:  # libkrb5 itself is missing
                raise ConfigError(f"auth.kind: kerberos: the libraries cannot be loaded ({exc}): {EXTRA}") from exc

            self._tickets = Tickets(self._kerberos)
        return self._tickets


class _Preparation(NamedTuple):
    future: Future[None]
    started: float


class KerberosProof:
    """One token, good for one request, and the conversation that it began.

    Attributes:
        headers: To be sent with the request. Secret.
    """

    def __init__(self, service: str, conversation: Conversation) -> None:
        token = base64.b64encode(conversation.token).decode("ascii")
        self.headers: Mapping[str, str] = {"authorization": f"Negotiate {token}"}
        self._service = service
        self._conversation = conversation

    def __repr__(self) -> str:
        return f"KerberosProof({self._service})"

    def check(self, challenge: str) -> None:
        """Look at what the server shows in turn. Quick, without network.

        Args:
            challenge: ``WWW-Authenticate`` of the answer, empty when there is none. Few servers leave out their own
                proof; that is accepted.

        Raises:
            ConnectError: The server is not who it should be, or tells why it does not believe us.
        """
        shown = _TOKEN.search(challenge)
        if shown is None:
            return
        try:
            token = base64.b64decode(shown[1], validate=True)
        except binascii.Error as exc:
            raise ConnectError(f"Kerberos for {self._service}: the server's token cannot be read ({exc})") from exc
        self._conversation.check(token)
