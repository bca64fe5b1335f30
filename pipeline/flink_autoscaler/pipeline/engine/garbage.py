"""Collects cyclic garbage between passes, and not among what stays from pass to pass.

Nearly everything that a pass leaves behind goes by itself; the windows of all jobs, many small objects, stay. Python
looks through all of them again whenever enough new ones came, several times per pass of a thousand jobs, while all
threads stand still. And what there is to find is little: some hundred objects of the millions of such a pass.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Final

YOUNG: Final = 500_000
"""More objects than at the last look, after which new ones are looked at, however long that takes."""
DURING_A_PASS: Final = 40 * YOUNG
"""The same while a pass runs, which makes as many as stay after the last one, and more than it leaves."""

_OLDER: Final = 50
_SHARE: Final = 0.001
"""Of all time, what looking at the new objects may take."""

EVERYTHING: Final = 600.0
"""Seconds after which everything is looked at, for garbage among what had stayed until then."""


def spare_collector(young: int = DURING_A_PASS) -> None:
    """Look at new objects less often, and never at those that are there now, such as what has been imported.

    Args:
        young: How many more than at the last look make Python look by itself.
    """
    gc.set_threshold(young, _OLDER, _OLDER)
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
        self._next = clock()
        self._due = self._next + EVERYTHING

    def after_pass(self) -> None:
        """Collect what passes have left, where it is much or has not been looked at for a while.

        What stays then is not looked at again before everything is.
        """
        if not self._lock.acquire(blocking=False):
            return  # another pass does it
        try:
            self._collect()
        finally:
            self._lock.release()

    def _collect(self) -> None:
        began = self._clock()
        if began >= self._due:
            self._due = began + EVERYTHING
            gc.unfreeze()
            gc.collect()
        elif began >= self._next or gc.get_count()[0] >= YOUNG:
            gc.collect(1)
        else:
            return
        gc.freeze()
        ended = self._clock()
        self._next = ended + (ended - began) / _SHARE
