"""Fetching a large file: what an earlier try has brought is not fetched again."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import urllib.error
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from downloads.index import IndexFile
from downloads.pip_settings import PipSettings
from downloads.web import Answer, get

_CHUNK = 1 << 20
_TRIES = 3
"""How often a connection may break without having brought anything."""
_NOT_SATISFIABLE = 416

Progress = Callable[[int, int], None]
"""Called with the bytes that are here and the bytes of the whole, 0 when not known; may raise to end the fetching."""


class FetchError(Exception):
    """A file could not be fetched; the message names the file and the reason."""


def fetch(file: IndexFile, directory: Path, settings: PipSettings, on_progress: Progress) -> Path:
    """Return the file in a directory, fetching what is missing of it.

    An unfinished file ends in ``.part`` and stays, also when this process is killed; the next call goes on behind it.

    Raises:
        FetchError: Nobody sends the file, or not the one whose checksum the index tells.
        OSError: The file cannot be written (``ENOSPC``, ``EDQUOT``, ``EACCES``).
    """
    target = directory / file.name
    if target.exists():
        return target
    directory.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with part.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when closed, also by a crash
        if target.exists():  # another process has fetched it meanwhile
            return target
        return _fetch_whole(file, part, settings, on_progress).rename(target)


def _fetch_whole(file: IndexFile, part: Path, settings: PipSettings, on_progress: Progress) -> Path:
    _fetch_rest(file, part, settings, on_progress)
    if file.sha256 and _sha256(part) != file.sha256:
        part.unlink()
        raise FetchError(f"{file.name}: what came is not what the index describes (SHA-256)")
    return part


def _fetch_rest(file: IndexFile, part: Path, settings: PipSettings, on_progress: Progress) -> None:
    tries = _TRIES
    while tries:
        before = _size(part)
        try:
            if _append(file, part, settings, on_progress):
                return
            reason: object = "the connection broke"
        except (OSError, HTTPException) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
                raise
            reason = error
        tries = _TRIES if _size(part) > before else tries - 1
    raise FetchError(f"{file.name}: {reason}")


def _append(file: IndexFile, part: Path, settings: PipSettings, on_progress: Progress) -> bool:
    """Fetch what is behind the end of ``part``; tell whether it is whole now."""
    here = _size(part)
    try:
        answer = get(file.url, settings, {"Range": f"bytes={here}-"} if here else {})
    except urllib.error.HTTPError as error:
        if error.code == _NOT_SATISFIABLE:  # nothing is missing, or too much is here: the checksum tells
            return True
        raise
    try:
        is_rest = answer.status == 206  # a server may ignore the range and send all of it
        return _write(answer, part, here if is_rest else 0, on_progress)
    finally:
        answer.close()


def _write(answer: Answer, part: Path, here: int, on_progress: Progress) -> bool:
    rest = int(answer.headers.get("Content-Length") or 0)
    whole = here + rest if rest else 0
    with part.open("ab" if here else "wb") as file:
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            here += len(chunk)
            on_progress(here, whole)
    return not whole or here >= whole


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
