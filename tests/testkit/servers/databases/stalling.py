"""A proxy that can stop passing anything on while connections stay open, as a network that swallows packets does."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Stalling:
    """Listens on a free loopback port and passes everything on to another one; a context manager."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._flows = threading.Event()
        self._flows.set()
        self._closed = False
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._flows.set()
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)

    def stall(self) -> None:
        """Pass nothing on from now on. Connections can be opened, but nobody answers."""
        self._flows.clear()

    def flow(self) -> None:
        """Pass on again, first what has piled up."""
        self._flows.set()

    def _run(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target), 10)
            except OSError:
                if self._closed:
                    return
                client.close()
                continue
            server.settimeout(None)
            self._sockets += [client, server]
            self._run(self._pump, client, server)
            self._run(self._pump, server, client)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
