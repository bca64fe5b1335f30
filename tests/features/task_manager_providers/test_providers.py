from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.task_managers import (
    PENDING,
    OperationState,
    Progress,
    ProviderInfo,
    TaskManagerProvider,
)
from flink_autoscaler.realizers.task_managers.providers import (
    CommandProvider,
    CommandSpec,
    HttpProvider,
    ProviderLimits,
    compose_provider,
)
from flink_autoscaler.realizers.task_managers.providers.command import read_description
from flink_autoscaler.realizers.testing.provider_contract import TaskManagerProviderContract, await_operation
from testkit.clusters.flink.waiting import wait_until


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

    state = await_operation(provider, provider.set_desired(3))

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


# Keeps the count in a file, and every call in another one.
SCRIPT = '#!/bin/sh\nset -e\ncd "$(dirname "$0")"\nprintf "%s\\n" "$*" >> calls\nprintf "%s" "$1" > count\n'


@pytest.fixture
def script(tmp_path: Path) -> Path:
    script = tmp_path / "scale.sh"
    script.write_text(SCRIPT)
    script.chmod(0o700)
    (tmp_path / "count").write_text("0")
    return script


def spec_for(script: Path) -> CommandSpec:
    return CommandSpec(
        (str(script), "{n}", "{victims}"),
        describe=("cat", str(script.parent / "count")),
        timeout=10.0,
        limits=ProviderLimits(maximum=4),
    )


class TestCommandProvider(TaskManagerProviderContract):
    @pytest.fixture(autouse=True)
    def _script(self, script: Path) -> None:
        self.script = script

    def make_provider(self) -> TaskManagerProvider:
        return CommandProvider(spec_for(self.script))

    def running(self) -> int:
        return int((self.script.parent / "count").read_text())


def test_count_and_victims_are_arguments_of_their_own(script: Path) -> None:
    provider = CommandProvider(spec_for(script))

    await_operation(provider, provider.set_desired(2, ["tm 1", "tm;2"]))

    assert (script.parent / "calls").read_text() == "2 tm 1 tm;2\n"
    assert provider.describe().can_pick_victims


def test_without_a_describing_command_only_what_was_asked_for_is_known(script: Path) -> None:
    provider = CommandProvider(replace(spec_for(script), describe=()))
    before = provider.describe()

    await_operation(provider, provider.set_desired(3))

    assert (before.desired, before.running) == (None, None)
    assert (provider.describe().desired, provider.describe().running) == (3, None)


def test_a_failed_command_tells_its_code_and_the_end_of_its_output(script: Path) -> None:
    script.write_text("#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' x\necho; echo no quota left >&2\nexit 3\n")
    provider = CommandProvider(spec_for(script))

    state = await_operation(provider, provider.set_desired(1))

    assert state.progress is Progress.FAILED
    assert state.reason.startswith(f"{script} ended with code 3: ")
    assert state.reason.endswith("no quota left")
    assert len(state.reason) < 700


def test_a_command_that_takes_too_long_is_killed_with_what_it_started(script: Path) -> None:
    script.write_text('#!/bin/sh\nsleep 600 & echo $! > "$(dirname "$0")/child"\nwait\n')
    provider = CommandProvider(replace(spec_for(script), timeout=0.5))

    state = await_operation(provider, provider.set_desired(1))

    child = Path("/proc") / (script.parent / "child").read_text().strip()
    wait_until("its end", lambda: not child.exists() or "Z" in stat_of(child), interval=0.02)
    assert state.reason == f"{script} did not end within 0.5 s"


def stat_of(process: Path) -> str:
    """Return what the kernel says of a process after its name; nothing once it is gone."""
    with suppress(OSError):
        return (process / "stat").read_text().rpartition(")")[2].split()[0]
    return "Z"


