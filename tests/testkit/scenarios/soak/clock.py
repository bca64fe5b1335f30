"""A clock that is set while processes go by it."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from testkit.clusters.flink.errors import HarnessError

LIBRARY = "libfaketimeMT.so.1"


class MissingClockError(HarnessError):
    """libfaketime is not there."""


class Clock:
    """The clock of the machine, as some processes see it: libfaketime adds an offset that a file says.

    Clocks that only count, by which threads wait, stay as they are, as they do when a clock is set.

    Args:
        folder: For the file; everybody who goes by the clock has to be able to read it.

    Raises:
        MissingClockError: libfaketime is not installed.
    """

    def __init__(self, folder: Path) -> None:
        library = next(Path("/usr/lib").glob(f"*/faketime/{LIBRARY}"), None)
        if library is None:
            raise MissingClockError("faketime is not installed")
        self._file = folder / "clock"
        self.offset = 0
        self._write()
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": ":".join(map(str, [*_sleep(folder), library])),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def step(self, seconds: int) -> None:
        """Set the clock ahead by so many seconds, or back; within a second everybody goes by it."""
        self.offset += seconds
        self._write()

    def now(self) -> float:
        """Return epoch seconds by it."""
        return time.time() + self.offset

    def _write(self) -> None:
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{self.offset:+d}\n")
        draft.chmod(0o644)
        draft.replace(self._file)


def _sleep(folder: Path) -> Iterator[Path]:
    """Build what makes sleeping work again beside libfaketime, where there is a compiler.

    ``time.sleep`` of Python waits until an instant of a clock that only counts, as a daemon with Spark does.
    """
    compiler = shutil.which("cc")
    if compiler is not None:
        built = folder / "sleep.so"
        source = Path(__file__).with_name("sleep.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", built, source], check=True)
        yield built
