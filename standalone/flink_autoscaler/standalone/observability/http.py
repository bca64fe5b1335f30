"""The HTTP endpoint: liveness, readiness, gauges and whatever else is given. On loopback by default."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from email.utils import formatdate
from typing import Any, Final

import structlog
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health

MOST_CONNECTIONS: Final = 64
"""Connections at the same time. One more takes the place of the one that has left its request unfinished longest."""

_ACCEPT_PAUSE: Final = 1.0
"""Seconds until clients are taken again after that failed, and nobody could be dropped."""

_QUIET: Final = 600.0
"""Seconds for which that is told once."""

_TURNS_TO_CLOSE: Final = 3
"""Of the event loop, in which the descriptor of a connection that was dropped is closed."""

_STOP_TIMEOUT: Final = 5.0

log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Patience:
    """Time limits of a client's connection.

    Attributes:
        request: Seconds until a whole request is there, the first or the next one.
        answer: Seconds until an answer is taken.
    """

    request: float = 10.0
    answer: float = 30.0


def create_app(
    *,
    gauges: Gauges,
    health: Health,
    is_alive: Callable[[], bool],
    routes: Sequence[BaseRoute] = (),
    middleware: Sequence[Middleware] = (),
) -> Starlette:
    """Make the pages: whether the loop still runs on ``/healthz``, health on ``/readyz``, gauges on ``/metrics``.

    Args:
        gauges: Shown.
        health: Shown.
        is_alive: Tells whether the loop still runs.
        routes: Further pages.
        middleware: What every request goes through.
    """

    async def healthz(_: Request) -> Response:
        alive = is_alive()
        return PlainTextResponse("ok\n" if alive else "the loop has ended\n", 200 if alive else 503)

    async def readyz(_: Request) -> Response:
        readiness = health.readiness()
        body = {name: part for name, part in dataclasses.asdict(readiness).items() if part is not None}
        return JSONResponse(body, 200 if readiness.ready else 503)

    async def metrics(_: Request) -> Response:
        return StreamingResponse(_in_own_thread(gauges.texts()), media_type=CONTENT_TYPE_LATEST)

    probes = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    return Starlette(routes=[*probes, *routes], middleware=middleware)


async def _in_own_thread(texts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield texts that take a while. The threads of asyncio are for them alone, other pages have those of Starlette."""
    while (text := await asyncio.to_thread(next, texts, None)) is not None:
        yield text


class HttpServer:
    """Serves the pages from a thread of its own; on port 0 at a free one.

    A probe always gets its answer: what other clients leave unfinished is dropped in time, or when there is no room.

    Raises:
        ConfigError: The address cannot be listened on.
    """

    def __init__(
        self,
        app: Starlette,
        *,
        host: str,
        port: int,
        patience: Patience = Patience(),
        tls: tuple[str, str] | None = None,
    ) -> None:
        self._socket = _listen(host, port)
        self._scheme = "http" if tls is None else "https"
        certificate, key = tls or (None, None)
        config = uvicorn.Config(
            app,
            http=_Connection,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=False,  # each connection writes it itself
            ssl_certfile=certificate,
            ssl_keyfile=key,
            timeout_graceful_shutdown=1,
        )
        try:
            config.load()  # reads the certificate
        except OSError as error:
            self._socket.close()
            raise ConfigError(f"autoscaler.http.tls-cert-file, tls-key-file: {error}") from error
        self._server = _Server(config, patience)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    @property
    def url(self) -> str:
        """URL of the pages, without a slash at the end."""
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        return f"{self._scheme}://{shown}:{port}"

    def start(self) -> None:
        """Begin to answer; connections wait in the queue of the socket until then."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering and free the port."""
        self._server.end()
        if self._thread.is_alive():
            self._thread.join(_STOP_TIMEOUT)
        self._socket.close()


