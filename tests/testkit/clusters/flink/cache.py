"""The cache directory outside the checkout, and how two processes share it."""

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """Return ``$FLINK_AUTOSCALER_CACHE`` or ``~/.cache/flink-autoscaler``."""
    configured = os.environ.get("FLINK_AUTOSCALER_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "flink-autoscaler"


def make_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return ``target``, making it first if it does not exist.

    ``target`` appears complete or not at all: it is made in a directory next to
    it and renamed. Two processes that ask at once make it once.

    Args:
        target: Directory in the cache.
        make: Fills the new, empty directory it is given. May raise.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(f".{target.name}.lock")):
        if not target.is_dir():
            _make(target, make)
    return target


def say(message: str) -> None:
    """Tell the waiting person about something that takes a while."""
    print(f"[flink_cluster] {message}", file=sys.stderr, flush=True)


def _make(target: Path, make: Callable[[Path], None]) -> None:
    for abandoned in target.parent.glob(f".{target.name}-*"):  # of a process that was killed; the lock is ours
        shutil.rmtree(abandoned, ignore_errors=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        make(unfinished)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when closed, also by a crash
        yield
