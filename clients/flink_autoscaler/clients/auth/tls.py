"""TLS contexts made of certificate files, with words for what can be wrong with the files."""

from __future__ import annotations

import ssl
from functools import lru_cache
from pathlib import Path
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Tls

MAX_CONTEXTS: Final = 64
"""Contexts that are kept: one serves all connections with the same files."""

_CIPHER_OF_OLD_FLINK: Final = "AES128-SHA"
"""The only cipher suite that Flink accepted by default until FLINK-39022, of 2026 (in Java its name is
``TLS_RSA_WITH_AES_128_CBC_SHA``). Python does not offer it of its own accord; the server chooses it only for want of a
better one."""

_LONGEST_FILE: Final = 4 << 20
_KEYSTORES: Final = (b"\xfe\xed\xfe\xed", b"\x30\x80", b"\x30\x82", b"\x30\x83")
"""First bytes of JKS, and of PKCS #12 and other DER files."""

_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_KEY: Final = b"PRIVATE KEY-----"


@lru_cache(maxsize=MAX_CONTEXTS)
def client_context(tls: Tls) -> ssl.SSLContext:
    """Return the context for connections to servers, TLS 1.2 or later.

    Reads files, which takes 20 ms with the system's authorities. Contexts are kept by value: the same files are read
    again only for another ``tls.version``. May be called from any thread, and the context may be used by all.

    Raises:
        ConfigError: A file cannot be used; the message names it and never holds the password.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A certificate that is trusted itself needs no trusted issuer. Python 3.13 has this as its default.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.set_ciphers(":".join([*(cipher["name"] for cipher in context.get_ciphers()), _CIPHER_OF_OLD_FLINK]))
    context.check_hostname = tls.verify_host
    if tls.ca_file is None:
        context.load_default_certs()
    else:
        _load_ca_file(context, tls.ca_file)
    if tls.certificate_file is not None:
        _load_certificate(context, tls.certificate_file, tls)
    elif tls.key_file is not None:
        raise ConfigError(f"tls.key-file {tls.key_file} is of no use without tls.certificate-file")
    return context


def _load_ca_file(context: ssl.SSLContext, file: str) -> None:
    _content("tls.ca-file", file, _CERTIFICATE)
    try:
        context.load_verify_locations(cafile=file)
    except (ssl.SSLError, OSError) as exc:
        raise ConfigError(f"tls.ca-file {file} has a certificate that cannot be read ({_reason(exc)})") from exc


def _load_certificate(context: ssl.SSLContext, file: str, tls: Tls) -> None:
    _content("tls.certificate-file", file, _CERTIFICATE)
    key, named = (file, "tls.certificate-file") if tls.key_file is None else (tls.key_file, "tls.key-file")
    is_encrypted = b"ENCRYPTED" in _content(named, key, _KEY)
    if is_encrypted and not tls.key_password:
        raise ConfigError(f"{named} {key} is encrypted: set tls.key-password-file or tls.key-password-env-variable")
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(file, key, password=tls.key_password or "")
    except (ssl.SSLError, OSError, ValueError) as exc:
        raise ConfigError(_file_problem(named, key, exc, file=file, is_encrypted=is_encrypted)) from exc


def _content(named: str, file: str, expected: bytes) -> bytes:
    """Read a file for a first look: OpenSSL does not say which file an error is about."""
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(_LONGEST_FILE)
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{named} {file} cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
    if expected not in content:
        raise ConfigError(f"{named} {file} {_instead_of_pem(content, expected)}")
    return content


def _instead_of_pem(content: bytes, expected: bytes) -> str:
    wanted = "certificate" if expected == _CERTIFICATE else "private key"
    if content.startswith(_KEYSTORES):
        return (
            f"is a Java keystore, PKCS #12 or DER file, but a {wanted} in PEM is needed: "
            "keytool -importkeystore -deststoretype PKCS12 and openssl pkcs12 convert it"
        )
    return f"holds no {wanted} in PEM (a line with {expected.decode()})"


def _file_problem(named: str, key: str, error: Exception, *, file: str, is_encrypted: bool) -> str:
    reason = _reason(error)
    if reason == "KEY_VALUES_MISMATCH":
        return f"{named} {key} is not the key of the first certificate in {file}"
    if is_encrypted:
        return f"{named} {key} cannot be decrypted: is it another password? ({reason})"
    return f"{named} {key} and the certificate in {file} cannot be used ({reason})"


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or " ".join(str(error).split())
