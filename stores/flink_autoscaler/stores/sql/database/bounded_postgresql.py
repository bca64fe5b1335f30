"""PostgreSQL connections that do not wait for ever."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg
from psycopg import Connection, OperationalError


class BoundedConnection(Connection[Any]):
    """A connection that is closed when an answer takes too long.

    The driver waits as long as the connection stands, and it stands for hours when the network swallows packets.
    """

    answer_timeout = 30.0
    """Seconds for one exchange with the server."""

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **named: Any) -> Any:
        """Run one exchange with the server; the driver (from 3.2.11 on) resumes it at least every tenth of a second."""
        return super().wait(self._with_deadline(gen), *args, **named)

    def _with_deadline(self, exchange: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        deadline = time.monotonic() + self.answer_timeout
        try:
            wanted = next(exchange)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > deadline:
                    self._give_up(exchange)
                wanted = exchange.send(ready)
        except StopIteration as end:
            return end.value

    def _give_up(self, exchange: Generator[Any, Any, Any]) -> None:
        exchange.close()
        self.pgconn.finish()
        raise OperationalError(f"timeout expired: no answer within {self.answer_timeout:g} s")


def connect(answer_timeout: float, parameters: dict[str, Any]) -> psycopg.Connection[Any]:
    """Open a connection with a deadline for answers, in seconds."""
    connection = BoundedConnection.connect(**parameters)
    connection.answer_timeout = answer_timeout
    return connection
