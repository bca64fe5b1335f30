"""What every request goes through: which host it names, who sent it, and what browsers may do with the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flink_autoscaler.standalone.web.api.routes import problem
from flink_autoscaler.standalone.web.rights import Access, Role

PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""For programs that know neither names nor tokens."""

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Lets through who may see anything at all; puts who it is into ``request.state.visitor``.

    Args:
        app: Behind it.
        access: Who may do what now.
    """

    def __init__(self, app: ASGIApp, access: Callable[[], Access]) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, _guarded(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._access().knows_host(headers.get("host", "")):
            return problem(421, "this daemon is not known by that name: see autoscaler.http.allowed-hosts")
        client = scope.get("client")
        visitor = self._access().visitor(headers, client[0] if client else None)
        if visitor.role is Role.NOBODY:
            refusal = problem(401, "say who you are: a token as bearer, or as the password of any name")
            refusal.headers["WWW-Authenticate"] = 'Basic realm="flink-autoscaler", charset="UTF-8"'
            return refusal
        scope.setdefault("state", {})["visitor"] = visitor
        return None


def _guarded(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sending
