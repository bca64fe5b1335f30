"""Secrets: which values are, how they are shown, and those that are only pointed to, in variables and files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.syntax import abbreviate, escape_text
from flink_autoscaler.standalone.settings.sources.layer import FileUnreadableError, Value, read_text

MASK: Final = "******"
SENSITIVE: Final = (
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
    "ssl.key.pem",
    "ssl.keystore.",
)
_KNOWN_KEYS: Final = 4096
_POINTER: Final = re.compile(
    r"autoscaler\.standalone\.jdbc\.[a-z-]+-(env-variable|file)"
    r"|autoscaler\.(clusters|notifications\.targets|external-metrics|kafka)\.\d+\.(yarn\.|provider\.)?"
    r"((auth\.|tls\.)?[a-z-]+-(env-variable|file)|(headers|properties)-(env|file)\..+)",
    re.DOTALL,
)
"""Keys of options that say where a secret is."""

_HEADER: Final = re.compile(
    r"autoscaler\.(clusters|notifications\.targets|external-metrics|kafka)\.\d+\.(yarn\.|provider\.)?headers\..+",
    re.DOTALL,
)
_TARGET: Final = re.compile(r"(?:.*[._])?notifications[._]", re.DOTALL | re.IGNORECASE)
"""URLs of targets are secrets as a whole: tokens stand in their hosts, paths and parameters."""

_SENSITIVE_FIELDS: Final = ("authorization", "cookie", "headers")
_CREDENTIALS_IN_HEADER: Final = re.compile(r"\b(Basic|Bearer|Negotiate)\s++[\w.~+/=-]{6,}", re.IGNORECASE)
_MAX_USER_LENGTH: Final = 1000
"""Characters of a password before a host, or of a user without one."""

_USER: Final = re.compile(r"[^\s@:/?#]{0,200}+:")
_AUTHORITY: Final = re.compile(rf"[^\s/?#]{{0,{_MAX_USER_LENGTH}}}+")
_MAX_AT_DISTANCE: Final = 200 + 1 + _MAX_USER_LENGTH
"""Characters between the beginning of a user and the @ behind the password."""

_AT: Final = re.compile("@")
_BLANK: Final = re.compile(r"\s")
_LINE_END: Final = re.compile(r"\n")
_PORT: Final = re.compile(r"\d{1,5}+(?:\D|$)")

_HOST: Final = re.compile(r"[a-z0-9.-]+(:\d+)?", re.IGNORECASE | re.ASCII)
_PARAMETERS: Final = ("passw", "pwd", "secret", "token", "apikey", "api-key")
"""A text without any of them has none of the following, and is told so in a tenth of the time."""

_PARAMETER: Final = r"(?i)((?:password|passwd|pwd|secret|token|api-?key)\w{0,40}+\s{0,8}+[=:]\s{0,8}+)"
_PARAMETER_IN_TEXT: Final = re.compile(_PARAMETER + r"[^&;,\s]+")
_PARAMETER_OF_URL: Final = re.compile(_PARAMETER + r"[^&;]+")


@lru_cache(_KNOWN_KEYS)
def is_sensitive(key: str) -> bool:
    """Tell whether the value of a key is secret: Flink's list and a few words more, ignoring case; every header."""
    lowered = key.lower()
    is_ours = any(word in lowered for word in SENSITIVE) or _HEADER.fullmatch(lowered)
    return bool(is_ours) and not _POINTER.fullmatch(lowered)


def mask_value(key: str, text: str) -> str:
    """Return a value as it may be shown: masked where the key is sensitive, else without secrets inside it."""
    if is_sensitive(key):
        return MASK
    if key.lower().endswith("url") and _TARGET.match(key):
        return mask_target_url(text)
    parameter = _PARAMETER_OF_URL if "://" in text else _PARAMETER_IN_TEXT
    return parameter.sub(rf"\g<1>{MASK}", _mask_user(text))


def mask_target_url(url: str) -> str:
    """Return of the URL of a target what may be shown: its scheme, and the host where that is one of the web."""
    scheme, separator, rest = url.strip().partition("://")
    host = re.split(r"[/?#]", rest.rpartition("@")[2], maxsplit=1)[0]
    is_web = scheme.lower() in ("http", "https") and _HOST.fullmatch(host) and "@" not in rest
    return f"{scheme}://{host}/{MASK}" if separator and is_web else f"{scheme}://{MASK}" if separator else MASK


def mask_text(text: str) -> str:
    """Return a text of many words as it may be shown: without passwords in URLs and after their names."""
    if "@" in text:
        text = _mask_users(text)
    folded = text.casefold()
    if not any(name in folded for name in _PARAMETERS):
        return text
    return _PARAMETER_IN_TEXT.sub(rf"\g<1>{MASK}", text)


