"""Connections to one server that are kept from request to request, with the least that a GET takes.

A GET is one write of bytes that are nearly ready, and its answer is parsed as it comes, by :mod:`.parsing`. There is no
object for a request, no stream and no task, which is what two thirds of the time of a request went into.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from flink_autoscaler.clients.http.parsing import REFUSALS, AnswerParser, Received
from flink_autoscaler.core.errors import AutoscalerError, ConnectError, ResponseError

_LENIENT: Final = 1.1


class Failure(NamedTuple):
    """Reason why a request has no answer.

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
        """True once a request has been taken."""
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
    """Requests of a round that go over one connection, one after the other.

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


KEEP_ALIVE: Final = 60.0
"""Seconds that an idle connection is kept: longer than a usual pass interval, shorter than Flink's five minutes."""

_PIECE: Final = 1 << 15
"""Bytes that are taken from a connection at once."""

_NEXT_ADDRESS: Final = 0.25
"""Seconds after which the next address of a name is tried beside the one before (RFC 8305)."""

_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")


class HungUpError(ConnectionError):
    """The other side ended the connection instead of answering."""


class CutOffError(ConnectionError):
    """The other side ended the connection in the middle of its answer."""


class Server(NamedTuple):
    """Server that connections lead to; ``context`` is that of TLS, None without."""

    host: str
    port: int
    context: ssl.SSLContext | None


