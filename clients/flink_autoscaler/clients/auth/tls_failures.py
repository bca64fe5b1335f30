"""Failures of TLS connections in an operator's words."""

from __future__ import annotations

import ssl
from typing import Final

_BY_VERIFICATION: Final = {
    2: "the issuer of its certificate is not known: tls.ca-file has to hold the authority's certificate",
    9: "its certificate is not valid yet: is a clock wrong?",
    10: "its certificate, or that of the issuer, has expired",
    18: "its certificate is self-signed and not trusted: put that certificate into tls.ca-file",
    19: "its certificate comes from an authority that is not trusted: put the authority's certificate into tls.ca-file",
    20: "the issuer of its certificate is not known: tls.ca-file has to hold the authority's certificate",
    21: "the issuer of its certificate is not known: tls.ca-file has to hold the authority's certificate",
    23: "its certificate has been revoked",
    26: "its certificate is not meant for servers",
}
"""What OpenSSL's verification codes (``openssl verify -help``, X509_V_ERR_*) mean."""

_OTHER_HOST: Final = (62, 64)
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
_TOO_OLD: Final = ("UNSUPPORTED_PROTOCOL", "ALERT_PROTOCOL_VERSION")
_ABOUT_OUR_CERTIFICATE: Final = (
    "CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_NO_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_ACCESS_DENIED",
)
"""Alerts that servers send when they miss or refuse a client certificate; Java's and OpenSSL's differ."""

_NO_CERTIFICATE: Final = "set tls.certificate-file (and tls.key-file)"


def explained(error: ssl.SSLError, *, has_certificate: bool) -> str:
    """Return what a TLS failure means, without the server's name.

    Args:
        error: As raised by the ssl module, in the handshake or later.
        has_certificate: Whether a client certificate was offered.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server cannot be trusted: {_verification(error)}"
    if isinstance(error, ssl.SSLEOFError):
        return "the connection was closed in the middle of TLS" + closed_by_server(has_certificate=has_certificate)
    reason = (error.reason or str(error)).upper()
    if any(each in reason for each in _ABOUT_OUR_CERTIFICATE):
        return _about_our_certificate(reason, has_certificate=has_certificate)
    if "ALERT_HANDSHAKE_FAILURE" in reason:
        return _handshake_failure(reason, has_certificate=has_certificate)
    if any(each in reason for each in _NO_TLS):
        return f"TLS failed ({reason}): the server does not speak TLS here; should the URL begin with http: ?"
    if any(each in reason for each in _TOO_OLD):
        return f"TLS failed ({reason}): the server speaks no TLS 1.2 or later"
    return f"TLS failed ({' '.join(str(error).split())})"


def closed_by_server(*, has_certificate: bool) -> str:
    """Return what to think of a connection that the server ended right after the handshake.

    With TLS 1.3 a server looks at the client certificate after the client considers the handshake done; the alert
    that says so may be lost when the connection ends.
    """
    if has_certificate:
        return "; perhaps the server does not accept the certificate in tls.certificate-file"
    return f"; perhaps the server demands a client certificate: {_NO_CERTIFICATE}"


def _verification(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _OTHER_HOST:
        message = error.verify_message.rstrip(".")
        return f"its certificate is for another host ({message}); use a name that is in it, or tls.verify-host: false"
    return _BY_VERIFICATION.get(error.verify_code, f"its certificate is refused ({error.verify_message})")


def _about_our_certificate(reason: str, *, has_certificate: bool) -> str:
    if has_certificate:
        return f"the server does not accept the certificate in tls.certificate-file ({reason})"
    if "CERTIFICATE_REQUIRED" in reason:
        return f"the server demands a client certificate: {_NO_CERTIFICATE}"
    return (
        f"the server refused the TLS connection ({reason}), probably because it demands a client certificate: "
        f"{_NO_CERTIFICATE}"
    )


def _handshake_failure(reason: str, *, has_certificate: bool) -> str:
    """Explain the alert for everything that both sides cannot agree on."""
    wish = "wants another client certificate" if has_certificate else "demands a client certificate"
    keys = "tls.certificate-file" if has_certificate else _NO_CERTIFICATE
    return (
        f"the server refused the TLS connection ({reason}): perhaps it {wish}: {keys}; or no cipher suite is accepted "
        "by both sides (security.ssl.algorithms of Flink)"
    )
