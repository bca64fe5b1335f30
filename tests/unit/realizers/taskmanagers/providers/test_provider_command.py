from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.ports.task_managers import Progress, ProviderInfo, TaskManagerProvider
from flink_autoscaler.realizers.taskmanagers.providers import CommandProvider, CommandSpec, ProviderLimits
from flink_autoscaler.realizers.taskmanagers.providers.command import read_description
from flink_autoscaler.realizers.testing.provider_contract import TaskManagerProviderContract, ended

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

    ended(provider, provider.set_desired(2, ["tm 1", "tm;2"]))

    assert (script.parent / "calls").read_text() == "2 tm 1 tm;2\n"
    assert provider.describe().can_pick_victims


def test_without_a_describing_command_only_what_was_asked_for_is_known(script: Path) -> None:
    provider = CommandProvider(replace(spec_for(script), describe=()))
    before = provider.describe()

    ended(provider, provider.set_desired(3))

    assert (before.desired, before.running) == (None, None)
    assert (provider.describe().desired, provider.describe().running) == (3, None)


def test_a_failed_command_tells_its_code_and_the_end_of_its_output(script: Path) -> None:
    script.write_text("#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' x\necho; echo no quota left >&2\nexit 3\n")
    provider = CommandProvider(spec_for(script))

    state = ended(provider, provider.set_desired(1))

    assert state.progress is Progress.FAILED
    assert state.reason.startswith(f"{script} ended with code 3: ")
    assert state.reason.endswith("no quota left")
    assert len(state.reason) < 700


def test_a_command_that_takes_too_long_is_killed_with_what_it_started(script: Path) -> None:
    script.write_text('#!/bin/sh\nsleep 600 & echo $! > "$(dirname "$0")/child"\nwait\n')
    provider = CommandProvider(replace(spec_for(script), timeout=0.5))

    state = ended(provider, provider.set_desired(1))

    child = Path("/proc") / (script.parent / "child").read_text().strip()
    deadline = time.monotonic() + 10
    while child.exists() and "Z" not in (child / "stat").read_text().rpartition(")")[2].split()[0]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert state.reason == f"{script} did not end within 0.5 s"


def test_another_count_is_refused_while_the_command_runs(script: Path) -> None:
    script.write_text("#!/bin/sh\nsleep 600\n")
    provider = CommandProvider(replace(spec_for(script), timeout=1.0))
    operation = provider.set_desired(1)

    with pytest.raises(RealizeError, match="still runs for 1 TaskManagers"):
        provider.set_desired(2)

    assert provider.set_desired(1) == operation
    ended(provider, operation)


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
