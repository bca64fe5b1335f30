"""Asks a server with the HTTP API of Prometheus (Thanos, VictoriaMetrics, Mimir) for instant vectors."""

from __future__ import annotations

from flink_autoscaler.clients.http.forms import FormTransport
from flink_autoscaler.clients.prometheus.vectors import Vector, VectorReader
from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.model.job import Endpoint

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
        form = {"query": expression} if at is None else {"query": expression, "time": f"{at:.3f}"}
        reader = await self._transport.post(PATH, form, VectorReader)
        try:
            return reader.vector()
        except ResponseError as exc:
            raise ResponseError(f"POST {self.url}{PATH}: {exc}") from exc

    async def aclose(self) -> None:
        """Close all connections. May be called more than once."""
        await self._transport.aclose()
