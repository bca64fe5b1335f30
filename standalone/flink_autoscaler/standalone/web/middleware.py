"""What every request goes through: which host it names, who sent it, and what browsers may do with the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flink_autoscaler.standalone.observability.http import MAX_CONNECTIONS
from flink_autoscaler.standalone.web.authorization import AccessRules, Role
from flink_autoscaler.standalone.web.errors import problem_response

PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""For programs that know neither names nor tokens."""

MAX_BODY_BYTES: Final = 64 << 10
"""Bytes of what is sent."""

MAX_DISCARDED_BYTES: Final = 16 << 20
"""Bytes of a longer body that are read and forgotten, so that its sender can read the answer."""

MAX_CONCURRENT_REQUESTS: Final = MAX_CONNECTIONS - 8
"""Answers at the same time, those that follow the news included. The other places are for probes."""

_DIGITS: Final = 18
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class RequestLimits:
    """Lets a request through once it is there as a whole, short enough, and there is room for its answer.

    Args:
        app: Behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        body = await _read_body(Headers(scope=scope), receive)
        if body is None:
            await problem_response(413, f"a request has {MAX_BODY_BYTES} bytes at most")(
                scope, receive, _with_security_headers(send)
            )
        elif self._under_way >= MAX_CONCURRENT_REQUESTS:
            await problem_response(503, "too many requests at the same time: try again")(
                scope, receive, _with_security_headers(send)
            )
        else:
            self._under_way += 1
            try:
                await self._app(scope, _replay_body(body, receive), send)
            finally:
                self._under_way -= 1


async def _read_body(headers: Headers, receive: Receive) -> bytes | None:
    """Wait for the whole body and return it; None where it is too long. It ends early where its sender has left."""
    length = headers.get("content-length", "")
    if length.isdigit() and int(length[:_DIGITS]) > MAX_BODY_BYTES and "expect" in headers:
        return None  # its sender waits for a word before anything is sent
    if not length and "transfer-encoding" not in headers:
        return b""
    parts, size = [], 0
    while size < MAX_DISCARDED_BYTES:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size <= MAX_BODY_BYTES:
            parts.append(part)
        if not message.get("more_body", False):
            break
    return b"".join(parts) if size <= MAX_BODY_BYTES else None


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that is there already, and then what comes after it."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return parts.pop() if parts else await receive()

    return receiving


class AuthorizationMiddleware:
    """Lets through who may see anything at all; puts who it is into ``request.state.visitor``.

    Args:
        app: Behind it.
        access: Who may do what now.
    """

    def __init__(self, app: ASGIApp, access: Callable[[], AccessRules]) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, _with_security_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._access().knows_host(headers.get("host", "")):
            return problem_response(421, "this daemon is not known by that name: see autoscaler.http.allowed-hosts")
        client = scope.get("client")
        visitor = self._access().identify(headers, client[0] if client else None)
        if visitor.role is Role.NOBODY:
            refusal = problem_response(401, "say who you are: a token as bearer, or as the password of any name")
            refusal.headers["WWW-Authenticate"] = 'Basic realm="flink-autoscaler", charset="UTF-8"'
            return refusal
        scope.setdefault("state", {})["visitor"] = visitor
        return None


def _with_security_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sending