class _Server(uvicorn.Server):
    """Sleeps until there are clients; looking around ten times a second, as usual, takes as much as ten jobs do."""

    def __init__(self, config: uvicorn.Config, patience: Patience) -> None:
        super().__init__(config)
        self._patience = patience
        self._ending: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._connecting: dict[asyncio.Task[None], float] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Get ready for clients. They are taken here, not by asyncio, which takes them before anybody can count."""
        await self.lifespan.startup()
        (self._listening,) = sockets or []
        self.servers = []
        self.started = True

    async def main_loop(self) -> None:
        """Take clients until the end."""
        ending = asyncio.Event()
        self._ending = asyncio.get_running_loop(), ending
        if self.should_exit:
            return
        taking = asyncio.create_task(self._take_clients())
        await ending.wait()
        for task in (taking, *self._connecting):
            task.cancel()

    def end(self) -> None:
        """Stop answering. From any thread."""
        self.should_exit = True
        if self._ending is not None:
            loop, ending = self._ending
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(ending.set)

    async def _take_clients(self) -> None:
        """Take one client after the other, each into a place that is free by then."""
        loop = asyncio.get_running_loop()
        quiet_until = loop.time()
        while True:
            try:
                client, _ = await loop.sock_accept(self._listening)
            except OSError as error:  # there are no more descriptors, or less memory
                if loop.time() >= quiet_until:  # while clients come, it fails and succeeds by turns
                    quiet_until = loop.time() + _QUIET
                    log.warning("http_accept_failed", error=str(error), effect="clients wait until others have left")
                if not await self._make_room():
                    await asyncio.sleep(_ACCEPT_PAUSE)
                continue
            while len(self.server_state.connections) + len(self._connecting) >= MOST_CONNECTIONS:
                if not await self._make_room():
                    break
            if len(self.server_state.connections) + len(self._connecting) >= MOST_CONNECTIONS:
                client.close()  # all places are taken by answers that are under way
                continue
            task = loop.create_task(self._connect(client))
            self._connecting[task] = loop.time()
            task.add_done_callback(lambda done: self._connecting.pop(done, None))

    async def _connect(self, client: socket.socket) -> None:
        """Begin to read from a client, after its handshake where there is TLS."""
        is_tls = self.config.ssl is not None
        with contextlib.suppress(OSError, TimeoutError):  # it has left, or does not speak TLS
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Connection(
                    self._patience, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
                ),
                client,
                ssl=self.config.ssl,
                ssl_handshake_timeout=self._patience.request if is_tls else None,
            )

    async def _make_room(self) -> bool:
        """Drop the client that has left its request unfinished longest, at once; tell whether there was one."""
        idle = [each for each in self.server_state.connections if isinstance(each, _Connection) and each.is_waiting()]
        oldest = min(idle, key=lambda each: each.since, default=None)
        task = min(self._connecting, key=self._connecting.__getitem__, default=None)
        if oldest is not None and (task is None or oldest.since <= self._connecting[task]):
            oldest.drop()
            self.server_state.connections.discard(oldest)
        elif task is not None:
            task.cancel()
            self._connecting.pop(task)
        else:
            return False
        for _ in range(_TURNS_TO_CLOSE):
            await asyncio.sleep(0)
        return True


class _Connection(H11Protocol):
    """One client. Either a request is waited for, or its answer is under way; neither lasts for ever.

    Attributes:
        since: When what is waited for now began, in the time of the event loop.
    """

    def __init__(self, patience: Patience, **options: Any) -> None:
        super().__init__(**options)
        self._patience = patience
        self.since = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._is_answering = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new client."""
        super().connection_made(transport)
        self._wait(self._patience.request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client."""
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Go on with what has arrived; from a whole request on, its body included, the time of the answer counts."""
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        super().handle_events()
        is_answering = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if is_answering and not self._is_answering:
            self._is_answering = True
            self._wait(self._patience.answer)

    def on_response_complete(self) -> None:
        """Wait for the next request, once the answer is taken."""
        self._is_answering = False
        is_taken = self.transport.get_write_buffer_size() == 0
        self._wait(self._patience.request if is_taken else self._patience.answer)
        super().on_response_complete()

    def is_waiting(self) -> bool:
        """Tell whether it is the client's turn: to finish its request, or to take its answer."""
        return not self._is_answering or self.transport.get_write_buffer_size() > 0

    def drop(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self.since = self.loop.time()
        self._timer = self.loop.call_later(seconds, self.drop)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With its protocol named, which connections inherit: asyncio switches Nagle's algorithm off for TCP only, and a
        # socket of protocol 0 does not say that it is.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise _unavailable(host, port, error) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((host, port))
        listening.listen(128)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise _unavailable(host, port, error) from error
    return listening


def _unavailable(host: str, port: int, error: OSError) -> ConfigError:
    return ConfigError(f"http: cannot listen on {host}:{port}: {error.strerror or error}")