class KeptConnections:
    """Sends GETs, each over a connection of its own while it is under way. Belongs to one event loop.

    Args:
        server: Where they lead.
        limit: Bytes of an answer at most.
    """

    def __init__(self, server: Server, *, limit: int) -> None:
        self._server = server
        self._limit = limit
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._tidying: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def get(self, request: bytes) -> Received:
        """Return the answer to a request, whatever its status.

        Args:
            request: The whole of it, as it goes over the wire.

        Raises:
            ResponseError: What came is no answer, or too long.
            OSError: There is no connection, or it was lost; TLS failed.
            ConnectError: They have been closed.
        """
        round_ = Round((request,))
        await self.serve(Lane(round_))
        return cast("Received", round_.received[0])

    async def serve(self, lane: Lane) -> None:
        """Send what a lane has, one request after the other, as long as there is any.

        On a kept connection that turns out to be closed nothing was done: a request is sent once more, over a new one.

        Raises:
            ResponseError: As for :meth:`get`, for the request that is under way.
            OSError: As for :meth:`get`.
            ConnectError: As for :meth:`get`.
        """
        request, is_again = lane.take(), False
        while request is not None:
            kept = None if is_again else self._take()
            connection = kept or await self._open()
            try:
                await self._served(connection, lane, request)
            except ConnectionError:
                if connection.is_answering or not (kept or connection.has_answered):
                    raise
                request, is_again = lane.request, True
            else:
                request, is_again = lane.take(), False

    async def aclose(self) -> None:
        """Close all connections, for good. May be called more than once."""
        self._is_closed = True
        if self._tidying is not None:
            self._tidying.cancel()
            self._tidying = None
        for connection in self._all:
            connection.abort()
        is_any = bool(self._all)
        self._all.clear()
        self._idle.clear()
        if is_any:
            await asyncio.sleep(0)  # sockets are closed in the next round of the loop

    async def _served(self, connection: _Connection, lane: Lane, request: bytes) -> None:
        has_ended = False
        try:
            await connection.serve(lane, request)
            has_ended = True
        finally:  # also when nobody waits for it any more
            if has_ended and connection.is_open:
                self._give_back(connection)
            else:
                self._drop(connection)

    async def _open(self) -> _Connection:
        if self._is_closed:
            raise ConnectError("the connections have been closed")
        loop, (host, port, context) = asyncio.get_running_loop(), self._server
        try:
            _, connection = await loop.create_connection(
                lambda: _Connection(loop, self._limit),
                host,
                port,
                ssl=context,
                server_hostname=host if context else None,
                **_racing(loop),
            )
        except OSError as error:
            known = _same_for_all(error)
            if known is None:
                raise
            raise known from error
        self._all.add(connection)
        return connection

    def _take(self) -> _Connection | None:
        """Return the connection that was used last, if any is there."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.idle_seconds <= KEEP_ALIVE:
                return connection
            self._drop(connection)
        return None

    def _give_back(self, connection: _Connection) -> None:
        connection.rest()
        self._idle.append(connection)
        self._tidy_later()

    def _drop(self, connection: _Connection) -> None:
        connection.abort()
        self._all.discard(connection)

    def _tidy(self) -> None:
        """Close what nobody has used for long."""
        idle, self._idle, self._tidying = self._idle, [], None
        for connection in idle:
            if connection.is_open and connection.idle_seconds <= KEEP_ALIVE:
                self._idle.append(connection)
            else:
                self._drop(connection)
        self._tidy_later()

    def _tidy_later(self) -> None:
        if self._idle and self._tidying is None:
            self._tidying = asyncio.get_running_loop().call_later(KEEP_ALIVE / 4, self._tidy)


class _Serving(NamedTuple):
    """Lane that a connection serves, and the callback for when there is no more."""

    lane: Lane
    ended: asyncio.Future[None]


class _Connection(asyncio.BufferedProtocol):
    """One connection, over which one request is under way at most.

    Attributes:
        is_open: Whether it can take another request.
        has_answered: Whether an answer has come over it since it serves its lane.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self._loop = loop
        self._limit = limit
        self._transport: asyncio.Transport | None = None
        self._piece = bytearray(_PIECE)
        self._parser: AnswerParser | None = None
        self._serving: _Serving | None = None
        self._since = 0.0
        self.is_open = False
        self.has_answered = False

    @property
    def idle_seconds(self) -> float:
        """For how long it has not been used."""
        return self._loop.time() - self._since

    @property
    def is_answering(self) -> bool:
        """True once any part of the answer has arrived."""
        return self._parser is not None and self._parser.is_begun

    def serve(self, lane: Lane, request: bytes) -> asyncio.Future[None]:
        """Send a request, and with each answer the next one of its lane; return what tells when there is no more.

        The lane has every complete answer. It ends early where the connection cannot take another request.
        """
        self.has_answered = False
        self._serving = serving = _Serving(lane, self._loop.create_future())
        if self._transport is None or not self.is_open:
            self._parser = None
            serving.ended.set_exception(HungUpError())
        else:
            self._send(self._transport, request)
        return serving.ended

    def rest(self) -> None:
        """Wait for the next lane."""
        self._serving = self._parser = None
        self._since = self._loop.time()

    def abort(self) -> None:
        """Close at once. May be called more than once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - the name is asyncio's
        """Return where the next bytes go."""
        return self._piece

    def buffer_updated(self, nbytes: int) -> None:
        """Take the next bytes; those that come after the answer, or unasked, end the connection."""
        serving = self._serving
        if self._parser is None or serving is None or serving.ended.done():
            self.abort()
            return
        try:
            received = self._parser.feed(bytes(memoryview(self._piece)[:nbytes]))
        except ResponseError as error:
            serving.ended.set_exception(error)
            return
        if received is not None:
            self._settle(received, serving)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take that there is no connection any more."""
        self.is_open = False
        self._transport = None
        serving = self._serving
        if self._parser is None or serving is None or serving.ended.done():
            return
        try:
            received = None if exc else self._parser.end()
        except ResponseError as error:
            serving.ended.set_exception(error)
            return
        if received is not None:
            self._settle(received, serving)
        else:
            serving.ended.set_exception(exc or (CutOffError() if self._parser.is_begun else HungUpError()))

    def _settle(self, received: Received, serving: _Serving) -> None:
        """Hand an answer on, and send what comes next."""
        self.has_answered = True
        serving.lane.settle(received)
        self.is_open = self.is_open and received.head.is_kept
        transport = self._transport if self.is_open else None
        following = None if transport is None else serving.lane.take()
        if transport is None or following is None:
            serving.ended.set_result(None)
        else:
            self._send(transport, following)

    def _send(self, transport: asyncio.Transport, request: bytes) -> None:
        self._parser = AnswerParser(self._limit)
        transport.write(request)


def _racing(loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """Return what makes a loop try the addresses of a name at the same time; uvloop tries one after the other."""
    return {"happy_eyeballs_delay": _NEXT_ADDRESS} if isinstance(loop, asyncio.BaseEventLoop) else {}


def _same_for_all(error: OSError) -> OSError | None:
    """Return the error of a name with several addresses as one where it is the same for all; None where it is not."""
    numbers = {int(number) for number in _NUMBER.findall(str(error))} if error.errno is None else set()
    return OSError(number, os.strerror(number)) if len(numbers) == 1 and (number := numbers.pop()) else None
