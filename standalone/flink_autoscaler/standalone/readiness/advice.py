"""What to do about a cluster that cannot be looked at, in one sentence."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from flink_autoscaler.core.errors import AutoscalerError, RefusedError, ResponseError

_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_BY_TEXT: Final = {
    "connection refused": "nothing listens there: does the JobManager run, and is this its REST port (rest.port, 8081 "
    "unless set), on an address that others reach (rest.bind-address)?",
    "the host name is not known": "correct the host of the URL, or give its address",
    "no complete answer within": "is the JobManager reachable from this machine, or is a firewall or a wrong address "
    "in the way?",
    "the connection was": "is this the REST port of a JobManager, and not its RPC port (6123)?",
    "No route to host": "is the address right, and the machine on?",
    "Network is unreachable": "is there a network, and is the address right?",
    "the issuer of its certificate": "here --ca-file FILE names it",
    "certificate is self-signed": "here --ca-file FILE names it",
    "demands a client certificate": "here with --certificate-file and --key-file",
    "a user and a password": "here with --user NAME and --password-env or --password-file",
    "a token (": "here with --token-env or --token-file",
    "wants to know who asks": "here with --user and --password-env, or with --token-env",
}
"""By what errors of the connection say; "here" is the command line."""

_TLS: Final = "if the server wants https, the URL has to begin with https://"


def with_advice(error: AutoscalerError, url: str) -> str:
    """Return the text of an error on one line, with what to do about it where the text does not say so."""
    text = " ".join(str(error).split())
    may_want_tls = urlsplit(url).scheme == "http" and _may_want_tls(error, text)
    return "; ".join(filter(None, [text, _advice(error, text), _TLS if may_want_tls else ""]))


def _advice(error: AutoscalerError, text: str) -> str:
    if isinstance(error, RefusedError) and error.status == _NOT_FOUND:
        return "is there something wrong with the path of the URL?"
    if isinstance(error, ResponseError) and "expected JSON" not in text:
        return "is this the REST port of a JobManager?"
    return next((advice for words, advice in _BY_TEXT.items() if words in text), "")


def _may_want_tls(error: AutoscalerError, text: str) -> bool:
    """Tell whether a server may have answered as one does that expects TLS: with bare 400, or not at all."""
    return (isinstance(error, RefusedError) and error.status == _BAD_REQUEST) or "the connection was" in text
