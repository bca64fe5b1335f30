from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.ports.task_managers import Progress, TaskManagerProvider
from flink_autoscaler.realizers.taskmanagers.providers import ProcessProvider, ProcessSpec, ProviderLimits
from flink_autoscaler.realizers.taskmanagers.providers import process_table as processes
from flink_autoscaler.realizers.testing.provider_contract import TaskManagerProviderContract, ended
from flink_cluster.waiting import wait_until

# Becomes a program that does nothing, with the id among its arguments' environment.
IDLE = ("env", "TASKMANAGER={id}", "sleep", "600")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)",
)


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[ProcessSpec]:
    spec = ProcessSpec(IDLE, tmp_path / "taskmanagers", prefix="c", limits=ProviderLimits(maximum=4))
    yield spec
    for pid in pids(spec):
        processes.send_to_group(pid, signal.SIGKILL)


def entries(spec: ProcessSpec) -> list[dict[str, Any]]:
    file = spec.directory / "taskmanagers.json"
    return json.loads(file.read_text()).get("started", []) if file.exists() else []


def pids(spec: ProcessSpec) -> list[int]:
    """Return the processes in the file that are alive, and really those."""
    found = [(entry["pid"], entry["start_ticks"]) for entry in entries(spec)]
    return [int(str(pid)) for pid, ticks in found if pid and processes.start_ticks(int(str(pid))) == ticks]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class TestProcessProvider(TaskManagerProviderContract):
    @pytest.fixture(autouse=True)
    def _spec(self, spec: ProcessSpec) -> None:
        self.spec = spec

    def make_provider(self) -> TaskManagerProvider:
        return ProcessProvider(self.spec)

    def running(self) -> int:
        return len(pids(self.spec))


def test_the_ids_of_its_taskmanagers_are_known(spec: ProcessSpec) -> None:
    provider = ProcessProvider(spec)
    ended(provider, provider.set_desired(2))

    ids = provider.describe().taskmanager_ids or frozenset()

    def are_in_environments() -> bool:
        environments = [Path(f"/proc/{pid}/environ").read_text() for pid in pids(spec)]
        return all(any(f"TASKMANAGER={each}" in text for text in environments) for each in ids)

    assert len(ids) == 2
    wait_until("env has become what it starts", are_in_environments, 30)


def test_victims_are_stopped_and_the_others_stay(spec: ProcessSpec) -> None:
    provider = ProcessProvider(spec)
    ended(provider, provider.set_desired(3))
    before = provider.describe().taskmanager_ids or frozenset()
    victim = str(entries(spec)[0]["taskmanager_id"])

    ended(provider, provider.set_desired(2, [victim]))

    info = provider.describe()
    assert info.taskmanager_ids == before - {victim}
    assert info.leaving_ids == {victim}


def test_the_next_daemon_finds_the_processes_again(spec: ProcessSpec) -> None:
    first = ProcessProvider(spec)
    ended(first, first.set_desired(2))
    first.close()

    info = ProcessProvider(spec).describe()

    assert (info.desired, info.running) == (2, 2)
    assert info.taskmanager_ids == frozenset(entry["taskmanager_id"] for entry in entries(spec))


def test_processes_outlive_the_process_that_started_them(spec: ProcessSpec) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from flink_autoscaler.realizers.taskmanagers.providers import ProcessProvider, ProcessSpec\n"
        f"ProcessProvider(ProcessSpec({IDLE!r}, Path(sys.argv[1]), 'c')).set_desired(2)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(spec.directory)], check=True, timeout=60)

    info = ProcessProvider(spec).describe()

    assert info.running == 2
    assert all(os.getsid(pid) == pid for pid in pids(spec))


def test_a_pid_that_belongs_to_another_program_now_is_left_alone(spec: ProcessSpec) -> None:
    provider = ProcessProvider(spec)
    ended(provider, provider.set_desired(1))
    ended(provider, provider.set_desired(0))
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    _write_table(spec, {"pid": stranger.pid, "start_ticks": (processes.start_ticks(stranger.pid) or 0) - 1})

    try:
        info = ProcessProvider(spec).describe()
        ProcessProvider(spec).set_desired(0)

        assert info.running == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_process_from_before_the_machine_was_restarted_is_gone(spec: ProcessSpec) -> None:
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    ticks = processes.start_ticks(stranger.pid)
    _write_table(spec, {"pid": stranger.pid, "start_ticks": ticks, "boot": "another-boot"})

    try:
        assert ProcessProvider(spec).describe().running == 0
    finally:
        stranger.kill()
        stranger.wait()