def _mask_users(text: str) -> str:
    """Mask user and password before the host of every URL in a text, in time in proportion to its length.

    Passwords have characters that a URL must not have there: a slash, or even blanks where what stands behind the
    colon is no port.
    """
    next_at, word_end, line_end = (_position_finder(mark, text) for mark in (_AT, _BLANK, _LINE_END))
    parts, done, begin = [], 0, 0
    while (colon := text.find("://", begin)) >= 0:
        begin = colon + len("://")
        # Whatever begins before the next @ comes near enough and on its line is passed over at once.
        if (at := next_at(begin)) > (line := line_end(begin)) or at > begin + _MAX_AT_DISTANCE:
            begin = max(begin, line if at > line else at - _MAX_AT_DISTANCE - 3)
            continue
        end = -1
        if user := _USER.match(text, begin):
            password = user.end()
            end = text.rfind("@", password, min(word_end(password), password + _MAX_USER_LENGTH + 1))
            if end < 0 and not _PORT.match(text, password):
                end = text.rfind("@", password, min(line_end(password), password + _MAX_USER_LENGTH + 1))
        if end < 0 and (authority := _AUTHORITY.match(text, begin)):
            end = text.rfind("@", begin, authority.end() + 1)
        if end >= 0:
            parts += [text[done:begin], MASK]
            done = begin = end
    return "".join([*parts, text[done:]])


def _position_finder(mark: re.Pattern[str], text: str) -> Callable[[int], int]:
    """Return what tells where the first mark is from a place on. Places only grow, so that nothing is read twice."""
    end = -1

    def end_from(begin: int) -> int:
        nonlocal end
        if begin > end:
            found = mark.search(text, begin)
            end = len(text) if found is None else found.start()
        return end

    return end_from


def _mask_user(url: str) -> str:
    """Mask what may be user and password: everything up to the last @, for passwords hold what URLs must not."""
    scheme, separator, rest = url.partition("://")
    _, at, host = rest.rpartition("@")
    return f"{scheme}{separator}{MASK}@{host}" if separator and at else url


def describe_setting(key: str, values: Mapping[str, Value]) -> str:
    """Return a key that is set as in ``autoscaler.http.port = '1' (--set)``, without secrets and not too long."""
    return f"{key} = '{abbreviate(mask_value(key, values[key].text))}' ({values[key].origin})"


def read_secret_variable(key: str, name: str) -> str:
    """Return the value of an environment variable, without blanks around it; the key that names it is for messages.

    Raises:
        ConfigError: It is not set, or blank.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        raise ConfigError(f"{key}: the environment variable {name} is not set or blank; set it for the daemon")
    return text


def read_secret_file(key: str, file: str) -> str:
    """Return the first line of a file, read anew, without blanks around it; the key that names it is for messages.

    Raises:
        ConfigError: It cannot be read, or its first line is blank.
    """
    try:
        text = read_text(Path(file)).partition("\n")[0].strip()
    except FileUnreadableError as error:
        raise ConfigError(f"{key}: {error}; expected a file that the user of the daemon can read") from error
    if not text:
        raise ConfigError(f"{key}: the first line of {file} is blank")
    return text


def read_secret(keys: str, name: str, *, variable: str | None, file: str | None) -> str | None:
    """Return a secret from the file, else from the environment variable; None where neither is configured.

    Args:
        keys: What stands before the name of the option in messages.
        name: The option without its ending, such as ``auth.token``.
        variable: Value of ``<name>-env-variable``.
        file: Value of ``<name>-file``.

    Raises:
        ConfigError: It is configured and not there.
    """
    if file is not None:
        return read_secret_file(f"{keys}{name}-file", file)
    return None if variable is None else read_secret_variable(f"{keys}{name}-env-variable", variable)


def mask_secrets(value: Any) -> Any:
    """Return a value of a log line, page or message as it may be shown: without secrets, and foreign texts escaped.

    Secrets are found by key in mappings, by pattern in texts; what is neither is shown as its text.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {
            escape_text(str(key)): MASK if is_secret_field(str(key)) else mask_secrets(entry)
            for key, entry in value.items()
        }
    if isinstance(value, list | tuple):
        return [mask_secrets(entry) for entry in value]
    return escape_text(_CREDENTIALS_IN_HEADER.sub(rf"\1 {MASK}", mask_text(str(value))))


@lru_cache(_KNOWN_KEYS)
def is_secret_field(key: str) -> bool:
    """Tell whether a field of a log line, page or message holds a secret."""
    # Fields of log lines are Python names, options are not.
    return is_sensitive(key.replace("_", "-")) or any(word in key.lower() for word in _SENSITIVE_FIELDS)
