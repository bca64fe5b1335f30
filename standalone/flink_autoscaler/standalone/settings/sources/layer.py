"""Layer of the configuration: values with where they were set, from texts of bounded length."""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 1 << 20
PATIENCE: Final = 10.0
"""Seconds in which everything has to have come through a pipe."""

HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
"""A surrogate by itself: what an escape such as ``\\ud800`` stands for, and bytes that are not UTF-8."""

_GIVEN_PIPE: Final = re.compile(r"/dev/stdin|(/dev|/proc/(self|\d+))/fd/\d+", re.ASCII)
"""What shells write for ``<(command)``, and standard input: pipes whose other end somebody holds already."""


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
    """Values of one source; problems and warnings are full sentences that name the place.

    Attributes:
        is_of_flink: Whether it is Flink's own file, where others have options as well, also below our prefixes.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_of_flink: bool = False


def failed(problem: object) -> Layer:
    """Return the layer of a source that cannot be used at all."""
    return Layer(problems=(str(problem),))


def read_text(file: Path) -> str:
    """Return the text of a UTF-8 file of at most 1 MiB, without a byte order mark.

    Raises:
        FileUnreadableError: It cannot be read (see :func:`read_bytes`), or is not UTF-8.
    """
    content = read_bytes(file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileUnreadableError(f"{file} line {line}: not UTF-8") from error


def read_bytes(file: Path, limit: int = MAX_BYTES) -> bytes:
    """Return the content of a file.

    A pipe is read where the shell or standard input gives it. A named one is not: nobody may ever write to it.

    Raises:
        FileUnreadableError: It is missing, unreadable, too large, or no file.
    """
    try:
        content = _content(file, limit)
    except OSError as error:
        raise FileUnreadableError(f"{file}: {error.strerror or 'cannot be read'}") from error
    except ValueError as error:
        raise FileUnreadableError(f"{str(file)!r}: not the name of a file") from error
    if len(content) > limit:
        raise FileUnreadableError(f"{file}: larger than {limit} bytes")
    return content


def _content(file: Path, limit: int) -> bytes:
    """Return at most one byte more than is permitted; opening waits for nobody."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as stream:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if stat.S_ISFIFO(mode) and not _GIVEN_PIPE.fullmatch(str(file)):
            raise OSError(errno.EINVAL, "a named pipe, expected a file")
        content = _until_end(stream.fileno(), limit)
    if stat.S_ISFIFO(mode) and not content:
        raise OSError(errno.EPIPE, "nothing came through the pipe; it can be read once only")
    return content


def _until_end(descriptor: int, limit: int) -> bytes:
    """Read until nothing more can come, or is permitted."""
    poll, end = select.poll(), time.monotonic() + PATIENCE
    poll.register(descriptor, select.POLLIN)
    content = bytearray()
    while len(content) <= limit:
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise TimeoutError(errno.ETIMEDOUT, f"its end did not come within {PATIENCE:g} s")
        part = os.read(descriptor, limit + 1 - len(content))
        if not part:
            break
        content += part
    return bytes(content)