def _write_table(spec: ProcessSpec, entry: dict[str, object]) -> None:
    started = {"taskmanager_id": "c-1", "boot": processes.boot_id(), "began": 0.0, "stopping": None, **entry}
    spec.directory.mkdir(exist_ok=True)
    table = {"version": 1, "desired": 1, "started": [started], "ended": []}
    (spec.directory / "taskmanagers.json").write_text(json.dumps(table))


def test_a_process_whose_pid_was_not_written_down_any_more_is_found(spec: ProcessSpec) -> None:
    environment = {**os.environ, processes.ID_VARIABLE: "c-lost"}
    child = subprocess.Popen(["sleep", "600"], env=environment, start_new_session=True)
    until(lambda: processes.find_by_id("c-lost") == child.pid)
    _write_table(spec, {"taskmanager_id": "c-lost", "pid": None, "start_ticks": 0})
    provider = ProcessProvider(spec)

    try:
        found = provider.describe().running
        provider.set_desired(0)

        assert found == 1
        assert child.wait(20) == -signal.SIGTERM
    finally:
        child.kill()
        child.wait()


def test_an_intention_that_was_never_carried_out_is_forgotten(spec: ProcessSpec) -> None:
    _write_table(spec, {"taskmanager_id": "c-never", "pid": None, "start_ticks": 0})

    info = ProcessProvider(spec).describe()

    assert (info.desired, info.running) == (1, 0)


def test_a_process_that_ignores_sigterm_is_killed(spec: ProcessSpec) -> None:
    now = [1000.0]
    provider = ProcessProvider(replace(spec, command=STUBBORN, stop_timeout=30.0), clock=lambda: now[0])
    provider.set_desired(1)
    (pid,) = pids(spec)
    until(lambda: any(file.read_text() for file in spec.directory.glob("*.out")))
    operation = provider.set_desired(0)
    assert provider.operation(operation).progress is Progress.PENDING

    now[0] += 30.0
    provider.describe()

    assert ended(provider, operation).progress is Progress.DONE
    assert processes.start_ticks(pid) is None


def test_a_process_that_ends_by_itself_fails_the_operation_and_tells_where_its_output_is(spec: ProcessSpec) -> None:
    provider = ProcessProvider(replace(spec, command=("ls", "/no/such/{id}")))
    operation = provider.set_desired(1)
    until(lambda: provider.describe().running == 0)

    state = provider.operation(operation)

    assert state.progress is Progress.FAILED
    assert "with code 2" in state.reason
    assert "/no/such/" in Path(state.reason.rpartition("see ")[2]).read_text()


def test_the_same_count_starts_those_again_that_have_ended(spec: ProcessSpec) -> None:
    provider = ProcessProvider(spec)
    ended(provider, provider.set_desired(2))
    os.kill(pids(spec)[0], signal.SIGKILL)
    until(lambda: provider.describe().running == 1)

    ended(provider, provider.set_desired(2))

    assert provider.describe().running == 2


def test_a_program_that_does_not_exist_is_named(spec: ProcessSpec) -> None:
    provider = ProcessProvider(replace(spec, command=("/no/such/program", "{id}")))

    with pytest.raises(RealizeError, match=r"/no/such/program could not be started: No such file"):
        provider.set_desired(1)

    assert (provider.describe().desired, provider.describe().running) == (0, 0)


def test_a_table_that_cannot_be_read_is_never_taken_for_empty(spec: ProcessSpec) -> None:
    spec.directory.mkdir()
    (spec.directory / "taskmanagers.json").write_text('{"version": 1, "desired": 1}')

    with pytest.raises(RealizeError, match="not a list of started processes"):
        ProcessProvider(spec).set_desired(1)


def test_taskmanagers_do_not_get_the_secrets_of_the_daemon(spec: ProcessSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JDBC_PWD", "FLINK_AUTOSCALER_TOKEN", "FLINK_CONF_DIR"):
        monkeypatch.setenv(name, "value-of-it")
    provider = ProcessProvider(spec)
    ended(provider, provider.set_desired(1))

    (pid,) = pids(spec)

    environment = Path(f"/proc/{pid}/environ").read_text()
    assert "FLINK_CONF_DIR=value-of-it" in environment
    assert environment.count("value-of-it") == 1
