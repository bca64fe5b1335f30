"""Secrets that the configuration only points to: in environment variables and files."""

from __future__ import annotations

import os
from pathlib import Path

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.sources.text_file import FileUnreadableError, read_text


def from_variable(key: str, name: str) -> str:
    """Return the value of an environment variable, without blanks around it.

    Args:
        key: The key that names the variable, for messages.
        name: Name of the variable.

    Raises:
        ConfigError: It is not set, or blank.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        raise ConfigError(f"{key}: the environment variable {name} is not set or blank; set it for the daemon")
    return text


def from_file(key: str, file: str) -> str:
    """Return the first line of a file, without blanks around it. It is read anew with every call.

    Args:
        key: The key that names the file, for messages.
        file: Path of the file.

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


def from_either(keys: str, name: str, *, variable: str | None, file: str | None) -> str | None:
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
        return from_file(f"{keys}{name}-file", file)
    return None if variable is None else from_variable(f"{keys}{name}-env-variable", variable)
