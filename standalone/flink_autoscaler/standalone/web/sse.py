"""Tells browsers that there is news: server-sent events, with a version of the fleet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Final

from flink_autoscaler.standalone.views.fleet import Fleet

MAX_STREAMS: Final = 32
STREAM_SECONDS: Final = 20.0
"""After which a stream ends; browsers come back by themselves, and what nobody reads any more is gone."""

_RETRY_MS: Final = 500


class FleetEvents:
    """Wakes everybody who follows the fleet. Streams live in the event loop of the server, news come from any thread.

    Args:
        fleet: What is followed.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        fleet.add_listener(lambda _: self._wake())

    @property
    def is_full(self) -> bool:
        """Whether there are as many streams as there may be."""
        return len(self._waiting) >= MAX_STREAMS

    async def stream(self, since: int) -> AsyncIterator[str]:
        """Yield an event for every newer version, for a while.

        Args:
            since: The version that the browser knows.
        """
        event = asyncio.Event()
        with self._lock:
            self._waiting[event] = asyncio.get_running_loop()
        try:
            yield f"retry: {_RETRY_MS}\n\n"
            async with asyncio.timeout(STREAM_SECONDS):
                while True:
                    if self._fleet.version != since:
                        since = self._fleet.version
                        yield f'id: {since}\nevent: fleet\ndata: {{"version": {since}}}\n\n'
                    await event.wait()
                    event.clear()
        except TimeoutError:
            return
        finally:
            with self._lock:
                self._waiting.pop(event, None)

    def _wake(self) -> None:
        with self._lock:
            waiting = list(self._waiting.items())
        for event, loop in waiting:
            loop.call_soon_threadsafe(event.set)
