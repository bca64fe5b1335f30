"""Exceptions of the HTTP libraries and of TLS, put into our tree and into words of an operator."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import httpx

from flink_autoscaler.clients.http.kept import CutOffError, HungUpError
from flink_autoscaler.core.errors import ConnectError, FlinkRestError, RefusedError, ResponseError, described

FOREIGN_ERRORS: Final = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.StreamError,
    OSError,
    ValueError,
)
"""What sending a request and reading its answer raises when the network or the other side fails. What is raised
besides comes from an answer that a library did not expect."""

_UNREADABLE: Final = httpx.DecodingError
"""Not compressed as announced."""

_CLOSED: Final = (
    HungUpError,
    ConnectionResetError,
    BrokenPipeError,
    httpx.ReadError,
    httpx.WriteError,
)
"""The other side has ended the connection."""

_TRANSIENT_STATUSES: Final = frozenset({502, 503, 504})

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


def is_transient(error: Exception) -> bool:
    """Return whether an immediate retry may help."""
    if isinstance(error, ConnectError):
        return not any(isinstance(each, ssl.SSLCertVerificationError) for each in _chain(error))
    return isinstance(error, RefusedError) and error.status in _TRANSIENT_STATUSES


def wrapped(error: Exception, what: str, *, is_tls_untried: bool, has_certificate: bool) -> FlinkRestError:
    """Make our error of whatever sending a request and reading its answer raised.

    Args:
        error: As caught.
        what: Method and URL, for messages.
        is_tls_untried: Whether the connection is one with TLS to a server that has never answered so far.
        has_certificate: Whether a client certificate is offered there.
    """
    chain = list(_chain(error))
    if not isinstance(error, FOREIGN_ERRORS) or any(isinstance(each, _UNREADABLE) for each in chain):
        return ResponseError(f"{what}: the answer cannot be read ({_described(chain[-1])})")
    for each in chain:
        if isinstance(each, ssl.SSLError):
            return ConnectError(f"{what}: {_tls_failure(each, has_certificate=has_certificate)}")
    hint = _closed_by_server(has_certificate=has_certificate) if is_tls_untried and _is_closed(chain) else ""
    return ConnectError(f"{what}: {_cause(chain)}{hint}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error and its causes, each once: a library may let two of them be the cause of each other."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__


def _is_closed(chain: Iterable[BaseException]) -> bool:
    return any(isinstance(each, _CLOSED) or _is_hang_up(each) for each in chain)


def _is_hang_up(error: BaseException) -> bool:
    """Return whether httpcore says, in words only, that the server ended the connection instead of answering."""
    return isinstance(error, httpx.RemoteProtocolError) and "disconnected" in str(error)


def _is_cut_off(error: BaseException) -> bool:
    """Return whether httpcore says, in words only, that the answer ended early."""
    return isinstance(error, httpx.RemoteProtocolError) and "peer closed connection" in str(error)


def _cause(chain: Sequence[BaseException]) -> str:
    known = next(filter(None, map(_known_cause, chain)), "")
    return known or ("the connection was closed" if _is_closed(chain) else _described(chain[-1]))


def _known_cause(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return f"the host name is not known ({error.strerror})"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "the connection was reset by the server"
    if isinstance(error, HungUpError) or _is_hang_up(error):
        return "the connection was closed without an answer"
    if isinstance(error, CutOffError) or _is_cut_off(error):
        return "the connection was closed in the middle of the answer"
    return ""


def _described(error: BaseException) -> str:
    kind, _, text = described(error).partition(": ")
    return f"{kind}: {' '.join(text.split()) or 'no details'}"


def _tls_failure(error: ssl.SSLError, *, has_certificate: bool) -> str:
    """Return what a TLS failure, in the handshake or later, means, without the server's name."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server cannot be trusted: {_verification(error)}"
    if isinstance(error, ssl.SSLEOFError):
        return "the connection was closed in the middle of TLS" + _closed_by_server(has_certificate=has_certificate)
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


def _closed_by_server(*, has_certificate: bool) -> str:
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
