"""What servers ask for before they answer, and what the operator can do about it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

NEGOTIATE: Final = "negotiate"
BASIC: Final = "basic"
BEARER: Final = "bearer"
PSEUDO: Final = "pseudoauth"
"""Hadoop's name for a mere ``user.name``."""

_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"?')
_SCHEME: Final = re.compile(r"(?:^|,)\s*([A-Za-z][A-Za-z0-9-]{0,31})(?=\s+[^\s=,]|\s*(?:,|$))")
_KEYS: Final = {
    BASIC: "a user and a password: set auth.kind: basic with auth.username and auth.password-file",
    BEARER: "a token: set auth.kind: bearer with auth.token-file",
    NEGOTIATE: "Kerberos: set auth.kind: kerberos",
    PSEUDO: "a user name: set auth.kind: simple with auth.username",
}
_SHOWN: Final = {
    BASIC: "the user and the password",
    BEARER: "the token",
    NEGOTIATE: "the Kerberos identity",
    PSEUDO: "the user name",
}


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
