"""An authority of the test, and the files of those whom it vouches for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, as PEM files."""

    certificate_file: str
    key_file: str


class Authority:
    """Issues certificates, and writes them to files.

    Attributes:
        ca_file: The authority's own certificate, PEM.
    """

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._name = name
        self._authority = trustme.CA()
        self.ca_file = str(directory / f"{name}.pem")
        self._authority.cert_pem.write_to_path(self.ca_file)

    def issue(self, *names: str, valid_days: int = 1) -> Identity:
        """Issue a certificate for hosts or addresses; fewer than 0 days let it have expired."""
        expires = datetime.now(UTC) + timedelta(days=valid_days)
        issued = self._authority.issue_cert(
            *names,
            not_before=expires - timedelta(days=30),
            not_after=expires,
            key_type=trustme.KeyType.RSA,  # Flink's default cipher suites need one
        )
        prefix = self._directory / f"{self._name}-{names[0]}-{valid_days}"
        identity = Identity(f"{prefix}.pem", f"{prefix}.key")
        Path(identity.certificate_file).write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(identity.key_file)
        return identity


def encrypted(key_file: str, password: str) -> str:
    """Write a copy of a key that needs a password; return its path."""
    key = load_pem_private_key(Path(key_file).read_bytes(), None)
    protection = BestAvailableEncryption(password.encode())
    path = f"{key_file}.encrypted"
    Path(path).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection))
    return path
