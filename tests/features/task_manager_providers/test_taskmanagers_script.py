"""``conf/taskmanagers.sh``, the recipe for TaskManagers on the machine of the daemon, with the provider ``command``."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.ports.task_managers import Progress, TaskManagerProvider
from flink_autoscaler.realizers.task_managers.providers import CommandProvider, CommandSpec, ProviderLimits
from flink_autoscaler.realizers.testing.provider_contract import TaskManagerProviderContract, await_operation

SCRIPT = str(Path(__file__).parents[3] / "conf" / "taskmanagers.sh")
SLEEPS = "#!/bin/sh\nenv\nexec sleep 600\n"


@pytest.fixture
def spec(tmp_path: Path) -> CommandSpec:
    start = tmp_path / "start"
    start.write_text(SLEEPS)
    start.chmod(0o700)
    directory = str(tmp_path / "reactive")
    script = ("env", f"START={start}", SCRIPT)
    return CommandSpec(
        (*script, "scale", directory, "{n}", "{victims}"),
        describe=(*script, "describe", directory),
        limits=ProviderLimits(maximum=4),
    )


def pids(spec: CommandSpec) -> list[int]:
    files = Path(spec.describe[-1]).glob("*.pid")
    return [int(text.split()[0]) for file in files if (text := file.read_text())]


class TestTaskManagersScript(TaskManagerProviderContract):
    @pytest.fixture(autouse=True)
    def _spec(self, spec: CommandSpec) -> None:
        self.spec = spec

    def make_provider(self) -> TaskManagerProvider:
        return CommandProvider(self.spec)

    def running(self) -> int:
        return sum(Path(f"/proc/{pid}").exists() for pid in pids(self.spec))


@pytest.fixture
def provider(spec: CommandSpec) -> CommandProvider:
    return CommandProvider(spec)


def test_victims_are_stopped_and_the_next_daemon_finds_the_others(spec: CommandSpec, provider: CommandProvider) -> None:
    await_operation(provider, provider.set_desired(3))
    first, second, third = sorted(provider.describe().taskmanager_ids or ())

    await_operation(provider, provider.set_desired(2, [second]))

    later = CommandProvider(spec)
    assert sorted(later.describe().taskmanager_ids or ()) == [first, third]
    await_operation(later, later.set_desired(0))


def test_one_that_dies_is_started_again_and_a_reused_process_id_is_left_alone(
    spec: CommandSpec, provider: CommandProvider
) -> None:
    await_operation(provider, provider.set_desired(1))
    os.kill(pids(spec)[0], signal.SIGKILL)
    other = subprocess.Popen(["sleep", "600"])
    (file,) = Path(spec.describe[-1]).glob("*.pid")
    file.write_text(f"{other.pid} 1\n")

    before = provider.describe().running
    await_operation(provider, provider.set_desired(1))

    assert before == 0
    assert provider.describe().running == 1
    await_operation(provider, provider.set_desired(0))
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_program_that_ends_at_once_fails_with_its_output(spec: CommandSpec, provider: CommandProvider) -> None:
    Path(spec.command[1].removeprefix("START=")).write_text("#!/bin/sh\necho no room\nexit 3\n")

    state = await_operation(provider, provider.set_desired(1))

    assert state.progress is Progress.FAILED
    assert "0 of 1 TaskManagers run" in state.reason
    assert "no room" in state.reason


def test_taskmanagers_do_not_get_the_secrets_of_the_daemon(
    spec: CommandSpec, provider: CommandProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOSCALER_PASSWORD", "hush")
    monkeypatch.setenv("JAVA_HOME", "/some/jdk")

    await_operation(provider, provider.set_desired(1))

    (output,) = Path(spec.describe[-1]).glob("*.log")
    assert "JAVA_HOME=/some/jdk" in output.read_text()
    assert "hush" not in output.read_text()
    await_operation(provider, provider.set_desired(0))


def test_more_than_the_greatest_count_is_refused(provider: CommandProvider) -> None:
    with pytest.raises(RealizeError):
        provider.set_desired(5)
