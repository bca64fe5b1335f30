"""Asks a server with the HTTP API of Prometheus (Thanos, VictoriaMetrics, Mimir) for instant vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flink_autoscaler.clients.http.forms import FormTransport
from flink_autoscaler.clients.prometheus.vectors import Vector, VectorReader
from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.model.job import Endpoint

R = TypeVar("R", bound=VectorReader)

PATH = "/api/v1/query"


class PrometheusClient:
    """Talks to one server. Belongs to one event loop; calls may overlap.

    Args:
        endpoint: The server; ``/api/v1/query`` is added to its URL.

    Raises:
        ConfigError: The URL is none, or a header cannot be sent.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._transport = FormTransport(endpoint)
        self.url = self._transport.url

    async def query(self, expression: str, at: float | None = None) -> Vector:
        """Return what an expression comes to.

        Args:
            expression: PromQL that gives an instant vector.
            at: Instant of the evaluation by the server's clock, seconds; None takes now.

        Raises:
            FlinkRestError: No usable answer (see :meth:`FormTransport.post`).
        """
        return (await self.read(expression, at, VectorReader))[1]

    async def read(self, expression: str, at: float | None, reader: Callable[[], R]) -> tuple[R, Vector]:
        """Return what has taken the answer, and the answer.

        Args:
            expression: PromQL that gives an instant vector.
            at: Instant of the evaluation by the server's clock, seconds; None takes now.
            reader: Makes what takes it; again where it has to be asked for again.

        Raises:
            FlinkRestError: No usable answer (see :meth:`FormTransport.post`).
        """
        form = {"query": expression} if at is None else {"query": expression, "time": f"{at:.3f}"}
        taken = await self._transport.post(PATH, form, reader)
        try:
            return taken, taken.vector()
        except ResponseError as exc:
            raise ResponseError(f"POST {self.url}{PATH}: {exc}") from exc

    async def aclose(self) -> None:
        """Close all connections. May be called more than once."""
        await self._transport.aclose()
