"""A small HTTP server that is told something, for tests: it keeps what came, and answers as it is told to."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from testkit.clusters.flink.waiting import wait_until


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        """The CloudEvents in the body, be it one or a batch."""
        content = json.loads(self.body)
        return content if isinstance(content, list) else [content]


@dataclass
class Receiver:
    """Listens on a free port of the loopback while open.

    Attributes:
        answers: Statuses of the next answers, in order; then 204.
        text: Body of answers that have one.
        more: Further headers of answers.
        may_answer: Answers wait until it is set.
    """

    answers: list[int] = field(default_factory=list)
    text: bytes = b""
    more: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Self:
        self.may_answer.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def events(self) -> list[dict[str, Any]]:
        """The CloudEvents of all requests, in the order in which they came."""
        return [event for each in list(self.received) for event in each.events]

    def wait_for(self, count: int, timeout: float = 300.0) -> list[Received]:
        """Wait until so many requests have come, and return them."""
        wait_until(f"{count} requests", lambda: len(self.received) >= count, timeout, interval=0.01)
        return list(self.received)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                with receiver.lock:
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    receiver.received.append(Received(self.path, headers, body))
                    status = receiver.answers.pop(0) if receiver.answers else 204
                receiver.may_answer.wait(60)
                self.send_response(status)
                for name, value in receiver.more.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(receiver.text)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(receiver.text)

            def log_message(self, *_: object) -> None:
                """Stay quiet."""

        return Handler