def test_another_count_is_refused_while_the_command_runs(script: Path) -> None:
    script.write_text("#!/bin/sh\nsleep 600\n")
    provider = CommandProvider(replace(spec_for(script), timeout=1.0))
    operation = provider.set_desired(1)

    with pytest.raises(RealizeError, match="still runs for 1 TaskManagers"):
        provider.set_desired(2)

    assert provider.set_desired(1) == operation
    await_operation(provider, operation)


def test_a_describing_command_that_fails_is_an_error(script: Path) -> None:
    provider = CommandProvider(replace(spec_for(script), describe=("ls", "/no/such/file")))

    with pytest.raises(RealizeError, match=r"ls ended with code 2: .*No such file"):
        provider.describe()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("3\n", {"running": 3}, id="a number"),
        pytest.param('{"desired": 2, "running": 1}', {"desired": 2, "running": 1}, id="counts"),
        pytest.param('{"taskManagerIds": ["a"]}', {"taskmanager_ids": frozenset({"a"})}, id="ids"),
        pytest.param('{"maximum": 9, "minimum": 0}', {"maximum": 4, "minimum": 1}, id="limits only become narrower"),
        pytest.param('{"typicalStartupSeconds": 7.5, "other": []}', {"typical_startup": 7.5}, id="seconds"),
        pytest.param('{"canPickVictims": true}', {"can_pick_victims": True}, id="victims"),
    ],
)
def test_a_description_is_laid_over_what_is_known(text: str, expected: dict[str, object]) -> None:
    known = ProviderInfo(desired=None, running=None, minimum=1, maximum=4)

    assert read_description(text, known) == replace(known, **expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["", "three", "-1", "true", "[]", '{"desired": "2"}', '{"running": -1}', '{"taskManagerIds": "a"}',
     '{"typicalStartupSeconds": true}', '{"desired": true}'],
)  # fmt: skip
def test_a_description_of_another_kind_is_an_error(text: str) -> None:
    with pytest.raises(RealizeError, match="expected"):
        read_description(text, ProviderInfo(desired=None, running=None))


# Stands in for Docker: records its arguments, keeps the scale, and lists as many containers.
DOCKER = """#!/bin/sh
cd "$(dirname "$0")"
printf '%s\\n' "$*" >> calls
case "$*" in
  *" ps "*) seq -f 'container%g' "$(cat scale)" ;;
  *) for argument; do case "$argument" in *=*) printf '%s' "${argument#*=}" > scale ;; esac; done ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    docker = tmp_path / "docker"
    docker.write_text(DOCKER)
    docker.chmod(0o700)
    (tmp_path / "scale").write_text("0")
    return docker


def provider_for(docker: Path) -> CommandProvider:
    base = (str(docker), "compose", "-f", "flink.yaml")
    return compose_provider("taskmanager", base, limits=ProviderLimits(maximum=4))


class TestComposeProvider(TaskManagerProviderContract):
    @pytest.fixture(autouse=True)
    def _docker(self, docker: Path) -> None:
        self.docker = docker

    def make_provider(self) -> TaskManagerProvider:
        return provider_for(self.docker)

    def running(self) -> int:
        return int((self.docker.parent / "scale").read_text())


def test_the_service_is_scaled_without_touching_what_runs(docker: Path) -> None:
    provider = provider_for(docker)

    await_operation(provider, provider.set_desired(3))
    info = provider.describe()

    assert (docker.parent / "calls").read_text().splitlines() == [
        "compose -f flink.yaml up --detach --no-recreate --scale taskmanager=3 taskmanager",
        "compose -f flink.yaml ps --quiet taskmanager",
    ]
    assert (info.running, info.desired, info.can_pick_victims) == (3, 3, False)


def test_what_docker_says_when_it_fails_is_told(docker: Path) -> None:
    docker.write_text("#!/bin/sh\necho 'no such service: taskmanager' >&2\nexit 1\n")
    provider = provider_for(docker)

    state = await_operation(provider, provider.set_desired(1))

    assert state.progress is Progress.FAILED
    assert "no such service: taskmanager" in state.reason
