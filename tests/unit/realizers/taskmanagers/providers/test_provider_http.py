from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.task_managers import PENDING, OperationState, Progress, TaskManagerProvider
from flink_autoscaler.realizers.taskmanagers.providers import HttpProvider, ProviderLimits
from flink_autoscaler.realizers.testing.provider_contract import TaskManagerProviderContract, ended


class Service:
    """A service that starts TaskManagers, as an operator would write one: it keeps a number.

    Attributes:
        requests: Method, path, body and authorization of what arrived.
        answers: What is answered instead of the right thing, by method and path.
    """

    def __init__(self) -> None:
        self.count = 0
        self.requests: list[tuple[str, str, object, str | None]] = []
        self.answers: dict[tuple[str, str], tuple[int, object]] = {}
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.serve(self, None)

            def do_PUT(self) -> None:
                length = int(self.headers["Content-Length"])
                service.serve(self, json.loads(self.rfile.read(length)))

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/clusters/one"

    def serve(self, request: BaseHTTPRequestHandler, body: Any) -> None:
        self.requests.append((request.command, request.path, body, request.headers["Authorization"]))
        status, answer = self.answers.get((request.command, request.path)) or (200, self._answer(request.path, body))
        content = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    def _answer(self, path: str, body: Any) -> object:
        if body is not None:
            self.count = body["desired"]
            return {"operation": "change/1"}
        return {"status": "done"} if "/operations/" in path else {"desired": self.count, "running": self.count}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


PATH = "/clusters/one"


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    loop = EventLoopThread()
    yield loop
    loop.close()


@pytest.fixture
def provider(service: Service, loop: EventLoopThread) -> Iterator[HttpProvider]:
    provider = HttpProvider(lambda: Endpoint(service.url, timeout=5.0), loop, limits=ProviderLimits(maximum=4))
    yield provider
    provider.close()


class TestHttpProvider(TaskManagerProviderContract):
    @pytest.fixture(autouse=True)
    def _service(self, service: Service, loop: EventLoopThread) -> None:
        self.service, self.loop = service, loop
        service.answers["GET", f"{PATH}/operations/no-such-operation"] = (200, {"status": "failed"})

    def make_provider(self) -> TaskManagerProvider:
        endpoint = Endpoint(self.service.url, timeout=5.0)
        return HttpProvider(lambda: endpoint, self.loop, limits=ProviderLimits(maximum=4))

    def running(self) -> int:
        return self.service.count


def test_the_count_and_the_victims_are_put(provider: HttpProvider, service: Service) -> None:
    operation = provider.set_desired(2, ["a", "b"])

    assert operation == "change/1"
    assert service.requests == [("PUT", PATH, {"desired": 2, "victims": ["a", "b"]}, None)]


def test_an_operation_is_asked_for_below_the_url(provider: HttpProvider, service: Service) -> None:
    service.answers["GET", f"{PATH}/operations/change%2F1"] = (200, {"status": "failed", "reason": "no quota"})

    state = provider.operation("change/1")

    assert state == OperationState(Progress.FAILED, "no quota")


def test_a_pending_operation_is_pending(provider: HttpProvider, service: Service) -> None:
    service.answers["GET", f"{PATH}/operations/7"] = (200, {"status": "pending"})

    assert provider.operation("7") == PENDING


def test_a_service_without_operations_is_done_when_it_answers(provider: HttpProvider, service: Service) -> None:
    service.answers["PUT", PATH] = (202, {})

    state = ended(provider, provider.set_desired(3))

    assert state.progress is Progress.DONE
    assert [method for method, *_ in service.requests] == ["PUT"]


def test_new_credentials_count_with_the_next_request(service: Service, loop: EventLoopThread) -> None:
    token = ["first"]

    def endpoint() -> Endpoint:
        return Endpoint(service.url, headers=(("Authorization", f"Bearer {token[0]}"),))

    provider = HttpProvider(endpoint, loop)
    provider.describe()
    token[0] = "second"
    provider.describe()
    provider.close()

    assert [authorization for *_, authorization in service.requests] == ["Bearer first", "Bearer second"]


def test_nothing_is_put_while_another_daemon_may_act(service: Service, loop: EventLoopThread) -> None:
    provider = HttpProvider(lambda: Endpoint(service.url), loop, may_write=lambda _: False)

    with pytest.raises(RealizeError):
        provider.set_desired(1)

    provider.close()
    assert service.requests == []


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        pytest.param(500, {"errors": ["it is broken"]}, id="an error status"),
        pytest.param(200, [1], id="no object"),
        pytest.param(200, {"desired": "three"}, id="a text for a number"),
    ],
)
def test_an_unusable_description_is_an_error(
    provider: HttpProvider, service: Service, status: int, answer: object
) -> None:
    service.answers["GET", PATH] = (status, answer)

    with pytest.raises(RealizeError):
        provider.describe()


@pytest.mark.parametrize("operation", [7, "", "x" * 201, ["a"]])
def test_an_unusable_operation_is_an_error(provider: HttpProvider, service: Service, operation: object) -> None:
    service.answers["PUT", PATH] = (200, {"operation": operation})

    with pytest.raises(RealizeError, match="not a text of 1 to 200 characters"):
        provider.set_desired(1)


def test_a_service_that_is_away_is_an_error(loop: EventLoopThread) -> None:
    provider = HttpProvider(lambda: Endpoint("http://127.0.0.1:1", timeout=1.0), loop)

    with pytest.raises(RealizeError, match="the TaskManager service: "):
        provider.describe()

    provider.close()
