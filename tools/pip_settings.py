"""Settings of pip for its package index, for programs that do not read pip's configuration.

``python tools/pip_settings.py`` prints what uv needs of it, as lines for a shell.
"""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_TIMEOUT = 15.0
_SECTIONS = (":env:", "install", "download", "global")
"""Where an option counts from, the strongest first."""


@dataclass(frozen=True)
class PipSettings:
    """The options of pip's configuration files and ``PIP_*`` variables that say where packages come from.

    Attributes:
        values: The option by its long name, such as ``index-url``; empty ones are left out.
    """

    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def certificates(self) -> Path | None:
        """The root certificates to trust instead of the usual ones: a file or a directory."""
        found = self.values.get("cert")
        return Path(found) if found else None

    @property
    def proxy(self) -> str | None:
        """The proxy for everything; None leaves it to ``HTTPS_PROXY`` and its like."""
        return self.values.get("proxy")

    @property
    def timeout(self) -> float:
        """Seconds without an answer after which a connection counts as broken."""
        return float(self.values.get("timeout") or self.values.get("default-timeout") or DEFAULT_TIMEOUT)

    def words(self, name: str) -> list[str]:
        """Return an option that may be given several times."""
        return self.values.get(name, "").split()

    def for_uv(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment in which uv installs from where pip would; what is set for uv already stays."""
        certificates = self.certificates
        told = {
            "UV_DEFAULT_INDEX": self.values.get("index-url", ""),
            "UV_INDEX": " ".join(self.words("extra-index-url")),
            "UV_FIND_LINKS": ",".join(self.words("find-links")),
            "UV_INSECURE_HOST": " ".join(self.words("trusted-host")),
            "UV_CONSTRAINT": " ".join(self.words("constraint")),
            "UV_HTTP_TIMEOUT": f"{max(self.timeout, 30):.0f}",
            "UV_NO_CACHE": "1" if self.values.get("no-cache-dir") in ("1", "true") else "",
            # All indexes count alike, and the system's certificates too: so it is with pip.
            "UV_INDEX_STRATEGY": "unsafe-best-match" if "extra-index-url" in self.values else "",
            "UV_SYSTEM_CERTS": "true",
            "SSL_CERT_DIR" if certificates and certificates.is_dir() else "SSL_CERT_FILE": str(certificates or ""),
            "SSL_CLIENT_CERT": self.values.get("client-cert", ""),
            "HTTPS_PROXY": self.proxy or "",
            "HTTP_PROXY": self.proxy or "",
        }
        return {name: value for name, value in told.items() if value} | dict(environ)


def read_settings(python: Path) -> PipSettings:
    """Ask the pip of an interpreter how it is configured; without pip everything is as by default."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "config", "list"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    return parse_settings(done.stdout)


def parse_settings(listing: str) -> PipSettings:
    """Read what ``pip config list`` prints: ``section.option='value'`` per line."""
    found: dict[tuple[str, str], str] = {}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.strip().partition(".")
        if section in _SECTIONS:
            found[section, name] = _text(value)
    values = {name: found[section, name] for section in reversed(_SECTIONS) for at, name in found if at == section}
    return PipSettings({name: value for name, value in values.items() if value})


def _text(literal: str) -> str:
    try:
        return str(ast.literal_eval(literal))
    except (ValueError, SyntaxError):
        return literal.strip()


if __name__ == "__main__":
    for name, value in read_settings(Path(sys.executable)).for_uv({}).items():
        if name not in os.environ:
            print(f"export {name}={shlex.quote(value)}")
