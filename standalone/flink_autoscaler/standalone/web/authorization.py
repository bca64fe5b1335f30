"""Who may see and who may order: roles, the names that the endpoint answers to, and where a request comes from.

Without any configuration everybody who reaches the endpoint may look, and nobody may order.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
FORM_HEADER: Final = "x-form-token"
_SAME_SITE: Final = frozenset({"same-origin", "none"})
_MAX_NAME_LENGTH: Final = 100


class Role(StrEnum):
    """What somebody may do."""

    NOBODY = "nobody"
    VIEWER = "viewer"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sent a request.

    Attributes:
        name: For the record.
        has_ambient_credentials: Whether a browser adds its credentials by itself, so that other sites could use them.
    """

    role: Role
    name: str
    has_ambient_credentials: bool = True


@dataclass(frozen=True)
class AccessRules:
    """What the configuration says about who may do what.

    Attributes:
        viewer_token: Lets look; None asks nobody for it.
        operator_token: Lets order; None lets nobody.
        hosts: Names that the endpoint answers to besides loopback, in small letters; ``*`` for any.
        user_header: Header in which a trusted proxy hands on the user's name, in small letters; None trusts none.
        proxies: Addresses whose word is taken for that.
        operators: Users who may order.
        secret: Behind the form tokens of this process.
    """

    viewer_token: str | None = None
    operator_token: str | None = None
    hosts: frozenset[str] = frozenset()
    user_header: str | None = None
    proxies: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    @property
    def is_open(self) -> bool:
        """Whether everybody may look."""
        return self.viewer_token is None and self.operator_token is None and self.user_header is None

    def identify(self, headers: Mapping[str, str], address: str | None) -> Principal:
        """Tell who sent a request.

        Args:
            headers: Of the request, names in small letters.
            address: It came from.
        """
        scheme, _, rest = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return Principal(self._role_of(rest.strip()), "api", has_ambient_credentials=False)
        if scheme.lower() == "basic":
            name, _, token = _decode(rest).partition(":")
            return Principal(self._role_of(token), name[:_MAX_NAME_LENGTH] or "page")
        user = self._user(headers, address)
        if user is not None:
            return Principal(Role.OPERATOR if user in self.operators else Role.VIEWER, user)
        return Principal(Role.VIEWER if self.is_open else Role.NOBODY, "somebody")

    def knows_host(self, host: str) -> bool:
        """Tell whether a request names a host that this is, so that no other site's name leads here."""
        if "*" in self.hosts:
            return True
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:  # brackets around what is no address
            return False
        return name in LOOPBACK or name in self.hosts

    def form_token(self, visitor: Principal) -> str:
        """Return what a form of a page that a visitor was shown has to send along."""
        return hmac.new(self.secret, f"{visitor.role}:{visitor.name}".encode(), hashlib.sha256).hexdigest()

    def refusal(self, visitor: Principal, headers: Mapping[str, str]) -> str | None:
        """Return why a visitor may not order; None where nothing is in the way."""
        if visitor.role is not Role.OPERATOR:
            return "orders need the role operator: see autoscaler.http.operator-token-file"
        if not visitor.has_ambient_credentials:
            return None
        if headers.get("sec-fetch-site", "same-origin") not in _SAME_SITE or not _is_own_origin(headers):
            return "this is taken from pages of this daemon only"
        given = headers.get(FORM_HEADER, "")
        is_valid = hmac.compare_digest(given.encode(), self.form_token(visitor).encode())
        return None if is_valid else "the form is too old: load the page again"

    def _role_of(self, token: str) -> Role:
        for role, known in ((Role.OPERATOR, self.operator_token), (Role.VIEWER, self.viewer_token)):
            if known is not None and hmac.compare_digest(token.encode(), known.encode()):
                return role
        return Role.NOBODY

    def _user(self, headers: Mapping[str, str], address: str | None) -> str | None:
        if self.user_header is None or address is None or not self._is_proxy(address):
            return None
        return headers.get(self.user_header, "")[:_MAX_NAME_LENGTH] or None

    def _is_proxy(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
            return any(found in ipaddress.ip_network(each) for each in self.proxies)
        except ValueError:
            return False


def _decode(text: str) -> str:
    try:
        return base64.b64decode(text.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _is_own_origin(headers: Mapping[str, str]) -> bool:
    """Tell whether a request comes from a page of the host that it is sent to, as far as the browser says."""
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc == headers.get("host")
    except ValueError:  # brackets around what is no address
        return False
