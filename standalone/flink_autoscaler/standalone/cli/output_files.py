"""Files that commands write for people."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from flink_autoscaler.core.errors import ConfigError


@contextmanager
def whole_file(target: Path, *, replaces: bool) -> Iterator[IO[bytes]]:
    """Give a stream to a file that appears when the block ends well, and not otherwise.

    Args:
        target: What ``--output`` named.
        replaces: Whether a file that is there is replaced.

    Raises:
        ConfigError: It is there already, or cannot be written; known before the block begins.
    """
    if target.exists() and not replaces:
        raise ConfigError(f"--output {target}: is there already; --force replaces it")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as stream:
            yield stream
        partial.replace(target)
    except OSError as error:
        raise ConfigError(f"--output {target}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
