"""A TLS server that hands everything on to a plain one."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from types import TracebackType
from typing import Self

from testkit.servers.tls.authority import Authority, Identity

CHUNK = 1 << 16


def server_context(
    identity: Identity, *, clients_of: Authority | None = None, latest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLContext:
    """Return the context of a server.

    Args:
        identity: What the server shows.
        clients_of: Whose certificates clients have to show; None asks for none.
        latest: Latest version of TLS that is spoken.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = latest
    context.load_cert_chain(identity.certificate_file, identity.key_file)
    if clients_of is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients_of.ca_file)
    return context


class TlsFront:
    """Listens on a loopback port until closed, one thread per connection.

    asyncio's TLS server ends a refused connection without the alert that says why; this one sends it.

    Attributes:
        port: Where it listens.
        connections: Connections that were opened.
        handshakes: Those of them on which this side was content with the other.
    """

    def __init__(self, target_port: int, context: ssl.SSLContext) -> None:
        self._target_port = target_port
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.handshakes = 0

    @property
    def url(self) -> str:
        """Base URL by address."""
        return f"https://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, name="tls-front", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):  # it may be closed by the other side already
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                self.connections += 1
                self._open.add(accepted)
                threading.Thread(target=self._serve, args=[accepted], name="tls-front", daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError), accepted:
            secured = self._context.wrap_socket(accepted, server_side=True)
            self._open.add(secured)
            self.handshakes += 1
            with secured, socket.create_connection(("127.0.0.1", self._target_port)) as target:
                _pass_on(secured, target)


def _pass_on(secured: ssl.SSLSocket, target: socket.socket) -> None:
    """Copy in both directions until one side ends."""
    other: dict[socket.socket, socket.socket] = {secured: target, target: secured}
    while True:
        readable = [secured] if secured.pending() else select.select([secured, target], [], [])[0]
        for each in readable:
            data = each.recv(CHUNK)
            if not data:
                return
            other[each].sendall(data)
