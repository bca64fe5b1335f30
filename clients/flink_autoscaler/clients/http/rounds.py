"""GETs that are sent for one purpose, such as those for the vertices of a job, over the connections that are free.

Where every request waits by itself, a third of its time goes into tasks, timers and futures. In a round the next one
goes out where the answer to the one before came in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from flink_autoscaler.clients.http.parsing import REFUSALS, Received
from flink_autoscaler.core.errors import AutoscalerError

_LENIENT: Final = 1.1


class Failure(NamedTuple):
    """Why a request has no answer.

    Attributes:
        place: Of the request.
        is_final: Whether asking again cannot help, or there is no time for it.
    """

    place: int
    error: AutoscalerError
    is_final: bool


class Round:
    """Requests, each of them sent once, and what came of them. Ends early at the first that is refused or fails.

    Belongs to one event loop.

    Args:
        requests: As they go over the wire.

    Attributes:
        received: Answers by place, None where there is none.
        failure: Of the first request that failed; None while none has.
        settled: Set when all have been answered, and when it ends early.
    """

    def __init__(self, requests: Sequence[bytes]) -> None:
        self.received: list[Received | None] = [None] * len(requests)
        self.failure: Failure | None = None
        self.settled = asyncio.Event()
        self._requests = requests
        self._taken = 0
        self._left = len(requests)

    @property
    def is_begun(self) -> bool:
        """Whether any request has been taken."""
        return self._taken > 0

    def request(self, place: int) -> bytes:
        """Return the request at a place."""
        return self._requests[place]

    def take(self) -> int | None:
        """Return the place of the next request that is to be sent; None where none is."""
        if self._taken == len(self._requests) or self.settled.is_set():
            return None
        self._taken += 1
        return self._taken - 1

    def settle(self, place: int, received: Received) -> None:
        """Take the answer to a request."""
        self.received[place] = received
        self._left -= 1
        if self._left == 0 or received.head.status >= REFUSALS:
            self.settled.set()

    def fail(self, failure: Failure) -> None:
        """Take that a request has failed; the first one counts."""
        self.failure = self.failure or failure
        self.settled.set()


class Lane:
    """What goes over one connection at a time: one request of a round after the other.

    Args:
        round_: Of which it takes requests.
        limit: Ends them when they take too long; None where somebody else does. The first has the time that it has been
            given, each of the others ``seconds`` from when it is its turn, and a tenth of that more at most.
        seconds: See there.

    Attributes:
        place: Of the request that is under way; None before the first.
    """

    __slots__ = ("_end", "_limit", "_loop", "_round", "_seconds", "place")

    def __init__(self, round_: Round, limit: asyncio.Timeout | None = None, seconds: float = 0.0) -> None:
        self._round = round_
        self._limit = limit
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._end = 0.0
        self.place: int | None = None

    @property
    def request(self) -> bytes | None:
        """The request that is under way, once more."""
        return None if self.place is None else self._round.request(self.place)

    def take(self) -> bytes | None:
        """Return the next request; None where there is no more."""
        place = self._round.take()
        if place is None:
            return None
        if self._limit is not None and self.place is not None:
            self._give_time(self._limit)
        self.place = place
        return self._round.request(place)

    def settle(self, received: Received) -> None:
        """Take the answer to the request that is under way."""
        if self.place is not None:
            self._round.settle(self.place, received)

    def fail(self, error: AutoscalerError, *, is_final: bool) -> None:
        """Take that the request that is under way has failed.

        A lane that has not begun, for want of a connection, matters only where no other has.
        """
        if self.place is not None or not self._round.is_begun:
            self._round.fail(Failure(self.place or 0, error, is_final))

    def _give_time(self, limit: asyncio.Timeout) -> None:
        """See to it that the next request has its time; a timer for each of them would cost as much as parsing it."""
        now = self._loop.time()
        if now + self._seconds > self._end:
            self._end = now + _LENIENT * self._seconds
            limit.reschedule(self._end)
