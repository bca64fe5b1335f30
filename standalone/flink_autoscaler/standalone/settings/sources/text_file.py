"""Bounded reading of configuration files."""

from __future__ import annotations

from pathlib import Path

MAX_BYTES = 1 << 20


class FileUnreadableError(Exception):
    """The file cannot be read as text; the message names it and says why."""


def read_text(file: Path) -> str:
    """Return the text of a UTF-8 file of at most 1 MiB, without a byte order mark.

    Raises:
        UnreadableError: It is missing, unreadable, too large or not UTF-8.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileUnreadableError(f"{file}: {error.strerror or 'cannot be read'}") from error
    if len(content) > MAX_BYTES:
        raise FileUnreadableError(f"{file}: larger than {MAX_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileUnreadableError(f"{file} line {line}: not UTF-8") from error
