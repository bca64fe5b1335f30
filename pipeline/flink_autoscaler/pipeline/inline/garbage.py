"""When cyclic garbage is looked for: between passes, and not among what stays from pass to pass.

Nearly everything that a pass leaves behind goes by itself; the windows of all jobs, many small objects, stay. Python
looks through all of them again whenever enough new ones came, several times per pass of a thousand jobs, while all
threads stand still.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Final

YOUNG: Final = 500_000
"""New objects after which the new ones are looked at; a pass over a thousand jobs makes about as many that stay."""

_OLDER: Final = 50
_WORTH: Final = YOUNG // 50
"""New objects for which looking between two passes is worth it."""

EVERYTHING: Final = 600.0
"""Seconds after which everything is looked at, for garbage among what had stayed until then."""


def spare_collector() -> None:
    """Look at new objects less often, and never at those that are there now, such as what has been imported."""
    gc.set_threshold(YOUNG, _OLDER, _OLDER)
    gc.collect()
    gc.freeze()


class Garbage:
    """Collects garbage between passes. From any thread.

    Args:
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._due = clock() + EVERYTHING

    def after_pass(self) -> None:
        """Collect what the pass has left; what stays is not looked at again before everything is."""
        if not self._lock.acquire(blocking=False):
            return  # another pass does it
        try:
            self._collect()
        finally:
            self._lock.release()

    def _collect(self) -> None:
        if self._clock() >= self._due:
            self._due = self._clock() + EVERYTHING
            gc.unfreeze()
            gc.collect()
            gc.freeze()
        elif gc.get_count()[0] >= _WORTH or gc.get_count()[1]:
            gc.collect(1)
            gc.freeze()
