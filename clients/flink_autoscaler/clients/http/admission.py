"""How many jobs one event loop reads at the same time."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

JOBS_AT_ONCE: Final = 64
"""Jobs under way, whatever the number of endpoints. At ten vertices and 0.5 ms per answer the loop is 0.3 s behind
with so many; with a thousand of them requests time out because nobody gets round to their answers."""

PATIENCE: Final = 2.0
"""Seconds after which a job no longer counts: it waits for its cluster, and jobs of others shall not wait with it."""

BEHIND: Final = 0.25
"""Seconds that the loop has to be late for a job to count on: then it waits for us, not for its cluster."""


class Admission:
    """Lets jobs in one after the other. Belongs to one event loop.

    ``async with admission():`` waits until fewer than so many jobs are under way. A job that is under way for longer
    than ``PATIENCE`` goes on without being counted, so that clusters that hang hold up the jobs of others but briefly.
    """

    def __init__(self, *, jobs: int = JOBS_AT_ONCE, patience: float = PATIENCE) -> None:
        self._places = asyncio.Semaphore(jobs)
        self._patience = patience

    def __call__(self) -> Admitted:
        """Return a place to be held while a job is read."""
        return Admitted(self._places, self._patience)


class Admitted:
    """One of the places, once."""

    def __init__(self, places: asyncio.Semaphore, patience: float) -> None:
        self._places = places
        self._patience = patience
        self._is_given_back = False

    async def __aenter__(self) -> None:
        await self._places.acquire()
        self._wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._give_back()

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._patience, self._look, loop.time() + self._patience)

    def _look(self, due: float) -> None:
        if asyncio.get_running_loop().time() - due > BEHIND:
            self._wait()
        else:
            self._give_back()

    def _give_back(self) -> None:
        if not self._is_given_back:
            self._is_given_back = True
            self._places.release()
