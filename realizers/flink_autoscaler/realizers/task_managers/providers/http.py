"""TaskManagers that an HTTP service of the operator starts and stops."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import quote

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.clients.http.transport import HttpTransport
from flink_autoscaler.core.errors import AutoscalerError, RealizeError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.task_managers import DONE, PENDING, OperationState, Progress, ProviderInfo
from flink_autoscaler.realizers.realization import GRACE
from flink_autoscaler.realizers.task_managers.providers.limits import (
    ProviderLimits,
    parse_description,
    with_default_desired,
)

T = TypeVar("T")

_MAX_ID_LENGTH: Final = 200
_STATES: Final = {"pending": PENDING, "done": DONE}


class HttpProvider:
    """Asks a service for a count (a ``TaskManagerProvider``).

    ``GET <url>`` describes, ``PUT <url>`` with ``{"desired": 3, "victims": ["…"]}`` sets the count, and, where its
    answer names an ``operation``, ``GET <url>/operations/<id>`` tells its ``status``: pending, done or failed, with a
    ``reason``. Without one, the answer means that it is done.

    Args:
        endpoint: Returns where the service is; asked for every request, so that new credentials count at once.
        loop: Runs the requests; owned by the caller.
        limits: How many TaskManagers there may be; the service may narrow that.
        may_write: Asked immediately before a request that changes something.
    """

    def __init__(
        self,
        endpoint: Callable[[], Endpoint],
        loop: EventLoopThread,
        *,
        limits: ProviderLimits | None = None,
        may_write: Callable[[float], bool] = lambda _: True,
    ) -> None:
        self._endpoint = endpoint
        self._loop = loop
        self._limits = limits or ProviderLimits()
        self._may_write = may_write
        self._made: tuple[Endpoint, HttpTransport] | None = None
        self._finished: frozenset[str] = frozenset()

    def describe(self) -> ProviderInfo:
        """Ask the service."""
        answer = self._run(lambda transport: transport.get_json(""))
        return with_default_desired(parse_description(answer, self._limits.info()))

    def set_desired(self, count: int, victims: Sequence[str] = ()) -> str:
        """Send the count."""
        self._limits.check(count)
        body = {"desired": count, "victims": list(victims)}
        answer = self._run(lambda transport: transport.put_json("", body))
        operation = answer.get("operation") if isinstance(answer, Mapping) else None
        if operation is None:
            finished = secrets.token_hex(8)
            self._finished = frozenset({finished})
            return finished
        if not isinstance(operation, str) or not 1 <= len(operation) <= _MAX_ID_LENGTH:
            raise RealizeError(f"the service named an operation that is not a text of 1 to {_MAX_ID_LENGTH} characters")
        return operation

    def operation(self, operation_id: str) -> OperationState:
        """Ask the service, where it named the operation."""
        if operation_id in self._finished:
            return DONE
        path = f"/operations/{quote(operation_id, safe='')}"
        answer = self._run(lambda transport: transport.get_json(path))
        return _operation_state(answer)

    def close(self) -> None:
        """Close the connections."""
        made, self._made = self._made, None
        if made is not None:
            self._loop.run(made[1].aclose(), GRACE)

    def _run(self, request: Callable[[HttpTransport], Coroutine[object, object, T]]) -> T:
        try:
            transport, timeout = self._transport()
            return self._loop.run(request(transport), timeout + GRACE)
        except RealizeError:
            raise
        except AutoscalerError as error:
            raise RealizeError(f"the TaskManager service: {error}") from error

    def _transport(self) -> tuple[HttpTransport, float]:
        endpoint = self._endpoint()
        if self._made is None or self._made[0] != endpoint:
            self.close()
            self._made = (endpoint, HttpTransport(endpoint, may_write=self._may_write))
        return self._made[1], endpoint.timeout


def _operation_state(answer: object) -> OperationState:
    status = answer.get("status") if isinstance(answer, Mapping) else None
    if isinstance(status, str) and status in _STATES:
        return _STATES[status]
    if status == "failed":
        reason = answer.get("reason") if isinstance(answer, Mapping) else None
        return OperationState(Progress.FAILED, str(reason or "the service gave no reason")[:500])
    raise RealizeError(f"expected the status pending, done or failed, not {str(status)[:40]!r}")
