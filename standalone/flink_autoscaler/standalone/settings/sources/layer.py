"""What a source of the configuration gives: values with where they were set, from texts of bounded length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 1 << 20


class FileUnreadableError(Exception):
    """The file cannot be read as text; the message names it and says why."""


@dataclass(frozen=True, slots=True)
class Value:
    """Text of a value and where it was set.

    Attributes:
        text: The text; may be secret.
        origin: For people, such as ``/etc/autoscaler.yaml line 12`` or ``environment variable X``.
    """

    text: str = field(repr=False)
    origin: str


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source sets; problems and warnings are full sentences that name the place."""

    values: Mapping[str, Value] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def failed(problem: object) -> Layer:
    """Return the layer of a source that cannot be used at all."""
    return Layer(problems=(str(problem),))


def read_text(file: Path) -> str:
    """Return the text of a UTF-8 file of at most 1 MiB, without a byte order mark.

    Raises:
        FileUnreadableError: It is missing, unreadable, too large or not UTF-8.
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
