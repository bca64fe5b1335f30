"""The HTTP endpoint: liveness, readiness and gauges. Read-only, on loopback by default."""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Callable

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health

_STOP_TIMEOUT = 5.0


def create_app(*, gauges: Gauges, health: Health, is_alive: Callable[[], bool]) -> Starlette:
    """Make the pages: whether the loop still runs on ``/healthz``, health on ``/readyz``, gauges on ``/metrics``."""

    async def healthz(_: Request) -> Response:
        alive = is_alive()
        return PlainTextResponse("ok\n" if alive else "the loop has ended\n", 200 if alive else 503)

    async def readyz(_: Request) -> Response:
        readiness = health.readiness()
        body = {name: part for name, part in dataclasses.asdict(readiness).items() if part is not None}
        return JSONResponse(body, 200 if readiness.ready else 503)

    async def metrics(_: Request) -> Response:
        return Response(gauges.render(), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)])


class HttpServer:
    """Serves the pages from a thread of its own; on port 0 at a free one.

    Raises:
        ConfigError: The address cannot be listened on.
    """

    def __init__(self, app: Starlette, *, host: str, port: int) -> None:
        self._socket = _listen(host, port)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            limit_concurrency=64,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    @property
    def url(self) -> str:
        """Where the pages are, without a slash at the end."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> None:
        """Begin to answer; connections wait in the queue of the socket until then."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering and free the port."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOP_TIMEOUT)
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ConfigError(f"http: cannot listen on {host}:{port}: {error.strerror or error}") from error
