"""Processes of a cluster are found by the cluster's folder, and by nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testkit.clusters.flink.waiting import wait_until
from testkit.clusters.yarn.processes import ContainerGuard, end_processes_of, processes_of


class Shells:
    """Shells that wait for ever, each with a word on its command line."""

    def __init__(self, cleanup: ExitStack) -> None:
        self._cleanup = cleanup

    def start(self, word: object, program: str = "bash") -> subprocess.Popen[bytes]:
        # Reads from a pipe that nobody writes to, in a session of its own, as a container is.
        command = [program, "-c", "read line", "shell", f"-Dlog.file={word}/container.log"]
        shell = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self._cleanup.callback(shell.communicate)
        self._cleanup.callback(shell.kill)
        wait_until("the program is loaded", lambda: Path(f"/proc/{shell.pid}/comm").read_text().strip() == program)
        return shell


@pytest.fixture
def shells() -> Iterator[Shells]:
    with ExitStack() as cleanup:
        yield Shells(cleanup)


def test_processes_are_those_that_name_the_folder(tmp_path: Path, shells: Shells) -> None:
    mine = shells.start(tmp_path / "one")
    shells.start(tmp_path / "two")

    found = processes_of(tmp_path / "one")

    assert set(found) == {mine.pid}


def test_programs_that_only_look_at_the_folder_are_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()", str(tmp_path)], stdin=subprocess.PIPE) as onlooker:
        found = processes_of(tmp_path)
        onlooker.communicate()

    assert found == {}


def test_ending_leaves_nothing_of_one_cluster_and_all_of_another(tmp_path: Path, shells: Shells) -> None:
    mine, other = shells.start(tmp_path / "one"), shells.start(tmp_path / "two")

    end_processes_of(tmp_path / "one")

    assert mine.wait(timeout=300) < 0
    assert other.poll() is None


def test_the_guard_ends_processes_and_removes_the_folder_when_told(tmp_path: Path, shells: Shells) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    container = shells.start(folder)

    ContainerGuard(folder).close()

    assert container.wait(timeout=300) < 0
    assert not folder.exists()


def test_the_guard_does_so_when_its_parent_is_killed(tmp_path: Path, shells: Shells) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    container = shells.start(folder)
    code = (
        "import os, pathlib, signal, sys; from testkit.clusters.yarn.processes import ContainerGuard; "
        "ContainerGuard(pathlib.Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    subprocess.run([sys.executable, "-c", code, str(folder)], check=False, env=environment)

    assert container.wait(timeout=300) < 0
    wait_until("the folder is gone", lambda: not folder.exists())
