"""A service on a port of the loopback that answers as the test says, and misbehaves where it is told to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

from testkit.fakes.flink.faults import Canned, Fault
from testkit.fakes.flink.server import FakeRequest, Server


@dataclass
class _Rule:
    path: str
    behaviour: Fault | Canned
    method: str | None
    times: int | None

    def applies_to(self, request: FakeRequest) -> bool:
        matches = self.path in request.path and self.method in (None, request.method) and self.times != 0
        if matches and self.times is not None:
            self.times -= 1
        return matches


class FaultyService(ABC):
    """What fakes of services share: the log of requests, and faults; a context manager.

    Attributes:
        requests: What arrived, in order.
    """

    def __init__(self) -> None:
        self.requests: list[FakeRequest] = []
        self._rules: list[_Rule] = []
        self._server = Server(self._respond)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    @abstractmethod
    def _answer(self, request: FakeRequest) -> Canned:
        """Return the right answer."""

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self._server.port}"

    def fault(
        self, path: str, behaviour: Fault | Canned, *, method: str | None = None, times: int | None = None
    ) -> None:
        """Misbehave where a path contains ``path``, ``times`` times or until cleared. The latest rule wins."""
        self._rules.insert(0, _Rule(path, behaviour, method, times))

    def clear_faults(self) -> None:
        """Behave again."""
        self._rules.clear()

    def pause(self) -> None:
        """Drop all connections and refuse new ones."""
        self._server.pause()

    def resume(self) -> None:
        """Listen again on the same port."""
        self._server.resume()

    def paths(self, method: str | None = None) -> list[str]:
        """Return the paths of the requests so far, of one method or all."""
        return [request.path for request in self.requests if method in (None, request.method)]

    def _respond(self, request: FakeRequest) -> tuple[Fault | Canned, Canned]:
        self.requests.append(request)
        right = self._answer(request)
        rule = next((rule for rule in self._rules if rule.applies_to(request)), None)
        return (right if rule is None else rule.behaviour), right
