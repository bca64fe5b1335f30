"""Java keystores, made the way Flink's documentation and our guide tell, and the options that name them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testkit.clusters.flink.java import tool
from testkit.servers.tls.authority import Authority, Identity

_PASSWORD = "of-the-test"


def rest_options(authority: Authority, server: Identity, directory: Path) -> dict[str, str]:
    """Return Flink's options for a REST API with TLS that demands client certificates of the authority."""
    keystore = directory / "rest.keystore.p12"
    truststore = directory / "rest.truststore.p12"
    _make_keystore(server, keystore)
    _make_truststore(authority, truststore)
    return {
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.authentication-enabled": "true",
        "security.ssl.rest.keystore": str(keystore),
        "security.ssl.rest.keystore-password": _PASSWORD,
        "security.ssl.rest.key-password": _PASSWORD,
        "security.ssl.rest.truststore": str(truststore),
        "security.ssl.rest.truststore-password": _PASSWORD,
    }


def _make_keystore(identity: Identity, path: Path) -> None:
    files = ["-in", identity.certificate_file, "-inkey", identity.key_file, "-out", str(path)]
    command = ["openssl", "pkcs12", "-export", "-name", "flink.rest", "-passout", f"pass:{_PASSWORD}", *files]
    subprocess.run(command, check=True, capture_output=True)


def _make_truststore(authority: Authority, path: Path) -> None:
    files = ["-file", authority.ca_file, "-keystore", str(path)]
    options = ["-noprompt", "-alias", "ca", "-storetype", "PKCS12", "-storepass", _PASSWORD]
    subprocess.run([str(tool("keytool")), "-importcert", *options, *files], check=True, capture_output=True)
