"""Which values are secret, and how they are shown."""

from __future__ import annotations

import re

MASK = "******"
SENSITIVE = (
    "password",
    "secret",
    "fs.azure.account.key",
    "apikey",
    "api-key",
    "auth-params",
    "service-key",
    "token",
    "basic-auth",
    "jaas.config",
    "http-headers",
    "credential",
    "private-key",
    "passphrase",
)
_POINTER = re.compile(
    r"autoscaler\.standalone\.jdbc\.[a-z-]+-(env-variable|file)"
    r"|autoscaler\.clusters\.\d+\.(yarn\.)?((auth\.|tls\.)?[a-z-]+-(env-variable|file)|headers-(env|file)\..+)",
    re.DOTALL,
)
"""Keys of options that say where a secret is."""

_HEADER = re.compile(r"autoscaler\.clusters\.\d+\.(yarn\.)?headers\..+", re.DOTALL)
_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")
_SECRET_PARAMETER = re.compile(r"(?i)((?:password|passwd|pwd|secret|token|api-?key)\w*\s*[=:]\s*)[^&;,\s]+")


def is_sensitive(key: str) -> bool:
    """Tell whether the value of a key is secret: Flink's list and a few words more, ignoring case; every header."""
    lowered = key.lower()
    is_ours = any(word in lowered for word in SENSITIVE) or _HEADER.fullmatch(lowered)
    return bool(is_ours) and not _POINTER.fullmatch(lowered)


def shown(key: str, text: str) -> str:
    """Return a value as it may be shown: masked where the key is sensitive, else without secrets inside it."""
    if is_sensitive(key):
        return MASK
    return _SECRET_PARAMETER.sub(rf"\g<1>{MASK}", _USER_INFO.sub(f"{MASK}@", text))
