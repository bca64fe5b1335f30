"""Errors of Kerberos in words of an operator."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gssapi.exceptions import ExpiredCredentialsError
from gssapi.raw.misc import GSSError
from krb5 import Krb5Error

from flink_autoscaler.core.errors import AutoscalerError, ConfigError, ConnectError

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


@dataclass(frozen=True, slots=True)
class Case:
    """What was tried.

    Attributes:
        service: Principal of the server, such as ``HTTP/host``.
        principal: Who to be; None is whoever the keytab or ticket cache is for.
        keytab: File; None for a ticket cache.
    """

    service: str
    principal: str | None = None
    keytab: str | None = None


def explained(error: Krb5Error | GSSError, case: Case) -> AutoscalerError:
    """Make our error of a library's.

    Returns:
        :class:`ConfigError` for what only a person can end, else :class:`ConnectError`.
    """
    code, text = _code(error), text_of(error)
    words = _CONFIGURATION.get(code)
    kind = ConnectError if words is None else ConfigError
    if isinstance(error, ExpiredCredentialsError):
        words = _EXPIRED
    words = words or _CIRCUMSTANCES.get(code, "{text}")
    facts = {"service": case.service, "who": case.principal or "its owner", "keytab": case.keytab, "text": text}
    return kind(f"Kerberos for {case.service}: {words.format(**facts)}")


def _code(error: Krb5Error | GSSError) -> int:
    if isinstance(error, Krb5Error):
        return int(error.err_code)
    code = int(error.min_code)
    return code - (1 << 32) if code >= 1 << 31 else code


def text_of(error: Krb5Error | GSSError) -> str:
    """Return the library's own words, on one line. They name principals, realms and files, and no secrets."""
    if isinstance(error, Krb5Error):
        return " ".join(str(error).removesuffix(str(error.err_code)).split())
    minor = " ".join(error.get_all_statuses(error.min_code, False))
    return " ".join((minor if error.min_code else "").split()) or " ".join(str(error).split())
