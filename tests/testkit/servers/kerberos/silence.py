"""A port that takes everything and never says anything."""

import socket
from types import TracebackType
from typing import Self


class SilentPort:
    """Holds a loopback port for UDP and TCP, as a firewall that drops what it does not like."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            held = socket.socket(socket.AF_INET, kind)
            self._sockets.append(held)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", self._port))
        self._sockets[-1].listen(64)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for held in self._sockets:
            held.close()
